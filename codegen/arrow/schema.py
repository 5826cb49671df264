"""The Arrow types of events.

    bool, numbers         the same           bytes              binary
    complex               struct<real,imag>  bytes[n]           fixed_size_binary[n]
    timestamp             timestamp[ns,UTC]  text, chars[n]     string
    duration              duration[ns]       uuid               string, as `str(uuid)` writes it
    arrays, lists         list, one level    an enum            string, the member's name
                          for each dimension T | None           nullable
    an event              struct

What is not optional is not nullable. Whoever wants other types, or fewer fields, asks for a schema of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from echo_core.codegen.arrow.package import pyarrow
from echo_core.errors import FormatError, unexpected
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


# ---------------------------------------------------------------------------
# Schemas that are asked for


def demand_schema(format_: Format, schema: Any) -> None:
    """FormatError for a schema that is not of a format's fields, in types that theirs can be cast to."""
    if not isinstance(schema, pyarrow().Schema):
        raise unexpected(FormatError, "a `pyarrow.Schema`", f"`{type(schema).__qualname__}`")
    _demand_fields(format_.record, schema, format_.name)


def leaf_names(record: Record, fields: Iterable[Any], prefix: str = "") -> Iterator[str]:
    """Of these fields' columns, as `ColumnDecoder` calls them: those of a nested record have their own."""
    type_by_name = {field.name: field.type for field in record.fields}
    for wanted in fields:
        name, type_ = prefix + wanted.name, type_by_name[wanted.name]
        if isinstance(type_, Record):
            yield from leaf_names(type_, wanted.type, f"{name}.")
        else:
            yield name


def _element_field(field: Any, levels: int) -> Any:
    """The field inside so many levels of lists; None if there are fewer."""
    for _ in range(levels):
        if not pyarrow().types.is_list(field.type):
            return None
        field = field.type.value_field
    return field


def _demand_fields(record: Record, fields: Iterable[Any], path: str) -> None:
    type_by_name = {field.name: field.type for field in record.fields}
    for wanted in fields:
        if wanted.name not in type_by_name:
            names = ", ".join(type_by_name)
            raise unexpected(FormatError, f"a field out of {names}", f"`{wanted.name}`", path=path)
        _demand_field(type_by_name[wanted.name], wanted, f"{path}.{wanted.name}")


def _demand_field(type_: Type, wanted: Any, path: str) -> None:
    if isinstance(type_, Nullable):
        if not wanted.nullable:
            raise unexpected(FormatError, "a nullable field", f"`{wanted}`", path=path)
        type_ = type_.element
    if isinstance(type_, Record):
        if not pyarrow().types.is_struct(wanted.type):
            raise unexpected(FormatError, "a struct", f"`{wanted.type}`", path=path)
        _demand_fields(type_, wanted.type, path)
    elif isinstance(type_, StaticArray | Sequence):
        element = _element_field(wanted, len(type_.shape))
        if element is None:
            raise unexpected(
                FormatError, f"a list for each dimension of `{type_}`", f"`{wanted.type}`", path=path
            )
        _demand_field(type_.element, element, path)
    else:
        _demand_cast(arrow_type(type_), wanted.type, path)


def _demand_cast(own: Any, wanted: Any, path: str) -> None:
    pa = pyarrow()
    try:
        pa.array([], own).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise unexpected(
            FormatError, f"a type that `{own}` can be cast to", f"`{wanted}`", path=path
        ) from None
