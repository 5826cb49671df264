"""The types that an event can have, each laid out for one machine.

A type is a value: frozen, comparable, self-contained (its size and alignment need no context). Wrappers
(StaticArray, Sequence, Nullable) hold exactly one element, so a type is a chain that ends in a scalar, an
enumeration, text, bytes or a record.

Some types carry the Python side that they were declared with (`python`, `container`). It says how values
look in this process; it takes no part in equality and never travels.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar


class Kind(enum.IntEnum):
    """How the bits of a scalar are interpreted. The numbers are those of the wire format."""

    BOOL = 1
    INT = 2
    UINT = 3
    FLOAT = 4
    COMPLEX = 5
    TIMESTAMP = 6  # int64, nanoseconds since 1970-01-01 UTC
    DURATION = 7  # int64, nanoseconds
    UUID = 8  # 16 bytes, most significant first on every machine
    CHARS = 9  # UTF-8, ended by the first NUL or by the size
    BYTES = 10  # exactly so many bytes


SIZES_BY_KIND: dict[Kind, range | tuple[int, ...]] = {
    Kind.BOOL: (1,),
    Kind.INT: (1, 2, 4, 8),
    Kind.UINT: (1, 2, 4, 8),
    Kind.FLOAT: (2, 4, 8),
    Kind.COMPLEX: (8, 16),
    Kind.TIMESTAMP: (8,),
    Kind.DURATION: (8,),
    Kind.UUID: (16,),
    Kind.CHARS: range(1, 65536),
    Kind.BYTES: range(1, 65536),
}

_UNALIGNED = frozenset({Kind.UUID, Kind.CHARS, Kind.BYTES})


def round_up(size: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is at least `size`."""
    return -(-size // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of fixed size with no parts."""

    kind: Kind
    size: int

    @property
    def alignment(self) -> int:
        """The size, but that of one part for a complex number, and 1 for text and bytes."""
        if self.kind in _UNALIGNED:
            return 1
        return self.size // 2 if self.kind is Kind.COMPLEX else self.size

    def __str__(self) -> str:
        match self.kind:
            case Kind.CHARS | Kind.BYTES:
                return f"{'char' if self.kind is Kind.CHARS else 'byte'}[{self.size}]"
            case Kind.INT | Kind.UINT | Kind.FLOAT | Kind.COMPLEX:
                return f"{self.kind.name.lower()}{self.size * 8}"
            case _:
                return self.kind.name.lower()


@dataclass(frozen=True, slots=True)
class Enumeration:
    """A signed integer with names for some of its values; conversions go by the names."""

    kind: ClassVar = Kind.INT
    name: str
    size: int
    members: tuple[tuple[str, int], ...]
    python: type[enum.Enum] | None = field(default=None, compare=False, repr=False)
    numbers: frozenset[int] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", frozenset(number for _, number in self.members))
        object.__setattr__(self, "_hash", hash((self.name, self.size, self.members)))

    def __hash__(self) -> int:
        # Cached: a thousand fields may have the type of one enumeration of a thousand members.
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:  # without the cached hash, which differs between processes
        return Enumeration, (self.name, self.size, self.members, self.python)

    @property
    def alignment(self) -> int:
        return self.size

    def __str__(self) -> str:
        return f"enum {self.name}"


@dataclass(frozen=True, slots=True)
class Text:
    """A slot that refers to UTF-8 text, ended by a NUL, among the record's variable parts."""

    pointer_size: int

    @property
    def size(self) -> int:
        return self.pointer_size

    @property
    def alignment(self) -> int:
        return self.pointer_size

    def __str__(self) -> str:
        return "str"


@dataclass(frozen=True, slots=True)
class Blob:
    """A slot {offset, length} that refers to bytes among the record's variable parts."""

    pointer_size: int

    @property
    def size(self) -> int:
        return 2 * self.pointer_size

    @property
    def alignment(self) -> int:
        return self.pointer_size

    def __str__(self) -> str:
        return "bytes"


@dataclass(frozen=True, slots=True)
class StaticArray:
    """Elements side by side inside the record, the last dimension running fastest."""

    element: Type
    shape: tuple[int, ...]
    container: type[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def size(self) -> int:
        return self.element.size * prod(self.shape)

    @property
    def alignment(self) -> int:
        return self.element.alignment

    def __str__(self) -> str:
        return f"{self.element}[{']['.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Sequence:
    """A slot that refers to elements among the record's variable parts.

    Each dimension is a number (fixed), None (its length stands in the slot, after the offset) or the name
    of an integer field of the same record that holds its length.
    """

    element: Type
    shape: tuple[int | str | None, ...]
    pointer_size: int
    container: type[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def size(self) -> int:
        return self.pointer_size * (1 + self.shape.count(None))

    @property
    def alignment(self) -> int:
        return self.pointer_size

    def __str__(self) -> str:
        return f"{self.element}[{']['.join('...' if n is None else str(n) for n in self.shape)}]"


@dataclass(frozen=True, slots=True)
class Nullable:
    """An element or nothing.

    A type that refers to a variable part says "nothing" with the offset 0 and stays as large as it is.
    Any other is followed by a byte, 1 or 0, and padded to its natural alignment.
    """

    element: Type

    @property
    def by_reference(self) -> bool:
        """Whether an absent value is an offset of 0, instead of a separate byte."""
        return isinstance(self.element, Reference)

    @property
    def size(self) -> int:
        if self.by_reference:
            return self.element.size
        return round_up(self.element.size + 1, self.element.alignment)

    @property
    def alignment(self) -> int:
        return self.element.alignment

    def __str__(self) -> str:
        return f"{self.element} | None"


@dataclass(frozen=True, slots=True)
class Default:
    """The value of a field that a sender does not have.

    `data` is the value in one byte form that is the same on every machine (see `formats/leaves.py`), and
    None for the value None. `local` marks a default that only the declaring process can make: a factory's.
    """

    data: bytes | None = None
    local: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a record: its name, type and offset, and what `echo.field` said of it.

    `default` is None where the sender has to have the field. `doc` takes no part in equality.
    """

    name: str
    type: Type
    offset: int = 0
    default: Default | None = None
    aliases: tuple[str, ...] = ()
    unit: str = ""
    doc: str = field(default="", compare=False)

    @property
    def end(self) -> int:
        """The offset behind the field."""
        return self.offset + self.type.size


@dataclass(frozen=True, slots=True)
class Record:
    """A struct: fields at offsets. `depth` is its levels of nesting, `leaves` its fields at all levels.

    `aliases` are its former names. `is_named` is false where nobody has named it, such as a numpy dtype: it
    has some name then, by which nothing is recognised.
    """

    name: str
    size: int
    alignment: int
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()
    is_named: bool = True
    python: type[Any] | None = field(default=None, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)
    leaves: int = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        depth = leaves = 0
        for member in self.fields:
            inner, wrappers = innermost(member.type)
            nested = inner if isinstance(inner, Record) else None
            depth = max(depth, wrappers + (nested.depth if nested else 0))
            leaves += 1 + (nested.leaves if nested else 0)
        object.__setattr__(self, "depth", 1 + depth)
        object.__setattr__(self, "leaves", leaves)
        names = (self.name, self.aliases, self.is_named)
        object.__setattr__(self, "_hash", hash((names, self.size, self.alignment, self.fields)))

    def __hash__(self) -> int:
        # Cached: else hashing a record would hash all nested records again.
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        names = (self.aliases, self.is_named)
        return Record, (self.name, self.size, self.alignment, self.fields, *names, self.python)

    def __str__(self) -> str:
        return self.name


Wrapper = StaticArray | Sequence | Nullable
Reference = Text | Blob | Sequence  # what refers to a variable part of the record
Type = Scalar | Enumeration | Text | Blob | StaticArray | Sequence | Nullable | Record


def innermost(type_: Type) -> tuple[Scalar | Enumeration | Text | Blob | Record, int]:
    """The type inside all wrappers, and the number of wrappers."""
    wrappers = 0
    while isinstance(type_, Wrapper):
        type_, wrappers = type_.element, wrappers + 1
    return type_, wrappers


def required(type_: Type) -> Type:
    """The type without Nullable."""
    return type_.element if isinstance(type_, Nullable) else type_


def in_place(type_: Type) -> Type:
    """The type inside static arrays and optionals, which add nothing but places for it."""
    while isinstance(type_, StaticArray | Nullable):
        type_ = type_.element
    return type_


def holds_elements(type_: Type) -> bool:
    """Whether a value is or holds a list or an array: somebody may write into these later."""
    type_ = required(type_)
    if isinstance(type_, Record):
        return any(holds_elements(member.type) for member in type_.fields)
    return isinstance(type_, StaticArray | Sequence)


def has_parts(type_: Type) -> bool:
    """Whether a value of this type refers to variable parts of its record."""
    type_ = in_place(type_)
    if isinstance(type_, Record):
        return any(has_parts(member.type) for member in type_.fields)
    return isinstance(type_, Reference)
