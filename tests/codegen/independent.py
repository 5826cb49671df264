"""A second decoder, written from `docs/wire-format.md` alone, sharing no code with the product.

It refuses what the page says a reader of records must refuse; of metadata it checks only what it needs.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

TEXT, BLOB, ENUMERATION, RECORD, SEQUENCE, OPTIONAL = 32, 33, 34, 35, 49, 50
COUNTED = 0x8000_0000
TABLES = ("<BBHIBB", "<BBBBIIHBB", "<BB", "<I", "<BBH", "<qB", "<B")
SIGNED, UNSIGNED = {1: "b", 2: "h", 4: "i", 8: "q"}, {1: "B", 2: "H", 4: "I", 8: "Q"}
FLOATS, PAIRS = {2: "e", 4: "f", 8: "d"}, {8: "ff", 16: "dd"}
_FORMS = ({1: "?"}, SIGNED, UNSIGNED, FLOATS, PAIRS, SIGNED, SIGNED)
FORMS = {**dict(enumerate(_FORMS, 1)), ENUMERATION: SIGNED}  # by type code, then by size


class Type(NamedTuple):
    """Any type; `element` and `dimensions` are a wrapper's, `members` an enumeration's."""

    code: int
    size: int
    alignment: int
    name: str = ""
    fields: tuple[Field, ...] = ()
    members: tuple[tuple[str, int], ...] = ()
    element: Any = None
    dimensions: tuple[int, ...] = ()


class Field(NamedTuple):
    """A field; `default` is the code and the bytes."""

    name: str
    offset: int
    type: Type
    default: tuple[int, bytes]
    unit: str
    aliases: tuple[str, ...]


def token_of(metadata: bytes) -> bytes:
    return hashlib.blake2b(metadata, digest_size=16, person=b"echo-format-1").digest()


def require(what: str, holds: bool) -> None:
    if not holds:
        msg = f"expected {what}"
        raise ValueError(msg)


def round_up(n: int, alignment: int) -> int:
    return n + -n % alignment


def take(table: list[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
    """The next entries, removed from the table."""
    entries, table[:] = table[:count], table[count:]
    return entries


class Description:
    def __init__(self, metadata: bytes) -> None:
        header = struct.unpack_from("<4sBBBB8H", metadata)
        magic, version, big, self.pointer_size, zero, *counts, text_size = header
        require("a header", magic == b"ECHO" and version == 1 and zero == 0)
        self.order = "<>"[big]
        at, tables = 24, list[list[tuple[Any, ...]]]()
        for count, form in zip(counts, TABLES, strict=True):
            end = at + count * struct.calcsize(form)
            tables.append(list(struct.iter_unpack(form, metadata[at:end])))
            at = end
        self._texts = metadata[at:]
        require("the size of the texts", len(self._texts) == text_size)
        records, self._fields, self._wrappers, self._dimensions = tables[:4]
        enums, self._members, self._aliases = tables[4:]
        self._types: dict[tuple[int, int], Type] = {}  # by code and index
        for i, (n, size, count) in enumerate(enums):
            name = self._text(n).decode()
            members = tuple((self._text(m).decode(), n) for n, m in take(self._members, count))
            self._types[ENUMERATION, i] = Type(ENUMERATION, size, size, name, (), members)
        for i, (n, alignment, count, size, is_named, former) in enumerate(records):
            name = self._text(n).decode()
            require("names", is_named == 1 or (is_named == 0 and not former))
            self.aliases = self._former(former)  # of the last record in the end
            fields = tuple(self._field(*entry) for entry in take(self._fields, count))
            self._types[RECORD, i] = Type(RECORD, size, alignment, name, fields)
        self.record = self._types[RECORD, len(records) - 1]

    def _field(self, n: int, code: int, wrappers: int, default: int, *numbers: int) -> Field:
        argument, offset, default_size, unit_size, aliases = numbers
        name, data, unit = (self._text(size) for size in (n, default_size, unit_size))
        former = self._former(aliases)
        chain = [
            (wrapper, tuple(n for (n,) in take(self._dimensions, count)))
            for wrapper, count in take(self._wrappers, wrappers)
        ]
        type_ = self._types.get((code, argument)) or self._leaf(code, argument)
        for wrapper, dimensions in reversed(chain):
            type_ = self._wrapped(type_, wrapper, dimensions)
        return Field(name.decode(), offset, type_, (default, data), unit.decode(), former)

    def _former(self, count: int) -> tuple[str, ...]:
        return tuple(self._text(size).decode() for (size,) in take(self._aliases, count))

    def _leaf(self, code: int, size: int) -> Type:
        if code in (TEXT, BLOB):
            return Type(code, self.pointer_size * (code - 31), self.pointer_size)
        return Type(code, size, 1 if code in (8, 9, 10) else size // 2 if code == 5 else size)

    def _wrapped(self, element: Type, code: int, dimensions: tuple[int, ...]) -> Type:
        size, alignment = element.size * prod(dimensions), element.alignment
        if code == SEQUENCE:
            size, alignment = self.pointer_size * (1 + dimensions.count(0)), self.pointer_size
        elif code == OPTIONAL and element.code not in (TEXT, BLOB, SEQUENCE):
            size = round_up(size + 1, alignment)
        return Type(code, size, alignment, element=element, dimensions=dimensions)

    def _text(self, size: int) -> bytes:
        text, self._texts = self._texts[:size], self._texts[size:]
        return text


def decode(data: bytes, description: Description) -> dict[str, Any]:
    """A record as plain Python, or ValueError (of which UnicodeDecodeError is one)."""
    message = _Message(data, description)
    values = message.record(description.record, 0)
    require("the length", message.end == len(data))
    return values


class _Message:
    def __init__(self, data: bytes, description: Description) -> None:
        self.order, self.pointer_size = description.order, description.pointer_size
        self.data, self.end = data, description.record.size
        require("the fixed part", len(data) >= self.end)

    def word(self, at: int) -> int:
        return int(struct.unpack_from(self.order + UNSIGNED[self.pointer_size], self.data, at)[0])

    def record(self, type_: Type, at: int) -> dict[str, Any]:
        values = dict[str, Any]()
        for field in type_.fields:
            wrapper: Type = field.type.element if field.type.code == OPTIONAL else field.type
            counting = [type_.fields[n ^ COUNTED] for n in wrapper.dimensions if n & COUNTED]
            counts = [self.value(count.type, at + count.offset) for count in counting]
            values[field.name] = self.value(field.type, at + field.offset, *counts)
        return values

    def value(self, type_: Type, at: int, *counts: int) -> Any:
        data = self.data[at : at + type_.size]
        match type_.code:
            case 8 | 10:
                return data
            case 9:
                return data.partition(b"\0")[0].decode()
            case 32:  # without a NUL the size is negative
                length = self.data.find(b"\0", self.end) + 1 - self.end
                return self.part(at, 1, length)[:-1].decode()
            case 33:
                return self.part(at, 1, self.word(at + self.pointer_size))
            case 35:
                return self.record(type_, at)
            case 48:
                return self.elements(type_.element, at, list(type_.dimensions))
            case 49:
                return self.sequence(type_, at, iter(counts))
            case 50 if type_.element.code not in (TEXT, BLOB, SEQUENCE):
                return self.value(type_.element, at) if data[type_.element.size] else None
            case 50 if self.word(at):
                return self.value(type_.element, at, *counts)
            case 50:
                return require("no length beside None", not any(counts) and not any(data))
            case code:
                numbers = struct.unpack(self.order + FORMS[code][type_.size], data)
                return complex(*numbers) if code == 5 else numbers[0]

    def sequence(self, type_: Type, at: int, held: Iterator[int]) -> list[Any]:
        own = (self.word(at + i * self.pointer_size) for i in range(1, 9))  # the slot's lengths
        sources = (own if n == 0 else held if n & COUNTED else iter([n]) for n in type_.dimensions)
        shape = [next(source) for source in sources]
        require("dimensions", min(shape) >= 0 and prod(n for n in shape if n) <= 2**40)
        self.part(at, type_.element.alignment, type_.element.size * prod(shape))
        return self.elements(type_.element, self.word(at), shape)

    def elements(self, element: Type, at: int, shape: list[int]) -> list[Any]:
        """Nested lists; without elements, one empty list."""
        items = [self.value(element, at + i * element.size) for i in range(prod(shape))]
        for n in reversed(shape[1:]):
            items = [items[i : i + n] for i in range(0, len(items), n or 1)]
        return items

    def part(self, slot: int, alignment: int, size: int) -> bytes:
        start = round_up(self.end, alignment)
        self.end = start + size
        ends = size >= 0 and self.end <= len(self.data)
        require("a part in its place", self.word(slot) == start and ends)
        return self.data[start : self.end]
