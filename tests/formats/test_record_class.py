"""Classes made for formats that no class was declared for."""

from __future__ import annotations

import dataclasses
import enum
import pickle
import typing
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import echo_core as echo
from echo_core.errors import WireError
from echo_core.formats.abi import ABI_BY_NAME
from echo_core.formats.layout import Layout, place
from echo_core.formats.metadata import to_metadata
from echo_core.formats.record_class import (
    annotation_of,
    blank_value,
    class_of,
    default_value,
    sequence_container,
)
from echo_core.formats.types import (
    Blob,
    Default,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
)
from tests.formats.samples import Cell, Rich, Small
from tests.formats.strategies import layouts

ABIS = ["x86_64", "i386", "s390x", "m68k"]
INT = Scalar(Kind.INT, 4)


def met(cls: type[Any], abi: str = "native") -> echo.Format:
    """The format as one sees it who has only the metadata."""
    return echo.Format.from_metadata(echo.format_of(cls, abi=abi).metadata)


def test_declared_class_is_its_own_record_class() -> None:
    """What was declared here needs no other."""
    assert echo.format_of(Rich).record_class() is Rich


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("cls", [Rich, Small])
def test_made_class_has_the_same_fields_at_the_same_places(cls: type[Any], abi: str) -> None:
    """Laid out again for the ABI that it came from, it is the same format."""
    format_ = met(cls, abi)
    again = echo.format_of(format_.record_class(), abi=abi)
    assert again == format_
    assert again.token == format_.token


def test_events_of_a_made_class_can_be_compared() -> None:
    """Also when they hold arrays, whose own comparison is neither true nor false."""
    sender = met(Rich)
    data = bytes(sender.size_bytes)
    made = sender.record_class()
    required = {f.name: blank_value(f.type) for f in sender.fields if f.default is None}
    assert made(**required) == made(**required)
    assert made(**required) != made(**{**required, sender.fields[0].name: 7})
    assert made(**required) != data


@given(layouts())
def test_made_class_of_a_random_record_has_the_same_fields(layout: Layout) -> None:
    """Names, types, aliases and units, where an ABI could have placed them so."""
    abi = next(
        abi
        for abi in ABI_BY_NAME.values()
        if (abi.byte_order, abi.pointer_size) == (layout.byte_order, layout.pointer_size)
    )
    again = echo.format_of(class_of(layout.record), abi=abi).record
    assert [field.name for field in again.fields] == [field.name for field in layout.record.fields]
    for field, other in zip(again.fields, layout.record.fields, strict=True):
        assert (field.aliases, field.unit) == (other.aliases, other.unit)
        assert str(field.type) == str(other.type)


def test_made_class_is_made_once() -> None:
    """Equal formats have one class, so that their events compare."""
    assert met(Small).record_class() is met(Small).record_class()


def test_made_class_holds_prints_and_compares() -> None:
    """What a generic tool needs of events that it has never seen."""
    cls = met(Small).record_class()
    cell = met(Small).fields[2].type
    assert isinstance(cell, StaticArray)
    assert isinstance(cell.element, Record)
    cells = [class_of(cell.element)(i=i, name="x") for i in range(2)]
    event = cls(cells=cells)
    assert repr(event) == "Small(n=7, c=None, cells=[Cell(i=0, name='x'), Cell(i=1, name='x')])"
    assert event == cls(n=7, cells=cells)
    assert event != cls(n=8, cells=cells)
    assert cls.__doc__ == "Records of `Small`, a format met at run time."


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("cls", [Rich, Small])
def test_made_classes_and_their_enumerations_pickle(cls: type[Any], abi: str) -> None:
    """As the record that they were made of; whoever loads them has the same class."""
    made = met(cls, abi).record_class()
    assert pickle.loads(pickle.dumps(made)) is made
    for annotation in typing.get_type_hints(made).values():
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            assert all(pickle.loads(pickle.dumps(member)) is member for member in annotation)


def test_options_of_fields_are_kept() -> None:
    """Former names, units and defaults that travel."""
    fields = {field.name: field for field in echo.format_of(met(Rich).record_class()).fields}
    assert fields["temp"].aliases == ("t", "temperature")
    assert fields["größe"].unit == "µm"
    assert fields["raw"].default == Default(b"abc")
    assert fields["names"].default == Default(local=True)


