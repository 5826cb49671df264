"""The Spark and Arrow schema of an event, derived from its format.

    bool                  boolean            text, chars[n]      string
    int8 .. int64         tinyint .. bigint  bytes, bytes[n]     binary
    uint8                 smallint           uuid                string, as `str(uuid)` writes it
    uint16                int                an enum             string, the member's name
    uint32                bigint             timestamp           timestamp, microseconds in UTC
    uint64                decimal(20,0)      duration            interval day to second, microseconds
    float16, float32      float              T | None            nullable
    float64               double             arrays, lists       array, one level for each dimension
    complex               struct<real,imag>  an event            struct

Spark has no unsigned numbers: each takes the least type that holds all of them. Spark's times end at the
microsecond, those of an event at the nanosecond; what is finer is cut towards zero, as it is where an event
becomes a Python object. What is not optional is not nullable.

A format's types are reached through `Format.fields`; their classes have no public names, so they are told
apart by what they are called.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any

import echo_core as echo

TypeNode = Any  # a field's type: Scalar, Enumeration, Text, Blob, Array, Sequence, Nullable or Record

_SIGNED = {1: ("int8", "ByteType"), 2: ("int16", "ShortType"), 4: ("int32", "IntegerType")}
_SIGNED[8] = ("int64", "LongType")
_UNSIGNED = {1: _SIGNED[2], 2: _SIGNED[4], 4: _SIGNED[8]}
_FLOATS = {2: ("float32", "FloatType"), 4: ("float32", "FloatType"), 8: ("float64", "DoubleType")}
_BY_KIND = {
    "BOOL": ("bool_", "BooleanType"),
    "CHARS": ("string", "StringType"),
    "UUID": ("string", "StringType"),
    "BYTES": ("binary", "BinaryType"),
}
_BY_FORM = {
    "Text": ("string", "StringType"),
    "Enumeration": ("string", "StringType"),
    "Blob": ("binary", "BinaryType"),
}


def form(node: TypeNode) -> str:
    """The name of a type: "Scalar", "Record", ..."""
    return type(node).__name__


def kind(node: TypeNode) -> str:
    """The kind of a scalar: "INT", "CHARS", ...; empty for other types."""
    return node.kind.name if form(node) == "Scalar" else ""


def is_nullable(node: TypeNode) -> bool:
    return form(node) == "Nullable"


def has_parts(node: TypeNode) -> bool:
    """Whether values have variable parts."""
    match form(node):
        case "Text" | "Blob" | "Sequence":
            return True
        case "StaticArray" | "Nullable":
            return has_parts(node.element)
        case "Record":
            return any(has_parts(member.type) for member in node.fields)
        case _:
            return False


@functools.lru_cache(maxsize=1024)
def arrow_type(node: TypeNode) -> Any:
    """The Arrow type of a field's values."""
    pa = importlib.import_module("pyarrow")
    match form(node):
        case "Nullable":
            return arrow_type(node.element)
        case "Record":
            return pa.struct(list(_arrow_fields(node.fields)))
        case "StaticArray" | "Sequence":
            made, nullable = arrow_type(node.element), is_nullable(node.element)
            for _ in node.shape:
                made, nullable = pa.list_(pa.field("element", made, nullable)), False
            return made
        case _:
            return _arrow_leaf(pa, node)


def _arrow_fields(fields: tuple[echo.Field, ...]) -> Iterator[Any]:
    pa = importlib.import_module("pyarrow")
    for member in fields:
        yield pa.field(member.name, arrow_type(member.type), is_nullable(member.type))


def _arrow_leaf(pa: Any, node: TypeNode) -> Any:
    match kind(node), getattr(node, "size", 0):
        case "UINT", 8:
            return pa.decimal128(20, 0)
        case "COMPLEX", size:
            half = getattr(pa, _FLOATS[size // 2][0])()
            return pa.struct([pa.field("real", half, False), pa.field("imag", half, False)])
        case "TIMESTAMP", _:
            return pa.timestamp("us", "UTC")
        case "DURATION", _:
            return pa.duration("us")
        case _:
            return getattr(pa, _names_of(node)[0])()


def _names_of(node: TypeNode) -> tuple[str, str]:
    """The names in Arrow and Spark of a type without parameters."""
    match kind(node):
        case "INT":
            return _SIGNED[node.size]
        case "UINT":
            return _UNSIGNED[node.size]
        case "FLOAT":
            return _FLOATS[node.size]
        case "":
            return _BY_FORM[form(node)]
        case other:
            return _BY_KIND[other]


def spark_type(node: TypeNode) -> Any:
    """The Spark type of a field's values."""
    types = importlib.import_module("pyspark.sql.types")
    match form(node):
        case "Nullable":
            return spark_type(node.element)
        case "Record":
            return types.StructType(
                [types.StructField(m.name, spark_type(m.type), is_nullable(m.type)) for m in node.fields]
            )
        case "StaticArray" | "Sequence":
            made, nullable = spark_type(node.element), is_nullable(node.element)
            for _ in node.shape:
                made, nullable = types.ArrayType(made, nullable), False
            return made
        case _:
            return _spark_leaf(types, node)


def _spark_leaf(types: Any, node: TypeNode) -> Any:
    match kind(node), getattr(node, "size", 0):
        case "UINT", 8:
            return types.DecimalType(20, 0)
        case "COMPLEX", size:
            half = getattr(types, _FLOATS[size // 2][1])()
            fields = [types.StructField(name, half, False) for name in ("real", "imag")]
            return types.StructType(fields)
        case "TIMESTAMP", _:
            return types.TimestampType()
        case "DURATION", _:
            return types.DayTimeIntervalType()
        case _:
            return getattr(types, _names_of(node)[1])()


def struct_type(described: type[Any] | echo.Format) -> Any:
    """The pyspark StructType of an event class or a format."""
    return spark_type(format_for(described).record)


def arrow_schema(described: type[Any] | echo.Format) -> Any:
    """The pyarrow schema of an event class or a format, with a field for each of its fields."""
    pa = importlib.import_module("pyarrow")
    return pa.schema(list(_arrow_fields(format_for(described).fields)))


def format_for(described: type[Any] | echo.Format) -> echo.Format:
    """The format itself, or that of the class."""
    return described if isinstance(described, echo.Format) else echo.format_of(described)
