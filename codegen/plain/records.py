"""Plain values to a record's bytes and back, by walking the layout: slow, complete, and the oracle.

A record's plain value is a dict by field name; an array of numbers is a numpy array in this machine's
byte order, any other array or sequence a list (of lists, for several dimensions); a leaf's plain value is
defined in `formats/leaves.py`. `docs/wire-format.md` draws the bytes.

The variable parts of a record stand in one order and leave no gaps but for alignment, so there is one way
to write a value. A reader requires that way: each offset must be where the next part begins. Nothing can
then be referred to twice, and what a message decodes to is no larger than the message allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import numpy as np

from echo_core.codegen.plans.verification import MAX_EXTENT
from echo_core.errors import EncodeError, WireError, unexpected
from echo_core.formats.abi import ByteOrder
from echo_core.formats.layout import Layout
from echo_core.formats.leaves import decode_text, is_numeric, pack, scalar_dtype, unpack
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
    required,
    round_up,
)

Plain = Any


def write(plain: dict[str, Plain], layout: Layout) -> bytes:
    """The bytes of a record. The plain value must be one that the layout's types can hold."""
    writer = _RecordWriter(layout)
    writer.data += bytes(layout.record.size)
    writer.record(layout.record, plain, 0)
    return bytes(writer.data)


class _RecordWriter:
    """Fixed parts are written in place; each variable part is appended when its slot is reached."""

    def __init__(self, layout: Layout) -> None:
        self.data = bytearray()
        self._byte_order: ByteOrder = layout.byte_order
        self._pointer_size = layout.pointer_size

    def record(self, record: Record, plain: dict[str, Plain], at: int) -> None:
        for field in record.fields:
            self.value(field.type, plain[field.name], at + field.offset)

    def value(self, type_: Type, plain: Plain, at: int) -> None:
        match type_:
            case Scalar() | Enumeration():
                self._put(at, pack(type_, plain, self._byte_order))
            case Text():
                self._slot(at, self._append(plain.encode() + b"\0", 1))
            case Blob():
                self._slot(at, self._append(plain, 1), len(plain))
            case StaticArray():
                self._elements(type_.element, plain, type_.shape, at)
            case Sequence():
                self._sequence(type_, plain, at)
            case Nullable():
                self._nullable(type_, plain, at)
            case Record():
                self.record(type_, plain, at)

    def _nullable(self, type_: Nullable, plain: Plain, at: int) -> None:
        if plain is None:
            return  # everything is zero already
        self.value(type_.element, plain, at)
        if not type_.by_reference:
            self.data[at + type_.element.size] = 1

    def _sequence(self, type_: Sequence, plain: Plain, at: int) -> None:
        shape = shape_of(plain, len(type_.shape))
        size = type_.element.size * prod(shape)
        part = self._append(bytes(size), type_.element.alignment)
        lengths = [n for n, known in zip(shape, type_.shape, strict=True) if known is None]
        self._slot(at, part, *lengths)
        self._elements(type_.element, plain, shape, part)

    def _elements(self, element: Type, plain: Plain, shape: tuple[int, ...], at: int) -> None:
        if is_numeric(element):
            assert isinstance(element, Scalar)
            dtype = scalar_dtype(element, self._byte_order)
            self._put(at, np.ascontiguousarray(plain, dtype).tobytes())
            return
        for i, item in enumerate(flat(plain, len(shape))):
            self.value(element, item, at + i * element.size)

    def _append(self, part: bytes, alignment: int) -> int:
        start = round_up(len(self.data), alignment)
        self.data += bytes(start - len(self.data)) + part
        return start

    def _slot(self, at: int, *words: int) -> None:
        for i, word in enumerate(words):
            try:
                data = word.to_bytes(self._pointer_size, self._byte_order)
            except OverflowError:
                raise unexpected(
                    EncodeError, f"a record that {self._pointer_size}-byte offsets reach", "a larger one"
                ) from None
            self._put(at + i * self._pointer_size, data)

    def _put(self, at: int, data: bytes) -> None:
        self.data[at : at + len(data)] = data


