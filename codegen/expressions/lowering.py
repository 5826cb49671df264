"""A tree and a sender's format to a program: where its fields lie, how its numbers are, what it lacks.

Fields are found as conversions find them: by name, by former names, with defaults where the sender has none,
and in any type that widens to the view's. What a sender cannot give is an IncompatibleError for that sender
alone. Equal steps are made once, also those of several trees, so that what they share is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from echo_core.codegen.expressions.operations import NONE, REDUCTIONS, STATES, Op
from echo_core.codegen.expressions.places import Place, Places
from echo_core.codegen.expressions.program import (
    ALWAYS_AVERAGE,
    ALWAYS_COUNT,
    ALWAYS_TOTAL,
    ALWAYS_VALUE,
    NO_STEP,
    PASSED_VALUE,
    SELECTED_VALUE,
    Program,
    Slot,
    Step,
    Update,
    number_of,
    word_of,
)
from echo_core.codegen.expressions.sorts import STRINGS, Sort, sort_of
from echo_core.codegen.expressions.tree import Node, Tree
from echo_core.errors import IncompatibleError, unexpected
from echo_core.formats.comparing.compare import Report, compare, compare_part
from echo_core.formats.comparing.matching import is_called_alike
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout
from echo_core.formats.leaves import Leaf, unpack_default
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Nullable,
    Record,
    Scalar,
    Text,
    Type,
    required,
)

_KIND = {Sort.INT: "I", Sort.UINT: "U", Sort.FLOAT: "F"}
_ARITHMETIC = {
    Op.ADD: "ADD",
    Op.SUBTRACT: "SUB",
    Op.MULTIPLY: "MUL",
    Op.DIVIDE: "DIV",
    Op.FLOOR_DIVIDE: "FLOORDIV",
    Op.MODULO: "MOD",
    Op.SHIFT_LEFT: "SHL",
    Op.SHIFT_RIGHT: "SHR",
}
_BITS = {Op.BIT_AND: "AND_I", Op.BIT_OR: "OR_I", Op.BIT_XOR: "XOR_I", Op.INVERT: "NOT_I"}
_UNARY = {
    Op.SQRT: "SQRT_F",
    Op.FLOOR: "FLOOR_F",
    Op.CEIL: "CEIL_F",
    Op.IS_NAN: "IS_NAN",
    Op.IS_INF: "IS_INF",
    Op.IS_FINITE: "IS_FINITE",
    Op.NOT: "NOT",
    Op.DIGEST: "DIGEST",
}
_WITHIN = {Op.STARTS: "STARTS", Op.ENDS: "ENDS", Op.CONTAINS: "CONTAINS"}
_LOGIC = {Op.AND: "AND", Op.OR: "OR"}
_REDUCTIONS = {Op.SUM: "SUM", Op.LEAST: "MIN", Op.GREATEST: "MAX", Op.ANY: "ANY", Op.ALL: "ALL"}
_FOLLOWING = {
    Op.PREVIOUS: ALWAYS_VALUE,
    Op.LAST: PASSED_VALUE,
    Op.REACHED: SELECTED_VALUE,
    Op.COUNT: ALWAYS_COUNT,
    Op.MEAN: ALWAYS_TOTAL,
    Op.EWMA: ALWAYS_AVERAGE,
}


def lower(trees: Sequence[tuple[Tree, Sequence[int]]], sender: Format) -> Program:
    """The program of the roots of all trees, in their order, on a sender's records."""
    program = Program(sender.size_bytes)
    steps: dict[Step, int] = {}
    first_parameter = 0
    for tree, roots in trees:
        view = Format(Layout(sender.byte_order, sender.pointer_size, tree.record))
        if tree.record.fields:
            compared(sender, view, tree.record).raise_if_refused()
        lowering = Lowering(tree, sender, program, steps, first_parameter)
        lowering.lower(roots)
        first_parameter += len(tree.parameters)
    return program


def compared(sender: Format, receiver: Format, view: Record) -> Report:
    """Of what is read or selected of a type's fields, `view`, with a sender's.

    One that is called so may lack all of them, if they have defaults; others need to have one in common.
    """
    knows_names = sender.record.is_named and view.is_named
    is_version = knows_names and is_called_alike(sender.record, view)
    return compare_part(sender, receiver) if is_version else compare(sender, receiver)


