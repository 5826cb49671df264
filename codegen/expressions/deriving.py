"""What a receiver writes to what it asks for: conditions, rates and selected fields become a Derivation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from echo_core.codegen.expressions import limits
from echo_core.codegen.expressions.canonical import canonical
from echo_core.codegen.expressions.carets import Source
from echo_core.codegen.expressions.operations import STATES, Op
from echo_core.codegen.expressions.reading import Expression, Reading, read
from echo_core.codegen.expressions.sorts import NUMBERS, STRINGS, Sort, Value, as_sort, value_of
from echo_core.codegen.expressions.tree import Refusal
from echo_core.codegen.expressions.wire import COMPUTED, Derivation, demand_bounded, taken_over
from echo_core.errors import ExpressionError, unexpected
from echo_core.formats.abi import NATIVE
from echo_core.formats.check import check_name, check_record
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout, place
from echo_core.formats.types import Enumeration, Field, Kind, Record, Scalar, required

Selection = Sequence[str] | Mapping[str, str | Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Named:
    """A parameter that can be set by its name."""

    number: int
    sort: Sort


@dataclass(frozen=True, slots=True)
class Derived:
    """A derivation, and what only its author knows of it: names, and the text that its entries were."""

    derivation: Derivation
    names: dict[str, Named]
    spans: dict[int, tuple[Source, ast.AST]]

    def with_values(self, given: Mapping[str, object]) -> Derived:
        """With other values of parameters; ExpressionError for one that is none, or of another type."""
        values = list(self.derivation.values)
        for name, value in given.items():
            named = self.names.get(name)
            if named is None:
                known = ", ".join(self.names) or "none"
                raise unexpected(ExpressionError, f"a parameter of {known}", f"`{name}`")
            values[named.number] = _fitting(name, named.sort, value)
        demand_bounded(self.derivation.tree.parameters, values, ExpressionError)
        return replace(self, derivation=replace(self.derivation, values=tuple(values)))

    def value_of(self, name: str) -> Value:
        """A parameter's value."""
        return self.derivation.values[self.names[name].number]


def _fitting(name: str, sort: Sort, given: Any) -> Value:
    found = value_of(given.item() if hasattr(given, "item") else given)
    if found is not None:
        value = found[1] if sort is Sort.ENUM and found[0] in (Sort.ENUM, Sort.TEXT) else None
        if sort in NUMBERS or found[0] is sort:
            value = as_sort(found[0], found[1], sort)
        if value is not None:
            return value
    got = f"`{type(given).__qualname__}`" if found is None or found[0] is not sort else repr(given)
    hint = (
        "give it as a float from the start, such as 300.0"
        if sort is Sort.INT and isinstance(given, float)
        else ""
    )
    raise unexpected(ExpressionError, f"`{sort}` as `{name}`", got, hint=hint)


def derive(
    record: Record,
    *,
    where: Expression | None = None,
    on_change: Expression | None = None,
    every: int = 1,
    min_interval_s: float = 0.0,
    select: Selection | None = None,
    name: str = "",
    parameters: Mapping[str, object],
) -> Derived:
    """The derivation of events of this record; ExpressionError points at what is wrong."""
    selected = _selected(select)
    conditions = [it for it in (where, on_change) if it is not None]
    reading = read([*conditions, *selected.values()], record, parameters)
    tree, roots = reading.tree, list(reading.roots)
    condition = _condition(reading, roots.pop(0)) if where is not None else None
    change = _changed(reading, roots.pop(0)) if on_change is not None else None
    output = _output(reading, selected, roots, name) if selected else None
    kept = (*(it for it in (condition, change) if it is not None), *roots)
    made = canonical(tree, kept)
    new = list(made.roots)
    derivation = Derivation(
        made.tree,
        new.pop(0) if condition is not None else None,
        new.pop(0) if change is not None else None,
        tuple(new),
        output,
        _every(every),
        _interval(min_interval_s),
        tuple(reading.values[old].value for old in made.parameters),
    )
    names = {
        name: Named(made.parameters.index(old), tree.parameters[old])
        for name, old in reading.names.items()
        if old in made.parameters
    }
    spans = {made.numbers[old]: span for old, span in reading.spans.items() if old in made.numbers}
    return Derived(derivation, names, spans)


