"""Where the fields of a tree lie in a sender's records, and the steps that read them there."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass

from echo_core._c import expressions
from echo_core.codegen.expressions.operations import NONE, Op
from echo_core.codegen.expressions.program import IS_SWAPPED, NO_STEP, Program, Step
from echo_core.codegen.expressions.tree import Node, Tree
from echo_core.codegen.expressions.typing_rules import element_of
from echo_core.errors import CompileError, IncompatibleError, unexpected
from echo_core.formats.abi import NATIVE
from echo_core.formats.comparing.matching import match
from echo_core.formats.format import Format
from echo_core.formats.types import (
    Blob,
    Default,
    Enumeration,
    Kind,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
    required,
)

_LOADS = {
    (Kind.BOOL, 1): "LOAD_BOOL",
    (Kind.INT, 1): "LOAD_I8",
    (Kind.INT, 2): "LOAD_I16",
    (Kind.INT, 4): "LOAD_I32",
    (Kind.INT, 8): "LOAD_I64",
    (Kind.UINT, 1): "LOAD_U8",
    (Kind.UINT, 2): "LOAD_U16",
    (Kind.UINT, 4): "LOAD_U32",
    (Kind.UINT, 8): "LOAD_I64",
    (Kind.FLOAT, 2): "LOAD_F16",
    (Kind.FLOAT, 4): "LOAD_F32",
    (Kind.FLOAT, 8): "LOAD_F64",
    (Kind.TIMESTAMP, 8): "LOAD_I64",
    (Kind.DURATION, 8): "LOAD_I64",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is in a sender's record, as it has it and as the view has it."""

    base: int  # a step that is a place, or NO_STEP for the record
    offset: int
    sender: Type | None  # None: the sender lacks it
    view: Type
    default: Default | None = None
    owner: Place | None = None  # the record that it is a field of


