"""Formats that a comparison calls the same: a receiver reads the sender's bytes as if they were its own."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.conversion import Conversion
from echo_core.codegen.plain.records import read, write
from echo_core.errors import EchoError, FormatError
from echo_core.formats.abi import NATIVE
from echo_core.formats.comparing.compare import Verdict, compare
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout
from echo_core.formats.types import Field, Kind, Nullable, Record, Scalar, Sequence, StaticArray, Type
from tests.formats.samples import Particle
from tests.formats.strategies import comparable, examples, layouts, plain_values

LONG = Scalar(Kind.INT, 8)


def packed_elsewhere(type_: Type, data: st.DataObject) -> Type:
    """The same with other alignments of the records inside, as a sender may have declared them."""
    match type_:
        case Record():
            fields = [dataclasses.replace(it, type=packed_elsewhere(it.type, data)) for it in type_.fields]
            alignments = [it for it in (type_.alignment, 1, 2, 4, 8) if type_.size % it == 0]
            alignment = data.draw(st.sampled_from(alignments))
            return dataclasses.replace(type_, alignment=alignment, fields=tuple(fields))
        case Nullable() | StaticArray() | Sequence():
            return dataclasses.replace(type_, element=packed_elsewhere(type_.element, data))
        case _:
            return type_


@examples(200)
@given(st.data())
def test_the_bytes_of_a_format_that_is_the_same_mean_the_same(data: st.DataObject) -> None:
    """And pass our verification; also where alignments differ, which no entry of a report shows by itself."""
    layout = data.draw(layouts(NATIVE))
    record = packed_elsewhere(layout.record, data)
    assert isinstance(record, Record)
    record = dataclasses.replace(record, alignment=layout.record.alignment)
    try:
        sender = Format.from_metadata(Format(dataclasses.replace(layout, record=record)).metadata)
    except EchoError:  # a field would not be aligned, or not fit
        assume(False)
    own = Format(layout)
    assume(compare(sender, own).is_same)
    message = write(data.draw(plain_values(sender.layout)), sender.layout)
    assert comparable(read(message, layout)) == comparable(read(message, sender.layout))
    kept = Conversion(own, own, keeps=True)
    if kept.keeps:  # others are a copy
        assert kept.interpret(message) == message
        kept.compile()
        assert kept.call(message) is message


@echo.event
class Old:
    name: str


@echo.event
class New:
    name: str
    age: int = 0


def test_records_that_are_not_the_same_are_not_kept() -> None:
    """A receiver would read what the sender never wrote."""
    with pytest.raises(FormatError, match="own layout to keep, got others of `Old`"):
        Conversion(echo.format_of(Old), echo.format_of(New), keeps=True)
    assert Conversion(echo.format_of(Old), echo.format_of(Old), keeps=True).keeps
    fixed = echo.format_of(Particle)
    assert not Conversion(fixed, fixed, keeps=True).keeps  # which is a copy anyway


def test_optionals_that_are_padded_otherwise_are_moved() -> None:
    """Nine bytes each where the sender packs them, sixteen here; in records of one size."""

    def format_of(alignment: int) -> Format:
        cell = Record("Cell", 8, alignment, (Field("a", LONG, offset=0),))
        cells = Field("cells", StaticArray(Nullable(cell), (2,)), offset=0)
        return Format(Layout(NATIVE.byte_order, 8, Record("R", 32, 8, (cells,))))

    report = compare(format_of(1), format_of(8))
    assert report.entries[0].verdict is Verdict.MOVED
    assert report.entries[0].reason == "optionals of 9 bytes, not 16"
    assert not report.is_same
