"""Trees: what an expression is, as a flat list of typed nodes whose operands all come before them.

`Tree.add` is the only way into a tree. It types a node, bounds it, and finds an equal one that is there
already; so text, a function and bytes from a peer obey the same rules, which stand in `typing_rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from echo_core.codegen.expressions import limits
from echo_core.codegen.expressions.operations import COSTS, NONE, OPERANDS, REDUCTIONS, STATES, Op
from echo_core.codegen.expressions.sorts import Sort, Value, pack_value
from echo_core.formats.types import Record, StaticArray, Type, required


class Refusal(Exception):  # noqa: N818 - caught by whoever knows where the node came from
    """A node that no tree can have: what was expected and what came, of which operand, and the way out."""

    def __init__(self, expected: str, got: str, *, operand: int | None = None, hint: str = "") -> None:
        super().__init__(f"Expected {expected}, got {got}")
        self.operand = operand  # which of the operands is wrong; None: the whole
        self.hint = hint


class LimitRefusal(Refusal):
    """A tree beyond a limit."""


def refused(
    kind: type[Refusal], expected: str, got: str, *, operand: int | None = None, hint: str = ""
) -> Refusal:
    """The refusal to raise where `got` came in place of `expected`."""
    return kind(expected, got, operand=operand, hint=hint)


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. `a`, `b`, `c` are numbers of earlier nodes, or what `OPERANDS` says."""

    op: Op
    sort: Sort
    a: int = NONE
    b: int = NONE
    c: int = NONE
    type: Type | None = None  # of a place, and of a value that is a member of an enumeration
    is_optional: bool = False  # it may be None
    loops: frozenset[int] = frozenset()  # whose elements it depends on
    depth: int = 1
    path: str = field(default="", compare=False)  # of a place, as messages name it

    @property
    def is_place(self) -> bool:
        """Whether it is something in the record."""
        return self.op in (Op.FIELD, Op.ELEMENT, Op.INDEX, Op.SLICE)

    def describe(self) -> str:
        """Its type, for messages."""
        name = str(self.type) if self.type is not None else str(self.sort)
        if self.is_optional and not name.endswith(" | None"):
            name += " | None"
        return f"`{name}` ({self.path})" if self.path else f"`{name}`"


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in the pool; a set has several."""

    sort: Sort
    values: tuple[Value, ...]
    is_set: bool = False

    @property
    def size(self) -> int:
        return sum(len(pack_value(self.sort, value)) for value in self.values)


@dataclass(slots=True)
class Tree:
    """Nodes over the fields of one record. `parameters` are their sorts; values are kept apart."""

    record: Record
    nodes: list[Node] = field(default_factory=list[Node])
    constants: list[Constant] = field(default_factory=list[Constant])
    parameters: list[Sort] = field(default_factory=list[Sort])
    loops: int = 0
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])

    def add(self, op: Op, a: int = NONE, b: int = NONE, c: int = NONE) -> int:
        """The number of this node, a new one or an equal one; Refusal for one that cannot be."""
        key = (op, a, b, c)
        known = self._numbers.get(key)
        if known is not None:
            return known
        self._check_operands(op, (a, b, c))
        # Imported here because the rules need Node and Tree.
        from echo_core.codegen.expressions.typing_rules import typed

        sort, type_, is_optional = typed(self, op, a, b, c)
        inside = [self.nodes[number] for number in self.operands(op, a, b, c)]
        loops, path = self._loops(op, a, b, inside), self._path(op, a, b)
        node = Node(op, sort, a, b, c, type_, is_optional, loops, _depth(op, inside), path)
        self._check_limits(node)
        self.nodes.append(node)
        self._numbers[key] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def _check_operands(self, op: Op, operands: tuple[int, int, int]) -> None:
        for i, (kind, operand) in enumerate(zip(OPERANDS[op], operands, strict=True)):
            is_absent = operand == NONE
            if is_absent != (kind == "-") and not (is_absent and kind == "o"):
                raise refused(
                    Refusal, f"operand {i} of {op.name}", "none" if is_absent else str(operand), operand=i
                )
            if kind in "no" and not is_absent and not 0 <= operand < len(self.nodes):
                raise refused(
                    Refusal, f"an earlier node as operand {i} of {op.name}", str(operand), operand=i
                )

    def _loops(self, op: Op, a: int, b: int, inside: list[Node]) -> frozenset[int]:
        loops = frozenset[int]().union(*(node.loops for node in inside))
        if op is Op.ELEMENT:
            return loops | {b}
        return loops - {self.nodes[a].b} if op in REDUCTIONS else loops

    def _path(self, op: Op, a: int, b: int) -> str:
        if op is Op.FIELD:
            outer = self.nodes[a].path if a != NONE else self.record.name
            record = self.record if a == NONE else required(self.nodes[a].type or self.record)
            return f"{outer}.{record.fields[b].name}" if isinstance(record, Record) else ""
        return f"{self.nodes[a].path}[...]" if op in (Op.ELEMENT, Op.INDEX) else ""

    def _check_limits(self, node: Node) -> None:
        if len(self.nodes) >= limits.MAX_NODES:
            raise refused(LimitRefusal, f"at most {limits.MAX_NODES} operations", "more")
        if node.depth > limits.MAX_DEPTH:
            raise refused(LimitRefusal, f"at most {limits.MAX_DEPTH} levels of nesting", "more")
        if len(node.loops) > limits.MAX_LOOPS:
            raise refused(LimitRefusal, f"at most {limits.MAX_LOOPS} reductions inside one another", "more")
        if node.loops and node.op in STATES:
            raise refused(Refusal, "what is remembered of an event as a whole", "a value inside a reduction")

    @staticmethod
    def operands(op: Op, a: int, b: int, c: int) -> Iterator[int]:
        """The nodes among operands."""
        for kind, operand in zip(OPERANDS[op], (a, b, c), strict=True):
            if kind in "no" and operand != NONE:
                yield operand

    def inside(self, number: int) -> Iterator[int]:
        """The operands of a node that are nodes."""
        node = self.nodes[number]
        return self.operands(node.op, node.a, node.b, node.c)

    # -----------------------------------------------------------------------
    # What stands beside the nodes

    def constant(self, constant: Constant) -> int:
        """The number of a constant in the pool."""
        if constant in self.constants and _is_same(self.constants[self.constants.index(constant)], constant):
            return self.constants.index(constant)
        if len(constant.values) > limits.MAX_SET_MEMBERS:
            expected = f"at most {limits.MAX_SET_MEMBERS} values in one set"
            raise refused(LimitRefusal, expected, str(len(constant.values)))
        self.constants.append(constant)
        if sum(each.size for each in self.constants) > limits.MAX_CONSTANT_BYTES:
            raise refused(LimitRefusal, f"at most {limits.MAX_CONSTANT_BYTES} bytes of constants", "more")
        return len(self.constants) - 1

    def parameter(self, sort: Sort) -> int:
        """The number of a new parameter."""
        if len(self.parameters) >= limits.MAX_PARAMETERS:
            raise refused(
                LimitRefusal, f"at most {limits.MAX_PARAMETERS} parameters and compared literals", "more"
            )
        self.parameters.append(sort)
        return len(self.parameters) - 1

    def loop(self) -> int:
        """The number of a new loop."""
        self.loops += 1
        return self.loops - 1

    # -----------------------------------------------------------------------
    # Bounds of the whole

    def check_cost(self) -> None:
        """Refuses a tree that does too much for one event, or remembers too much."""
        if self.cost() > limits.MAX_COST:
            raise refused(
                LimitRefusal, f"at most {limits.MAX_COST} units of work for an event", str(self.cost())
            )
        states = sum(node.op in STATES for node in self.nodes)
        if states > limits.MAX_STATES:
            raise refused(LimitRefusal, f"at most {limits.MAX_STATES} remembered values", str(states))

    def cost(self) -> int:
        """Units of work for an event: each operation, as often as arrays of fixed length repeat it.

        What sequences repeat is not in it: that is bounded by the bytes of the record, as a loop over a
        sequence within another one goes through parts of its elements (`typing_rules.py`).
        """
        lengths: dict[int, int] = {}
        for node in self.nodes:
            if node.op is Op.ELEMENT:
                array = self.nodes[node.a].type
                type_ = required(array) if array is not None else None
                lengths[node.b] = type_.shape[0] if isinstance(type_, StaticArray) else 1
        return sum(
            (1 + COSTS.get(node.op, 0) + self._set_cost(node)) * prod(lengths[loop] for loop in node.loops)
            for node in self.nodes
        )

    def _set_cost(self, node: Node) -> int:
        return len(self.constants[node.b].values) if node.op is Op.IN else 0


def _is_same(known: Constant, new: Constant) -> bool:
    """Equal values may differ: 0.0 and -0.0, 1 and True."""
    return [pack_value(known.sort, value) for value in known.values] == [
        pack_value(new.sort, value) for value in new.values
    ]


def _depth(op: Op, inside: list[Node]) -> int:
    """Fields of fields are no nesting of work."""
    deepest = max((node.depth for node in inside), default=0)
    return deepest if op is Op.FIELD and inside else deepest + 1
