"""What the type of each operation is, from those of its operands. Refusals say the way out."""

from __future__ import annotations

from collections.abc import Callable

from echo_core.codegen.expressions import limits
from echo_core.codegen.expressions.operations import NONE, REDUCTIONS, Op
from echo_core.codegen.expressions.sorts import DIGESTS, NUMBERS, STRINGS, TIMES, WORDS, Sort, sort_of
from echo_core.codegen.expressions.tree import Node, Refusal, Tree, refused
from echo_core.formats.types import Enumeration, Nullable, Record, Sequence, StaticArray, Type, required

# The sort of the result, its type where that matters, whether it may be None.
Typed = tuple[Sort, Type | None, bool]

_INTEGERS = frozenset({Sort.INT, Sort.UINT})


def typed(tree: Tree, op: Op, a: int, b: int, c: int) -> Typed:
    """The type of an operation on nodes of the tree, which are there; Refusal where it has none."""
    rule = _RULES.get(op)
    if rule is not None:
        return rule(tree, a, b, c)
    operands = [tree.nodes[number] for number in tree.operands(op, a, b, c)]
    return _OF_VALUES[op](op, operands), None, False


def _demand(node: Node, sorts: frozenset[Sort], operand: int, expected: str, hint: str = "") -> None:
    if node.sort not in sorts:
        raise refused(Refusal, expected, node.describe(), operand=operand, hint=hint or _hint_for(node))


def _hint_for(node: Node) -> str:
    if node.sort is Sort.BOOL:
        return "use a condition: `x if flag else y`"
    return "compare with the name of a member, as text" if node.sort is Sort.ENUM else ""


# ---------------------------------------------------------------------------
# Places


def _field(tree: Tree, a: int, b: int, c: int) -> Typed:
    record = tree.record if a == NONE else required_record(tree.nodes[a])
    if not 0 <= b < len(record.fields):
        raise refused(Refusal, f"one of {len(record.fields)} fields of `{record.name}`", str(b))
    return _place(record.fields[b].type)


def required_record(node: Node) -> Record:
    """The record that a node is."""
    if node.type is None or not isinstance(type_ := required(node.type), Record):
        raise refused(Refusal, "a record", node.describe(), operand=0)
    return type_


def _place(type_: Type) -> Typed:
    sort = sort_of(type_)
    if sort is None:
        raise refused(Refusal, "a field that expressions can use", f"`{type_}`")
    return sort, type_, isinstance(type_, Nullable)


def array_of(node: Node) -> StaticArray | Sequence:
    """The array that a node is, with one dimension or a fixed number."""
    type_ = required(node.type) if node.type is not None else None
    if not isinstance(type_, StaticArray | Sequence):
        raise refused(Refusal, "an array", node.describe(), operand=0)
    if isinstance(type_, Sequence) and len(type_.shape) > 1:
        raise refused(Refusal, "a sequence of one dimension", node.describe(), operand=0)
    return type_


def element_of(type_: StaticArray | Sequence) -> Type:
    """What stands in an array: the rest of its dimensions, or its elements."""
    if isinstance(type_, StaticArray) and len(type_.shape) > 1:
        return StaticArray(type_.element, type_.shape[1:])
    return type_.element


def _element(tree: Tree, a: int, b: int, c: int) -> Typed:
    node = tree.nodes[a]
    if not 0 <= b < limits.MAX_NODES or any(it.op is Op.ELEMENT and it.b == b for it in tree.nodes):
        raise refused(Refusal, "a loop of its own for each reduction", str(b))
    if len(node.loops) >= limits.MAX_LOOPS:
        raise refused(Refusal, f"at most {limits.MAX_LOOPS} reductions inside one another", "more")
    return _place(element_of(array_of(node)))


def _index(tree: Tree, a: int, b: int, c: int) -> Typed:
    array = array_of(tree.nodes[a])
    _demand(tree.nodes[b], frozenset({Sort.INT}), 1, "an int as index")
    return _place(element_of(array))


def _slice(tree: Tree, a: int, b: int, c: int) -> Typed:
    array = array_of(tree.nodes[a])
    for i, bound in ((1, b), (2, c)):
        if bound != NONE and (
            tree.nodes[bound].op is not Op.CONSTANT or tree.nodes[bound].sort is not Sort.INT
        ):
            raise refused(
                Refusal, "constant ints as bounds of a slice", tree.nodes[bound].describe(), operand=i
            )
        if bound != NONE and abs(int(tree.constants[tree.nodes[bound].a].values[0])) >= 2**31:
            raise refused(Refusal, "bounds of a slice below 2**31", "a larger one", operand=i)
    # However many are left, no more than there were: the type of what is cut.
    return Sort.ARRAY, array, tree.nodes[a].is_optional


