"""Shared by the emitted functions: finding lengths, slots and presence in a record, and moving bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from echo_core.codegen.emit.casts import load_number
from echo_core.codegen.emit.ir import Function
from echo_core.codegen.plans.plan import (
    Count,
    Flag,
    Inline,
    Known,
    Length,
    Offset,
    Operation,
    Plan,
    Side,
    Slot,
    Text,
    Word,
)
from echo_core.formats.abi import ByteOrder
from echo_core.formats.types import Kind, Scalar

Operations = tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """The target of the code: its byte order, and the width of its shuffles (0: none)."""

    byte_order: ByteOrder
    vector_bytes: int

    def swaps(self, side: Side) -> bool:
        """Whether numbers of that side have the other byte order."""
        return side.byte_order != self.byte_order


@dataclass(frozen=True, slots=True)
class Many:
    """A function that converts elements of fixed size one after another."""

    name: str
    operations: Operations
    plan: Plan
    source_stride: int
    target_stride: int


@dataclass(slots=True)
class Module:
    """What the functions of a module share: the machine, and the further functions that they call."""

    machine: Machine
    called: list[Many] = field(default_factory=list[Many])

    def many(self, operations: Operations, plan: Plan, source_stride: int, target_stride: int) -> str:
        """The name of a function for these elements, which is made after the one that calls it."""
        name = f"@many{len(self.called)}"
        self.called.append(Many(name, operations, plan, source_stride, target_stride))
        return name


def move_bytes(function: Function, source: str, target: str, size: str, unit: int, machine: Machine) -> None:
    """Copies bytes with each group of `unit` reversed: whole vectors first, then unit by unit."""
    if unit == 1:
        function.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
        return
    done = "0"
    width = machine.vector_bytes
    if width and not (size.isdigit() and int(size) < width):
        whole = function.value(f"and i64 {size}, {-width}")
        with function.loop(whole, [], step=width) as loop:
            _reverse_vector(
                function, function.at(source, loop.index), function.at(target, loop.index), unit, width
            )
        done = whole
    type_ = f"i{8 * unit}"
    rest = function.value(f"sub i64 {size}, {done}")
    with function.loop(rest, [], step=unit) as loop:
        at = function.add(done, loop.index)
        value = function.load(type_, function.at(source, at))
        swapped = function.value(f"call {type_} @llvm.bswap.{type_}({type_} {value})")
        function.store(type_, swapped, function.at(target, at))


def _reverse_vector(function: Function, source: str, target: str, unit: int, width: int) -> None:
    count = width // unit
    type_ = f"<{count} x i{8 * unit}>"
    value = function.load(type_, source)
    name = f"@llvm.bswap.v{count}i{8 * unit}"
    swapped = function.value(f"call {type_} {name}({type_} {value})")
    function.store(type_, swapped, target)


def zero(function: Function, target: str, size: str) -> None:
    function.do(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")


class SourceReader:
    """The base of the emitters: finds lengths, slots and presence in a sender's record."""

    def __init__(self, function: Function, side: Side, module: Module) -> None:
        self.function = function
        self._side = side
        self._module = module

    def number(self, scalar: Scalar, pointer: str) -> str:
        return load_number(self.function, scalar, pointer, is_swapped=self._module.machine.swaps(self._side))

    def word(self, pointer: str) -> str:
        scalar = Scalar(Kind.UINT, self._side.pointer_size)
        return self._as_i64(scalar, self.number(scalar, pointer))

    def _as_i64(self, scalar: Scalar, value: str) -> str:
        if scalar.size == 8:
            return value
        extend = "sext" if scalar.kind is Kind.INT else "zext"
        return self.function.value(f"{extend} i{8 * scalar.size} {value} to i64")

    def length(self, length: Length, base: str) -> str:
        match length:
            case Known():
                return str(length.count)
            case Word():
                return self.word(self.function.at(base, length.offset))
            case Count():
                pointer = self.function.at(base, length.offset)
                return self._as_i64(length.scalar, self.number(length.scalar, pointer))

    def lengths(self, place: Inline | Slot, base: str) -> list[str]:
        return [self.length(length, base) for length in place.lengths]

    def product(self, lengths: list[str]) -> str:
        count = "1"
        for length in lengths:
            count = length if count == "1" else self.function.multiply(count, length)
        return count

    def is_present(self, source: Flag | Offset, base: str) -> str:
        if isinstance(source, Flag):
            flag = self.function.load("i8", self.function.at(base, source.offset))
            return self.function.value(f"icmp ne i8 {flag}, 0")
        word = self.word(self.function.at(base, source.offset))
        return self.function.value(f"icmp ne i64 {word}, 0")

    def text_size(self, start: str, text: Text) -> str:
        """How many bytes a text has before its NUL, or before the end of its place."""
        function = self.function
        if text.source_size is None:
            return function.value(f"call i64 @strlen(ptr {start})")
        limit = str(text.source_size)
        found = function.value(f"call ptr @memchr(ptr {start}, i32 0, i64 {limit})")
        size = self.distance(start, found)
        is_none = function.value(f"icmp eq ptr {found}, null")
        return function.value(f"select i1 {is_none}, i64 {limit}, i64 {size}")

    def distance(self, start: str, end: str) -> str:
        first = self.function.value(f"ptrtoint ptr {start} to i64")
        last = self.function.value(f"ptrtoint ptr {end} to i64")
        return self.function.value(f"sub i64 {last}, {first}")
