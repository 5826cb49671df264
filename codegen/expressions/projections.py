"""Events to events of a derived format: `select`, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from echo_core.codegen.codecs import encoder
from echo_core.codegen.conversion import Conversion, Tier
from echo_core.codegen.expressions.deriving import Derived, Selection, derive
from echo_core.codegen.expressions.lowering import compared, lower
from echo_core.codegen.expressions.predicates import Judging
from echo_core.codegen.expressions.wire import Derivation, taken_over
from echo_core.codegen.machine.budgets import Payers
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout
from echo_core.formats.types import Default, Field, Record


class Projection:
    """Events to records of a derived format; `select` makes one. Call it with an event, or with its record.

    Fields that are taken over are converted as any sender's are, computed ones are written over what that
    leaves. A run-time error makes no record: the result is None, and `failure` says where.
    """

    def __init__(
        self,
        derived: Derived,
        format_: Format,
        cls: type[Any] | None,
        tier: Tier,
        payers: Payers | None = None,
    ) -> None:
        derivation = derived.derivation
        assert derivation.output is not None
        self.format = derivation.output
        self._sender = format_
        self._encode = encoder(cls) if cls is not None else None
        self._conversion = _conversion(derivation, format_, tier, payers)  # None: all is computed
        self._judging: Judging | None = None
        self._offsets: tuple[int, ...] = ()
        computed = [
            (root, field.offset)
            for root, field in zip(derivation.outputs, self.format.fields, strict=True)
            if taken_over(derivation.tree, root) is None
        ]
        if computed:
            program = lower([(derivation.tree, [root for root, _ in computed])], format_)
            self._judging = Judging(derived, format_, program, None)
            self._judging.begin(tier, payers)
            self._offsets = tuple(offset for _, offset in computed)

    def __call__(self, event: Any) -> bytes | None:
        """The derived record of an event, or of the bytes of its record."""
        record = event if isinstance(event, bytes) or self._encode is None else self._encode(event)
        made = self._conversion.call(record) if self._conversion is not None else self.format.size_bytes
        if self._judging is None:
            return bytes(made)
        target = bytearray(made)
        return bytes(target) if self._judging.judge.write_roots(record, target, self._offsets) else None

    def set(self, **parameters: object) -> None:
        """From the next event on these values count, as those of a `Predicate`."""
        if self._judging is not None:
            self._judging.set(parameters)

    @property
    def failure(self) -> str:
        """The last run-time error, pointing into the expression; empty where there was none."""
        return self._judging.failure() if self._judging is not None else ""

    @property
    def parts(self) -> tuple[Callable[..., Any] | None, Judging | None, tuple[int, ...]]:
        """What C code makes derived records by: what converts, what computes, and where that is written."""
        convert = None if self._conversion is None else self._conversion.call
        return convert, self._judging, self._offsets

    def record_class(self) -> type[Any]:
        """A class for the derived records."""
        return self.format.record_class()

    def __repr__(self) -> str:
        return f"Projection({self._sender.name} -> {self.format!r})"


def _conversion(
    derivation: Derivation, sender: Format, tier: Tier, payers: Payers | None
) -> Conversion | None:
    """What converts the fields that are taken over; computed ones are named as no field of the sender's is.

    One that is taken over is found by the name that the view has, whatever it is called from then on.
    """
    assert derivation.output is not None
    names = {name for field in sender.fields for name in (field.name, *field.aliases)}
    members: list[Field] = []
    if all(taken_over(derivation.tree, root) is None for root in derivation.outputs):
        return None
    for i, (root, field) in enumerate(zip(derivation.outputs, derivation.output.fields, strict=True)):
        taken = taken_over(derivation.tree, root)
        if taken is not None:
            members.append(replace(field, name=taken.name, aliases=taken.aliases))
            continue
        name = f"computed_{i}"
        while name in names:
            name += "_"
        members.append(replace(field, name=name, aliases=(), default=Default(bytes(field.type.size))))
    record = derivation.output.record
    made = Record(record.name, record.size, record.alignment, tuple(members), is_named=False)
    layout = Layout(derivation.output.byte_order, derivation.output.pointer_size, made)
    converted = Format(layout)
    report = compared(sender, converted, derivation.tree.record)
    conversion = Conversion(_renamed(sender), converted, report=report)
    conversion.begin(tier, payers)
    return conversion


def _renamed(sender: Format) -> Format:
    """The sender's format, whose records are not known by a name: the derived ones have another."""
    return Format(replace(sender.layout, record=replace(sender.record, is_named=False)))


def select(
    events: type[Any] | Format,
    fields: Selection,
    /,
    *,
    name: str = "",
    tier: Literal["auto", "compiled", "interpreted"] = "auto",
    **parameters: object,
) -> Projection:
    """A projection of events: some of their fields, and new ones that are computed from them.

    Arguments:
        events: an event class, or a format for records alone.
        fields: names; or for each new name a field's name, or an expression as `where` takes them. What is
            a field alone keeps its type, unit and default; what is computed is an int64, uint64, float64,
            bool or time.
        name: what the derived records are called. Without one they are known by their shape alone.
        tier: when to compile, as in `codec`.
        parameters: values of the names that expressions use.

    Raises:
        ExpressionError: an expression is none, or computes what is no number; the message points into it.
        FormatError: `events` has no format.

    >>> @echo.event
    ... class Move:
    ...     id: int
    ...     vx: float
    ...     vy: float
    >>> speed = echo.select(Move, {"id": "id", "speed": "sqrt(vx*vx + vy*vy)"}, name="Speed")
    >>> echo.decoder(None, sender=speed.format)(speed(Move(7, 3.0, 4.0)))
    Speed(id=7, speed=5.0)
    """
    format_, cls = (events, None) if isinstance(events, Format) else (format_of(events), events)
    derived = derive(format_.record, select=fields, name=name, parameters=parameters)
    return Projection(derived, format_, cls, tier)