def test_enumeration_is_made_with_its_names() -> None:
    """Members by name, values the numbers of the wire."""
    cls: Any = met(Rich).record_class()
    color = typing.get_type_hints(cls)["color"]
    assert issubclass(color, enum.Enum)
    assert {member.name: member.value for member in color} == {"RED": 0, "BLUE": 1}
    default = {field.name: field.default for field in dataclasses.fields(cls)}["paint"]
    assert default == color["BLUE"]


def test_events_of_made_classes_travel() -> None:
    """Encoded, decoded, equal."""
    encode = echo.encoder(Small)
    sender = met(Small)
    cells: Any = [Cell(1, "a"), Cell(2, "b")]
    data = encode(Small(1, None, cells))
    event: Any = echo.decoder(None, sender=sender)(data)
    assert (event.n, event.c, event.cells[1].name) == (1, None, "b")
    assert echo.encoder(sender.record_class())(event) == data


NAMES = ["type", "match", "self", "_x", "__x", "cls", "field", "Any", "int", "dataclass"]


@pytest.mark.parametrize("name", NAMES)
def test_name_that_python_allows_can_be_a_field(name: str) -> None:
    """Soft keywords and the names of built-ins are names like any other."""
    record = place(
        "R", [Field(name, INT), Field("other", INT, default=Default(b"\1\0\0\0"))], ABI_BY_NAME["native"]
    )
    event = class_of(record)(**{name: 3})
    assert (getattr(event, name), event.other) == (3, 1)


@pytest.mark.parametrize(
    "name", ["class", "None", "import", "__init__", "__class__", "__slots__", "1", "a b"]
)
def test_name_that_python_reserves_never_becomes_a_class(name: str) -> None:
    """A peer that sends one, for a field or for a record, is refused before there is a class."""
    abi = ABI_BY_NAME["native"]
    for record in (place("R", [Field(name, INT)], abi), place(name, [Field("x", INT)], abi)):
        metadata = to_metadata(Layout(abi.byte_order, abi.pointer_size, record))
        with pytest.raises(WireError, match="Expected an identifier"):
            echo.Format.from_metadata(metadata)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Field("x", INT, default=Default(b"\1\0\0\0")), 1),
        (Field("x", Nullable(INT), default=Default()), None),
        (Field("x", Nullable(Text(8)), default=Default(b"a")), "a"),
    ],
)
def test_default_is_a_python_value(field: Field, value: object) -> None:
    """As a component would have written it."""
    assert default_value(field) == value


def test_containers_are_arrays_for_numbers_and_lists_for_the_rest() -> None:
    """Unless the class said otherwise."""
    assert sequence_container(Sequence(INT, (None,), 8)) is np.ndarray
    assert sequence_container(Sequence(Text(8), (None,), 8)) is list
    assert sequence_container(Sequence(INT, (None,), 8, tuple)) is tuple
    assert annotation_of(Sequence(Text(8), (None,), 8)) == list[str]


@pytest.mark.parametrize(
    ("type_", "blank"),
    [
        (Text(8), ""),
        (Blob(8), b""),
        (Nullable(Text(8)), None),
        (Scalar(Kind.INT, 4), 0),
        (Scalar(Kind.CHARS, 4), ""),
        (Enumeration("Colour", 4, (("RED", 3), ("BLUE", 1))), "RED"),
        (StaticArray(Scalar(Kind.INT, 4), (2, 3)), [[0, 0, 0], [0, 0, 0]]),
        (StaticArray(Text(8), (2, 2)), [["", ""], ["", ""]]),
        (Sequence(Text(8), (None,), 8), []),
        (Sequence(Scalar(Kind.FLOAT, 8), (None, 3), 8), []),
        (Record("Inner", 4, 4, (Field("x", Scalar(Kind.INT, 4)),)), 0),
    ],
    ids=str,
)
def test_a_default_that_nobody_here_can_make_is_blank(type_: Any, blank: Any) -> None:
    """Nothing, zeros, or the first member."""
    value = blank_value(type_)
    if isinstance(value, enum.Enum):
        value = value.name
    elif isinstance(type_, Record):
        value = value.x
    assert (value.tolist() if isinstance(value, np.ndarray) else value) == blank
