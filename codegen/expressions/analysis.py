"""From Python's syntax to a tree: names are looked up, operations typed, and None is kept out.

Everything is refused that is not listed here. A refusal points at the part that it is about.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from echo_core.codegen.expressions import limits
from echo_core.codegen.expressions.names import NO_LITERAL, Names, kind_of, literal_of, short
from echo_core.codegen.expressions.operations import NONE, Op
from echo_core.codegen.expressions.sorts import DIGESTS, NUMBERS, STRINGS, Sort, Value, as_sort, value_of
from echo_core.codegen.expressions.tree import Constant, LimitRefusal

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


@dataclass(slots=True)
class Analyst(Names):
    """Reads the syntax of expressions over the events of one record, into one tree."""

    def read_binary(self, at: ast.BinOp) -> int:
        if isinstance(at.op, ast.Pow):
            return self._power(at)
        op = _BINARY.get(type(at.op))
        if op is None:
            raise self._refuse(at, "an operator of the language", f"`{kind_of(at.op)}`")
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
            raise self._refuse(at.right, expected, f"`{short(at.right)}`")
        base = self._use(at.left)
        return self._add(at, Op.POWER, base, min(max(exponent, -1), NONE - 1), parts=(at.left, at.right))

    def read_unary(self, at: ast.UnaryOp) -> int:
        if literal_of(at) is not NO_LITERAL:
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
                if DIGESTS & {self.tree.nodes[first].sort, self.tree.nodes[second].sort}:
                    first, second = self._remembered(left, first), self._remembered(right, second)
                return self._add(at, _COMPARISONS[type(operator)], first, second, parts=(left, right))

    def _is_none(self, at: ast.Compare, left: ast.expr, right: ast.expr, *, is_not: bool) -> int:
        if not (isinstance(right, ast.Constant) and right.value is None):
            raise self._refuse(right, "None after `is`", f"`{short(right)}`", "compare by `==`")
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
            hint = f"say `any(x == {short(left)} for x in {short(right)})`"
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
        if value is NO_LITERAL and self.outside is not None:
            try:
                return self.outside(ast.unparse(at))
            except KeyError:
                pass
        if value is NO_LITERAL:
            raise self._refuse(at, "a constant in a set", f"`{short(at)}`", "say `x == ... or x == ...`")
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
            raise self._refuse(at.slice.step, "a slice without a step", f"`{short(at.slice)}`")
        bounds = [NONE if each is None else self._use(each) for each in (at.slice.lower, at.slice.upper)]
        parts = (at.value, at.slice.lower or at, at.slice.upper or at)
        return self._add(at, Op.SLICE, array, *bounds, parts=parts)

    # -----------------------------------------------------------------------
    # Functions

    def read_call(self, at: ast.Call) -> int:
        if at.keywords or any(isinstance(each, ast.Starred) for each in at.args):
            raise self._refuse(at, "arguments by position", f"`{short(at)}`")
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
        raise self._refuse(at.func, "a function of the language, with its arguments", f"`{short(at)}`", hint)

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
        if name in ("previous", "last"):
            operand = self._remembered(at.args[0], operand)
        return self._add(at, _ONE[name], operand, parts=(at.args[0],))

    def _remembered(self, at: ast.expr, operand: int) -> int:
        """What is kept of a value: the value itself, or the digest of a text."""
        is_text = self.tree.nodes[operand].sort in STRINGS
        return self._add(at, Op.DIGEST, operand, parts=(at,)) if is_text else operand

    def _ewma(self, at: ast.Call) -> int:
        weight = literal_of(at.args[1])
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 < weight <= 1:
            raise self._refuse(
                at.args[1], "a constant weight above 0, of at most 1", f"`{short(at.args[1])}`"
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
            raise self._refuse(generator, "one `for` with one name", f"`{short(generator)}`", hint)
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


_READERS: dict[type[ast.expr], Callable[[Any, Any], int]] = {
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
Analyst.READERS = _READERS