class Places(ABC):
    """The fields of one tree in the records of one sender, and the program that reads them."""

    def __init__(
        self, tree: Tree, sender: Format, program: Program, steps: dict[Step, int], first_parameter: int
    ) -> None:
        self.tree = tree
        self.sender = sender
        self.program = program
        self._steps = steps  # by what they are; those in loops are forgotten with the loop
        self._first_parameter = first_parameter
        self._swap = IS_SWAPPED if sender.byte_order != NATIVE.byte_order else 0
        self._places: dict[int, Place] = {}
        self._node = 0
        self._root = Place(NO_STEP, 0, sender.record, tree.record)

    def step(
        self, op: str, a: int = NO_STEP, b: int = NO_STEP, c: int = NO_STEP, imm: int = 0, aux: int = 0
    ) -> int:
        """The number of this step, a new one or an equal one."""
        step = Step(op, a, b, c, imm, aux)
        known = self._steps.get(step)
        if known is not None:
            return known
        if len(self.program.steps) >= expressions.MAX_STEPS:
            raise unexpected(CompileError, f"at most {expressions.MAX_STEPS} steps", "more")
        self.program.steps.append(step)
        self.program.origins.append(self._node)
        self._steps[step] = len(self.program.steps) - 1
        return self._steps[step]

    def constant(self, word: int) -> int:
        return self.step("CONST", imm=word)

    @abstractmethod
    def value(self, number: int) -> int:
        """The step that has a node's value."""

    def place(self, number: int) -> Place:
        """Where a node is."""
        if number == NONE:
            return self._root
        if number not in self._places:
            node = self.tree.nodes[number]
            if node.op is Op.FIELD:
                self._places[number] = self._field(self.place(node.a), node.b)
            elif node.op is Op.INDEX:
                self._places[number] = self._indexed(node, number)
            elif node.op is Op.SLICE:
                return self.place(node.a)
            else:
                raise AssertionError(node.op)  # an ELEMENT is entered by its reduction
        return self._places[number]

    def _field(self, outer: Place, index: int) -> Place:
        view, sender = required(outer.view), required(outer.sender) if outer.sender else None
        assert isinstance(view, Record)
        field = view.fields[index]
        if not isinstance(sender, Record):
            raise self._lacking(field.name)
        found = match(sender, view).get(field.name)
        if found is None:
            if field.default is None or field.default.local:
                raise self._lacking(field.name)
            return Place(NO_STEP, 0, None, field.type, field.default)
        return Place(outer.base, outer.offset + found.offset, found.type, field.type, owner=outer)

    def _lacking(self, name: str) -> IncompatibleError:
        expected = f"a sender of `{name}`, or a default that travels"
        return unexpected(IncompatibleError, expected, f"`{self.sender.name}` without", path=name)

    def _indexed(self, node: Node, number: int) -> Place:
        region, element, view = self.region(node.a)
        index = self.value(node.b)
        self._node = number
        at = self.step("INDEX", region, index, imm=element.size)
        return Place(at, 0, element, view)

    def region(self, number: int) -> tuple[int, Type, Type]:
        """The elements of an array: the step, and their type as the sender and as the view has it."""
        node = self.tree.nodes[number]
        if node.op is Op.SLICE:
            region, element, view = self.region(node.a)
            start, stop = (
                self._bound(bound, default) for bound, default in ((node.b, 0), (node.c, 2**31 - 1))
            )
            packed = struct.unpack("<q", struct.pack("<ii", stop, start))[0]
            return self.step("SLICE", region, imm=packed, aux=element.size), element, view
        place = self.place(number)
        view = required(place.view)
        assert isinstance(view, StaticArray | Sequence)
        type_ = required(place.sender) if place.sender is not None else None
        if isinstance(type_, StaticArray):
            step = self.step("ARRAY", place.base, imm=place.offset, aux=type_.shape[0])
        elif isinstance(type_, Sequence) and len(type_.shape) == 1:
            step = self._sequence(place, type_)
        else:
            expected = "an array of one dimension"
            raise unexpected(IncompatibleError, expected, str(type_), path=node.path)
        return step, element_of(type_), element_of(view)

    def _bound(self, number: int, default: int) -> int:
        if number == NONE:
            return default
        return int(self.tree.constants[self.tree.nodes[number].a].values[0])

    def _sequence(self, place: Place, type_: Sequence) -> int:
        slot = self._word(place.base, place.offset)
        (length,) = type_.shape
        if length is None:
            count = self._word(place.base, place.offset + type_.pointer_size)
        elif isinstance(length, int):
            count = self.constant(length)
        else:
            count = self._counting(place, length)
        if isinstance(length, int) and place.sender is not type_:  # None has no elements
            is_none = self.step("EQ_I", slot, self.constant(0))
            count = self.step("CHOOSE", is_none, self.constant(0), count)
        return self.step("REGION", NO_STEP, count, slot, imm=element_of(type_).size)

    def _counting(self, place: Place, name: str) -> int:
        assert place.owner is not None
        owner = required(place.owner.sender) if place.owner.sender else None
        assert isinstance(owner, Record)
        field = next(field for field in owner.fields if field.name == name)
        return self._load(field.type, place.owner.base, place.owner.offset + field.offset)

    def _word(self, base: int, offset: int) -> int:
        """A slot's offset or length."""
        op = "LOAD_I64" if self.sender.pointer_size == 8 else "LOAD_U32"
        return self.step(op, base, self._swap, imm=offset)

    def _load(self, type_: Type, base: int, offset: int) -> int:
        match required(type_):
            case Scalar(kind=Kind.CHARS, size=size):
                return self.step("CHARS", base, 0, imm=offset, aux=size)
            case Scalar(kind=Kind.BYTES | Kind.UUID, size=size):
                return self.step("FIXED", base, 0, imm=offset, aux=size)
            case Scalar(kind=kind, size=size) if (kind, size) in _LOADS:
                swap = self._swap if size > 1 else 0
                return self.step(_LOADS[kind, size], base, swap, imm=offset)
            case Enumeration(size=size):
                return self.step(_LOADS[Kind.INT, size], base, self._swap if size > 1 else 0, imm=offset)
            case Text():
                return self.step("TEXT", c=self._word(base, offset))
            case Blob(pointer_size=size):
                slot, count = self._word(base, offset), self._word(base, offset + size)
                return self.step("REGION", NO_STEP, count, slot, imm=1)
            case other:
                raise unexpected(CompileError, "a field with a value", str(other))

    def _text(self, data: bytes) -> int:
        at = self.program.pool.find(data) if data else 0
        if at < 0:
            at = len(self.program.pool)
            self.program.pool += data
        return self.step("TEXT_CONST", imm=at, aux=len(data))
