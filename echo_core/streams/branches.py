"""Branches: what one source's events become on a channel that is derived from its own.

There they have an origin of their own, which numbers those that pass, and has streams as any other: so they
are judged once for all who take them, and what is derived can be derived from again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from echo_core._c import links
from echo_core.codegen.codecs import FormatEncoder
from echo_core.codegen.expressions.deriving import Derived
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.predicates import Judging
from echo_core.codegen.expressions.projections import Projection
from echo_core.codegen.expressions.sorts import Value
from echo_core.codegen.expressions.wire import Derivation
from echo_core.codegen.machine.budgets import Payers
from echo_core.errors import ClosedError, IncompatibleError, unexpected
from echo_core.formats.abi import NATIVE
from echo_core.formats.comparing.matching import match
from echo_core.streams.local import without
from echo_core.streams.origins import Origin
from echo_core.streams.replaying import Earlier, Replay
from echo_core.streams.shapes import Shape, shape_of
from echo_core.values.demand import Demand
from echo_core.values.keep import Keep


class Branching:
    """One derivation at one source. Called with the books open; events pass only `native`."""

    __slots__ = (
        "_derivation",
        "_judging",
        "_payers",
        "_projection",
        "_reads",
        "_shape",
        "base",
        "first",
        "native",
        "origin",
    )

    def __init__(self, base: Origin, derivation: Derivation, payers: Payers | None) -> None:
        """`payers`: who is charged for what is compiled; None: nobody.

        IncompatibleError: the source lacks a field that is read, or has it in another type.
        """
        self.base = base
        self._derivation = derivation
        self._reads = _fields_read(base, derivation)
        derived = Derived(derivation, {}, {})
        self._projection = None if derivation.output is None else _projection(base, derived, payers)
        self._judging = _judging(base, derived)
        self._shape = shape_of(self._judging)
        self._payers = payers
        if self._judging is not None:
            alike = base.shapes.get(self._shape)
            self._judging.begin("auto", payers, None if alike is None else alike.judging)
        self.origin = _origin(base, derivation)
        self.origin.local.relay = base.local.relay
        if base.keep is not None:
            self.origin.replay = self.origin.local.replay = Replay(self, self.origin.outlet)
        self.first = 0  # the number of the first event that the parameters of now have judged
        self.native = self.origin.local.branch = self._branch(derivation)

    def _branch(self, derivation: Derivation) -> links.Branch:
        judge = None if self._judging is None else self._judging.judge
        takes_objects = self._judging is None or self._judging.takes_objects
        outlet, has_clock = self.origin.outlet, derivation.min_interval_ns > 0
        if self._projection is None:
            return links.Branch(judge, outlet, takes_objects=takes_objects, has_clock=has_clock)
        convert, computing, offsets = self._projection.parts
        return links.Branch(
            judge,
            outlet,
            takes_objects=takes_objects,
            has_clock=has_clock,
            convert=convert,
            computing=None if computing is None else computing.judge,
            offsets=offsets,
            derived_size=self._projection.format.size_bytes,
        )

    def begin(self) -> None:
        """From the source's next event on."""
        if self._shape is None or self._judging is None:
            self.base.outlet.branches = (*self.base.outlet.branches, self.native)
        else:
            shape = self.base.shapes.setdefault(self._shape, Shape(self.base.outlet, self._judging))
            shape.add(self.native, self._payers)
        self.base.branchings.append(self)
        self.origin.base = self.base
        self.base.reconsider()

    def end(self) -> None:
        """No event comes this way any more; what is queued for sinks is still sent."""
        if self in self.base.branchings:
            self.base.branchings.remove(self)
            self._leave()
            self.origin.base = None
            self.base.reconsider()

    def _leave(self) -> None:
        shape = self.base.shapes.get(self._shape)
        if shape is not None:
            shape.remove(self.native)
        if shape is not None and shape.is_empty:
            del self.base.shapes[self._shape]
        if shape is None:
            with suppress(ClosedError):  # then the outlet has let go of all
                self.base.outlet.branches = without(self.base.outlet.branches, self.native)

    def set(self, values: tuple[Value, ...]) -> None:
        """Other parameters, all at once, between two events."""
        self._derivation = replace(self._derivation, values=values)
        computing = None if self._projection is None else self._projection.parts[1]
        self.first = self.native.set(
            None if self._judging is None else self._judging.program.snapshot(values),
            None if computing is None else computing.program.snapshot(values),
        )

    def judge_anew(self, earlier: Earlier) -> Earlier:
        """What passes of what the base has kept, as it leaves; any thread, with or without the books.

        As if the channel had been derived before the first of it, and by itself: what the branch remembers,
        and counts, is of what is submitted. Without times all of it comes at once.
        """
        judging = _judging(self.base, Derived(self._derivation, {}, {}))
        if judging is not None:
            passes = judging.judge.passes_record
            earlier = [
                (record, submitted_ns) for record, submitted_ns in earlier if passes(record, submitted_ns)
            ]
        if self._projection is not None:
            made = [(_made(self._projection, record), submitted_ns) for record, submitted_ns in earlier]
            earlier = [(record, submitted_ns) for record, submitted_ns in made if record is not None]
        return earlier

    def demand(self) -> Demand:
        """What it takes of the source behind; nothing where nobody takes what is derived."""
        taken, derivation = self.origin.look_at_demand(), self._derivation
        if not taken:
            return taken
        fields = self._reads if derivation.output is not None else self._reads | taken.fields
        return taken.thinned(fields, derivation.every, derivation.min_interval_ns / 1e9)

    @property
    def failed(self) -> int:
        """Events that met a run-time error."""
        return self.native.failed + (0 if self._judging is None else self._judging.judge.failed)

    @property
    def failure(self) -> str:
        """The last run-time error; empty where there was none."""
        said = "" if self._judging is None else self._judging.failure()
        return said or ("" if self._projection is None else self._projection.failure)