def read(data: bytes | memoryview, layout: Layout) -> dict[str, Plain]:
    """The plain value of a record's bytes, or WireError."""
    reader = _RecordReader(data, layout)
    plain = reader.record(layout.record, 0, layout.record.name)
    reader.finish(layout.record.name)
    return plain


def read_field(data: bytes | memoryview, layout: Layout, field: Field) -> Plain:
    """The plain value of one field of a verified record; reads no other parts if the field is one slot."""
    if isinstance(required(field.type), Text | Blob | Sequence):
        return _RecordReader(data, layout).alone(field, layout.record)
    return read(data, layout)[field.name]  # several slots, or none: a walk finds them


class _RecordReader:
    """Follows the slots in the writer's order; `_end` is where the next variable part may begin."""

    def __init__(self, data: bytes | memoryview, layout: Layout) -> None:
        self._data = bytes(data)
        self._byte_order: ByteOrder = layout.byte_order
        self._pointer_size = layout.pointer_size
        self._end = layout.record.size
        if len(self._data) < self._end:
            raise unexpected(
                WireError, f"at least {self._end} bytes", len(self._data), path=layout.record.name
            )

    def finish(self, path: str) -> None:
        if self._end != len(self._data):
            raise unexpected(WireError, f"a record of {self._end} bytes", len(self._data), path=path)

    def record(self, record: Record, at: int, path: str) -> dict[str, Plain]:
        return {field.name: self._field(field, record, at, f"{path}.{field.name}") for field in record.fields}

    def _field(self, field: Field, record: Record, at: int, path: str) -> Plain:
        counted = required(field.type)
        counts = self._counts(counted, record, at) if isinstance(counted, Sequence) else {}
        return self._value(field.type, at + field.offset, path, counts)

    def alone(self, field: Field, record: Record) -> Plain:
        """One field of the outermost record, whose first part may be anywhere."""
        self._end = self._word(field.offset)
        return self._field(field, record, 0, f"{record.name}.{field.name}")

    def _counts(self, type_: Sequence, record: Record, at: int) -> dict[str, int]:
        """The lengths that other fields of the record hold, wherever they stand in it."""
        return {
            field.name: self._scalar(field.type, at + field.offset, field.name)
            for field in record.fields
            if field.name in type_.shape and isinstance(field.type, Scalar)
        }

    def _value(self, type_: Type, at: int, path: str, counts: dict[str, int]) -> Plain:
        match type_:
            case Scalar() | Enumeration():
                return self._scalar(type_, at, path)
            case Text():
                return self._text(at, path)
            case Blob():
                start, length = self._word(at), self._word(at + self._pointer_size)
                return self._part(start, length, 1, path)
            case StaticArray():
                return self._elements(type_.element, type_.shape, at, path)
            case Sequence():
                return self._sequence(type_, at, path, counts)
            case Nullable():
                return self._nullable(type_, at, path, counts)
            case Record():
                return self.record(type_, at, path)

    def _scalar(self, type_: Scalar | Enumeration, at: int, path: str) -> Plain:
        return unpack(type_, self._data[at : at + type_.size], self._byte_order, path)

    def _word(self, at: int) -> int:
        return int.from_bytes(self._data[at : at + self._pointer_size], self._byte_order)

    def _nullable(self, type_: Nullable, at: int, path: str, counts: dict[str, int]) -> Plain:
        if type_.by_reference:
            absent = self._word(at) == 0
            lengths = self._data[at + self._pointer_size : at + type_.size]
            if absent and (any(lengths) or any(counts.values())):
                raise unexpected(WireError, "no length beside an offset of 0", "one", path=path)
        else:
            absent = self._data[at + type_.element.size] == 0
        return None if absent else self._value(type_.element, at, path, counts)

    def _text(self, at: int, path: str) -> str:
        start = self._word(at)
        end = self._data.find(b"\0", start) if start == self._end else start  # _part refuses another offset
        if end < 0:
            raise unexpected(WireError, "a text that a NUL ends within the record", "none", path=path)
        return decode_text(self._part(start, end + 1 - start, 1, path)[:-1], path)

    def _sequence(self, type_: Sequence, at: int, path: str, counts: dict[str, int]) -> Plain:
        shape: list[int] = []
        slot = at
        for known in type_.shape:
            if known is None:
                slot += self._pointer_size
                shape.append(self._word(slot))
            else:
                shape.append(counts[known] if isinstance(known, str) else known)
        if min(shape) < 0:
            raise unexpected(WireError, "a count of elements", min(shape), path=path)
        start = self._word(at)
        self._part(start, prod(shape), type_.element.alignment, path, type_.element.size)
        if extent(shape) > MAX_EXTENT:
            raise unexpected(WireError, f"dimensions of at most {MAX_EXTENT} elements", shape, path=path)
        return self._elements(type_.element, tuple(shape), start, path)

    def _elements(self, element: Type, shape: tuple[int, ...], at: int, path: str) -> Plain:
        count = prod(shape)
        if is_numeric(element):
            assert isinstance(element, Scalar)
            return self._numbers(element, count, at).reshape(shape)
        items = [self._value(element, at + i * element.size, f"{path}[{i}]", {}) for i in range(count)]
        return nested(items, shape)

    def _numbers(self, element: Scalar, count: int, at: int) -> Plain:
        dtype = scalar_dtype(element, self._byte_order)
        if element.kind is Kind.BOOL:  # another machine's true may be any number but 0
            return np.frombuffer(self._data, np.uint8, count, at) != 0
        return np.frombuffer(self._data, dtype, count, at).astype(dtype.newbyteorder("="))

    def _part(self, start: int, count: int, alignment: int, path: str, stride: int = 0) -> bytes:
        """A variable part of `count` bytes, or of that many elements of `stride` bytes each."""
        size = count * (stride or 1)
        expected = round_up(self._end, alignment)
        if start != expected:
            raise unexpected(
                WireError, f"the offset {expected}, where the next part begins", start, path=path
            )
        if start > len(self._data):
            raise unexpected(
                WireError, f"a part within {len(self._data)} bytes", f"the offset {start}", path=path
            )
        if start + size > len(self._data):
            left, what = (len(self._data) - start) // (stride or 1), "elements" if stride else "bytes"
            raise unexpected(WireError, f"{count} {what} within the record", left, path=path)
        self._end = start + size
        return self._data[start : self._end]


