"""Which fields of a record an index has the least and the greatest value of, and how these are read.

They are the first eight that hold one number, whatever is in front of them: integers, floats, bools, times,
members of an enumeration; also those of nested records. What a field may lack, and elements of arrays, are
not among them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from echo_core._c import logs as c
from echo_core.formats.abi import NATIVE
from echo_core.formats.format import Format
from echo_core.formats.types import Enumeration, Kind, Record, Scalar, Type

_FIELD = struct.Struct("=IcB??")  # struct ranged_field of native/logs/ranges.h
_KINDS = {Kind.INT: "i", Kind.UINT: "u", Kind.FLOAT: "f", Kind.TIMESTAMP: "i", Kind.DURATION: "i"}

Range = tuple[int, int] | tuple[float, float]
"""The least and the greatest; both NaN where nothing is said."""


class RangedField(NamedTuple):
    """Where a number is in a record, and how it lies there."""

    offset: int
    kind: str
    """How it is read, and as which its range is written with 8 bytes: "i", "u" or "f"."""
    size: int
    is_bool: bool


@lru_cache(maxsize=256)
def numbers_of(format_: Format) -> Mapping[int, RangedField]:
    """All numbers of a record that may have a range, by their offsets."""
    return {field.offset: field for field in _numbers(format_.record, 0)}


def _numbers(record: Record, base: int) -> Iterator[RangedField]:
    for field in record.fields:
        at = base + field.offset
        if isinstance(field.type, Record):
            yield from _numbers(field.type, at)
        elif (kind := _kind_of(field.type)) is not None:
            is_bool = isinstance(field.type, Scalar) and field.type.kind is Kind.BOOL
            yield RangedField(at, kind, field.type.size, is_bool)


def _kind_of(type_: Type) -> str | None:
    match type_:
        case Enumeration():
            return "i"
        case Scalar(kind=Kind.BOOL):
            return "u"
        case Scalar(kind=Kind.FLOAT, size=2):
            return None
        case Scalar(kind=kind):
            return _KINDS.get(kind)
        case _:
            return None


def ranged_fields(format_: Format) -> tuple[RangedField, ...]:
    """Those that a writer looks at."""
    return tuple(numbers_of(format_).values())[: c.MAX_RANGED]


def packed(format_: Format) -> bytes:
    """The same for C."""
    is_swapped = format_.byte_order != NATIVE.byte_order
    return b"".join(
        _FIELD.pack(it.offset, it.kind.encode(), it.size, is_swapped and it.size > 1, it.is_bool)
        for it in ranged_fields(format_)
    )
