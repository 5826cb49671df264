"""An oracle for conversions that knows no plans: plain values of a sender's record as those of a receiver's.

It follows `formats/comparing/compare.py`, which has accepted the pair before a value is converted. So only
values can fail here: with ConversionError and the field's path, in the words of the interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from echo_core.codegen.plain.records import Plain, as_array, counted_lengths, flat, nested, shape_of
from echo_core.errors import ConversionError
from echo_core.formats.abi import NATIVE
from echo_core.formats.comparing.leaf_conversions import keeps_numbers, new_numbers
from echo_core.formats.comparing.matching import match
from echo_core.formats.leaves import (
    Leaf,
    integer_range,
    is_numeric,
    scalar_dtype,
    unpack_default,
)
from echo_core.formats.types import (
    Default,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Type,
    required,
)


def convert_record(plain: dict[str, Plain], sender: Record, receiver: Record, path: str) -> dict[str, Plain]:
    """The receiver's plain value; what only its class can default stays out of it."""
    matched = match(sender, receiver)
    converted: dict[str, Plain] = {}
    for field in receiver.fields:
        where = f"{path}.{field.name}"
        if field.name in matched:
            source = matched[field.name]
            converted[field.name] = convert(plain[source.name], source.type, field.type, where)
        elif field.default is not None and not field.default.local:
            converted[field.name] = default_plain(field, field.default)
    types = {field.name: field.type for field in receiver.fields}
    lengths: dict[str, int] = {}
    for name, sequence, length in counted_lengths(receiver, converted):
        if lengths.setdefault(name, length) != length:
            msg = f"Expected the length {lengths[name]}, which `{name}` counts too, got {length}"
            raise ConversionError(msg, path=f"{path}.{sequence}")
        converted[name] = _integer(length, cast("Scalar", types[name]), f"{path}.{name}")
    return converted


def default_plain(field: Field, default: Default) -> Plain:
    """The plain value of a default that travels."""
    if default.data is None:
        return None
    leaf = required(field.type)
    return unpack_default(cast("Leaf", leaf), default.data, field.name)


def convert(plain: Plain, sender: Type, receiver: Type, path: str) -> Plain:
    """A value of the sender's type as one of the receiver's."""
    match sender, receiver:
        case Nullable(), Nullable():
            return None if plain is None else convert(plain, sender.element, receiver.element, path)
        case _, Nullable():
            return convert(plain, sender, receiver.element, path)
        case Nullable(), _:
            if plain is None:
                msg = f"Expected `{receiver}`, got None"
                raise ConversionError(msg, path=path)
            return convert(plain, sender.element, receiver, path)
        case Record(), Record():
            return convert_record(plain, sender, receiver, path)
        case (StaticArray() | Sequence(), StaticArray() | Sequence()):
            return _convert_elements(plain, sender, receiver, path)
        case _:
            return _convert_leaf(plain, cast("Leaf", sender), cast("Leaf", receiver), path)


def _convert_elements(
    plain: Plain, sender: StaticArray | Sequence, receiver: StaticArray | Sequence, path: str
) -> Plain:
    shape = shape_of(plain, len(sender.shape))
    fixed: list[int] = [
        known if isinstance(known, int) else n for known, n in zip(receiver.shape, shape, strict=True)
    ]
    # What has no elements fits any known dimensions, if it has none there either: lists say no more.
    if list(shape) != fixed and all(fixed):
        msg = f"Expected the dimensions {fixed}, got {list(shape)}"
        raise ConversionError(msg, path=path)
    items = _items(plain, len(shape))
    converted = [
        convert(item, sender.element, receiver.element, f"{path}[{i}]") for i, item in enumerate(items)
    ]
    if not is_numeric(receiver.element):
        return nested(converted, shape)
    dtype = scalar_dtype(cast("Scalar", receiver.element), NATIVE.byte_order)
    array = np.array(converted, np.int64 if dtype.kind in "Mm" else dtype).view(dtype)
    return array.reshape(fixed)


def _items(plain: Plain, dimensions: int) -> list[Plain]:
    array = as_array(plain)
    if array is None:
        return flat(plain, dimensions)
    values: Any = array.ravel().view(np.int64) if array.dtype.kind in "Mm" else array.ravel()
    return list(values.tolist())


def _convert_leaf(plain: Plain, sender: Leaf, receiver: Leaf, path: str) -> Plain:
    if isinstance(receiver, Enumeration):
        return plain if keeps_numbers(sender, receiver) else _renumbered(plain, sender, receiver, path)
    if isinstance(receiver, Scalar) and receiver.kind in _CONVERTERS:
        return _CONVERTERS[receiver.kind](plain, receiver, path)
    return plain


def _renumbered(number: int, sender: Leaf, receiver: Enumeration, path: str) -> int:
    numbers = new_numbers(sender, receiver)
    if number not in numbers:
        msg = f"Expected a number that has a name in `{receiver}`, got {number}"
        raise ConversionError(msg, path=path)
    return numbers[number]


def _bool(plain: Plain, receiver: Scalar, path: str) -> bool:
    if plain in (0, 1):
        return bool(plain)
    msg = f"Expected 0 or 1 for `{receiver}`, got {plain}"
    raise ConversionError(msg, path=path)


def _integer(plain: Plain, receiver: Scalar, path: str) -> int:
    low, high = integer_range(receiver.kind, receiver.size)
    if math.isfinite(plain) and low <= (number := int(plain)) <= high:
        return number
    msg = f"Expected `{receiver}` from {low} to {high}, got {plain}"
    raise ConversionError(msg, path=path)


def _float(plain: Plain, receiver: Scalar, path: str) -> float:
    return _rounded(plain, receiver.size, receiver, path)  # an int as it is: float() would round it once more


def _complex(plain: Plain, receiver: Scalar, path: str) -> complex:
    number, half = complex(plain), receiver.size // 2  # one half may be infinite, and the other too large
    return complex(*(_rounded(part, half, receiver, path) for part in (number.real, number.imag)))


def _rounded(plain: float, size: int, receiver: Scalar, path: str) -> float:
    """The nearest number that a float of that size holds; rounding to infinity is an overflow."""
    with np.errstate(over="ignore", invalid="ignore"):  # a signalling NaN of 16 bits is one still
        rounded = np.array(plain).astype(f"f{size}")
    if math.isfinite(plain) and not np.isfinite(rounded):
        msg = f"Expected a number within the range of `{receiver}`, got {plain}"
        raise ConversionError(msg, path=path)
    return float(rounded)


def _chars(plain: str, receiver: Scalar, path: str) -> str:
    length = len(plain.encode())
    if length > receiver.size:
        msg = f"Expected text of at most {receiver.size} bytes, got {length}"
        raise ConversionError(msg, path=path)
    return plain


def _fixed_bytes(plain: bytes, receiver: Scalar, path: str) -> bytes:
    if len(plain) != receiver.size:
        msg = f"Expected exactly {receiver.size} bytes, got {len(plain)}"
        raise ConversionError(msg, path=path)
    return plain


_CONVERTERS: dict[Kind, Callable[[Any, Scalar, str], Plain]] = {
    Kind.BOOL: _bool,
    Kind.INT: _integer,
    Kind.UINT: _integer,
    Kind.FLOAT: _float,
    Kind.COMPLEX: _complex,
    Kind.CHARS: _chars,
    Kind.BYTES: _fixed_bytes,
}
