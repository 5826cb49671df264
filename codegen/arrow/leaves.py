"""Arrow arrays of numbers, text, bytes and times."""

from __future__ import annotations

from typing import Any

import numpy as np

from echo_core.codegen.arrow.blocks import ByteBlock, Numbers, Places, offsets_of
from echo_core.codegen.arrow.package import pyarrow
from echo_core.codegen.arrow.schema import arrow_type
from echo_core.errors import WireError, unexpected
from echo_core.formats.abi import NATIVE
from echo_core.formats.leaves import scalar_dtype
from echo_core.formats.types import Enumeration, Kind, Scalar

Array = Any  # pyarrow comes without types


def leaf_array(leaf: Scalar | Enumeration, block: ByteBlock, at: Places, path: str) -> Array:
    """Of the values at these places; WireError for text that is not UTF-8, and numbers without a name."""
    if isinstance(leaf, Enumeration):
        return _names(leaf, block.numbers(at, f"i{leaf.size}"), path)
    match leaf.kind:
        case Kind.CHARS:
            return _chars(block.rows(at, leaf.size), path)
        case Kind.BYTES:
            data = pyarrow().py_buffer(np.ascontiguousarray(block.rows(at, leaf.size)))
            return pyarrow().Array.from_buffers(arrow_type(leaf), at.count, [None, data])
        case Kind.UUID:
            return _uuids(block.rows(at, 16))
        case Kind.BOOL:
            return pyarrow().array(block.numbers(at, "u1") != 0)
        case Kind.TIMESTAMP | Kind.DURATION:
            numbers = pyarrow().py_buffer(block.numbers(at, "i8"))
            return pyarrow().Array.from_buffers(arrow_type(leaf), at.count, [None, numbers])
        case Kind.COMPLEX:
            return _complex(leaf, block.numbers(at, f"c{leaf.size}"))
        case _:
            return pyarrow().array(block.numbers(at, scalar_dtype(leaf, NATIVE.byte_order)))


def expanded(values: Array, present: Numbers) -> Array:
    """Values where `present` is true, nulls elsewhere."""
    if present.all():
        return values
    pa = pyarrow()
    return values.take(pa.array(np.cumsum(present) - 1, pa.int64(), mask=~present))


def binary(data: Numbers, sizes: Numbers, type_: Any) -> Array:
    """A binary or string array of adjacent values."""
    pa = pyarrow()
    buffers = [None, pa.py_buffer(offsets_of(sizes)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(type_, len(sizes), buffers)


def string(data: Numbers, sizes: Numbers, path: str) -> Array:
    """A string array; WireError if a value is not UTF-8."""
    pa = pyarrow()
    made = binary(data, sizes, pa.string())
    if len(data) and data.max() >= 0x80:
        try:
            made.validate(full=True)
        except pa.ArrowInvalid:
            raise unexpected(WireError, "UTF-8", "other bytes", path=path) from None
    return made


def _complex(scalar: Scalar, numbers: Numbers) -> Array:
    halves = [pyarrow().array(np.ascontiguousarray(half)) for half in (numbers.real, numbers.imag)]
    return pyarrow().StructArray.from_arrays(halves, fields=list(arrow_type(scalar)))


def _chars(rows: Numbers, path: str) -> Array:
    """Text up to the first NUL, or the whole field."""
    sizes = np.char.str_len(rows.view(f"S{rows.shape[1]}").reshape(-1)).astype(np.int64)
    data = rows[np.arange(rows.shape[1]) < sizes[:, np.newaxis]]
    if not data.all():  # there is more behind the first NUL
        within = np.logical_and.accumulate(rows != 0, axis=1)
        data, sizes = rows[within], within.sum(axis=1)
    return string(data, sizes, path)


_DIGITS = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
_HYPHENS = (8, 13, 18, 23)
_PLACES = np.array([i for i in range(36) if i not in _HYPHENS])


def _uuids(rows: Numbers) -> Array:
    text = np.full((len(rows), 36), ord("-"), np.uint8)
    text[:, _PLACES] = _DIGITS[rows].reshape(len(rows), 32)
    return binary(text.ravel(), np.full(len(rows), 36), pyarrow().string())


def _names(enumeration: Enumeration, numbers: Numbers, path: str) -> Array:
    members = sorted(enumeration.members, key=lambda member: member[1])
    known = np.array([number for _, number in members], np.int64)
    indices = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    unknown = known[indices] != numbers
    if unknown.any():
        number = numbers[int(unknown.argmax())]
        raise unexpected(WireError, f"a number of `{enumeration}`", number, path=path)
    pa = pyarrow()
    return pa.array([name for name, _ in members], pa.string()).take(pa.array(indices))
