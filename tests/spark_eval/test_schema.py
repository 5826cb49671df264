"""Formats as Spark's and Arrow's schemas."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import echo_core as echo
from tests.spark_eval.events import Fixed, Varying

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from echo_core.spark_eval.columns.schema import arrow_schema, struct_type

EXPECTED = {
    "flag": "boolean",
    "i8": "tinyint",
    "i16": "smallint",
    "i32": "int",
    "i64": "bigint",
    "u8": "smallint",
    "u16": "int",
    "u32": "bigint",
    "u64": "decimal(20,0)",
    "f16": "float",
    "f32": "float",
    "f64": "double",
    "c64": "struct<real:float,imag:float>",
    "c128": "struct<real:double,imag:double>",
    "text": "string",
    "data": "binary",
    "quality": "string",
    "when": "timestamp",
    "lasted": "interval day to second",
    "key": "string",
    "channel": "struct<number:int,label:string>",
    "grid": "array<array<float>>",
    "channels": "array<struct<number:int,label:string>>",
    "maybe": "double",
    "maybe_text": "string",
    "maybe_channel": "struct<number:int,label:string>",
}


def test_every_kind_of_field_has_its_spark_type() -> None:
    """Unsigned numbers take the least signed type that holds them all."""
    found = struct_type(Fixed)
    assert {field.name: field.dataType.simpleString() for field in found} == EXPECTED


@pytest.mark.parametrize("cls", [Fixed, Varying])
def test_the_arrow_schema_is_the_one_that_spark_derives(cls: type[Any]) -> None:
    """Names, types and nullability, at every depth; else mapInArrow refuses the batches."""
    types: Any = importlib.import_module("pyspark.sql.pandas.types")
    assert arrow_schema(cls).equals(types.to_arrow_schema(struct_type(cls), timezone="UTC"))


def test_only_optional_fields_are_nullable() -> None:
    """At the top and inside lists."""
    fields = {field.name: field for field in struct_type(Varying)}
    optional = {"note", "blob", "maybe", "maybe_cell"}
    assert {name for name, field in fields.items() if field.nullable} == optional
    assert fields["holes"].dataType.containsNull
    assert not fields["tags"].dataType.containsNull


def test_a_foreign_format_has_the_same_schema() -> None:
    """Byte order and word size are none of Spark's business."""
    assert struct_type(echo.format_of(Varying, abi="s390x")) == struct_type(Varying)
    assert arrow_schema(echo.format_of(Fixed, abi="i386")).equals(arrow_schema(Fixed))
