"""How the records of a sender's format become what one class of sinks takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from echo_core.codegen.batches.arrays import records_decoder
from echo_core.codegen.codecs import Codec
from echo_core.codegen.events.compiled import Ways
from echo_core.formats.compare import Entry, Report, Verdict, compare
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.token import Token
from echo_core.formats.types import has_parts


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sink takes: events of a class, or of any (None); one by one or as arrays; perhaps with loss."""

    cls: type[Any] | None
    is_array: bool
    is_lossy: bool

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
        return compare(sender, format_of(cls), lossy=self.is_lossy)

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


@dataclass(frozen=True, slots=True)
class Reception:
    """`decode` takes one record; or for arrays as many as there are, and the dtype if there is one here."""

    decode: Callable[..., Any]
    report: Report
    dtype: np.dtype[Any] | None = None

    @property
    def convert(self) -> Callable[..., Any] | None:
        """What arrays of another layout are converted by."""
        return getattr(self.decode, "convert", None)


# Formats come from peers: what no sink uses any more goes when there are more than these.
_MAX_KNOWN = 1024
_MAX_REFUSED = 128  # reports are long

_Known = TypeVar("_Known")


def _keep(
    known: dict[tuple[Wanted, Token], _Known], most: int, key: tuple[Wanted, Token], made: _Known
) -> _Known:
    """The oldest has to go where there are too many."""
    if len(known) >= most:
        del known[next(iter(known))]
    known[key] = made
    return made


class Receptions:
    """The receptions of one node: made once for all sinks and sources of the same formats."""

    def __init__(self) -> None:
        self._known: dict[tuple[Wanted, Token], Reception] = {}
        self._refused: dict[tuple[Wanted, Token], Report] = {}  # a peer may offer the same again and again

    def of(self, wanted: Wanted, sender: Format) -> Reception | Report:
        """The report says why no path leads from the sender."""
        key = wanted, sender.token
        found = self._known.get(key) or self._refused.get(key)
        if found is not None:
            return found
        cls = wanted.class_for(sender)
        report = wanted.compare(sender, cls)
        if not report.is_accepted:
            return _keep(self._refused, _MAX_REFUSED, key, report)
        return _keep(self._known, _MAX_KNOWN, key, self._make(wanted, cls, sender, report))

    @staticmethod
    def _make(wanted: Wanted, cls: type[Any], sender: Format, report: Report) -> Reception:
        """The comparison is made once: the decoder gets its report."""
        if wanted.is_array and report.is_same:  # whole records are all that a Delivery hands over
            # The class's own dtype, as its sources have it: comparing two that are equal takes long.
            return Reception(np.frombuffer, report, format_of(cls).dtype)
        lossy = wanted.is_lossy
        if wanted.is_array:
            return Reception(records_decoder(cls, sender, lossy=lossy, tier="auto", report=report), report)
        codec = Codec(cls, format_of(cls), sender, lossy=lossy, tier="auto", ways=Ways.DECODE, report=report)
        return Reception(codec.decode, report)
