"""Writes plain values as CDR, as ROS 2 has it: `ros2.py` says which message that is.

Plain CDR, version 1: after 4 bytes that name the byte order, each number is aligned to its size, counted from
behind these. A list is a uint32 and its elements; text is one of bytes that ends with a NUL.
"""

from __future__ import annotations

import struct
from math import prod

from echo_core.codegen.plain.records import Plain, as_array, flat, shape_of
from echo_core.formats.abi import NATIVE
from echo_core.formats.leaves import pack, scalar_dtype
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
)

HEADER = b"\0\1\0\0" if NATIVE.byte_order == "little" else b"\0\0\0\0"
_COUNT = struct.Struct("=I")
_SINGLE = Scalar(Kind.FLOAT, 4)


def cdr_of(record: Record, plain: dict[str, Plain]) -> bytes:
    """The message of a record's plain value, in this machine's byte order."""
    writer = _Writer()
    writer.value(record, plain)
    return HEADER + bytes(writer.data)


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()

    def value(self, type_: Type, plain: Plain) -> None:
        """Appends it."""
        match type_:
            case Record():
                for field in type_.fields:
                    self.value(field.type, plain[field.name])
                if not type_.fields:
                    self.data.append(0)
            case Nullable():
                self._count(plain is not None)
                if plain is not None:
                    self.value(type_.element, plain)
            case StaticArray():
                self._elements(type_.element, plain, len(type_.shape))
            case Sequence():
                self._sequence(type_, plain)
            case Text():
                self._text(plain)
            case Blob():
                self._count(len(plain))
                self.data += plain
            case Scalar() | Enumeration():
                self._scalar(type_, plain)

    def _sequence(self, type_: Sequence, plain: Plain) -> None:
        known: tuple[int | str | None, ...] = type_.shape
        found = shape_of(plain, len(known))
        shape = [n if isinstance(n, int) else m for n, m in zip(known, found, strict=True)]
        if len(shape) > 1:
            for n in shape:
                self._count(n)
        self._count(prod(shape))
        self._elements(type_.element, plain, len(shape))

    def _elements(self, element: Type, plain: Plain, dimensions: int) -> None:
        array = as_array(plain)
        if array is None:
            for item in flat(plain, dimensions):
                self.value(element, item)
        elif array.size:
            assert isinstance(element, Scalar)
            scalar = _widened(element)
            self._align(scalar.alignment)
            self.data += array.astype(scalar_dtype(scalar, NATIVE.byte_order), copy=False).tobytes()

    def _scalar(self, scalar: Scalar | Enumeration, plain: Plain) -> None:
        if isinstance(scalar, Scalar):
            if scalar.kind is Kind.CHARS:
                self._text(plain)
                return
            scalar = _widened(scalar)
        self._align(scalar.alignment)
        self.data += pack(scalar, plain, NATIVE.byte_order)

    def _text(self, text: str) -> None:
        data = text.encode() + b"\0"
        self._count(len(data))
        self.data += data

    def _count(self, count: int) -> None:
        self._align(4)
        self.data += _COUNT.pack(count)

    def _align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)


def _widened(scalar: Scalar) -> Scalar:
    """ROS 2 has no floats of 16 bits."""
    return _SINGLE if scalar.kind is Kind.FLOAT and scalar.size == 2 else scalar
