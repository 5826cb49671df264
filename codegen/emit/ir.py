"""LLVM IR as text: functions, values, loops and branches, whatever they are for.

Values are in SSA form from the start, so that code is good without an optimiser's passes: what changes
round a loop or in a branch is carried, and comes out as a new name.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Loop:
    """A loop being written: its index, and what it carries; `carried` is replaced by the body."""

    index: str
    carried: list[str]


@dataclass
class Function:
    """One function, written from top to bottom. Branching to `fail` returns `failure`."""

    signature: str
    failure: str = ""
    lines: list[str] = field(default_factory=list[str])
    block: str = "entry"
    _names: int = 0
    _fails: bool = False

    def text(self) -> str:
        tail = ["fail:", f"  ret {self.failure}"] if self._fails else []
        return "\n".join([f"define {self.signature} {{", "entry:", *self.lines, *tail, "}"])

    def name(self, prefix: str = "v") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def value(self, expression: str) -> str:
        """A new value."""
        name = f"%{self.name()}"
        self.do(f"{name} = {expression}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    # -----------------------------------------------------------------------
    # Arithmetic on i64 and pointers, with constants folded

    def add(self, a: str, b: str | int) -> str:
        if str(b) == "0":
            return a
        if a == "0":
            return str(b)
        if a.isdigit() and str(b).isdigit():
            return str(int(a) + int(b))
        return self.value(f"add i64 {a}, {b}")

    def multiply(self, a: str, b: str | int) -> str:
        if "1" in (a, str(b)):
            return a if str(b) == "1" else str(b)
        if a.isdigit() and str(b).isdigit():
            return str(int(a) * int(b))
        return self.value(f"mul i64 {a}, {b}")

    def round_up(self, a: str, alignment: int) -> str:
        if alignment == 1:
            return a
        return self.value(f"and i64 {self.add(a, alignment - 1)}, {-alignment}")

    def at(self, pointer: str, offset: str | int) -> str:
        """The address so many bytes further on."""
        if str(offset) == "0":
            return pointer
        return self.value(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def load(self, type_: str, pointer: str) -> str:
        return self.value(f"load {type_}, ptr {pointer}, align 1")

    def store(self, type_: str, value: str, pointer: str) -> None:
        self.do(f"store {type_} {value}, ptr {pointer}, align 1")

    def stream(self, type_: str, value: str, pointer: str, alignment: int) -> None:
        """A store past the caches, in order with nothing before the next fence; the module needs STREAMED."""
        self.do(f"store {type_} {value}, ptr {pointer}, align {alignment}, !nontemporal !1")

    def swap(self, type_: str, value: str) -> str:
        """The number, or each number of a vector, with its bytes in the other order."""
        name = type_ if not type_.startswith("<") else "v" + type_.strip("<>").replace(" x ", "")
        return self.value(f"call {type_} @llvm.bswap.{name}({type_} {value})")

    # -----------------------------------------------------------------------
    # Control

    def fail_unless(self, condition: str) -> None:
        """Continues if the condition holds, else branches to `fail`."""
        self._fails = True
        onward = self.name("on")
        self.do(f"br i1 {condition}, label %{onward}, label %fail, !prof !0")
        self.label(onward)

    @contextmanager
    def loop(self, count: str, carried: list[str], step: int = 1) -> Generator[Loop]:
        """Runs its body for 0, step, 2 * step ... below `count`; carries i64 values."""
        before, head, body, end = self.block, self.name("head"), self.name("body"), self.name("end")
        self.do(f"br label %{head}")
        self.label(head)
        index = f"%{self.name()}"
        names = [f"%{self.name()}" for _ in carried]
        phis = len(self.lines)
        self.lines += [""] * (1 + len(names))
        going = self.value(f"icmp ult i64 {index}, {count}")
        self.do(f"br i1 {going}, label %{body}, label %{end}")
        self.label(body)
        loop = Loop(index, list(names))
        yield loop
        following = self.value(f"add i64 {index}, {step}")
        self.do(f"br label %{head}")
        latch = self.block
        starts = ["0", *carried]
        nexts = [following, *loop.carried]
        for i, (name, start, nextly) in enumerate(zip([index, *names], starts, nexts, strict=True)):
            self.lines[phis + i] = f"  {name} = phi i64 [ {start}, %{before} ], [ {nextly}, %{latch} ]"
        self.label(end)
        loop.index, loop.carried = index, names

    def in_steps(self, count: str, wide: int, narrow: int = 1) -> Iterator[tuple[str, bool]]:
        """Loops below `count`, by wide steps while there are enough (0: never), then by narrow ones.

        The body is that of a `for`, which is run once for each loop: the index, and whether the step is wide.
        """
        done = "0"
        if wide and not (count.isdigit() and int(count) < wide):
            done = self.value(f"and i64 {count}, {-wide}")
            with self.loop(done, [], step=wide) as loop:
                yield loop.index, True
        rest = self.value(f"sub i64 {count}, {done}")
        with self.loop(rest, [], step=narrow) as loop:
            yield self.add(done, loop.index), False

    @contextmanager
    def when(self, condition: str, carried: list[str]) -> Generator[Loop]:
        """Runs its body where the condition holds; carries i64 values."""
        before, then, end = self.block, self.name("then"), self.name("end")
        self.do(f"br i1 {condition}, label %{then}, label %{end}")
        self.label(then)
        branch = Loop("", list(carried))
        yield branch
        self.do(f"br label %{end}")
        after = self.block
        self.label(end)
        branch.carried = [
            old if old == new else self.value(f"phi i64 [ {old}, %{before} ], [ {new}, %{after} ]")
            for old, new in zip(carried, branch.carried, strict=True)
        ]


LIKELY = '!0 = !{!"branch_weights", i32 10000, i32 1}'

STREAMED = "!1 = !{i32 1}"


def vector(elements: list[int | str], type_: str = "i8") -> str:
    """A vector constant."""
    return "<" + ", ".join(f"{type_} {element}" for element in elements) + ">"


def vector_type(type_: str, lanes: int) -> str:
    """The type of a vector; without lanes, of a number."""
    return f"<{lanes} x {type_}>" if lanes else type_


def pieces(size: int, widest: int = 8) -> Iterator[tuple[int, int]]:
    """Where the widest powers of two that cover so many bytes begin, and their widths."""
    at = 0
    while at < size:
        width = min(widest, 1 << (size - at).bit_length() - 1)
        yield at, width
        at += width


def splat(element: int | str, type_: str, lanes: int) -> str:
    """A constant repeated in every lane; a plain constant without lanes."""
    return vector([element] * lanes, type_) if lanes else str(element)


def float_constant(number: float) -> str:
    """A constant of any float type that has the number exactly."""
    return f"0x{float_bits(number, 8):016X}"


def float_bits(number: float, size: int) -> int:
    """The bits of a float of 4 or 8 bytes."""
    return int.from_bytes(struct.pack({4: ">f", 8: ">d"}[size], number), "big")


def mask(indices: list[int | None]) -> str:
    """The mask of a shuffle; None where it does not matter."""
    parts = ("i32 poison" if i is None else f"i32 {i}" for i in indices)
    return f"<{len(indices)} x i32> <{', '.join(parts)}>"
