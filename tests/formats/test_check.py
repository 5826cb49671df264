"""The rules that a record keeps, each broken once, for the caller's fault and for the peer's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from echo_core.errors import EchoError, FormatError, WireError
from echo_core.formats.check import check_enumeration, check_name, check_pointer_size, check_record
from echo_core.formats.layout import Layout
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
    Type,
)
from tests.formats.strategies import layouts

BYTE, WORD, LONG = (Scalar(Kind.INT, size) for size in (1, 4, 8))
COLOR = Enumeration("Color", 1, (("RED", 0), ("BLUE", 1)))


def record(*fields: Field, size: int = 64, alignment: int = 8, name: str = "R") -> Record:
    return Record(name, size, alignment, fields)


def one(type_: Type, **others: Any) -> Record:
    return record(Field("x", type_, **others))


def listed(*shape: int | str | None, element: Type = WORD) -> Sequence:
    return Sequence(element, shape, 8)


BROKEN: list[tuple[str, Record, str, str]] = [
    ("alignment of 3", record(alignment=3, size=3), "Expected an alignment of 1 to 16, got 3", "R"),
    ("alignment of 0", record(alignment=0), "Expected an alignment of 1 to 16, got 0", "R"),
    ("alignment of 32", record(alignment=32), "Expected an alignment of 1 to 16, got 32", "R"),
    ("no bytes", record(size=0), "Expected a record of 1 to 16777216 bytes", "R"),
    ("not a multiple", record(size=12), "a multiple of its alignment 8, got 12", "R"),
    ("field beyond", one(LONG, offset=60), "Expected a field within the record's 64 bytes", "R.x"),
    ("field before", one(LONG, offset=-8), "got -8 to 0", "R.x"),
    ("overlap", record(Field("x", LONG), Field("y", BYTE, 7)), "one that begins inside `x`", "R.y"),
    ("same place", record(Field("x", BYTE), Field("y", BYTE)), "one that begins inside `x`", "R.y"),
    ("size of a kind", one(Scalar(Kind.INT, 3)), "Expected a size that `int` has, got 3 bytes", "R.x"),
    ("bool of 2", one(Scalar(Kind.BOOL, 2)), "Expected a size that `bool` has, got 2 bytes", "R.x"),
    ("pointer size", one(Text(4)), "Expected pointers of 8 bytes, got 4", "R.x"),
    ("pointer size of bytes", one(Nullable(Blob(4))), "Expected pointers of 8 bytes, got 4", "R.x"),
    ("optional twice", one(Nullable(Nullable(BYTE))), "optional once, got it twice", "R.x"),
    ("empty dimension", one(StaticArray(BYTE, (0,))), "Expected dimensions of 1 to 16777216, got [0]", "R.x"),
    ("static sequence", one(listed(3)), "got none: it is a static array", "R.x"),
    ("no dimension", one(listed()), "got none: it is a static array", "R.x"),
    ("count unknown", one(listed("n")), "Expected an integer field `n`", "R.x"),
    (
        "count is a float",
        record(Field("n", Scalar(Kind.FLOAT, 8)), Field("x", listed("n"), 8)),
        "counts the elements, got `float64`",
        "R.x",
    ),
    (
        "count is optional",
        record(Field("n", Nullable(WORD)), Field("x", listed("n"), 8)),
        "counts the elements, got `int32 | None`",
        "R.x",
    ),
    (
        "count of an inner sequence",
        record(Field("n", WORD), Field("x", StaticArray(listed("n"), (2,)), 8)),
        "Expected a count of its own for a sequence inside another type, got the field `n`",
        "R.x",
    ),
    ("unit not printable", one(BYTE, unit="a\n"), "Expected a printable unit", "R.x"),
    ("None for a number", one(BYTE, default=Default()), "Expected a default for `int8`, got None", "R.x"),
    ("short default", one(WORD, default=Default(b"1")), "Expected a default of 4 bytes", "R.x"),
    ("local with data", one(BYTE, default=Default(b"1", local=True)), "no default that travels", "R.x"),
    ("default of a list", one(listed(None), default=Default(b"1")), "no default that travels", "R.x"),
    ("unknown member", one(COLOR, default=Default(b"\5")), "Expected a number of `enum Color`", "R.x"),
    ("bool of 2 as default", one(Scalar(Kind.BOOL, 1), default=Default(b"\2")), "Expected 0 or 1", "R.x"),
    ("name twice", record(Field("x", BYTE), Field("x", BYTE, 1)), "got `x` twice", "R"),
    ("alias is a name", record(Field("x", BYTE, aliases=("y",)), Field("y", BYTE, 1)), "`y` twice", "R"),
    ("alias twice", one(BYTE, aliases=("y", "y")), "got `y` twice", "R"),
    ("alias is no name", one(BYTE, aliases=("1",)), "Expected an identifier", "R"),
    ("name of a field", record(Field("a b", BYTE)), "got 'a b'", "R"),
    ("name of a record", record(name="class"), "got 'class'", ""),
]


@pytest.mark.parametrize("fault", [FormatError, WireError])
@pytest.mark.parametrize(
    ("broken", "message", "path"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_broken_rule_is_named(broken: Record, message: str, path: str, fault: type[EchoError]) -> None:
    """Whoever is at fault, the message says which rule and where.

    What a default's bytes break is always the peer's: the caller's are made by `pack_default`.
    """
    with pytest.raises(EchoError) as caught:
        check_record(broken, 8, fault)
    assert message in str(caught.value)
    assert caught.value.path == path
    assert isinstance(caught.value, fault | WireError)


FINE: list[tuple[str, Record]] = [
    ("no fields", record()),
    ("fields in any order", record(Field("x", BYTE, 8), Field("y", LONG, 0))),
    ("unaligned fields", record(Field("x", BYTE), Field("y", LONG, 1), alignment=1)),
    ("gaps", record(Field("x", BYTE, 5), Field("y", BYTE, 63))),
    ("count after its sequence", record(Field("x", listed("n")), Field("n", WORD, 8))),
    ("count of an optional", record(Field("n", WORD), Field("x", Nullable(listed("n", 3)), 8))),
    ("one count for two", record(Field("n", BYTE), Field("x", listed("n"), 8), Field("y", listed("n"), 16))),
    ("None for an optional", one(Nullable(BYTE), default=Default())),
    ("local default", one(BYTE, default=Default(local=True))),
    ("member as default", one(COLOR, default=Default(b"\1"))),
    ("value of an optional", one(Nullable(Text(8)), default=Default(b"abc"))),
    ("soft keyword", record(Field("match", BYTE), Field("type", BYTE, 1))),
]


@pytest.mark.parametrize("fine", [case[1] for case in FINE], ids=[case[0] for case in FINE])
def test_unusual_record_is_accepted(fine: Record) -> None:
    """What no compiler would lay out, but memory may hold."""
    check_record(fine, 8, FormatError)


NAMES = ["x", "_x", "größe", "数", "x1", "type", "self", "__x", "x__", "mro"]
NO_NAMES = [
    "",
    "1x",
    "a b",
    "a-b",
    "a.b",
    "class",
    "None",
    "__init__",
    "__x__",
    "ﬁ",
    "\u212b",
    "x\0",
    "x\n",
    "\ud800",
]


@pytest.mark.parametrize("name", NAMES)
def test_identifier_is_a_name(name: str) -> None:
    """In any script, as long as Python gives it no meaning."""
    check_name(name, WireError)


@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
def test_what_python_cannot_name_is_refused(name: str) -> None:
    """Keywords, reserved names, and letters that Python would spell otherwise."""
    with pytest.raises(WireError, match="Expected an identifier of at most 255 bytes"):
        check_name(name, WireError)


ENUMS: list[tuple[str, Enumeration, str]] = [
    ("name", replace(COLOR, name="1"), "Expected an identifier"),
    ("size", replace(COLOR, size=3), "Expected an enumeration of 1, 2, 4 or 8 bytes, got 3"),
    ("no members", replace(COLOR, members=()), "Expected at least one member, got none"),
    ("number above", replace(COLOR, members=(("A", 128),)), "from -128 to 127 for `A`, got 128"),
    ("number below", replace(COLOR, members=(("A", -129),)), "from -128 to 127 for `A`, got -129"),
    ("name twice", replace(COLOR, members=(("A", 1), ("A", 2))), "different names, got one twice"),
    ("number twice", replace(COLOR, members=(("A", 1), ("B", 1))), "different numbers, got one twice"),
    ("member's name", replace(COLOR, members=(("for", 1),)), "Expected an identifier"),
    ("mro", replace(COLOR, members=(("mro", 1),)), "a member of an Enum can have, got `mro`"),
    ("private", replace(COLOR, members=(("_x_", 1),)), "a member of an Enum can have, got `_x_`"),
]


@pytest.mark.parametrize(("broken", "message"), [case[1:] for case in ENUMS], ids=[case[0] for case in ENUMS])
def test_broken_enumeration_is_refused(broken: Enumeration, message: str) -> None:
    """Its names and numbers must make an Enum class."""
    with pytest.raises(WireError) as caught:
        check_enumeration(broken, WireError)
    assert message in str(caught.value)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 16, 255])
def test_pointer_of_another_size_is_refused(size: int) -> None:
    """4 and 8 bytes are known."""
    for known in (4, 8):
        check_pointer_size(known, WireError)
    with pytest.raises(WireError, match=f"Expected pointers of 4 or 8 bytes, got {size}"):
        check_pointer_size(size, WireError)


@given(layouts())
def test_random_layouts_keep_the_rules(layout: Layout) -> None:
    """What the strategies draw may be trusted by the other suites."""
    check_record(layout.record, layout.pointer_size, FormatError)