class Lowering(Places):
    """One tree onto one sender."""

    def __init__(
        self, tree: Tree, sender: Format, program: Program, steps: dict[Step, int], first_parameter: int
    ) -> None:
        super().__init__(tree, sender, program, steps, first_parameter)
        self._values: dict[int, int] = {}
        self._open: frozenset[int] = frozenset()  # the loops around what is lowered now
        self._states: dict[int, int] = {}

    def lower(self, roots: Iterable[int]) -> None:
        for root in roots:
            self.program.roots.append((self.value(root), self.tree.nodes[root].sort))
        for number in list(self._states):
            self._follow(number)

    # -----------------------------------------------------------------------
    # Values

    def value(self, number: int) -> int:
        """The step that has a node's value."""
        if number not in self._values:
            node = self.tree.nodes[number]
            made = self._reduced(number) if node.op in REDUCTIONS else None
            before, self._node = self._node, number
            self._values[number] = self._value(node, number) if made is None else made
            self._node = before
        return self._values[number]

    def _value(self, node: Node, number: int) -> int:
        if node.is_place:
            return self._leaf(self.place(number), number)
        if node.op in STATES:
            return self._state(number, node)
        if node.op in _MAKERS:
            return _MAKERS[node.op](self, node)
        return self._computed(node)

    def _leaf(self, place: Place, number: int) -> int:
        wanted = self.tree.nodes[number].sort
        if place.sender is None:
            return self._default(place, wanted)
        type_ = required(place.sender)
        sort = sort_of(type_)
        step = self._load(type_, place.base, place.offset)
        return self.cast(step, sort or wanted, wanted)

    def _default(self, place: Place, wanted: Sort) -> int:
        """The value that the sender lacks. None is read by nobody who has asked whether it is."""
        leaf, default = required(place.view), place.default
        assert default is not None
        if default.data is None:
            return self._text(b"") if wanted in STRINGS else self.constant(0)
        if wanted in STRINGS:
            return self._text(default.data)
        if not isinstance(leaf, Scalar | Enumeration):
            raise self._lacking(str(leaf))
        plain = unpack_default(_leaf_type(leaf), default.data, "")
        return self.constant(int(plain) if wanted is Sort.ENUM else word_of(wanted, plain))

    def cast(self, step: int, sort: Sort, wanted: Sort) -> int:
        """The same number as another sort has it, which holds all of the first's."""
        if wanted is Sort.FLOAT and sort in (Sort.INT, Sort.UINT):
            return self.step("I_TO_F" if sort is Sort.INT else "U_TO_F", step)
        return step

    def enumeration(self, number: int) -> Enumeration:
        """The numbers of members, as the sender of a value has them."""
        node = self.tree.nodes[number]
        if node.is_place:
            place = self.place(number)
            type_ = required(place.sender if place.sender is not None else place.view)
        elif node.op is Op.CHOOSE:
            return self.enumeration(node.b)
        else:
            return self.enumeration(node.b if node.op is Op.PARAMETER else node.a)
        assert isinstance(type_, Enumeration)
        return type_

    def make_parameter(self, node: Node) -> int:
        enumeration = self.enumeration(node.b) if node.b != NONE else None
        slot = Slot(self._first_parameter + node.a, node.sort, enumeration)
        if slot not in self.program.slots:
            self.program.slots.append(slot)
        op = "TEXT_PARAM" if node.sort in STRINGS else "PARAM"
        return self.step(op, imm=self.program.slots.index(slot))

    def make_constant(self, node: Node) -> int:
        constant = self.tree.constants[node.a]
        (value,) = constant.values
        if constant.sort in STRINGS:
            return self._text(value.encode() if isinstance(value, str) else bytes(value))  # type: ignore[arg-type]
        return self.constant(word_of(constant.sort, value))

    def make_is_none(self, node: Node) -> int:
        inner = self.tree.nodes[node.a]
        if not inner.is_place:  # a state
            return self.step("EQ_I", self._counted(node.a), self.constant(0))
        place = self.place(node.a)
        if place.sender is None:
            return self.constant(place.default is not None and place.default.data is None)
        if not isinstance(place.sender, Nullable):
            return self.constant(0)
        if place.sender.by_reference:
            return self.step("EQ_I", self._word(place.base, place.offset), self.constant(0))
        flag = self.step("LOAD_BOOL", place.base, 0, imm=place.offset + place.sender.element.size)
        return self.step("NOT", flag)

    def make_length(self, node: Node) -> int:
        inner = self.tree.nodes[node.a]
        if inner.sort is Sort.ARRAY:
            return self.step("LENGTH", self.region(node.a)[0])
        return self.step("CHARACTERS" if inner.sort is Sort.TEXT else "LENGTH", self.value(node.a))

    def make_in(self, node: Node) -> int:
        """Whether it equals one of them: a chain of comparisons, which fails only where the value does."""
        step, sort = self.value(node.a), self.tree.nodes[node.a].sort
        members = self.tree.constants[node.b].values
        found = NO_STEP
        for member in members:
            if sort in STRINGS:
                other = self._text(member.encode() if isinstance(member, str) else bytes(member))  # type: ignore[arg-type]
            elif sort is Sort.ENUM:
                other = self.constant(number_of(str(member), self.enumeration(node.a)))
            else:
                other = self.constant(word_of(sort, member))
            equal = self.step(_compared("EQ", sort, sort), step, other)
            found = equal if found == NO_STEP else self.step("OR", found, equal)
        # Nothing is in an empty set, but the value may fail all the same: nothing is less than itself either.
        return found if found != NO_STEP else self.step(_compared("LT", sort, sort), step, step)

    def make_compare(self, node: Node) -> int:
        a, b = self.value(node.a), self.value(node.b)
        sorts = self.tree.nodes[node.a].sort, self.tree.nodes[node.b].sort
        if sorts[0] is Sort.ENUM and self.enumeration(node.a) != self.enumeration(node.b):
            expected = "one enumeration of the sender's for both"
            raise unexpected(IncompatibleError, expected, "two", path=self.tree.nodes[node.a].path)
        op = node.op
        if op in (Op.GT, Op.GE):
            a, b, sorts = b, a, (sorts[1], sorts[0])
        relation = {Op.EQ: "EQ", Op.NE: "EQ", Op.LT: "LT", Op.GT: "LT", Op.LE: "LE", Op.GE: "LE"}[op]
        if relation == "EQ" and (sorts[0] in (Sort.FLOAT, Sort.UINT) and sorts[1] in (Sort.INT, Sort.UINT)):
            a, b, sorts = b, a, (sorts[1], sorts[0])
        compared = self.step(_compared(relation, *sorts), a, b)
        return self.step("NOT", compared) if op is Op.NE else compared

    def make_within(self, node: Node) -> int:
        return self.step(_WITHIN[node.op], self.value(node.a), self.value(node.b))

    def make_logic(self, node: Node) -> int:
        return self.step(_LOGIC[node.op], self.value(node.a), self.value(node.b))

    def make_choose(self, node: Node) -> int:
        return self.step("CHOOSE", self.value(node.a), self.value(node.b), self.value(node.c))

    def make_extreme(self, node: Node) -> int:
        """Python's: the first, unless the second is really better."""
        a, b = self.value(node.a), self.value(node.b)
        compared = _compared("LT", node.sort, node.sort)
        is_better = self.step(compared, *((b, a) if node.op is Op.MIN else (a, b)))
        return self.step("CHOOSE", is_better, b, a)

    def make_power(self, node: Node) -> int:
        return self.step(f"POW_{_KIND[node.sort]}", self.value(node.a), imm=node.b)

    def make_absolute(self, node: Node) -> int:
        if node.sort is Sort.UINT:
            return self.value(node.a)
        name = "ABS" if node.op is Op.ABS else "NEG"
        return self.step(f"{name}_{_KIND[node.sort]}", self.value(node.a))

    def make_to_int(self, node: Node) -> int:
        sort, step = self.tree.nodes[node.a].sort, self.value(node.a)
        op = {Sort.FLOAT: "F_TO_I", Sort.UINT: "U_TO_I"}.get(sort)
        return self.step(op, step) if op else step

    def make_to_float(self, node: Node) -> int:
        return self.cast(self.value(node.a), self.tree.nodes[node.a].sort, Sort.FLOAT)

    def _computed(self, node: Node) -> int:
        operands = [self.value(number) for number in (node.a, node.b) if number != NONE]
        if node.op in _BITS:
            return self.step(_BITS[node.op], *operands)
        if node.op in _UNARY:
            return self.step(_UNARY[node.op], *operands)
        if node.sort is Sort.FLOAT:
            sorts = self.tree.nodes[node.a].sort, self.tree.nodes[node.b].sort
            operands = [self.cast(*it, Sort.FLOAT) for it in zip(operands, sorts, strict=True)]
        return self.step(f"{_ARITHMETIC[node.op]}_{_KIND.get(node.sort, 'I')}", *operands)

    # -----------------------------------------------------------------------
    # Reductions

    def _reduced(self, number: int) -> int:
        """What does not depend on the element comes before the loop, the rest within it."""
        node = self.tree.nodes[number]
        element = self.tree.nodes[node.a]
        inside = [node.b, *([node.c] if node.c != NONE else [])]
        for each in inside:
            self._hoist(each, element.b)
        self._node = number
        region, type_, view = self.region(element.a)
        at = len(self.program.steps)
        known = dict(self._steps)
        loop = self.step("FOR", region, at, imm=type_.size)  # no other can be equal: its end is patched below
        values = dict(self._values), dict(self._places)
        self._places[node.a] = Place(loop, 0, type_, view)
        before, self._open = self._open, self._open | {element.b}
        condition = self.value(node.c) if node.c != NONE else NO_STEP
        value = self.value(node.b)
        self._open = before
        self._node = number
        suffix = f"_{_KIND.get(node.sort, 'I')}" if node.op not in (Op.ANY, Op.ALL) else ""
        reduced = self.step(_REDUCTIONS[node.op] + suffix, loop, value, condition)
        self.program.steps[loop] = self.program.steps[loop]._replace(b=reduced)
        self._values, self._places = values  # those within are computed there alone
        made = self.program.steps[reduced]
        self._steps.clear()
        self._steps.update(known)
        self._steps[made] = reduced
        return reduced

    def _hoist(self, number: int, loop: int) -> None:
        node = self.tree.nodes[number]
        if loop not in node.loops and node.loops <= self._open:
            if node.is_place and node.sort in (Sort.RECORD, Sort.ARRAY):
                if node.sort is Sort.ARRAY:
                    self.region(number)
                else:
                    self.place(number)
            else:
                self.value(number)
            return
        for operand in self.tree.inside(number):
            self._hoist(operand, loop)

    # -----------------------------------------------------------------------
    # State

    def _state_of(self, number: int) -> int:
        if number not in self._states:
            self._states[number] = self.program.states
            self.program.states += 1
        return self._states[number]

    def _counted(self, number: int) -> int:
        return self.step("STATE_COUNT", imm=self._state_of(number))

    def _state(self, number: int, node: Node) -> int:
        if node.op is Op.COUNT:
            return self._counted(number)
        value = self.step("STATE", imm=self._state_of(number))
        if node.op is not Op.MEAN:
            return value
        return self.step("DIV_F", value, self.step("I_TO_F", self._counted(number)))

    def _follow(self, number: int) -> None:
        node = self.tree.nodes[number]
        following, weight = _FOLLOWING[node.op], 0.0
        step = self.constant(0) if node.op is Op.COUNT else self.value(node.a)
        if following in (ALWAYS_TOTAL, ALWAYS_AVERAGE):
            step = self.cast(step, self.tree.nodes[node.a].sort, Sort.FLOAT)
        if node.op is Op.EWMA:
            weight = float(self.tree.constants[self.tree.nodes[node.b].a].values[0])
        self.program.updates.append(Update(self._states[number], step, following, weight))


