"""Shared by the emitted functions: finding lengths, slots and presence in a record, and moving bytes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce

from echo_core.codegen.emit.casts import load_number
from echo_core.codegen.emit.ir import Function, vector_type
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
    reaches_out,
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
    width = machine.vector_bytes
    for at, is_vector in function.in_steps(size, width, unit):
        type_ = vector_type(f"i{8 * unit}", width // unit if is_vector else 0)
        reverse(function, type_, source, target, at)


def reverse(function: Function, type_: str, source: str, target: str, at: str | int) -> None:
    """Copies a number, or a vector of numbers, with the bytes of each in the other order."""
    value = function.load(type_, function.at(source, at))
    function.store(type_, function.swap(type_, value), function.at(target, at))


def zero(function: Function, target: str, size: str) -> None:
    function.do(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")


class SourceReader:
    """The base of the emitters: finds lengths, slots and presence in a sender's record.

    `end` is where the next variable part may begin, in the record that is read or in the one that is written.
    """

    def __init__(self, function: Function, side: Side, module: Module, end: str = "") -> None:
        self.function = function
        self.end = end
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
        return reduce(self.function.multiply, lengths, "1")

    def union(self, words: list[str]) -> str:
        """A word that is 0 where all of them are."""
        return reduce(lambda a, b: self.function.value(f"or i64 {a}, {b}"), words)

    @contextmanager
    def each(self, body: Operations, count: str) -> Generator[str]:
        """A loop over elements, with the index; it carries `end` where its body reaches out."""
        carried = [self.end] if any(map(reaches_out, body)) else []
        with self.function.loop(count, carried) as loop:
            (self.end,) = loop.carried or (self.end,)
            yield loop.index
            loop.carried = [self.end] if carried else []
        (self.end,) = loop.carried or (self.end,)

    @contextmanager
    def where(self, condition: str) -> Generator[None]:
        """A branch, which carries `end`."""
        with self.function.when(condition, [self.end]) as branch:
            yield
            branch.carried = [self.end]
        (self.end,) = branch.carried

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
