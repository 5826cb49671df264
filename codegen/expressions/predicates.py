"""Whether events pass: `where`, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from echo_core._c import expressions
from echo_core.codegen.codecs import encoder
from echo_core.codegen.conversion import Tier, check_tier, have_done
from echo_core.codegen.expressions.access import access_of
from echo_core.codegen.expressions.bounds import Ends, may_pass
from echo_core.codegen.expressions.deriving import Derived, derive
from echo_core.codegen.expressions.emit import emit, emit_judge, has_filter
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.operations import Op
from echo_core.codegen.expressions.program import Program
from echo_core.codegen.expressions.sorts import as_python
from echo_core.codegen.expressions.wire import Derivation, describe
from echo_core.codegen.machine.budgets import Payers
from echo_core.codegen.machine.engine import Loaded
from echo_core.codegen.machine.store import load_cached, load_code, version_of
from echo_core.errors import ExpressionError, FormatError, unexpected
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format

Expression = str | Callable[[Any], Any]

# Whose source decides what the emitted text is, besides the program: a change makes other cache keys.
GENERATOR_VERSION = version_of(
    (
        "codegen/expressions/emit",
        "codegen/expressions/emit_arithmetic",
        "codegen/expressions/emit_steps",
        "codegen/expressions/emit_values",
        "codegen/expressions/program",
        "codegen/emit/ir",
        "codegen/emit/halves",
    )
)

_REASONS = {
    Op.DIVIDE: "division by zero",
    Op.FLOOR_DIVIDE: "division by zero, or an overflow of 64 bits",
    Op.MODULO: "division by zero",
    Op.SQRT: "the root of a number below 0",
    Op.INDEX: "an index out of range",
    Op.SHIFT_LEFT: "a shift by less than 0 or more than 63 bits, or an overflow of 64 bits",
    Op.SHIFT_RIGHT: "a shift by less than 0 or more than 63 bits",
    Op.TO_INT: "a number that no int of 64 bits has",
    Op.FLOOR: "a number that no int of 64 bits has",
    Op.CEIL: "a number that no int of 64 bits has",
    Op.LEAST: "no elements, so no least one",
    Op.GREATEST: "no elements, so no greatest one",
    Op.FIELD: "a record that is damaged",
    Op.LENGTH: "a record that is damaged",
    Op.ELEMENT: "a record that is damaged",
}


@dataclass(frozen=True, slots=True)
class PredicateStatistics:
    """Counters of a predicate since it was made."""

    judged: int
    passed: int
    failed: int  # a run-time error: these did not pass
    interpreted: int  # by the interpreter: before compiled code is there, and where a step failed
    encoded: int  # objects that could not be judged as they are


class Judging:
    """A program that judges, compiled when that is ready; what `Predicate` and others have in common."""

    def __init__(self, derived: Derived, format_: Format, program: Program, cls: type[Any] | None) -> None:
        self.derived = derived
        self.format = format_
        self.program = program
        self._loaded: Loaded | None = None
        encode = encoder(cls) if cls is not None and format_ == format_of(cls) else None
        self.takes_objects = encode is not None
        derivation = derived.derivation
        self.judge = expressions.Judge(
            program.native(),
            program.snapshot(derivation.values),
            format_.size_bytes,
            format_.is_fixed,
            encode,
            derivation.every,
            derivation.min_interval_ns,
        )
        if cls is not None and encode is not None:
            details = access_of(cls, format_.record, program)
            if details is not None:
                self.judge.use_objects(cls, details)

    def set(self, given: dict[str, object]) -> None:
        """From the next event on these values count, all at once."""
        derived = self.derived.with_values(given)
        self.judge.set_parameters(self.program.snapshot(derived.derivation.values))
        self.derived = derived

    # -----------------------------------------------------------------------
    # Compiled

    def begin(self, tier: Tier, payers: Payers | None = None, like: Judging | None = None) -> None:
        """Sees to compiled code as the tier says; `payers` are charged for it.

        `like`: has an equal program, and perhaps compiled code, which is taken.
        """
        check_tier(tier)
        cached = None if like is None or tier != "auto" else like._loaded
        if cached is None and tier == "auto":
            cached = load_cached(self._kind(), self._identity(), self._names(), at_once=True)
        if cached is not None:
            self._install(cached)
        else:
            have_done(self.compile, tier, payers)

    def compile(self) -> None:
        """Installs compiled code, from the cache or anew."""
        text = emit if self.format.is_fixed else emit_judge
        self._install(load_code(self._kind(), self._identity(), lambda: text(self.program), self._names()))

    def _kind(self) -> str:
        """Records that vary in size come one by one: nobody filters rows of them."""
        return "expression" if self.format.is_fixed else "expression of one record"

    def _names(self) -> tuple[str, ...]:
        if not self.format.is_fixed:
            return ("judge",)
        return ("judge", "copy", "filter") if has_filter(self.program) else ("judge", "copy")

    def _identity(self) -> bytes:
        text = (
            f"{self.program.record_size} {self.program.roots} {self.program.updates}\n{self.program.text()}"
        )
        return GENERATOR_VERSION + bytes(self.program.pool) + b"\0" + text.encode()

    def _install(self, loaded: Loaded) -> None:
        addresses, self._loaded = loaded.addresses, loaded
        self.judge.install(addresses["judge"], addresses.get("filter", 0), addresses.get("copy", 0), loaded)

    # -----------------------------------------------------------------------
    # Errors

    def failure(self) -> str:
        """What failed last, and where; empty where nothing has."""
        step = self.judge.failure
        if step is None:
            return ""
        number = self.program.origins[step]
        node = self.derived.derivation.tree.nodes[number]
        said = f"Run-time error: {_REASONS.get(node.op, 'an overflow of 64 bits')}"
        span = self.derived.spans.get(number)
        return said + (span[0].marked(span[1]) if span is not None else f" in {describe(node)}")


class Predicate:
    """Whether events pass; `where` makes one. Call it, or `passes`, with an event.

    An event is an instance of the class, or anything that its encoder takes. It is judged as its record would
    be, without being encoded where the class allows that. A run-time error, such as a division by zero,
    raises nothing: the event does not pass, `statistics().failed` counts it, and `failure` says where.
    """

    def __init__(self, derived: Derived, format_: Format, cls: type[Any] | None, tier: Tier) -> None:
        derivation = derived.derivation
        program = lower([(derivation.tree, derivation.conditions)], format_)
        self._judging = Judging(derived, format_, program, cls)
        self._cls = cls
        self._tier: Tier = tier
        self._judging.begin(tier)
        self.passes: Callable[[Any], bool] = self.judge.passes
        self.passes_at: Callable[[Any, int], bool] = self.judge.passes_at
        self.passes_record = self.judge.passes_record

    @property
    def judge(self) -> expressions.Judge:
        """What C code asks (native/raw_judge.h)."""
        return self._judging.judge

    @property
    def format(self) -> Format:
        """The format of the records that it judges."""
        return self._judging.format

    @property
    def derivation(self) -> Derivation:
        """What it asks for, as pure data."""
        return self._judging.derived.derivation

    @property
    def id(self) -> bytes:
        """The same wherever an equal predicate was made: 16 bytes."""
        return self.derivation.id

    @property
    def shape_id(self) -> bytes:
        """The same for all that differ in the values of parameters, literals and rates alone."""
        return self.derivation.shape_id

    @property
    def parameters(self) -> dict[str, Any]:
        """The values that count now."""
        derived = self._judging.derived
        return {name: as_python(named.sort, derived.value_of(name)) for name, named in derived.names.items()}

    @property
    def failure(self) -> str:
        """The last run-time error, pointing into the expression; empty where there was none."""
        return self._judging.failure()

    @property
    def is_compiled(self) -> bool:
        """Whether machine code judges."""
        return self.judge.is_compiled

    def compile(self) -> None:
        """Has machine code judge from now on; CompileError where there is none."""
        self._judging.compile()

    def __call__(self, event: Any) -> bool:
        """Whether an event passes."""
        return self.passes(event)

    def set(self, **parameters: object) -> None:
        """From the next event on these values count, all at once.

        Raises:
            ExpressionError: there is no such parameter, or a value has another type than its first one.
        """
        self._judging.set(parameters)

    def filter(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A new array of the records that pass.

        Arguments:
            rows: a structured array of this format's dtype, of one dimension.
        """
        rows = self._rows(rows)
        target: npt.NDArray[Any] = np.empty_like(rows)
        target.resize(self.judge.filter_into(_bytes(rows), _bytes(target)), refcheck=False)
        return target

    def indices(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
        """Which of the records pass, ascending."""
        rows = self._rows(rows)
        found: npt.NDArray[np.uint32] = np.empty(len(rows), np.uint32)
        found.resize(self.judge.indices_in(_bytes(rows), found), refcheck=False)
        return found

    def _rows(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not isinstance(rows, np.ndarray) or rows.ndim != 1 or rows.dtype != self.format.dtype:  # pyright: ignore[reportUnnecessaryIsInstance]
            got = getattr(rows, "dtype", type(rows).__qualname__)
            raise unexpected(FormatError, f"an array of `{self.format.name}` of one dimension", str(got))
        return np.ascontiguousarray(rows)

    def on(self, sender: Format) -> Predicate:
        """The same for records of another version or machine, which are judged as they lie.

        Raises:
            IncompatibleError: it lacks a field that is read and has no default, or has it in another type.
        """
        return Predicate(self._judging.derived, sender, None, self._tier)

    def may_pass(self, ranges: Mapping[int, Ends]) -> bool:
        """Whether any record may pass whose fields are within these ranges, by their offsets in a record."""
        return may_pass(self._judging.program, self.derivation.values, ranges)

    @property
    def remembers(self) -> bool:
        """Whether earlier events matter to later ones."""
        derivation = self.derivation
        return bool(self._judging.program.states or derivation.every != 1 or derivation.min_interval_ns)

    def forget(self) -> None:
        """Forgets all earlier events: `previous` and its like are None again."""
        self.judge.forget()

    def statistics(self) -> PredicateStatistics:
        """Counts since it was made."""
        it = self.judge
        return PredicateStatistics(it.judged, it.passed, it.failed, it.interpreted, it.encoded)

    def __repr__(self) -> str:
        tier = "compiled" if self.is_compiled else "interpreted"
        return f"Predicate({self.format.name}, {self.id.hex()[:8]}, {tier})"


def _bytes(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The same memory. Numpy has no buffers of some types, such as times."""
    return rows.view(np.uint8)


def where(
    events: type[Any] | Format,
    condition: Expression | None = None,
    /,
    *,
    on_change: Expression | None = None,
    every: int = 1,
    min_interval_s: float = 0.0,
    tier: Literal["auto", "compiled", "interpreted"] = "auto",
    **parameters: object,
) -> Predicate:
    """A predicate over events: an expression in Python's syntax that is typed, bounded and compiled.

    An event passes where the condition holds, then where `on_change` differs from its value at the last event
    for which the condition held, then each `every`-th, then not sooner than `min_interval_s` after the last.

    Arguments:
        events: an event class, or a format for records alone.
        condition: an expression in text, where fields stand by themselves; or a lambda or function of one
            parameter, which is read from its source. None: all events.
        on_change: an expression for a number, a bool, a time or a member of an enumeration.
        every: of those that have come so far the first, and then one of so many.
        min_interval_s: how long after one that passed no other does.
        tier: when to compile, as in `codec`.
        parameters: values of the names that an expression uses; `set` changes them. A tuple, list or set can
            stand after `in`, and stays as it is.

    Raises:
        ExpressionError: the expression is none, or does not fit the fields; the message points into it.
        FormatError: `events` has no format.

    >>> @echo.event
    ... class Reading:
    ...     celsius: echo.Float32
    ...     kind: echo.Chars[8]
    >>> hot = echo.where(Reading, "celsius > limit and kind in ('air', 'water')", limit=30.0)
    >>> hot(Reading(31.5, "air"))
    True
    >>> hot.set(limit=40.0)
    >>> hot(Reading(31.5, "air"))
    False
    """
    format_, cls = (events, None) if isinstance(events, Format) else (format_of(events), events)
    if condition is None and on_change is None:
        raise unexpected(ExpressionError, "a condition or `on_change`", "neither")
    derived = derive(
        format_.record,
        where=condition,
        on_change=on_change,
        every=every,
        min_interval_s=min_interval_s,
        parameters=parameters,
    )
    return Predicate(derived, format_, cls, tier)