def _condition(reading: Reading, root: int) -> int:
    node = reading.tree.nodes[root]
    _demand_present(reading, root)
    if node.sort is Sort.BOOL:
        return root
    source, at = reading.spans[root]
    hint = "say what it has to be: `x != 0`, `len(x) > 0`, `x is not None`"
    raise source.error(at, f"Expected a condition (`bool`), got {node.describe()}", hint)


def _demand_present(reading: Reading, root: int) -> None:
    """A field by itself may be None where it is selected, and nowhere else."""
    node = reading.tree.nodes[root]
    if node.is_optional:
        source, at = reading.spans[root]
        hint = "say `x is not None and ...`, or `x if x is not None else ...`"
        raise source.error(at, f"Expected what is never None, got {node.describe()}", hint)


def _changed(reading: Reading, root: int) -> int:
    """Whether a value differs from that of the last event that was selected."""
    _demand_present(reading, root)
    tree = reading.tree
    try:
        if tree.nodes[root].sort in STRINGS:
            root = tree.add(Op.DIGEST, root)
        before = tree.add(Op.REACHED, root)
        is_first = tree.add(Op.IS_NONE, before)
        return tree.add(Op.OR, is_first, tree.add(Op.NE, root, before))
    except Refusal as refusal:
        source, at = reading.spans[root]
        raise source.error(at, str(refusal), refusal.hint) from None


def _every(every: int) -> int:
    if not 1 <= every < 2**16:
        raise unexpected(ExpressionError, "`every` from 1 to 65535", every)
    return every


def _interval(seconds: float) -> int:
    if not 0 <= seconds < 2**33:
        raise unexpected(ExpressionError, "`min_interval_s` from 0 on", seconds)
    return round(seconds * 1e9)


# ---------------------------------------------------------------------------
# Outputs


def _selected(select: Selection | None) -> dict[str, Expression]:
    if select is None:
        return {}
    by_name: dict[str, Expression] = (
        dict(select) if isinstance(select, Mapping) else {it: it for it in select}
    )
    if not 1 <= len(by_name) <= limits.MAX_OUTPUTS:
        raise unexpected(ExpressionError, f"1 to {limits.MAX_OUTPUTS} fields to select", len(by_name))
    for name in by_name:
        check_name(name, ExpressionError)
    return by_name


def _output(reading: Reading, selected: Mapping[str, Expression], roots: list[int], name: str) -> Format:
    record = reading.tree.record
    members = [
        _member(reading, field, root, frozenset(selected))
        for field, root in zip(selected, roots, strict=True)
    ]
    made = place(name or record.name, members, NATIVE)
    made = replace(made, is_named=bool(name))
    check_record(made, NATIVE.pointer_size, ExpressionError)
    return Format(Layout(NATIVE.byte_order, NATIVE.pointer_size, made))


def _member(reading: Reading, name: str, root: int, names: frozenset[str]) -> Field:
    """A field that is taken over keeps all but its place; a computed one has 64 bits, or is a bool."""
    node = reading.tree.nodes[root]
    taken = taken_over(reading.tree, root)
    if taken is not None:
        if any(isinstance(it, str) for it in getattr(required(taken.type), "shape", ())):
            source, at = reading.spans[root]
            raise source.error(at, "Expected an array with a length of its own, got one that a field counts")
        former = tuple(it for it in (taken.name, *taken.aliases) if it not in names)
        return replace(taken, name=name, aliases=former, offset=0)
    if node.sort is Sort.ENUM and isinstance(
        type_ := required(node.type or Scalar(Kind.INT, 8)), Enumeration
    ):
        hint = "select the field as it is"
        raise _no_member(reading, root, f"`{type_}`", hint)
    if node.sort in STRINGS or node.sort not in COMPUTED:
        raise _no_member(reading, root, node.describe(), "select the field as it is")
    return Field(name, COMPUTED[node.sort])


def _no_member(reading: Reading, root: int, got: str, hint: str) -> ExpressionError:
    source, at = reading.spans[root]
    return source.error(at, f"Expected a number, a bool or a time to compute, got {got}", hint)


def has_states(derivation: Derivation) -> bool:
    """Whether anything is remembered from event to event."""
    return any(node.op in STATES for node in derivation.tree.nodes)
