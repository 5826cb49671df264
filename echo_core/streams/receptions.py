"""How the records of a sender's format become what one class of sinks takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from echo_core.codegen.batches.arrays import records_decoder
from echo_core.codegen.codecs import Codec
from echo_core.codegen.events.compiled import Ways
from echo_core.codegen.machine.budgets import Budget, Payers
from echo_core.codegen.plain.counting import MostObjects
from echo_core.formats.comparing.compare import Entry, Report, Verdict, compare
from echo_core.formats.comparing.matching import is_called_alike
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.kept import Kept
from echo_core.formats.token import Token
from echo_core.formats.types import has_parts


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sink takes: events of a class, or of any (None); one by one or as arrays; perhaps with loss.

    Those of a class are known by what they are called, or `by_shape`. `is_strict`: as in `compare`.
    """

    cls: type[Any] | None
    is_array: bool
    is_lossy: bool
    by_shape: bool = False
    is_strict: bool = False

    def knows(self, sender: Format) -> bool:
        """Whether events of a format are what is wanted, be it that they cannot be taken."""
        if self.cls is None or self.by_shape:
            return True
        return is_called_alike(sender.record, format_of(self.cls).record)

    def knows_by_name(self, sender: Format) -> bool:
        """Whether names decide that they are, and not shape."""
        if self.cls is None or self.by_shape:
            return False
        return sender.record.is_named and format_of(self.cls).record.is_named and self.knows(sender)

    def where_sent(self, sends: type[Any] | None) -> Wanted:
        """What is wanted of a source in this process, whose class is known: of any, events of that one."""
        return self if self.cls is not None or self.is_array or sends is None else replace(self, cls=sends)

    def class_for(self, sender: Format) -> type[Any]:
        """Where any is wanted, one that is made of what the sender says, whichever is declared here."""
        if self.cls is not None:
            return self.cls
        if self.is_array:  # of which only the dtype is looked at, which may be the sender's own
            return sender.record_class()
        return Format.from_metadata(sender.metadata).record_class()

    def compare(self, sender: Format, cls: type[Any]) -> Report:
        """Whether a sender's events can become those of a class, which is that of `class_for`."""
        if self.is_array and not sender.is_fixed:
            return self._no_array(sender)
        return compare(sender, format_of(cls), lossy=self.is_lossy, strict=self.is_strict)

    def _no_array(self, sender: Format) -> Report:
        """Records of different sizes, also where only fields differ that nobody here asks for."""
        receiver = "an array" if self.cls is None else format_of(self.cls).name
        reason = "varies in size, and only records of fixed size come as arrays"
        varying = [field for field in sender.record.fields if has_parts(field.type)]
        return Report(
            sender.name,
            receiver,
            tuple(
                Entry(f"{receiver}.{field.name}", Verdict.REFUSED, str(field.type), "", reason)
                for field in varying
            ),
            is_same=False,
        )


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Reception:
    """`decode` takes one record; or for arrays as many as there are, and the dtype if there is one here.

    `payers` are those whose formats it is for, while there is something to compile.
    """

    decode: Callable[..., Any]
    report: Report
    dtype: np.dtype[Any] | None = None
    payers: Payers = field(default_factory=Payers)

    @property
    def convert(self) -> Callable[..., Any] | None:
        """What arrays of another layout are converted by."""
        return getattr(self.decode, "convert", None)


# What no sink uses any more stays up to so many fields, at 3 KB each; a reception counts as some more.
_KEPT_FIELDS = 4096
_EACH_FIELDS = 16


class Receptions:
    """The receptions of one node: made once for all sinks and sources of the same formats."""

    def __init__(self, most: MostObjects | None = None) -> None:
        """`most`: that one event may become."""
        self._most = most
        self._known: Kept[tuple[Wanted, Token], Reception] = Kept(_KEPT_FIELDS)
        # A peer may offer the same again and again.
        self._refused: Kept[tuple[Wanted, Token], Report] = Kept(_KEPT_FIELDS)

    def of(self, wanted: Wanted, sender: Format, budget: Budget | None = None) -> Reception | Report:
        """The report says why no path leads from the sender. `budget`: of the peer whose format it is."""
        key = wanted, sender.token
        refusal = self._refused.get(key)
        if refusal is not None:
            return refusal
        found = self._known.get(key)
        if found is None or not found.payers.add(budget):  # its users left before it was compiled
            return self._new(key, sender, budget)
        return found

    def _new(self, key: tuple[Wanted, Token], sender: Format, budget: Budget | None) -> Reception | Report:
        wanted, cost = key[0], sender.record.leaves + _EACH_FIELDS
        cls = wanted.class_for(sender)
        report = wanted.compare(sender, cls)
        if not report.is_accepted:
            return self._refused.put(key, report, cost)
        payers = Payers()
        payers.add(budget)
        return self._known.put(key, self._make(wanted, cls, sender, report, payers), cost)

    def _make(
        self, wanted: Wanted, cls: type[Any], sender: Format, report: Report, payers: Payers
    ) -> Reception:
        """The comparison is made once: the decoder gets its report."""
        if wanted.is_array and report.is_same:  # whole records are all that a Delivery hands over
            # The class's own dtype, as its sources have it: comparing two that are equal takes long.
            return Reception(np.frombuffer, report, format_of(cls).dtype)
        lossy = wanted.is_lossy
        if wanted.is_array:
            decode = records_decoder(cls, sender, lossy=lossy, tier="auto", report=report, payers=payers)
            return Reception(decode, report, payers=payers)
        codec = Codec(
            cls,
            format_of(cls),
            sender,
            lossy=lossy,
            tier="auto",
            ways=Ways.DECODE,
            report=report,
            most=self._most,
            payers=payers,
        )
        return Reception(codec.decode, report, payers=payers)