def _length(tree: Tree, a: int, b: int, c: int) -> Typed:
    _demand(tree.nodes[a], STRINGS | {Sort.ARRAY}, 0, "an array, text or bytes")
    if tree.nodes[a].sort is Sort.ARRAY:
        array_of(tree.nodes[a])
    return Sort.INT, None, False


def _is_none(tree: Tree, a: int, b: int, c: int) -> Typed:
    node = tree.nodes[a]
    if not node.is_optional:
        raise refused(Refusal, "what can be None", node.describe(), operand=0)
    return Sort.BOOL, None, False


# ---------------------------------------------------------------------------
# Constants, parameters, sets


def _constant(tree: Tree, a: int, b: int, c: int) -> Typed:
    if not 0 <= a < len(tree.constants) or tree.constants[a].is_set:
        raise refused(Refusal, "the number of a constant", str(a))
    return tree.constants[a].sort, None, False


def _parameter(tree: Tree, a: int, b: int, c: int) -> Typed:
    if not 0 <= a < len(tree.parameters):
        raise refused(Refusal, "the number of a parameter", str(a))
    sort = tree.parameters[a]
    if (sort is Sort.ENUM) != (b != NONE):
        raise refused(Refusal, "an enumeration for a name, and for nothing else", str(sort), operand=1)
    if sort is not Sort.ENUM:
        return sort, None, False
    type_ = tree.nodes[b].type
    if type_ is None or not isinstance(enumeration := required(type_), Enumeration):
        raise refused(Refusal, "an enumeration", tree.nodes[b].describe(), operand=1)
    return Sort.ENUM, enumeration, False


def _in(tree: Tree, a: int, b: int, c: int) -> Typed:
    node = tree.nodes[a]
    if not 0 <= b < len(tree.constants) or not tree.constants[b].is_set:
        raise refused(Refusal, "the number of a set", str(b))
    sort = tree.constants[b].sort
    if not are_comparable(node.sort, sort) or (node.sort is Sort.ENUM) != (sort is Sort.ENUM):
        raise refused(Refusal, f"a set of {node.describe()}", f"one of `{sort}`", operand=1)
    return Sort.BOOL, None, False


# ---------------------------------------------------------------------------
# Values


def _joined(op: Op, a: Node, b: Node) -> Sort:
    """What two numbers become together."""
    _demand(a, NUMBERS, 0, f"a number for {op.name.lower()}")
    _demand(b, NUMBERS, 1, f"a number for {op.name.lower()}")
    if Sort.FLOAT in (a.sort, b.sort):
        return Sort.FLOAT
    if a.sort is not b.sort:
        wrong = 0 if a.sort is Sort.UINT else 1
        raise refused(
            Refusal, "two `int` or two `uint64`", "one of each", operand=wrong, hint="say `int(...)`"
        )
    return a.sort


def _arithmetic(op: Op, operands: list[Node]) -> Sort:
    a, b = operands
    if {a.sort, b.sort} & TIMES:
        return _time_arithmetic(op, a, b)
    return _joined(op, a, b)


def _time_arithmetic(op: Op, a: Node, b: Node) -> Sort:
    time, duration = Sort.TIME, Sort.DURATION
    results = {
        (Op.SUBTRACT, time, time): duration,
        (Op.SUBTRACT, time, duration): time,
        (Op.ADD, time, duration): time,
        (Op.ADD, duration, time): time,
        (Op.ADD, duration, duration): duration,
        (Op.SUBTRACT, duration, duration): duration,
    }
    result = results.get((op, a.sort, b.sort))
    if result is None:
        raise refused(Refusal, "times that can be combined so", f"{a.describe()} and {b.describe()}")
    return result


def _division(op: Op, operands: list[Node]) -> Sort:
    _joined(op, *operands)
    return Sort.FLOAT


def _bits(op: Op, operands: list[Node]) -> Sort:
    a, b = operands
    hint = "say `and`, `or`" if a.sort is Sort.BOOL else ""
    _demand(a, _INTEGERS, 0, "an integer for bits", hint)
    _demand(b, _INTEGERS, 1, "an integer for bits", hint)
    return _joined(op, a, b)


def _shift(op: Op, operands: list[Node]) -> Sort:
    _demand(operands[0], _INTEGERS, 0, "an integer to shift")
    _demand(operands[1], frozenset({Sort.INT}), 1, "an int to shift by")
    return operands[0].sort


def _power(tree: Tree, a: int, b: int, c: int) -> Typed:
    _demand(tree.nodes[a], NUMBERS, 0, "a number")
    if not 0 <= b <= limits.MAX_EXPONENT:
        raise refused(Refusal, f"an exponent from 0 to {limits.MAX_EXPONENT}", str(b), operand=1)
    return tree.nodes[a].sort, None, False


def _extreme(op: Op, operands: list[Node]) -> Sort:
    a, b = operands
    _demand(a, NUMBERS | TIMES, 0, "numbers to compare")
    return same_sort(a, b)