# ---------------------------------------------------------------------------
# Lists of several dimensions


def as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """The value if it is a numpy array."""
    untyped: Any = value  # numpy's stubs would leave its type unknown
    return untyped if isinstance(value, np.ndarray) else None


def extent(shape: Iterable[int]) -> int:
    """The product of the lengths that are not 0."""
    return prod(n for n in shape if n)


def shape_of(plain: Plain, dimensions: int) -> tuple[int, ...]:
    """The lengths of an array or of nested lists, which must be of equal length at each level."""
    array = as_array(plain)
    if array is not None:
        return tuple(array.shape)
    shape: list[int] = []
    for _ in range(dimensions):
        shape.append(len(plain))
        plain = plain[0] if len(plain) else []  # a row may be a numpy array
    return tuple(shape)


def counted_lengths(record: Record, values: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """For each counted dimension in `values`: the field that counts, the sequence, and its length."""
    for field in record.fields:
        type_ = required(field.type)
        if not isinstance(type_, Sequence) or field.name not in values:
            continue
        held, dimensions = values[field.name], len(type_.shape)
        shape = (0,) * dimensions if held is None else shape_of(held, dimensions)
        for name, length in zip(type_.shape, shape, strict=True):
            if isinstance(name, str):
                yield name, field.name, length


def flat(plain: Plain, dimensions: int) -> list[Plain]:
    """The elements of nested lists, the last dimension running fastest."""
    for _ in range(dimensions - 1):
        plain = [item for inner in plain for item in inner]
    return list(plain)


def nested(items: list[Plain], shape: tuple[int, ...]) -> list[Plain]:
    """Elements as lists of these lengths, one in another; without elements, one empty list."""
    for n in reversed(shape[1:]):
        items = [items[i : i + n] for i in range(0, len(items), n)] if n else []
    return items
