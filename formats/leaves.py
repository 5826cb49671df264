"""Leaf values: between what a component holds, a plain value, and bytes.

A leaf is a scalar, an enumeration, text or bytes. Its *plain* value is the same for every declaration:
bool, int, float, complex, str or bytes; a timestamp or duration is an int of nanoseconds, a UUID its 16
bytes, an enumeration its number. Conversions work on plain values; only the two ends know Python types.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import numbers
import operator
import struct
import uuid
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from echo_core.errors import EncodeError, EncodeTypeError, WireError, unexpected
from echo_core.formats.abi import ByteOrder
from echo_core.formats.types import Blob, Enumeration, Kind, Scalar, Text, Type

Leaf = Scalar | Enumeration | Text | Blob

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

_STRUCT_CODES: dict[tuple[Kind, int], str] = {
    (Kind.BOOL, 1): "?",
    (Kind.INT, 1): "b",
    (Kind.INT, 2): "h",
    (Kind.INT, 4): "i",
    (Kind.INT, 8): "q",
    (Kind.UINT, 1): "B",
    (Kind.UINT, 2): "H",
    (Kind.UINT, 4): "I",
    (Kind.UINT, 8): "Q",
    (Kind.FLOAT, 2): "e",
    (Kind.FLOAT, 4): "f",
    (Kind.FLOAT, 8): "d",
    (Kind.COMPLEX, 8): "ff",
    (Kind.COMPLEX, 16): "dd",
    (Kind.TIMESTAMP, 8): "q",
    (Kind.DURATION, 8): "q",
}

_NUMPY_CODES: dict[Kind, str] = {
    Kind.BOOL: "?",
    Kind.INT: "i{size}",
    Kind.UINT: "u{size}",
    Kind.FLOAT: "f{size}",
    Kind.COMPLEX: "c{size}",
    Kind.TIMESTAMP: "M8[ns]",
    Kind.DURATION: "m8[ns]",
    Kind.UUID: "V16",
    Kind.CHARS: "S{size}",
    Kind.BYTES: "V{size}",
}


def order_char(byte_order: ByteOrder) -> str:
    """The prefix for a byte order in struct and numpy."""
    return "<" if byte_order == "little" else ">"


def scalar_dtype(scalar: Scalar | Enumeration, byte_order: ByteOrder) -> np.dtype[Any]:
    """The numpy dtype of a scalar as it lies in memory."""
    return np.dtype(order_char(byte_order) + _NUMPY_CODES[scalar.kind].format(size=scalar.size))


def is_numeric(type_: Type) -> bool:
    """Whether many such values are a numpy array rather than a list of Python objects."""
    return isinstance(type_, Scalar) and type_.kind <= Kind.DURATION


def integer_range(kind: Kind, size: int) -> tuple[int, int]:
    """The smallest and the largest integer of that size."""
    bits = 8 * size
    return (0, 2**bits - 1) if kind is Kind.UINT else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# ---------------------------------------------------------------------------
# Python values to plain values


def to_plain(leaf: Leaf, value: object, path: str) -> Any:
    """The plain value of a Python value; EncodeError if the field cannot hold it."""
    checks = _CHECKS[leaf.kind if isinstance(leaf, Scalar) else type(leaf)]
    return checks(leaf, value, path)


def mismatch(expected: object, value: object, path: str) -> EncodeTypeError:
    """The error for a value of the wrong type."""
    return EncodeTypeError(f"Expected `{expected}`, got `{type(value).__qualname__}`", path=path)


def _bool(scalar: Leaf, value: object, path: str) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(cast("bool", value))
    raise mismatch(scalar, value, path)


def _integer(scalar: Scalar, value: object, path: str) -> int:
    try:
        number = operator.index(cast("Any", value))
    except TypeError:
        raise mismatch(scalar, value, path) from None
    low, high = integer_range(scalar.kind, scalar.size)
    if low <= number <= high:
        return number
    raise unexpected(EncodeError, f"`{scalar}` from {low} to {high}", _short(number), path=path)


def _short(number: int) -> str:
    """An integer for a message. Huge ones are not printed: a million digits take a second."""
    return str(number) if number.bit_length() <= 128 else f"an integer of {number.bit_length()} bits"


def _float(scalar: Scalar, value: object, path: str) -> float:
    if not isinstance(value, numbers.Real):
        raise mismatch(scalar, value, path)
    try:
        number = float(value)
        struct.pack(struct_format(scalar, "little"), number)  # native packing would not check the range
    except OverflowError:
        raise unexpected(
            EncodeError, f"a number within the range of `{scalar}`", "a larger one", path=path
        ) from None
    return number


def _complex(scalar: Scalar, value: object, path: str) -> complex:
    if not isinstance(value, numbers.Complex):
        raise mismatch(scalar, value, path)
    half = Scalar(Kind.FLOAT, scalar.size // 2)
    return complex(_float(half, value.real, path), _float(half, value.imag, path))


def _timestamp(scalar: Scalar, value: object, path: str) -> int:
    if isinstance(value, np.datetime64):
        return _nanoseconds(scalar, cast("Any", value), path)
    if not isinstance(value, dt.datetime):
        raise mismatch(scalar, value, path)
    if value.utcoffset() is None:
        raise unexpected(
            EncodeError, "a datetime with a time zone", "a naive one: give tzinfo=datetime.UTC", path=path
        )
    return _in_int64(scalar, (value - EPOCH) // _MICROSECOND * 1000, path)


def _duration(scalar: Scalar, value: object, path: str) -> int:
    if isinstance(value, np.timedelta64):
        return _nanoseconds(scalar, cast("Any", value), path)
    if not isinstance(value, dt.timedelta):
        raise mismatch(scalar, value, path)
    return _in_int64(scalar, value // _MICROSECOND * 1000, path)


def _nanoseconds(scalar: Scalar, value: np.datetime64[Any] | np.timedelta64[Any], path: str) -> int:
    kind = "M8" if scalar.kind is Kind.TIMESTAMP else "m8"
    refused = unexpected(EncodeError, f"a `{scalar}` within 292 years of its zero", f"{value!r}", path=path)
    try:
        exact = value.astype(f"{kind}[ns]")
        is_same = bool(exact.astype(value.dtype) == value)
    except OverflowError:  # raised from numpy 2.5 on; earlier ones give a wrong time
        raise refused from None
    if np.isnat(value) or not is_same:
        raise refused
    return int(exact.astype(np.int64))


def _in_int64(scalar: Scalar, nanoseconds: int, path: str) -> int:
    low, high = integer_range(Kind.INT, 8)
    if low <= nanoseconds <= high:
        return nanoseconds
    raise unexpected(EncodeError, f"a `{scalar}` within 292 years of its zero", "one further away", path=path)


def _uuid(scalar: Scalar, value: object, path: str) -> bytes:
    if isinstance(value, uuid.UUID):
        return value.bytes
    raise mismatch(scalar, value, path)


def _chars(scalar: Scalar, value: object, path: str) -> str:
    text = _text(scalar, value, path)
    length = len(text.encode())
    if length > scalar.size:
        raise unexpected(EncodeError, f"text of at most {scalar.size} bytes", length, path=path)
    return text


def _text(leaf: Leaf, value: object, path: str) -> str:
    if not isinstance(value, str):
        raise mismatch(leaf, value, path)
    if "\0" in value:
        raise unexpected(
            EncodeError,
            "text without NUL characters (they end a string)",
            "some: declare it `bytes`",
            path=path,
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise unexpected(EncodeError, "text that UTF-8 can hold", "a lone surrogate", path=path) from None
    return str(value)


def _fixed_bytes(scalar: Scalar, value: object, path: str) -> bytes:
    data = _bytes(scalar, value, path)
    if len(data) != scalar.size:
        raise unexpected(EncodeError, f"exactly {scalar.size} bytes", len(data), path=path)
    return data


def _bytes(leaf: Leaf, value: object, path: str) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast("bytes", value))
    raise mismatch(leaf, value, path)


def _enum_number(enumeration: Enumeration, value: object, path: str) -> int:
    if enumeration.python is None:
        return _integer(Scalar(Kind.INT, enumeration.size), value, path)
    if not isinstance(value, enumeration.python):
        raise mismatch(enumeration, value, path)
    return number_by_member(enumeration)[value]


_CHECKS: dict[Kind | type[Leaf], Callable[[Any, object, str], Any]] = {
    Kind.BOOL: _bool,
    Kind.INT: _integer,
    Kind.UINT: _integer,
    Kind.FLOAT: _float,
    Kind.COMPLEX: _complex,
    Kind.TIMESTAMP: _timestamp,
    Kind.DURATION: _duration,
    Kind.UUID: _uuid,
    Kind.CHARS: _chars,
    Kind.BYTES: _fixed_bytes,
    Enumeration: _enum_number,
    Text: _text,
    Blob: _bytes,
}


# ---------------------------------------------------------------------------
# Plain values to Python values


def from_plain(leaf: Leaf, plain: Any, path: str) -> Any:
    """The Python value that a component sees for a plain one."""
    match leaf:
        case Scalar(kind=Kind.TIMESTAMP):
            return EPOCH + _microseconds(plain)
        case Scalar(kind=Kind.DURATION):
            return _microseconds(plain)
        case Scalar(kind=Kind.UUID):
            return uuid.UUID(bytes=plain)
        case Enumeration(python=enum.EnumType()):
            return _enum_member(leaf, plain, path)
        case _:
            return plain


def _microseconds(nanoseconds: int) -> dt.timedelta:
    """Nanoseconds as a timedelta, truncated towards zero so that the range still fits."""
    cut = abs(nanoseconds) // 1000
    return dt.timedelta(microseconds=cut if nanoseconds >= 0 else -cut)


def number_by_member(enumeration: Enumeration) -> dict[enum.Enum, int]:
    """The number that travels for each member of the declared enum class."""
    assert enumeration.python is not None
    return _numbers(enumeration, enumeration.python)[0]


def _enum_member(enumeration: Enumeration, number: int, path: str) -> enum.Enum:
    assert enumeration.python is not None
    members = _numbers(enumeration, enumeration.python)[1]
    if number not in members:
        raise unexpected(WireError, f"a number of `{enumeration}`", number, path=path)
    return members[number]


@functools.lru_cache(maxsize=256)
def _numbers(
    enumeration: Enumeration, cls: type[enum.Enum]
) -> tuple[dict[enum.Enum, int], dict[int, enum.Enum]]:
    """Members to numbers and back. `cls` is part of the key because Enumeration's equality ignores it."""
    by_name = cls.__members__
    numbers = {by_name[name]: number for name, number in enumeration.members if name in by_name}
    return numbers, {number: member for member, number in numbers.items()}