def same_sort(a: Node, b: Node) -> Sort:
    """The sort of both."""
    if a.sort is not b.sort:
        hint = "say `float(...)`" if {a.sort, b.sort} <= NUMBERS else ""
        raise refused(Refusal, f"two of one type, as {a.describe()}", b.describe(), operand=1, hint=hint)
    return a.sort


def _number(op: Op, operands: list[Node]) -> Sort:
    _demand(operands[0], NUMBERS, 0, "a number")
    if op is Op.NEGATE and operands[0].sort is Sort.UINT:
        raise refused(
            Refusal, "an `int` or a `float` to negate", "`uint64`", operand=0, hint="say `int(...)`"
        )
    return operands[0].sort


def _float(op: Op, operands: list[Node]) -> Sort:
    _demand(operands[0], frozenset({Sort.FLOAT}), 0, "a float", "say `float(...)`")
    return Sort.FLOAT


def _digest(op: Op, operands: list[Node]) -> Sort:
    _demand(operands[0], STRINGS, 0, "text or bytes")
    return Sort.TEXT_DIGEST if operands[0].sort is Sort.TEXT else Sort.BYTES_DIGEST


def _rounded(op: Op, operands: list[Node]) -> Sort:
    _float(op, operands)
    return Sort.INT


def _question(op: Op, operands: list[Node]) -> Sort:
    _float(op, operands)
    return Sort.BOOL


def _to_int(op: Op, operands: list[Node]) -> Sort:
    _demand(operands[0], NUMBERS | {Sort.BOOL}, 0, "a number")
    return Sort.INT


def _to_float(op: Op, operands: list[Node]) -> Sort:
    _demand(operands[0], NUMBERS, 0, "a number")
    return Sort.FLOAT


def _inverted(op: Op, operands: list[Node]) -> Sort:
    _demand(operands[0], frozenset({Sort.INT}), 0, "an int to invert")
    return Sort.INT


def _not(op: Op, operands: list[Node]) -> Sort:
    _condition(operands[0], 0)
    return Sort.BOOL


def _condition(node: Node, operand: int) -> None:
    hint = "say what it has to be: `x != 0`, `len(x) > 0`, `x is not None`"
    _demand(node, frozenset({Sort.BOOL}), operand, "a condition (`bool`)", hint)


def _logic(op: Op, operands: list[Node]) -> Sort:
    for i, operand in enumerate(operands):
        _condition(operand, i)
    return Sort.BOOL


def _choose(tree: Tree, a: int, b: int, c: int) -> Typed:
    _condition(tree.nodes[a], 0)
    first, second = tree.nodes[b], tree.nodes[c]
    if first.sort not in WORDS | STRINGS:
        raise refused(Refusal, "values to choose from", first.describe(), operand=1)
    if first.sort is not second.sort:
        hint = "say `float(...)`" if {first.sort, second.sort} <= NUMBERS else ""
        raise refused(
            Refusal, f"two of one type, as {first.describe()}", second.describe(), operand=2, hint=hint
        )
    if first.sort is Sort.ENUM and first.type is not None and second.type is not None:
        _same_enumeration(first, second, 2)
    type_ = first.type if first.sort is Sort.ENUM else None
    return first.sort, type_, False


def _same_enumeration(a: Node, b: Node, operand: int) -> None:
    if a.type is None or b.type is None or required(a.type) != required(b.type):
        raise refused(Refusal, f"a member of {a.describe()}", f"one of {b.describe()}", operand=operand)


# ---------------------------------------------------------------------------
# Comparisons


def are_comparable(a: Sort, b: Sort) -> bool:
    """Whether values of both can be equal."""
    return (a in NUMBERS and b in NUMBERS) or (a is b and a in WORDS | STRINGS | DIGESTS)


def _comparison(op: Op, operands: list[Node]) -> Sort:
    a, b = operands
    if not are_comparable(a.sort, b.sort):
        hint = "say `int(...)`, or use the condition itself" if Sort.BOOL in (a.sort, b.sort) else ""
        raise refused(
            Refusal, f"what can be compared with {a.describe()}", b.describe(), operand=1, hint=hint
        )
    if op not in (Op.EQ, Op.NE) and a.sort in {Sort.BOOL, Sort.ENUM} | DIGESTS:
        hint = "compare by `==` or `!=`" if a.sort in DIGESTS else "compare by `==` or `in`"
        raise refused(Refusal, "what has an order", a.describe(), operand=0, hint=hint)
    if a.sort is Sort.ENUM:
        _same_enumeration(a, b, 1)
    return Sort.BOOL


def _within(op: Op, operands: list[Node]) -> Sort:
    a, b = operands
    _demand(a, STRINGS, 0, "text or bytes")
    if a.sort is not b.sort:
        raise refused(Refusal, a.describe(), b.describe(), operand=1)
    return Sort.BOOL


