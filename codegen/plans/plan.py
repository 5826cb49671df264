"""The steps that convert a sender's record to a receiver's, as data.

A plan is a flat tuple of frozen operations. Offsets count from the start of the record (or of the element)
that the operation is in; an operation with a `body` is followed by that many operations, which are done for
each element, or where a value is present. The interpreter executes plans and the emitter turns the same
plans into LLVM IR; neither knows formats beyond what a plan says. An operation that can fail has a `where`,
which is for the interpreter's messages and no part of what the operation is.

Nothing here checks where a part lies: a record is verified before it is converted, by a plan of its own
(see `verification.py`), and a conversion may then follow every slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from echo_core.formats.abi import ByteOrder
from echo_core.formats.types import Scalar, Type


@dataclass(frozen=True, slots=True)
class Where:
    """The field that an operation is about: the receiver's, or the sender's in a verification.

    `path` has `[]` for each loop that the operation is in. `lengths` are those of the loops that one `Cast`
    stands for, the innermost last.
    """

    path: str
    type: Type | None = None
    lengths: tuple[int, ...] = ()


NOWHERE = Where("")


@dataclass(frozen=True, slots=True)
class Move:
    """`size` bytes as they are; where `unit` is not 1, with each group of so many bytes reversed."""

    source: int
    target: int
    size: int
    unit: int = 1


@dataclass(frozen=True, slots=True)
class Fill:
    """Constant bytes: a default, or the flag of a value that is always present."""

    target: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Cast:
    """`count` numbers into another type. A checked one fails where a number does not fit."""

    source: int
    target: int
    count: int
    sender: Scalar
    receiver: Scalar
    is_checked: bool
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Renumber:
    """An enumeration's number by a table; one that is not in it fails."""

    source: int
    target: int
    sender: Scalar
    receiver: Scalar
    numbers: tuple[tuple[int, int], ...]
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Each:
    """The body for each element of a static array."""

    source: int
    target: int
    count: int
    source_stride: int
    target_stride: int
    body: int


@dataclass(frozen=True, slots=True)
class Flag:
    """The byte that says whether a value is present."""

    offset: int


@dataclass(frozen=True, slots=True)
class Offset:
    """The slot whose offset is 0 if the value is absent; then `lengths` must be 0 too."""

    offset: int
    lengths: tuple[Length, ...] = ()


@dataclass(frozen=True, slots=True)
class When:
    """The body where a value is present. Where none is, the target stays zero, or the conversion fails.

    `target` is the byte to set to 1, or None where a slot says it by itself.
    """

    source: Flag | Offset
    target: int | None
    is_required: bool
    body: int
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Known:
    """A length that is the same in every record."""

    count: int


@dataclass(frozen=True, slots=True)
class Word:
    """A length in a word of the slot, as wide as a pointer."""

    offset: int


@dataclass(frozen=True, slots=True)
class Count:
    """A length in an integer field of the record."""

    offset: int
    scalar: Scalar
    name: str = field(default="", compare=False, repr=False)


Length = Known | Word | Count


@dataclass(frozen=True, slots=True)
class Agree:
    """Lengths that one count of the receiver's stands for: the conversion fails unless all are the same.

    A length with a flag or a slot beside it is 0 where that says that there is nothing. `count` is the field
    that counts, `wheres` are the sequences that the lengths belong to.
    """

    lengths: tuple[tuple[Length, Flag | Offset | None], ...]
    count: str = field(default="", compare=False, repr=False)
    wheres: tuple[Where, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Inline:
    """Elements that stand in the record itself."""

    offset: int
    lengths: tuple[Length, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """Elements among the variable parts, where the slot's offset says."""

    offset: int
    lengths: tuple[Length, ...]
    alignment: int


@dataclass(frozen=True, slots=True)
class Run:
    """The body for each element of a sequence, or of an array that becomes or was a sequence.

    A target with fewer or more places than elements fails; it may know a length that differs where it has
    no place either. Without a target the elements are only passed, which is what a verification does.
    """

    source: Inline | Slot
    target: Inline | Slot | None
    source_stride: int
    target_stride: int
    body: int
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Text:
    """Text that a NUL ends. `size` is what a text in the record itself may fill, without a NUL then.

    Without a target it is only passed, and has to be UTF-8: a verification's.
    """

    source: int
    source_size: int | None
    target: int | None
    target_size: int | None
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Append:
    """A constant variable part: the default of a text, of bytes, or of an empty sequence."""

    slot: Slot
    data: bytes


Operation = Move | Fill | Cast | Renumber | Each | When | Agree | Run | Text | Append


@dataclass(frozen=True, slots=True)
class Side:
    """The facts about one of the two layouts that a plan needs."""

    byte_order: ByteOrder
    pointer_size: int
    size: int
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """The operations from one layout to another. `local` names fields that only the receiver can default."""

    sender: Side
    receiver: Side
    operations: tuple[Operation, ...]
    local: tuple[str, ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Whether neither side has variable parts, so that many records are one run of bytes."""
        return not any(reaches_out(operation) for operation in self.operations)

    def __str__(self) -> str:
        return "\n".join("  " * depth + str(operation) for depth, operation in walk(self.operations))


def reaches_out(operation: Operation) -> bool:
    """Whether an operation reads or writes beyond the fixed part of its record."""
    match operation:
        case Run():
            return isinstance(operation.source, Slot) or isinstance(operation.target, Slot)
        case Text():
            is_part = operation.target is not None and operation.target_size is None
            return operation.source_size is None or is_part
        case When():
            return isinstance(operation.source, Offset)
        case Append():
            return True
        case _:
            return False


def body_of(operation: Operation) -> int:
    """How many of the operations that follow belong to this one."""
    return operation.body if isinstance(operation, Each | When | Run) else 0


def walk(operations: tuple[Operation, ...], depth: int = 0) -> Iterator[tuple[int, Operation]]:
    """Each operation with its depth."""
    for operation, body in steps(operations):
        yield depth, operation
        yield from walk(body, depth + 1)


def steps(operations: tuple[Operation, ...]) -> Iterator[tuple[Operation, tuple[Operation, ...]]]:
    """The operations of one level, each with its body."""
    at = 0
    while at < len(operations):
        operation = operations[at]
        body = body_of(operation)
        yield operation, operations[at + 1 : at + 1 + body]
        at += 1 + body
