"""The product against a decoder that was written from docs/wire-format.md alone, and that page itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.plain.records import read, write
from echo_core.errors import WireError
from echo_core.formats import limits
from echo_core.formats.entries import Code
from echo_core.formats.layout import Layout
from echo_core.formats.metadata import to_metadata
from echo_core.formats.token import Token
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
from tests.codegen import independent
from tests.formats.strategies import comparable, examples, layouts, plain_values

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "wire-format.md").read_text()


# ---------------------------------------------------------------------------------------------------
# Agreement


@examples(350)
@given(st.data())
def test_independent_decoder_reads_what_the_product_writes(data: st.DataObject) -> None:
    """Random layouts of random machines, random values: two decoders, one result."""
    layout = data.draw(layouts())
    plain = data.draw(plain_values(layout, any_number=True))
    description = independent.Description(to_metadata(layout))
    message = write(plain, layout)
    assert comparable(independent.decode(message, description)) == comparable(plain)
    assert comparable(read(message, layout)) == comparable(plain)


@examples(200)
@given(layouts())
def test_independent_decoder_finds_the_layout_in_the_metadata(layout: Layout) -> None:
    """Sizes and alignments that metadata does not carry are worked out alike."""
    metadata = to_metadata(layout)
    description = independent.Description(metadata)
    assert description.order == ("<" if layout.byte_order == "little" else ">")
    assert description.pointer_size == layout.pointer_size
    assert_alike(layout.record, description.record)
    assert layout.record.aliases == description.aliases
    assert independent.token_of(metadata) == Token.of(metadata)


@examples(350)
@given(st.data())
def test_both_decoders_refuse_the_same_messages(data: st.DataObject) -> None:
    """A message with a few bytes changed, added or cut off means the same to both, or nothing to either."""
    layout = data.draw(layouts())
    message = bytearray(write(data.draw(plain_values(layout)), layout))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(message) - 1))
        message[at] = data.draw(st.sampled_from((0, 1, message[at] ^ 1, 0x7F, 0x80, 0xFF)))
    cut = data.draw(st.sampled_from((0, 0, 0, 1, 2, 8, -1, -8)))
    received = bytes(message[: len(message) - cut]) + bytes(max(-cut, 0))
    description = independent.Description(to_metadata(layout))
    try:
        expected = comparable(independent.decode(received, description))
    except ValueError:
        with pytest.raises(WireError):
            read(received, layout)
    else:
        assert comparable(read(received, layout)) == expected


def test_independent_decoder_imports_nothing_of_the_product() -> None:
    """It would repeat the product's mistakes if it did."""
    tree = ast.parse((ROOT / "tests" / "codegen" / "independent.py").read_text())
    imported = [node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import)]
    imported += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert sorted(imported) == [
        "__future__",
        "collections.abc",
        "hashlib",
        "math",
        "struct",
        "typing",
    ]


def assert_alike(ours: Type, theirs: independent.Type) -> None:
    """The same type in two spellings."""
    assert (ours.size, ours.alignment, code_of(ours)) == (theirs.size, theirs.alignment, theirs.code)
    match ours:
        case Record():
            assert ours.name == theirs.name
            for mine, other in zip(ours.fields, theirs.fields, strict=True):
                assert_alike(mine.type, other.type)
                assert described(mine) == other._replace(type=described(mine).type)
        case StaticArray() | Sequence() | Nullable():
            assert_alike(ours.element, theirs.element)
        case Enumeration():
            assert (ours.name, ours.members) == (theirs.name, theirs.members)
        case _:
            pass


def described(field: Field) -> independent.Field:
    """A field without its type, as the page has it."""
    default = field.default
    code = 0 if default is None else 3 if default.local else 2 if default.data is None else 1
    data = (default and default.data) or b""
    nothing = independent.Type(0, 0, 0)
    return independent.Field(field.name, field.offset, nothing, (code, data), field.unit, field.aliases)