# ---------------------------------------------------------------------------
# State and reductions


def _remembered(tree: Tree, a: int, b: int, c: int) -> Typed:
    node = tree.nodes[a]
    _demand(node, WORDS | DIGESTS, 0, "a number, a bool, a time, a member or text to remember")
    type_ = Nullable(node.type) if node.sort is Sort.ENUM and node.type is not None else None
    return node.sort, type_, True


def _count(tree: Tree, a: int, b: int, c: int) -> Typed:
    return Sort.INT, None, False


def _averaged(tree: Tree, a: int, b: int, c: int) -> Typed:
    _demand(tree.nodes[a], NUMBERS, 0, "a number to average")
    if b != NONE and (tree.nodes[b].op is not Op.CONSTANT or tree.nodes[b].sort is not Sort.FLOAT):
        raise refused(
            Refusal, "a constant float as the weight of the newest", tree.nodes[b].describe(), operand=1
        )
    return Sort.FLOAT, None, True


def _reduction(op: Op) -> Callable[[Tree, int, int, int], Typed]:
    def rule(tree: Tree, a: int, b: int, c: int) -> Typed:
        element, value = tree.nodes[a], tree.nodes[b]
        if element.op is not Op.ELEMENT or any(it.op in REDUCTIONS and it.a == a for it in tree.nodes):
            raise refused(Refusal, "an element that nothing else reduces", element.describe(), operand=0)
        if c != NONE:
            _condition(tree.nodes[c], 2)
        _demand_reachable(tree, element, (value, *([tree.nodes[c]] if c != NONE else [])))
        if op in (Op.ANY, Op.ALL):
            _condition(value, 1)
        else:
            expected = "numbers to add" if op is Op.SUM else "numbers to compare"
            hint = "say `sum(1 for ... if ...)`" if value.sort is Sort.BOOL else ""
            _demand(value, NUMBERS if op is Op.SUM else NUMBERS | TIMES, 1, expected, hint)
        return value.sort, None, False

    return rule


def _demand_reachable(tree: Tree, element: Node, values: tuple[Node, ...]) -> None:
    """A sequence within a loop is one of its elements' own, so that no bytes are looped over twice."""
    array = tree.nodes[element.a]
    outer = frozenset[int]().union(*(value.loops for value in values)) - {element.b}
    type_ = required(array.type) if array.type is not None else None
    if outer - array.loops and isinstance(type_, Sequence):
        hint = "loop over parts of the outer element"
        raise refused(
            Refusal, "a loop within a loop over the outer element's parts", array.describe(), hint=hint
        )


_RULES: dict[Op, Callable[[Tree, int, int, int], Typed]] = {
    Op.FIELD: _field,
    Op.ELEMENT: _element,
    Op.INDEX: _index,
    Op.SLICE: _slice,
    Op.LENGTH: _length,
    Op.IS_NONE: _is_none,
    Op.CONSTANT: _constant,
    Op.PARAMETER: _parameter,
    Op.IN: _in,
    Op.POWER: _power,
    Op.CHOOSE: _choose,
    Op.PREVIOUS: _remembered,
    Op.LAST: _remembered,
    Op.REACHED: _remembered,
    Op.COUNT: _count,
    Op.MEAN: _averaged,
    Op.EWMA: _averaged,
    **{op: _reduction(op) for op in REDUCTIONS},
}

_OF_VALUES: dict[Op, Callable[[Op, list[Node]], Sort]] = {
    **dict.fromkeys((Op.ADD, Op.SUBTRACT), _arithmetic),
    **dict.fromkeys((Op.MULTIPLY, Op.FLOOR_DIVIDE, Op.MODULO), lambda op, operands: _joined(op, *operands)),
    Op.DIVIDE: _division,
    **dict.fromkeys((Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR), _bits),
    **dict.fromkeys((Op.SHIFT_LEFT, Op.SHIFT_RIGHT), _shift),
    **dict.fromkeys((Op.MIN, Op.MAX), _extreme),
    **dict.fromkeys((Op.NEGATE, Op.ABS), _number),
    Op.SQRT: _float,
    Op.DIGEST: _digest,
    **dict.fromkeys((Op.FLOOR, Op.CEIL), _rounded),
    **dict.fromkeys((Op.IS_NAN, Op.IS_INF, Op.IS_FINITE), _question),
    Op.TO_INT: _to_int,
    Op.TO_FLOAT: _to_float,
    Op.INVERT: _inverted,
    Op.NOT: _not,
    **dict.fromkeys((Op.AND, Op.OR), _logic),
    **dict.fromkeys((Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE), _comparison),
    **dict.fromkeys((Op.STARTS, Op.ENDS, Op.CONTAINS), _within),
}