# ---------------------------------------------------------------------------
# Plain values and bytes


def pack(scalar: Scalar | Enumeration, plain: Any, byte_order: ByteOrder) -> bytes:
    """The bytes of a plain value, as long as the scalar."""
    match scalar.kind:
        case Kind.CHARS:
            return cast("str", plain).encode().ljust(scalar.size, b"\0")
        case Kind.BYTES | Kind.UUID:
            return cast("bytes", plain)
        case Kind.COMPLEX:
            return struct.pack(struct_format(scalar, byte_order), plain.real, plain.imag)
        case _:
            return struct.pack(struct_format(scalar, byte_order), plain)


def unpack(scalar: Scalar | Enumeration, data: bytes, byte_order: ByteOrder, path: str) -> Any:
    """The plain value of a scalar's bytes; WireError where they are not UTF-8."""
    match scalar.kind:
        case Kind.CHARS:
            return decode_text(data.split(b"\0", 1)[0], path)
        case Kind.BYTES | Kind.UUID:
            return data
        case Kind.COMPLEX:
            return complex(*struct.unpack(struct_format(scalar, byte_order), data))
        case _:
            return struct.unpack(struct_format(scalar, byte_order), data)[0]


def struct_format(scalar: Scalar | Enumeration, byte_order: ByteOrder) -> str:
    return order_char(byte_order) + _STRUCT_CODES[scalar.kind, scalar.size]


