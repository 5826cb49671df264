"""From Python's syntax to a tree: names are looked up, operations typed, and None is kept out.

Everything is refused that is not listed here. A refusal points at the part that it is about.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from echo_core.codegen.expressions import limits
from echo_core.codegen.expressions.carets import Source
from echo_core.codegen.expressions.operations import NONE, Op
from echo_core.codegen.expressions.sorts import NUMBERS, STRINGS, Sort, Value, as_sort, sort_of, value_of
from echo_core.codegen.expressions.tree import Constant, LimitRefusal, Refusal, Tree
from echo_core.codegen.expressions.typing_rules import required_record
from echo_core.formats.comparing.lookalikes import Lookalikes
from echo_core.formats.types import Enumeration, Record, required

MAX_SYNTAX_DEPTH = 100

_BINARY: dict[type[ast.operator], Op] = {
    ast.Add: Op.ADD,
    ast.Sub: Op.SUBTRACT,
    ast.Mult: Op.MULTIPLY,
    ast.Div: Op.DIVIDE,
    ast.FloorDiv: Op.FLOOR_DIVIDE,
    ast.Mod: Op.MODULO,
    ast.BitAnd: Op.BIT_AND,
    ast.BitOr: Op.BIT_OR,
    ast.BitXor: Op.BIT_XOR,
    ast.LShift: Op.SHIFT_LEFT,
    ast.RShift: Op.SHIFT_RIGHT,
}
_COMPARISONS: dict[type[ast.cmpop], Op] = {
    ast.Eq: Op.EQ,
    ast.NotEq: Op.NE,
    ast.Lt: Op.LT,
    ast.LtE: Op.LE,
    ast.Gt: Op.GT,
    ast.GtE: Op.GE,
}
_ONE = {
    "abs": Op.ABS,
    "sqrt": Op.SQRT,
    "floor": Op.FLOOR,
    "ceil": Op.CEIL,
    "isnan": Op.IS_NAN,
    "isinf": Op.IS_INF,
    "isfinite": Op.IS_FINITE,
    "int": Op.TO_INT,
    "float": Op.TO_FLOAT,
    "len": Op.LENGTH,
    "previous": Op.PREVIOUS,
    "last": Op.LAST,
    "mean": Op.MEAN,
}
_REDUCING = {"sum": Op.SUM, "any": Op.ANY, "all": Op.ALL, "min": Op.LEAST, "max": Op.GREATEST}
_FOLDED = {"min": Op.MIN, "max": Op.MAX}
_METHODS = {"startswith": Op.STARTS, "endswith": Op.ENDS}
_MODULES = {"math", "np", "numpy", "echo"}  # whose functions of these names a lambda may say
_ON_INTEGERS = {"floor", "ceil"}

FUNCTIONS = frozenset({*_ONE, *_REDUCING, "count", "ewma"})


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
class Analyst:
    """Reads the syntax of expressions over the events of one record, into one tree."""

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
            reader = _READERS.get(type(at))
            if reader is None:
                hint = "docs/expressions.md has the language"
                raise self._refuse(at, "an expression of the language", f"`{_kind(at)}`", hint)
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
        found = value_of(literal) if literal is not _NO_LITERAL else None
        if found is None:
            hint = "say `x is None`" if isinstance(at, ast.Constant) and at.value is None else ""
            raise self._refuse(at, "a number of 64 bits, text or bytes", f"`{_short(at)}`", hint)
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
        if literal_of(at) is not _NO_LITERAL:
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
        return literal_of(at) is not _NO_LITERAL or self._parameter_name(at) is not None

    # -----------------------------------------------------------------------
    # Operators

    def read_binary(self, at: ast.BinOp) -> int:
        if isinstance(at.op, ast.Pow):
            return self._power(at)
        op = _BINARY.get(type(at.op))
        if op is None:
            raise self._refuse(at, "an operator of the language", f"`{_kind(at.op)}`")
        if op in (Op.SHIFT_LEFT, Op.SHIFT_RIGHT):
            first, second = self._use(at.left), self._use(at.right)
        else:
            first, second = self._pair(at.left, at.right, lifted=False)
        sorts = self.tree.nodes[first].sort, self.tree.nodes[second].sort
        if op is Op.ADD and sorts[0] in STRINGS:
            raise self._refuse(at, "numbers to add", f"`{sorts[0]}`", "texts are compared, never made")
        return self._add(at, op, first, second, parts=(at.left, at.right))

    def _power(self, at: ast.BinOp) -> int:
        exponent = literal_of(at.right)
        if not isinstance(exponent, int) or isinstance(exponent, bool):
            expected = f"a constant exponent from 0 to {limits.MAX_EXPONENT}"
            raise self._refuse(at.right, expected, f"`{_short(at.right)}`")
        base = self._use(at.left)
        return self._add(at, Op.POWER, base, min(max(exponent, -1), NONE - 1), parts=(at.left, at.right))

    def read_unary(self, at: ast.UnaryOp) -> int:
        if literal_of(at) is not _NO_LITERAL:
            return self.read_constant(at)
        operand = self._use(at.operand)
        match at.op:
            case ast.Not():
                number = self._add(at, Op.NOT, operand, parts=(at.operand,))
                true, false = self._facts_of(operand)
                self._facts[number] = false, true
                return number
            case ast.UAdd():
                if self.tree.nodes[operand].sort not in NUMBERS:
                    raise self._refuse(at.operand, "a number", self.tree.nodes[operand].describe())
                return operand
            case ast.USub():
                return self._add(at, Op.NEGATE, operand, parts=(at.operand,))
            case _:
                return self._add(at, Op.INVERT, operand, parts=(at.operand,))

    def read_logic(self, at: ast.BoolOp) -> int:
        is_and = isinstance(at.op, ast.And)
        before = self._known
        number = self._use(at.values[0])
        for left, value in zip(at.values, at.values[1:], strict=False):
            true, false = self._facts_of(number)
            self._known |= true if is_and else false
            second = self._use(value)
            others = self._facts_of(second)
            joined = self._add(at, Op.AND if is_and else Op.OR, number, second, parts=(left, value))
            if is_and:
                self._facts[joined] = true | others[0], false & others[1]
            else:
                self._facts[joined] = true & others[0], false | others[1]
            number = joined
        self._known = before
        if self.tree.nodes[number].sort is not Sort.BOOL:
            raise self._refuse(at, "conditions", self.tree.nodes[number].describe())
        return number

    def _facts_of(self, number: int) -> tuple[frozenset[int], frozenset[int]]:
        """What is not None where a condition holds, and where it does not."""
        return self._facts.get(number, (frozenset(), frozenset()))

    def read_choice(self, at: ast.IfExp) -> int:
        condition = self._use(at.test)
        true, false = self._facts_of(condition)
        before = self._known
        flexible = self._is_flexible(at.body)
        with self._knowing(before | (false if flexible else true)):
            first = self._use(at.orelse if flexible else at.body)
        with self._knowing(before | (true if flexible else false)):
            second = self._beside(at.body if flexible else at.orelse, first, lifted=False)
        chosen = (second, first) if flexible else (first, second)
        return self._add(at, Op.CHOOSE, condition, *chosen, parts=(at.test, at.body, at.orelse))

    @contextmanager
    def _knowing(self, known: frozenset[int]) -> Generator[None]:
        before, self._known = self._known, known
        try:
            yield
        finally:
            self._known = before

    # -----------------------------------------------------------------------
    # Comparisons

    def read_compare(self, at: ast.Compare) -> int:
        number: int | None = None
        left = at.left
        for operator, right in zip(at.ops, at.comparators, strict=True):
            one = self._one_comparison(at, operator, left, right)
            number = one if number is None else self._add(at, Op.AND, number, one)
            left = right
        assert number is not None
        return number

    def _one_comparison(self, at: ast.Compare, operator: ast.cmpop, left: ast.expr, right: ast.expr) -> int:
        match operator:
            case ast.Is() | ast.IsNot():
                return self._is_none(at, left, right, is_not=isinstance(operator, ast.IsNot))
            case ast.In() | ast.NotIn():
                number = self._in(at, left, right)
                return number if isinstance(operator, ast.In) else self._add(at, Op.NOT, number)
            case _:
                first, second = self._pair(left, right, lifted=True)
                return self._add(at, _COMPARISONS[type(operator)], first, second, parts=(left, right))

    def _is_none(self, at: ast.Compare, left: ast.expr, right: ast.expr, *, is_not: bool) -> int:
        if not (isinstance(right, ast.Constant) and right.value is None):
            raise self._refuse(right, "None after `is`", f"`{_short(right)}`", "compare by `==`")
        place = self._read(left)
        number = self._add(at, Op.IS_NONE, place, parts=(left,))
        self._facts[number] = frozenset(), frozenset({place})
        if is_not:
            number = self._add(at, Op.NOT, number)
            self._facts[number] = frozenset({place}), frozenset()
        return number

    def _in(self, at: ast.Compare, left: ast.expr, right: ast.expr) -> int:
        members = self._members(right)
        if members is not None:
            value = self._use(left)
            return self._add(at, Op.IN, value, self._set(right, members, value), parts=(left, right))
        text = self._use(right)
        if self.tree.nodes[text].sort is Sort.ARRAY:
            hint = f"say `any(x == {_short(left)} for x in {_short(right)})`"
            raise self._refuse(right, "constants or text after `in`", "an array", hint)
        part = self._beside(left, text, lifted=True)
        return self._add(at, Op.CONTAINS, text, part, parts=(right, left))

    def _members(self, at: ast.expr) -> list[tuple[ast.expr, object]] | None:
        """The constants of a set that is written out, or given as a parameter; None for anything else."""
        if isinstance(at, ast.Tuple | ast.List | ast.Set):
            return [(each, self._member_value(each)) for each in at.elts]
        if isinstance(at, ast.Name) and at.id not in self._variables:
            if at.id in self.sets:
                return [(at, each) for each in self.sets[at.id]]
            if self.outside is not None and at.id != self.event:
                try:
                    it = self.outside(at.id)
                except KeyError:
                    return None
                if isinstance(it, tuple | list | set | frozenset):
                    return [(at, each) for each in it]  # pyright: ignore[reportUnknownVariableType]
        return None

    def _member_value(self, at: ast.expr) -> object:
        value = literal_of(at)
        if value is _NO_LITERAL and self.outside is not None:
            try:
                return self.outside(ast.unparse(at))
            except KeyError:
                pass
        if value is _NO_LITERAL:
            raise self._refuse(at, "a constant in a set", f"`{_short(at)}`", "say `x == ... or x == ...`")
        return value

    def _set(self, at: ast.expr, members: list[tuple[ast.expr, object]], value: int) -> int:
        """The set as the value's sort has it. What no such value can equal is not in it."""
        node = self.tree.nodes[value]
        values: list[Value] = []
        for where, member in members:
            found = value_of(member)
            if found is None:
                raise self._refuse(where, "a number of 64 bits, text or bytes", f"{member!r}")
            sort, it = found
            if node.sort is Sort.ENUM and sort in (Sort.ENUM, Sort.TEXT):
                self._demand_member(where, it, value)
                values.append(it)
            elif sort is not node.sort and not {sort, node.sort} <= NUMBERS:
                raise self._refuse(where, f"a value of {node.describe()}", f"`{sort}`")
            elif (fitted := as_sort(sort, it, node.sort)) is not None:
                values.append(fitted)
        try:
            return self.tree.constant(Constant(node.sort, tuple(values), is_set=True))
        except LimitRefusal as refusal:
            raise self.source.error(at, str(refusal)) from None

    # -----------------------------------------------------------------------
    # Arrays

    def read_subscript(self, at: ast.Subscript) -> int:
        array = self._use(at.value)
        if not isinstance(at.slice, ast.Slice):
            index = self._use(at.slice)
            return self._add(at, Op.INDEX, array, index, parts=(at.value, at.slice))
        if at.slice.step is not None:
            raise self._refuse(at.slice.step, "a slice without a step", f"`{_short(at.slice)}`")
        bounds = [NONE if each is None else self._use(each) for each in (at.slice.lower, at.slice.upper)]
        parts = (at.value, at.slice.lower or at, at.slice.upper or at)
        return self._add(at, Op.SLICE, array, *bounds, parts=parts)

    # -----------------------------------------------------------------------
    # Functions

    def read_call(self, at: ast.Call) -> int:
        if at.keywords or any(isinstance(each, ast.Starred) for each in at.args):
            raise self._refuse(at, "arguments by position", f"`{_short(at)}`")
        if isinstance(at.func, ast.Attribute) and at.func.attr in _METHODS:
            return self._method(at, at.func)
        name = self._function_name(at.func)
        arguments = at.args
        if name in _REDUCING and len(arguments) == 1:
            return self._reduction(at, _REDUCING[name], arguments[0])
        if name in _FOLDED and len(arguments) > 1:
            return self._folded(at, _FOLDED[name])
        if name == "ewma" and len(arguments) == 2:
            return self._ewma(at)
        if name == "count" and not arguments:
            return self._add(at, Op.COUNT)
        if name in _ONE and len(arguments) == 1:
            return self._one(at, name)
        hint = f"there are {', '.join(sorted(FUNCTIONS))}" if name not in FUNCTIONS else ""
        raise self._refuse(at.func, "a function of the language, with its arguments", f"`{_short(at)}`", hint)

    def _function_name(self, function: ast.expr) -> str:
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            is_known = function.value.id in _MODULES and self.event is not None
            return function.attr if is_known else ""
        return function.id if isinstance(function, ast.Name) else ""

    def _one(self, at: ast.Call, name: str) -> int:
        operand = self._use(at.args[0])
        if name in _ON_INTEGERS and self.tree.nodes[operand].sort is Sort.INT:
            return operand
        if name == "float" and self.tree.nodes[operand].sort is Sort.FLOAT:
            return operand
        if name == "int" and self.tree.nodes[operand].sort is Sort.INT:
            return operand
        if name == "sqrt" and self.tree.nodes[operand].sort in (Sort.INT, Sort.UINT):
            operand = self._add(at, Op.TO_FLOAT, operand)
        return self._add(at, _ONE[name], operand, parts=(at.args[0],))

    def _ewma(self, at: ast.Call) -> int:
        weight = literal_of(at.args[1])
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 < weight <= 1:
            raise self._refuse(
                at.args[1], "a constant weight above 0, of at most 1", f"`{_short(at.args[1])}`"
            )
        constant = self._add_constant(at.args[1], Sort.FLOAT, float(weight))
        return self._add(at, Op.EWMA, self._use(at.args[0]), constant, parts=tuple(at.args))

    def _method(self, at: ast.Call, function: ast.Attribute) -> int:
        if len(at.args) != 1:
            raise self._refuse(at, "one argument", str(len(at.args)))
        text = self._use(function.value)
        part = self._beside(at.args[0], text, lifted=True)
        return self._add(at, _METHODS[function.attr], text, part, parts=(function.value, at.args[0]))

    def _folded(self, at: ast.Call, op: Op) -> int:
        typed = next((each for each in at.args if not self._is_flexible(each)), at.args[0])
        pattern = self._use(typed)
        number: int | None = None
        for each in at.args:
            operand = pattern if each is typed else self._beside(each, pattern, lifted=False)
            number = (
                operand if number is None else self._add(at, op, number, operand, parts=(at.args[0], each))
            )
        assert number is not None
        return number

    def _reduction(self, at: ast.Call, op: Op, argument: ast.expr) -> int:
        if isinstance(argument, ast.GeneratorExp | ast.ListComp):
            return self._generator(at, op, argument)
        array = self._use(argument)
        element = self._element(argument, array)
        return self._add(at, op, element, self._element_in_use(argument, element), parts=(argument, argument))

    def _element_in_use(self, at: ast.expr, element: int) -> int:
        if self.tree.nodes[element].is_optional:
            hint = "say `... for x in ... if x is not None`"
            raise self._refuse(at, "elements that are not None", self.tree.nodes[element].describe(), hint)
        return element

    def _element(self, at: ast.AST, array: int) -> int:
        return self._add(at, Op.ELEMENT, array, self.tree.loop(), parts=(at,))

    def _generator(self, at: ast.Call, op: Op, generator: ast.GeneratorExp | ast.ListComp) -> int:
        loop = generator.generators[0]
        if len(generator.generators) > 1 or loop.is_async or not isinstance(loop.target, ast.Name):
            hint = "nest reductions: `any(any(... for y in x.ys) for x in xs)`"
            raise self._refuse(generator, "one `for` with one name", f"`{_short(generator)}`", hint)
        element = self._element(loop.iter, self._use(loop.iter))
        outer, known = self._variables.get(loop.target.id), self._known
        self._variables[loop.target.id] = element
        condition = NONE
        for each in loop.ifs:
            one = self._use(each)
            true = self._facts_of(one)[0]
            self._known |= true
            condition = one if condition == NONE else self._add(each, Op.AND, condition, one)
        value = self._use(generator.elt)
        self._known = known
        if outer is None:
            del self._variables[loop.target.id]
        else:
            self._variables[loop.target.id] = outer
        return self._add(at, op, element, value, condition, parts=(loop.iter, generator.elt, generator))


_NO_LITERAL: Any = object()


def literal_of(at: ast.expr) -> Any:
    """The value of a literal, also of a negative number; `_NO_LITERAL` for anything else."""
    if isinstance(at, ast.Constant):
        return at.value if at.value is not None and at.value is not ... else _NO_LITERAL
    if isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.USub | ast.UAdd):
        value = at.operand.value if isinstance(at.operand, ast.Constant) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value if isinstance(at.op, ast.USub) else value
    return _NO_LITERAL


def _kind(at: ast.AST) -> str:
    return type(at).__name__


def _short(at: ast.AST) -> str:
    text = ast.unparse(at)
    return text if len(text) <= 40 else text[:37] + "..."


_READERS: dict[type[ast.expr], Callable[[Analyst, Any], int]] = {
    ast.Name: Analyst.read_name,
    ast.Attribute: Analyst.read_attribute,
    ast.Constant: Analyst.read_constant,
    ast.BinOp: Analyst.read_binary,
    ast.UnaryOp: Analyst.read_unary,
    ast.BoolOp: Analyst.read_logic,
    ast.IfExp: Analyst.read_choice,
    ast.Compare: Analyst.read_compare,
    ast.Subscript: Analyst.read_subscript,
    ast.Call: Analyst.read_call,
}
