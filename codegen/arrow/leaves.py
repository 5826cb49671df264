"""Arrow arrays of numbers, text, bytes and times."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from echo_core.codegen.arrow.blocks import ByteBlock, Numbers, Places, offsets_of
from echo_core.codegen.arrow.package import compute, pyarrow
from echo_core.codegen.arrow.schema import arrow_type
from echo_core.errors import ConversionError, WireError, unexpected
from echo_core.formats.types import Enumeration, Kind, Scalar

Array = Any  # pyarrow comes without types


def leaf_array(leaf: Scalar | Enumeration, target: Any, block: ByteBlock, at: Places, path: str) -> Array:
    """Of the values at these places, of some type; WireError for text that is not UTF-8, and numbers without
    a name, ConversionError as `fitted` has it."""
    pa = pyarrow()
    if isinstance(leaf, Enumeration):
        return fitted(_names(leaf, block.numbers(at, f"i{leaf.size}"), path), target, path)
    match leaf.kind:
        case Kind.CHARS:
            made = _chars(block.rows(at, leaf.size), path)
        case Kind.UUID:
            made = _uuids(block.rows(at, 16))
        case Kind.BOOL:
            made = pa.array(block.numbers(at, "u1") != 0)
        case Kind.COMPLEX:
            made = _complex(leaf, block.numbers(at, f"c{leaf.size}"))
        case Kind.UINT if leaf.size == 8 and target == pa.decimal128(20, 0):
            return _decimals(block.numbers(at, "u8"), target)
        case _:
            data = pa.py_buffer(block.numbers(at, f"V{leaf.size}"))
            made = pa.Array.from_buffers(arrow_type(leaf), at.count, [None, data])
    return fitted(made, target, path)


def fitted(values: Array, target: Any, path: str) -> Array:
    """Of another type, where that was asked for; times are cut towards zero.

    ConversionError for a value that the type does not hold.
    """
    if values.type == target:
        return values
    try:
        return compute().call_function("cast", [values], _cast_options(target))
    except pyarrow().ArrowInvalid as error:
        raise unexpected(ConversionError, f"`{target}`", str(error), path=path) from None


@functools.lru_cache(maxsize=64)
def _cast_options(target: Any) -> Any:
    return compute().CastOptions(target, allow_time_truncate=True)


def _decimals(numbers: Numbers, target: Any) -> Array:
    """A decimal is a number of 128 bits: to add zeros takes a tenth of the time of a cast, which checks."""
    wide = np.zeros((len(numbers), 2), "<u8")
    wide[:, 0] = numbers
    return pyarrow().Array.from_buffers(target, len(numbers), [None, pyarrow().py_buffer(wide)])


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
    return _demand_utf8(binary(data, sizes, pyarrow().string()), data, path)


def _demand_utf8(strings: Array, data: Numbers, path: str) -> Array:
    if len(data) and data.max() >= 0x80:
        try:
            strings.validate(full=True)
        except pyarrow().ArrowInvalid:
            raise unexpected(WireError, "UTF-8", "other bytes", path=path) from None
    return strings


def _complex(scalar: Scalar, numbers: Numbers) -> Array:
    halves = [pyarrow().array(np.ascontiguousarray(half)) for half in (numbers.real, numbers.imag)]
    return pyarrow().StructArray.from_arrays(halves, fields=list(arrow_type(scalar)))


def _chars(rows: Numbers, path: str) -> Array:
    """Text up to the first NUL, or the whole field.

    Arrow removes the zeros at the end in a tenth of the time that numpy takes to find the first one.
    """
    count, size = rows.shape
    whole = binary(rows.reshape(-1), np.full(count, size), pyarrow().string())
    made = compute().ascii_rtrim(whole, characters="\0")
    kept = _characters(made)
    if not kept.all():  # there is more behind the first NUL
        within = np.logical_and.accumulate(rows != 0, axis=1)
        return string(rows[within], within.sum(axis=1), path)
    return _demand_utf8(made, kept, path)


def _characters(strings: Array) -> Numbers:
    _, offsets, data = strings.buffers()
    if not len(strings) or data is None:
        return np.empty(0, np.uint8)
    return np.frombuffer(data, np.uint8)[: np.frombuffer(offsets, np.int32)[len(strings)]]


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