def code_of(type_: Type) -> int:
    """The code that the page gives a type."""
    if isinstance(type_, Scalar):
        return type_.kind
    codes = {
        Text: 32,
        Blob: 33,
        Enumeration: 34,
        Record: 35,
        StaticArray: 48,
        Sequence: 49,
        Nullable: 50,
    }
    return codes[type(type_)]


# ---------------------------------------------------------------------------------------------------
# The page


@echo.event
class Cell:
    """The inner record of the page's example."""

    kind: echo.Int16
    label: str


@echo.event(aliases=("Sample",))
class Reading:
    """The record of the page's example."""

    id: echo.Int32
    name: str
    cells: list[Cell]
    temp: echo.Float32 | None
    note: str | None = None
    old: echo.UInt8 = echo.field(default=7, aliases=("was",), unit="K")


EXAMPLE = Reading(42, "Göd", [Cell(1, "a"), Cell(2, "bc")], 1.5, None, 9)


def dump(name: str) -> bytes:
    """The bytes of a dump in the page; every line must begin where the one before ended."""
    block = PAGE.partition(f"<!-- dump: {name} -->\n```\n")[2].partition("```")[0]
    data = b""
    for line in block.splitlines():
        found = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} )+) +\S", line)
        assert found is not None, line
        assert int(found[1], 16) == len(data), line
        data += bytes.fromhex(found[2])
    return data


def test_record_in_the_page_is_what_the_encoder_writes() -> None:
    """The annotated dump is the code's own output."""
    assert echo.encoder(Reading, abi="x86_64")(EXAMPLE) == dump("record")


def test_metadata_in_the_page_is_what_the_format_writes() -> None:
    """The annotated dump is the code's own output, and so is the token below it."""
    format_ = echo.format_of(Reading, abi="x86_64")
    assert format_.metadata == dump("metadata")
    assert f"`{format_.token}`" in PAGE


def test_dumps_in_the_page_decode_to_the_example() -> None:
    """The page's two dumps are enough to get the values back."""
    description = independent.Description(dump("metadata"))
    assert independent.decode(dump("record"), description) == {
        "id": 42,
        "name": "Göd",
        "cells": [{"kind": 1, "label": "a"}, {"kind": 2, "label": "bc"}],
        "temp": 1.5,
        "note": None,
        "old": 9,
    }


def section(title: str) -> str:
    """The text below a heading, up to the next heading."""
    return PAGE.partition(f"# {title}\n")[2].partition("\n#")[0]


LIMIT_ROWS = {
    "MAX_METADATA_BYTES": "| metadata |",
    "MAX_RECORD_BYTES": "size of a record",
    "MAX_FIELDS": "fields of the whole layout",
    "MAX_WRAPPERS": "wrappers in the metadata",
    "MAX_NESTING": "nesting",
    "MAX_DIMENSIONS": "dimensions of one wrapper",
    "MAX_NAME_BYTES": "names, aliases, units",
    "MAX_ALIASES": "aliases of one record or one field",
    "MAX_ENUM_MEMBERS": "members of an enumeration",
    "MAX_DEFAULT_BYTES": "bytes of one default",
    "MAX_ALIGNMENT": "alignment of a record",
}


@pytest.mark.parametrize("name", [name for name in vars(limits) if name.startswith("MAX_")])
def test_every_limit_stands_in_the_page(name: str) -> None:
    """A limit that changes takes the page with it."""
    value: Any = getattr(limits, name)
    rows = [line for line in section("Limits").splitlines() if LIMIT_ROWS[name] in line]
    assert any(re.search(rf"\b{value}\b", row) for row in rows)


@pytest.mark.parametrize("code", [*Kind, *Code], ids=lambda code: code.name)
def test_every_code_stands_in_the_page(code: int) -> None:
    """Each kind and code has its row."""
    rows = re.findall(r"^\| ([0-9, ]+) \|", section("Codes"), re.MULTILINE)
    assert code in {int(number) for row in rows for number in row.split(",")}
