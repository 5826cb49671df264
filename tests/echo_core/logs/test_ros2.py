"""Events as ROS 2 messages: read back by what ROS 2's users read them with."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.plain.records import as_array, flat, shape_of, write
from echo_core.formats.abi import NATIVE
from echo_core.formats.format import Format
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Type,
)
from echo_core.logs.exports.cdr import HEADER, cdr_of
from echo_core.logs.exports.ros2 import cdr_size, definition_of, lies_as_cdr, names_of
from tests.codegen.pairs import format_of_types
from tests.formats.strategies import examples, layouts, plain_values, without_nan


@echo.event
class Cell:
    x: float
    y: echo.Float32
    n: echo.Int32


@echo.event
class Natural:
    id: int
    temp: echo.Float32 = echo.field(unit="K")
    tag: echo.Chars[4]
    cells: echo.Array[float, 2]
    cell: Cell


@echo.event
class Padded:
    small: echo.Int8
    cell: Cell
    last: echo.Int8


def expected(type_: Type, plain: Any) -> Any:
    """What a message has for a plain value: lists, dicts and numbers."""
    match type_:
        case Record():
            names = names_of(type_.fields)
            found = dict[str, Any]()
            for field in type_.fields:
                found |= _member(field.type, plain[field.name], names[field.name])
            return found or {"structure_needs_at_least_one_member": 0}
        case Nullable():
            return [] if plain is None else [_item(type_.element, plain)]
        case StaticArray() | Sequence():
            array = as_array(plain)
            if array is not None:
                plain = (array.view(np.int64) if array.dtype.kind in "mM" else array).tolist()
            return [_item(type_.element, item) for item in flat(plain, len(type_.shape))]
        case Scalar(kind=Kind.COMPLEX):
            return [plain.real, plain.imag]
        case Scalar(kind=Kind.UUID | Kind.BYTES) | Blob():
            return list(plain)
        case _:
            return plain


def _member(type_: Type, plain: Any, name: str) -> dict[str, Any]:
    value = {name: expected(type_, plain)}
    if not isinstance(type_, Sequence) or len(type_.shape) < 2:
        return value
    found = shape_of(plain, len(type_.shape))
    known: tuple[Any, ...] = type_.shape
    shape = [n if isinstance(n, int) else m for n, m in zip(known, found, strict=True)]
    return {f"{name}_shape": shape, **value}


def _item(type_: Type, plain: Any) -> Any:
    """What is a list itself stands in a message of its own."""
    is_list = isinstance(type_, Nullable | StaticArray | Sequence | Blob) or (
        isinstance(type_, Scalar) and type_.kind in (Kind.COMPLEX, Kind.UUID, Kind.BYTES)
    )
    return _member(type_, plain, "items") if is_list else expected(type_, plain)


def as_plain(value: Any) -> Any:
    """A decoded message as lists, dicts and numbers."""
    if isinstance(value, bool | int | float | str):
        return value
    names: Any = getattr(value, "__slots__", None)
    if names is not None:
        return {name: as_plain(getattr(value, name)) for name in names}
    return [as_plain(item) for item in value]


@examples(40)
@given(data=st.data())
def test_any_event_is_read_by_ros_2_as_what_it_was(data: st.DataObject) -> None:
    """Whatever types are combined: by a reader that knows the definition and the bytes alone."""
    dynamic: Any = pytest.importorskip("mcap_ros2._dynamic")
    layout = data.draw(layouts(NATIVE))
    plain = without_nan(data.draw(plain_values(layout)))
    definition = definition_of(Format(layout))
    if definition.is_record:
        return
    decoder = dynamic.generate_dynamic(definition.name, definition.text)[definition.name]
    assert as_plain(decoder(cdr_of(layout.record, plain))) == expected(layout.record, plain)


def _has_chars(type_: Type) -> bool:
    match type_:
        case Record():
            return any(_has_chars(field.type) for field in type_.fields)
        case StaticArray():
            return _has_chars(type_.element)
        case _:
            return isinstance(type_, Scalar) and type_.kind is Kind.CHARS


@examples(60)
@given(data=st.data())
def test_records_that_lie_as_cdr_are_what_is_written_one_by_one(data: st.DataObject) -> None:
    """Up to what pads their end. Text is bytes there, so records without any are compared."""
    layout = data.draw(layouts(NATIVE, depth=2))
    plain = data.draw(plain_values(layout))
    if lies_as_cdr(layout.record) and not _has_chars(layout.record):
        record = write(plain, layout)
        assert cdr_of(layout.record, plain) == HEADER + record[: cdr_size(layout.record)]


def test_a_natural_record_is_a_message_as_it_lies() -> None:
    """Nested ones too, where they end without padding; text is bytes then."""
    record = echo.format_of(Natural).record
    assert lies_as_cdr(record)
    assert cdr_size(record) == record.size
    assert definition_of(echo.format_of(Natural)).text.splitlines() == [
        "int64 id",
        "float32 temp # K",
        "uint8[4] tag",
        "float64[2] cells",
        "echo/Cell cell",
        "=" * 80,
        "MSG: echo/Cell",
        "float64 x",
        "float32 y",
        "int32 n",
    ]


def test_padding_that_cdr_does_not_have_is_left_out() -> None:
    """At the end it is cut off, elsewhere records are written one by one."""
    assert not lies_as_cdr(echo.format_of(Padded).record) or cdr_size(echo.format_of(Padded).record) == 25
    cut = echo.Format.from_c("struct Cut { double x; int n; };").record
    assert (cut.size, cdr_size(cut)) == (16, 12)
    assert not lies_as_cdr(
        echo.Format.from_c("struct R { char c; struct { char d; double x; } nested; };").record
    )


def test_an_array_of_many_records_is_judged_by_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alignments repeat, so a million elements cost no more than nine."""
    big = echo.Format.from_c("struct E { int a; int b; }; struct R { struct E e[100000]; };").record
    assert lies_as_cdr(big)
    assert cdr_size(big) == prod((100000, 8))
    odd = echo.Format.from_c("struct E { double a; char b; }; struct R { struct E e[100000]; };").record
    assert lies_as_cdr(odd)
    assert cdr_size(odd) == 100000 * 16 - 7


def test_names_are_made_fit() -> None:
    """Small letters of ASCII; two that become equal are told apart, and enumerations have constants."""
    fields = ["größe", "gr__e", "_1", "wheelSpeed"]
    record = echo.Format.from_dtype(np.dtype([(name, "<i4") for name in fields]), name="my_events").record
    assert names_of(record.fields) == {
        "größe": "gr_e",
        "gr__e": "gr_e2",
        "_1": "field_1",
        "wheelSpeed": "wheel_speed",
    }
    kind = Enumeration("Kind", 4, (("ion", 1), ("größe", 2)))
    definition = definition_of(format_of_types(NATIVE, kind=kind, other=Nullable(kind)))
    assert definition.text.splitlines()[:3] == ["int32 KIND_ION=1", "int32 KIND_GR_E=2", "int32 kind"]
    assert definition.text.splitlines()[-1] == "int32[<=1] other"