def _leaf_type(type_: Type) -> Leaf:
    assert isinstance(type_, Scalar | Enumeration | Text | Blob)
    return type_


def _compared(relation: str, a: Sort, b: Sort) -> str:
    """The comparison of two sorts."""
    if a in STRINGS:
        return f"{relation}_T"
    kinds = _KIND.get(a, "I"), _KIND.get(b, "I")
    if kinds[0] != kinds[1]:
        return f"{relation}_{kinds[0]}{kinds[1]}"
    return f"{relation}_{'I' if relation == 'EQ' and kinds[0] == 'U' else kinds[0]}"


_MAKERS = {
    Op.CONSTANT: Lowering.make_constant,
    Op.PARAMETER: Lowering.make_parameter,
    Op.IS_NONE: Lowering.make_is_none,
    Op.LENGTH: Lowering.make_length,
    Op.IN: Lowering.make_in,
    **dict.fromkeys((Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE), Lowering.make_compare),
    **dict.fromkeys(_WITHIN, Lowering.make_within),
    **dict.fromkeys(_LOGIC, Lowering.make_logic),
    Op.CHOOSE: Lowering.make_choose,
    Op.MIN: Lowering.make_extreme,
    Op.MAX: Lowering.make_extreme,
    Op.POWER: Lowering.make_power,
    Op.ABS: Lowering.make_absolute,
    Op.NEGATE: Lowering.make_absolute,
    Op.TO_INT: Lowering.make_to_int,
    Op.TO_FLOAT: Lowering.make_to_float,
}