def _fields_read(base: Origin, derivation: Derivation) -> frozenset[str]:
    """As the source calls them."""
    found = match(base.format.record, derivation.tree.record)
    return frozenset(field.name for field in found.values())


def _judging(base: Origin, derived: Derived) -> Judging | None:
    """None: all events pass."""
    derivation = derived.derivation
    if not derivation.conditions:
        return None
    program = lower([(derivation.tree, derivation.conditions)], base.format)
    return Judging(derived, base.format, program, base.cls)


def _projection(base: Origin, derived: Derived, payers: Payers | None) -> Projection:
    output = derived.derivation.output
    assert output is not None
    if output.byte_order != NATIVE.byte_order:  # what is computed is written as this machine has it
        raise unexpected(
            IncompatibleError,
            f"a derived format in this machine's byte order, {NATIVE.byte_order}",
            output.byte_order,
        )
    return Projection(derived, base.format, None, "auto", payers)


def _made(projection: Projection, record: bytes) -> bytes | None:
    """The derived record; None: there is none, whatever is wrong with that one."""
    with suppress(Exception):
        return projection(record)
    return None


def _origin(base: Origin, derivation: Derivation) -> Origin:
    output = derivation.output
    cls: type[Any] | None = base.cls if output is None else None
    return Origin(
        cls,
        base.format if output is None else output,
        base.encode if output is None else FormatEncoder(output),
        name=base.name,
        backlog=base.backlog,
        delay_ns=base.delay_ns,
        pool=base.outlet.pool,
        keep=_keep(base, derivation),
        has_times=base.has_times,
        is_derived=True,
        peer=base.peer,
    )


def _keep(base: Origin, derivation: Derivation) -> Keep | None:
    """What receivers keep of it for each other. What is selected may have no such key."""
    if base.keep is None or derivation.output is None:
        return base.keep
    return Keep(base.keep.events)
