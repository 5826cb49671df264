"""What the values of expressions are, whatever fields they come from.

A sort is what the language knows of a value. All integers but `uint64` are `INT`, all floats `FLOAT`: a
record says how wide they lie in memory, an expression computes with 64 bits.
"""

from __future__ import annotations

import datetime as dt
import enum
import struct
from typing import Any

from echo_core.errors import EncodeError
from echo_core.formats.leaves import EPOCH, to_plain
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Kind,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
    required,
)


class Sort(enum.IntEnum):
    """The numbers are those of the wire form."""

    BOOL = 1
    INT = 2  # 64 bits; overflow is an error
    UINT = 3  # of `uint64` fields
    FLOAT = 4
    TEXT = 5
    BYTES = 6
    TIME = 7  # nanoseconds since 1970
    DURATION = 8
    ENUM = 9
    RECORD = 10
    ARRAY = 11
    TEXT_DIGEST = 12  # by which a text is known again: it can be equal to another one, and nothing else
    BYTES_DIGEST = 13

    def __str__(self) -> str:
        return _NAMES[self]


_NAMES = {
    Sort.BOOL: "bool",
    Sort.INT: "int",
    Sort.UINT: "uint64",
    Sort.FLOAT: "float",
    Sort.TEXT: "text",
    Sort.BYTES: "bytes",
    Sort.TIME: "timestamp",
    Sort.DURATION: "duration",
    Sort.ENUM: "enum",
    Sort.RECORD: "a record",
    Sort.ARRAY: "an array",
    Sort.TEXT_DIGEST: "text that is remembered",
    Sort.BYTES_DIGEST: "bytes that are remembered",
}

NUMBERS = frozenset({Sort.INT, Sort.UINT, Sort.FLOAT})
TIMES = frozenset({Sort.TIME, Sort.DURATION})
WORDS = NUMBERS | TIMES | {Sort.BOOL, Sort.ENUM}  # held in 64 bits
STRINGS = frozenset({Sort.TEXT, Sort.BYTES})
DIGESTS = frozenset({Sort.TEXT_DIGEST, Sort.BYTES_DIGEST})

INT_RANGE = range(-(2**63), 2**63)
UINT_RANGE = range(2**64)

_BY_KIND = {
    Kind.BOOL: Sort.BOOL,
    Kind.INT: Sort.INT,
    Kind.UINT: Sort.INT,
    Kind.FLOAT: Sort.FLOAT,
    Kind.TIMESTAMP: Sort.TIME,
    Kind.DURATION: Sort.DURATION,
    Kind.CHARS: Sort.TEXT,
    Kind.BYTES: Sort.BYTES,
    Kind.UUID: Sort.BYTES,
}


def sort_of(type_: Type) -> Sort | None:
    """The sort of a field's values, None apart; None for what no expression can use."""
    match required(type_):
        case Scalar(kind=Kind.UINT, size=8):
            return Sort.UINT
        case Scalar(kind=kind):
            return _BY_KIND.get(kind)
        case Enumeration():
            return Sort.ENUM
        case Text():
            return Sort.TEXT
        case Blob():
            return Sort.BYTES
        case Record():
            return Sort.RECORD
        case StaticArray() | Sequence():
            return Sort.ARRAY
        case _:
            return None


# ---------------------------------------------------------------------------
# Values of parameters and constants


Value = bool | int | float | str | bytes  # a time is its nanoseconds, a member of an enumeration its name

_TIME, _DURATION = Scalar(Kind.TIMESTAMP, 8), Scalar(Kind.DURATION, 8)


def value_of(given: object) -> tuple[Sort, Value] | None:
    """What a Python value is in an expression; None for what it cannot be."""
    match given:
        case bool():
            return Sort.BOOL, given
        case enum.Enum():
            return Sort.ENUM, given.name
        case int():
            sort = Sort.INT if given in INT_RANGE else Sort.UINT
            return (sort, int(given)) if given in INT_RANGE or given in UINT_RANGE else None
        case float():
            return Sort.FLOAT, float(given)
        case str():
            return Sort.TEXT, str(given)
        case bytes():
            return Sort.BYTES, given
        case dt.datetime() | dt.timedelta():
            return _time(given)
        case _:
            return None


def _time(given: dt.datetime | dt.timedelta) -> tuple[Sort, int] | None:
    sort, scalar = (Sort.TIME, _TIME) if isinstance(given, dt.datetime) else (Sort.DURATION, _DURATION)
    try:
        return sort, to_plain(scalar, given, "")
    except EncodeError:
        return None


def as_sort(sort: Sort, value: Value, wanted: Sort) -> Value | None:
    """The same number as another sort of number has it; None where that has none."""
    if sort is wanted:
        return value
    if sort not in NUMBERS or wanted not in NUMBERS or not isinstance(value, int | float):
        return None
    if wanted is Sort.FLOAT:
        return float(value) if abs(value) < 2**1023 and int(float(value)) == value else None
    in_range = INT_RANGE if wanted is Sort.INT else UINT_RANGE
    return value if isinstance(value, int) and value in in_range else None


def pack_value(sort: Sort, value: Value) -> bytes:
    """The bytes of a value, which are the same everywhere."""
    match sort:
        case Sort.TEXT | Sort.ENUM:
            return str(value).encode()
        case Sort.BYTES:
            assert isinstance(value, bytes)
            return value
        case Sort.FLOAT:
            return struct.pack("<d", value)
        case Sort.UINT:
            return struct.pack("<Q", value)
        case _:
            return struct.pack("<q", value)


def unpack_value(sort: Sort, data: bytes) -> Value | None:
    """What `pack_value` has packed; None for other bytes."""
    if sort in (Sort.TEXT, Sort.ENUM):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None
    if sort is Sort.BYTES:
        return data
    if sort not in WORDS or len(data) != 8:
        return None
    number: int | float = struct.unpack({Sort.FLOAT: "<d", Sort.UINT: "<Q"}.get(sort, "<q"), data)[0]
    if sort is Sort.BOOL:
        return bool(number) if number in (0, 1) else None
    return number


def as_python(sort: Sort, value: Value) -> Any:
    """A value as messages show it."""
    match sort:
        case Sort.TIME:
            assert isinstance(value, int)
            return EPOCH + dt.timedelta(microseconds=value // 1000)
        case Sort.DURATION:
            assert isinstance(value, int)
            return dt.timedelta(microseconds=value // 1000)
        case _:
            return value
