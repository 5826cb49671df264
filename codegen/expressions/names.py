"""Names and literals of expressions: fields, parameters, values from around a function.

A literal or a parameter takes the type of what it is compared or computed with. A literal that is compared
becomes a parameter, so that expressions that differ in nothing else have one shape.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from echo_core.codegen.expressions.carets import Source
from echo_core.codegen.expressions.operations import NONE, Op
from echo_core.codegen.expressions.sorts import Sort, Value, as_sort, sort_of, value_of
from echo_core.codegen.expressions.tree import Constant, LimitRefusal, Refusal, Tree
from echo_core.codegen.expressions.typing_rules import required_record
from echo_core.formats.comparing.lookalikes import Lookalikes
from echo_core.formats.types import Enumeration, Record, required

MAX_SYNTAX_DEPTH = 100


class Retyped(Exception):  # noqa: N818 - caught by `analyse`, which begins again
    """A parameter that is used as another sort than its value's."""

    def __init__(self, name: str, sort: Sort) -> None:
        self.name = name
        self.sort = sort


@dataclass(slots=True)
class Given:
    """A parameter's value, and as what it is used."""

    sort: Sort
    value: Value
    number: int = NONE
    is_named: bool = True


@dataclass(slots=True)
class Names:
    """What expressions over the events of one record refer to; one tree for all of them."""

    READERS: ClassVar[Mapping[type[ast.expr], Callable[[Any, Any], int]]] = {}  # of each kind of syntax

    tree: Tree
    given: dict[str, Given]
    sets: Mapping[str, tuple[object, ...]]
    literals: list[Given] = field(default_factory=list[Given])
    spans: dict[int, tuple[Source, ast.AST]] = field(default_factory=dict[int, tuple[Source, ast.AST]])
    source: Source = field(default_factory=lambda: Source(("",)))
    event: str | None = None  # the name that stands for the event; None: fields stand by themselves
    outside: Callable[[str], object] | None = None  # what else names mean; raises KeyError
    _variables: dict[str, int] = field(default_factory=dict[str, int])
    _known: frozenset[int] = frozenset()  # what is not None here
    _facts: dict[int, tuple[frozenset[int], frozenset[int]]] = field(
        default_factory=dict[int, tuple[frozenset[int], frozenset[int]]]
    )
    _depth: int = 0

    def read(self, expression: ast.expr, source: Source) -> int:
        """The number of the node that an expression is. A field as it is may be None."""
        self.source, self._known = source, frozenset()
        is_field = isinstance(expression, ast.Name | ast.Attribute)
        try:
            return self._read(expression) if is_field else self._use(expression)
        except RecursionError:
            raise source.error(None, "Expected less nesting, got more than can be read") from None

    # -----------------------------------------------------------------------
    # Adding nodes

    def _add(self, at: ast.AST, op: Op, *operands: int, parts: tuple[ast.AST, ...] = ()) -> int:
        try:
            number = self.tree.add(op, *operands)
        except Refusal as refusal:
            wrong = refusal.operand
            where = parts[wrong] if wrong is not None and wrong < len(parts) else at
            raise self.source.error(where, str(refusal), refusal.hint) from None
        self.spans.setdefault(number, (self.source, at))
        return number

    def _refuse(self, at: ast.AST, expected: str, got: str, hint: str = "") -> Exception:
        return self.source.error(at, f"Expected {expected}, got {got}", hint)

    def _use(self, at: ast.expr) -> int:
        """An operand, which must not be None."""
        number = self._read(at)
        node = self.tree.nodes[number]
        if node.is_optional and number not in self._known:
            text = ast.unparse(at)
            hint = f"say `{text} is not None and ...`"
            raise self._refuse(
                at, f"what is known not to be None: {node.describe()}", "one that may be", hint
            )
        return number

    def _read(self, at: ast.expr) -> int:
        self._depth += 1
        try:
            if self._depth > MAX_SYNTAX_DEPTH:
                raise self._refuse(at, f"at most {MAX_SYNTAX_DEPTH} levels of syntax", "more")
            reader = self.READERS.get(type(at))
            if reader is None:
                hint = "docs/expressions.md has the language"
                raise self._refuse(at, "an expression of the language", f"`{kind_of(at)}`", hint)
            return reader(self, at)
        finally:
            self._depth -= 1

    # -----------------------------------------------------------------------
    # Names

    def read_name(self, at: ast.Name) -> int:
        if at.id in self._variables:
            return self._variables[at.id]
        if self.event is None:
            number = self._field_or_none(at, NONE, self.tree.record, at.id)
            if number is not None:
                if at.id in self.given or at.id in self.sets:
                    raise self._refuse(at, "another name for the parameter", f"a field's: `{at.id}`")
                return number
        elif at.id == self.event:
            raise self._refuse(at, "a field of the event", "the event itself", f"say `{at.id}.name`")
        return self._named_value(at, at.id)

    def _named_value(self, at: ast.expr, name: str) -> int:
        if name not in self.given and self.outside is not None:
            self._bring_in(at, name)
        if name in self.given:
            return self._parameter(at, name)
        known = [*self.given, *self.sets, *self._variables]
        if self.event is None:
            known += [member.name for member in self.tree.record.fields]
        alike = Lookalikes(known).of(name)
        hint = f"is `{alike[0]}` meant?" if alike else ""
        raise self._refuse(at, f"a field of `{self.tree.record.name}` or a parameter", f"`{name}`", hint)

    def _bring_in(self, at: ast.expr, name: str) -> None:
        """A value that a function refers to becomes a parameter of that name."""
        assert self.outside is not None
        try:
            it = self.outside(name)
        except KeyError:
            return
        found = value_of(it)
        if found is None:
            expected = "a number, text, bytes, a time or a member of an enumeration"
            raise self._refuse(at, expected, f"`{type(it).__qualname__}`")
        self.given[name] = Given(*found)

    def _parameter(self, at: ast.expr, name: str, enumeration: int = NONE) -> int:
        given = self.given[name]
        if given.number == NONE:
            given.number = self._new_parameter(at, given.sort)
        if given.sort is Sort.ENUM and enumeration == NONE:
            raise self._refuse(at, "a member beside a field of its enumeration", f"`{name}` alone")
        return self._add(at, Op.PARAMETER, given.number, enumeration)

    def _new_parameter(self, at: ast.AST, sort: Sort) -> int:
        try:
            return self.tree.parameter(sort)
        except LimitRefusal as refusal:
            raise self.source.error(at, str(refusal)) from None

    def _field_or_none(self, at: ast.AST, place: int, record: Record, name: str) -> int | None:
        for i, member in enumerate(record.fields):
            if member.name == name:
                if sort_of(member.type) is None:
                    raise self._refuse(at, "a field that expressions can use", f"`{member.type}`")
                return self._add(at, Op.FIELD, place, i)
        return None

    def read_attribute(self, at: ast.Attribute) -> int:
        if isinstance(at.value, ast.Name) and at.value.id not in self._variables:
            if at.value.id == self.event:
                return self._member(at, NONE, self.tree.record)
            if self.outside is not None and at.value.id not in self.given:
                return self._named_value(at, ast.unparse(at))
        place = self._use(at.value)
        try:
            record = required_record(self.tree.nodes[place])
        except Refusal as refusal:
            raise self.source.error(at.value, str(refusal)) from None
        return self._member(at, place, record)

    def _member(self, at: ast.Attribute, place: int, record: Record) -> int:
        number = self._field_or_none(at, place, record, at.attr)
        if number is None:
            alike = Lookalikes(member.name for member in record.fields).of(at.attr)
            hint = f"is `{alike[0]}` meant?" if alike else ""
            raise self._refuse(at, f"a field of `{record.name}`", f"`{at.attr}`", hint)
        return number

    # -----------------------------------------------------------------------
    # Literals, and what becomes of them beside others

    def read_constant(self, at: ast.expr) -> int:
        sort, value = self._literal(at)
        return self._add_constant(at, sort, value)

    def _literal(self, at: ast.expr) -> tuple[Sort, Value]:
        literal = literal_of(at)
        found = value_of(literal) if literal is not NO_LITERAL else None
        if found is None:
            hint = "say `x is None`" if isinstance(at, ast.Constant) and at.value is None else ""
            raise self._refuse(at, "a number of 64 bits, text or bytes", f"`{short(at)}`", hint)
        return found

    def _add_constant(self, at: ast.AST, sort: Sort, value: Value) -> int:
        try:
            constant = self.tree.constant(Constant(sort, (value,)))
        except LimitRefusal as refusal:
            raise self.source.error(at, str(refusal)) from None
        return self._add(at, Op.CONSTANT, constant)

    def _beside(self, at: ast.expr, other: int, *, lifted: bool) -> int:
        """An operand beside another one: a literal becomes of its sort, and a parameter if it is compared."""
        node = self.tree.nodes[other]
        if literal_of(at) is not NO_LITERAL:
            sort, value = self._literal(at)
            sort, value = self._fitted(at, sort, value, other)
            return self._lifted(at, sort, value, other) if lifted else self._add_constant(at, sort, value)
        name = self._parameter_name(at)
        if name is None:
            return self._use(at)
        given = self.given[name]
        wanted = self._wanted(at, given.sort, given.value, other)
        if wanted is not given.sort:
            raise Retyped(name, wanted)
        return self._parameter(at, name, other if node.sort is Sort.ENUM else NONE)

    def _parameter_name(self, at: ast.expr) -> str | None:
        """The parameter that this is; values from outside are brought in."""
        if isinstance(at, ast.Name):
            first = at.id
        elif isinstance(at, ast.Attribute) and isinstance(at.value, ast.Name) and self.outside is not None:
            first = at.value.id
        else:
            return None
        if first in self._variables or first == self.event:
            return None
        if self.event is None and any(it.name == ast.unparse(at) for it in self.tree.record.fields):
            return None
        name = ast.unparse(at)
        if name not in self.given and name not in self.sets and self.outside is not None:
            self._bring_in(at, name)
        return name if name in self.given else None

    def _wanted(self, at: ast.expr, sort: Sort, value: Value, other: int) -> Sort:
        """As which sort a value is used beside a node."""
        node = self.tree.nodes[other]
        if node.sort is Sort.ENUM and sort in (Sort.TEXT, Sort.ENUM):
            self._demand_member(at, value, other)
            return Sort.ENUM
        if node.sort in (Sort.FLOAT, Sort.UINT) and sort is Sort.INT:
            return node.sort if as_sort(sort, value, node.sort) is not None else sort
        return sort

    def _fitted(self, at: ast.expr, sort: Sort, value: Value, other: int) -> tuple[Sort, Value]:
        wanted = self._wanted(at, sort, value, other)
        fitted = value if wanted is Sort.ENUM else as_sort(sort, value, wanted)
        return wanted, value if fitted is None else fitted

    def _demand_member(self, at: ast.expr, name: Value, other: int) -> None:
        type_ = self.tree.nodes[other].type
        enumeration = required(type_) if type_ is not None else None
        assert isinstance(enumeration, Enumeration)
        names = [member for member, _ in enumeration.members]
        if name not in names:
            alike = Lookalikes(names).of(str(name))
            hint = f"is {alike[0]!r} meant?" if alike else f"it has {', '.join(names[:8])}"
            raise self._refuse(at, f"a member of {self.tree.nodes[other].describe()}", repr(name), hint)

    def _lifted(self, at: ast.AST, sort: Sort, value: Value, other: int) -> int:
        number = self._new_parameter(at, sort)
        self.literals.append(Given(sort, value, number, is_named=False))
        return self._add(at, Op.PARAMETER, number, other if sort is Sort.ENUM else NONE)

    def _pair(self, left: ast.expr, right: ast.expr, *, lifted: bool) -> tuple[int, int]:
        """Two operands; what has a type of its own is read first."""
        if self._is_flexible(left) and not self._is_flexible(right):
            second = self._use(right)
            return self._beside(left, second, lifted=lifted), second
        first = self._use(left)
        return first, self._beside(right, first, lifted=lifted)

    def _is_flexible(self, at: ast.expr) -> bool:
        return literal_of(at) is not NO_LITERAL or self._parameter_name(at) is not None


NO_LITERAL: Any = object()


def literal_of(at: ast.expr) -> Any:
    """The value of a literal, also of a negative number; `NO_LITERAL` for anything else."""
    if isinstance(at, ast.Constant):
        return at.value if at.value is not None and at.value is not ... else NO_LITERAL
    if isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.USub | ast.UAdd):
        value = at.operand.value if isinstance(at.operand, ast.Constant) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value if isinstance(at.op, ast.USub) else value
    return NO_LITERAL


def kind_of(at: ast.AST) -> str:
    return type(at).__name__


def short(at: ast.AST) -> str:
    text = ast.unparse(at)
    return text if len(text) <= 40 else text[:37] + "..."