def decode_text(data: bytes, path: str) -> str:
    """Decodes UTF-8 from a peer; WireError for anything else."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise unexpected(
            WireError,
            "UTF-8",
            f"the byte 0x{data[error.start]:02x} at {error.start} of {len(data)}",
            path=path,
        ) from None


# ---------------------------------------------------------------------------
# Plain values as defaults: one byte form on every machine


def pack_default(leaf: Leaf, plain: Any) -> bytes:
    """A default's bytes: a number in little-endian order, text in UTF-8 without padding."""
    if isinstance(plain, str):
        return plain.encode()
    if isinstance(plain, bytes):
        return plain
    assert isinstance(leaf, Scalar | Enumeration)
    return pack(leaf, plain, "little")


def unpack_default(leaf: Leaf, data: bytes, path: str) -> Any:
    """The plain value of a default's bytes; WireError where they are not one that `pack_default` makes."""
    is_text = isinstance(leaf, Text) or (isinstance(leaf, Scalar) and leaf.kind is Kind.CHARS)
    if is_text:
        text = decode_text(data, path)
        if "\0" in text or (isinstance(leaf, Scalar) and len(data) > leaf.size):
            raise unexpected(WireError, f"a default for `{leaf}`", f"{data[:40]!r}", path=path)
        return text
    if isinstance(leaf, Blob):
        return data
    if len(data) != leaf.size:
        raise unexpected(WireError, f"a default of {leaf.size} bytes for `{leaf}`", len(data), path=path)
    assert isinstance(leaf, Scalar | Enumeration)
    return unpack(leaf, data, "little", path)
