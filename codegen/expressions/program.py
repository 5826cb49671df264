"""Programs: the steps that a tree becomes for records of one layout, as native/expressions/steps.h has it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from echo_core._c import expressions
from echo_core.codegen.expressions.sorts import NUMBERS, Sort, Value, pack_value
from echo_core.errors import CompileError, unexpected
from echo_core.formats.types import Enumeration

CODES = expressions.OPERATIONS
NAMES = {code: name for name, code in CODES.items()}
NO_STEP = 0xFFFF
IS_SWAPPED = 0x100

_STEP = struct.Struct("=HHHHqq")
_UPDATE = struct.Struct("=HHHHd")
_PARAMETER = struct.Struct("=qQ")

# How a state follows events; the numbers are those of `enum following`.
ALWAYS_VALUE, ALWAYS_TOTAL, ALWAYS_AVERAGE, ALWAYS_COUNT, PASSED_VALUE, SELECTED_VALUE = range(6)


class Step(NamedTuple):
    """One step; operands are numbers of earlier ones."""

    op: str
    a: int = NO_STEP
    b: int = NO_STEP
    c: int = NO_STEP
    imm: int = 0
    aux: int = 0

    def operands(self) -> list[int]:
        """The steps that it reads, but for what loops add to that."""
        flags = self.op.startswith("LOAD") or self.op in ("CHARS", "FIXED", "ARRAY")
        read = (self.a,) if flags or self.op == "FOR" else (self.a, self.b, self.c)
        return [operand for operand in read if operand != NO_STEP]


class Update(NamedTuple):
    """A state and the step that it follows."""

    state: int
    step: int
    following: int
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Slot:
    """What a program reads a parameter from: its number, and for a member's name the enumeration."""

    number: int
    sort: Sort
    enumeration: Enumeration | None = None


@dataclass(slots=True)
class Program:
    """Steps, with what they refer to."""

    record_size: int  # of the fixed part
    steps: list[Step] = field(default_factory=list[Step])
    origins: list[int] = field(default_factory=list[int])  # of each step: the node of the tree
    pool: bytearray = field(default_factory=bytearray)
    slots: list[Slot] = field(default_factory=list[Slot])
    states: int = 0
    updates: list[Update] = field(default_factory=list[Update])
    roots: list[tuple[int, Sort]] = field(default_factory=list[tuple[int, Sort]])

    def native(self) -> expressions.Program:
        """The same for C."""
        return expressions.Program(
            b"".join(_STEP.pack(CODES[step.op], *step[1:]) for step in self.steps),
            bytes(self.pool),
            tuple((step, _FORMS[sort]) for step, sort in self.roots),
            b"".join(_UPDATE.pack(u.state, u.step, u.following, 0, u.weight) for u in self.updates),
            self.states,
            len(self.slots),
        )

    def snapshot(self, values: tuple[Value, ...] | list[Value]) -> bytes:
        """The parameters' values as steps read them."""
        packed: list[bytes] = []
        texts = b""
        begin = _PARAMETER.size * len(self.slots)
        for slot in self.slots:
            value = values[slot.number]
            if slot.sort in (Sort.TEXT, Sort.BYTES):
                data = pack_value(slot.sort, value)
                packed.append(_PARAMETER.pack(begin + len(texts), len(data)))
                texts += data
            else:
                packed.append(_PARAMETER.pack(word_of(slot.sort, value, slot.enumeration), 0))
        return b"".join(packed) + texts

    def text(self) -> str:
        """The steps, one on each line, for tests and the curious."""
        return "\n".join(
            f"{i}: {step.op}" + "".join(f" {name}={value}" for name, value in _shown(step))
            for i, step in enumerate(self.steps)
        )


def _shown(step: Step) -> list[tuple[str, int]]:
    return [
        (name, value)
        for name, value in zip(step._fields[1:], step[1:], strict=True)
        if value != (NO_STEP if name in "abc" else 0)
    ]


_FORMS = {
    Sort.BOOL: "?",
    Sort.INT: "q",
    Sort.UINT: "Q",
    Sort.FLOAT: "d",
    Sort.TEXT: "t",
    Sort.BYTES: "y",
    Sort.TIME: "q",
    Sort.DURATION: "q",
    Sort.ENUM: "q",
}


def word_of(sort: Sort, value: Value, enumeration: Enumeration | None = None) -> int:
    """A value as a signed integer of 64 bits, which is what steps hold."""
    if sort is Sort.ENUM:
        assert enumeration is not None
        return number_of(str(value), enumeration)
    if sort in NUMBERS or sort in (Sort.TIME, Sort.DURATION, Sort.BOOL):
        (word,) = struct.unpack("<q", pack_value(sort, value))
        return int(word)
    raise unexpected(CompileError, "a value of 64 bits", f"`{sort}`")


def number_of(name: str, enumeration: Enumeration) -> int:
    """A member's number; for a name that the sender does not have, a number that none of its members has."""
    numbers = dict(enumeration.members)
    if name in numbers:
        return numbers[name]
    return next(number for number in range(-(2**63), 2**63) if number not in enumeration.numbers)
