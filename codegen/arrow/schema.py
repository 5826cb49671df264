"""The Arrow types of events.

    bool, numbers         the same           bytes              binary
    complex               struct<real,imag>  bytes[n]           fixed_size_binary[n]
    timestamp             timestamp[ns,UTC]  text, chars[n]     string
    duration              duration[ns]       uuid               string, as `str(uuid)` writes it
    arrays, lists         list, one level    an enum            string, the member's name
                          for each dimension T | None           nullable
    an event              struct

What is not optional is not nullable.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from echo_core.codegen.arrow.package import pyarrow
from echo_core.formats.format import Format
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
)

_NAMES: dict[tuple[Kind, int], str] = {
    (Kind.BOOL, 1): "bool_",
    **{(Kind.INT, size): f"int{8 * size}" for size in (1, 2, 4, 8)},
    **{(Kind.UINT, size): f"uint{8 * size}" for size in (1, 2, 4, 8)},
    **{(Kind.FLOAT, size): f"float{8 * size}" for size in (2, 4, 8)},
}


def arrow_schema(format_: Format) -> Any:
    """The schema of a format's records: a field for each of theirs."""
    return pyarrow().schema(list(_fields(format_.fields)))


@functools.lru_cache(maxsize=1024)
def arrow_type(type_: Type) -> Any:
    """The Arrow type of a field's values."""
    pa = pyarrow()
    match type_:
        case Nullable():
            return arrow_type(type_.element)
        case Record():
            return pa.struct(list(_fields(type_.fields)))
        case StaticArray() | Sequence():
            made, is_nullable = arrow_type(type_.element), isinstance(type_.element, Nullable)
            for _ in type_.shape:
                made, is_nullable = pa.list_(pa.field("item", made, is_nullable)), False
            return made
        case Text() | Enumeration():
            return pa.string()
        case Blob():
            return pa.binary()
        case Scalar():
            return _scalar(pa, type_)


def _fields(fields: Iterable[Field]) -> Iterator[Any]:
    pa = pyarrow()
    for field in fields:
        yield pa.field(field.name, arrow_type(field.type), isinstance(field.type, Nullable))


def _scalar(pa: Any, scalar: Scalar) -> Any:
    match scalar.kind:
        case Kind.COMPLEX:
            half = arrow_type(Scalar(Kind.FLOAT, scalar.size // 2))
            return pa.struct([pa.field("real", half, False), pa.field("imag", half, False)])
        case Kind.TIMESTAMP:
            return pa.timestamp("ns", "UTC")
        case Kind.DURATION:
            return pa.duration("ns")
        case Kind.CHARS | Kind.UUID:
            return pa.string()
        case Kind.BYTES:
            return pa.binary(scalar.size)
        case _:
            return getattr(pa, _NAMES[scalar.kind, scalar.size])()
