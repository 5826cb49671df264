"""Types as values: sizes, alignments, names, equality."""

from __future__ import annotations

import copy
import dataclasses
import enum
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

import echo_core as echo
from echo_core.formats.types import (
    SIZES_BY_KIND,
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
    has_parts,
    innermost,
    round_up,
)

INT = Scalar(Kind.INT, 4)
LONG = Scalar(Kind.INT, 8)
CHARS = Scalar(Kind.CHARS, 5)
COLOR = Enumeration("Color", 2, (("RED", 0),))
POINT = Record("Point", 16, 8, (Field("x", LONG), Field("y", INT, 8)))
WITH_TEXT = Record("Named", 8, 8, (Field("name", Text(8)),))
LISTED = Sequence(INT, (None,), 8)

MEASURED: list[tuple[Type, int, int, str]] = [
    (Scalar(Kind.BOOL, 1), 1, 1, "bool"),
    (Scalar(Kind.INT, 2), 2, 2, "int16"),
    (Scalar(Kind.UINT, 8), 8, 8, "uint64"),
    (Scalar(Kind.FLOAT, 4), 4, 4, "float32"),
    (Scalar(Kind.COMPLEX, 8), 8, 4, "complex64"),
    (Scalar(Kind.COMPLEX, 16), 16, 8, "complex128"),
    (Scalar(Kind.TIMESTAMP, 8), 8, 8, "timestamp"),
    (Scalar(Kind.DURATION, 8), 8, 8, "duration"),
    (Scalar(Kind.UUID, 16), 16, 1, "uuid"),
    (CHARS, 5, 1, "char[5]"),
    (Scalar(Kind.BYTES, 3), 3, 1, "byte[3]"),
    (COLOR, 2, 2, "enum Color"),
    (Text(4), 4, 4, "str"),
    (Blob(8), 16, 8, "bytes"),
    (StaticArray(INT, (3, 2)), 24, 4, "int32[3][2]"),
    (LISTED, 16, 8, "int32[...]"),
    (Sequence(INT, (None, 3, "n"), 4), 8, 4, "int32[...][3][n]"),
    (Nullable(LONG), 16, 8, "int64 | None"),
    (Nullable(Scalar(Kind.INT, 1)), 2, 1, "int8 | None"),
    (Nullable(CHARS), 6, 1, "char[5] | None"),
    (Nullable(Text(8)), 8, 8, "str | None"),
    (Nullable(Blob(8)), 16, 8, "bytes | None"),
    (Nullable(LISTED), 16, 8, "int32[...] | None"),
    (Nullable(POINT), 24, 8, "Point | None"),
    (POINT, 16, 8, "Point"),
]


@pytest.mark.parametrize(("type_", "size", "alignment", "text"), MEASURED, ids=lambda v: str(v))
def test_type_has_its_size_alignment_and_name(type_: Type, size: int, alignment: int, text: str) -> None:
    """A type knows its measures without a context."""
    assert (type_.size, type_.alignment, str(type_)) == (size, alignment, text)


@pytest.mark.parametrize(
    ("size", "alignment", "expected"), [(0, 8, 0), (1, 8, 8), (8, 8, 8), (9, 8, 16), (5, 1, 5)]
)
def test_round_up_finds_the_next_multiple(size: int, alignment: int, expected: int) -> None:
    """A multiple is its own next multiple."""
    assert round_up(size, alignment) == expected


def test_every_kind_has_sizes() -> None:
    """No kind is added without them; the numbers are those of the wire."""
    assert set(SIZES_BY_KIND) == set(Kind)
    assert [kind.value for kind in Kind] == list(range(1, 11))


PARTS: list[tuple[Type, bool]] = [
    (INT, False),
    (COLOR, False),
    (POINT, False),
    (StaticArray(POINT, (2,)), False),
    (Nullable(StaticArray(POINT, (2,))), False),
    (Text(8), True),
    (Blob(8), True),
    (LISTED, True),
    (WITH_TEXT, True),
    (StaticArray(Nullable(WITH_TEXT), (2,)), True),
    (Record("Outer", 16, 8, (Field("i", INT), Field("n", WITH_TEXT, 8))), True),
]


@pytest.mark.parametrize(("type_", "expected"), PARTS, ids=str)
def test_variable_parts_are_found_at_every_depth(type_: Type, expected: bool) -> None:
    """A type has parts if anything in it refers to them."""
    assert has_parts(type_) is expected


def test_innermost_counts_wrappers() -> None:
    """A chain of wrappers ends in something that wraps nothing."""
    assert innermost(Nullable(Sequence(StaticArray(INT, (2,)), (None,), 8))) == (INT, 3)
    assert innermost(POINT) == (POINT, 0)


def test_record_counts_depth_and_leaves() -> None:
    """Nested fields count, and so do the fields that hold them."""
    outer = Record("Outer", 64, 8, (Field("p", StaticArray(POINT, (2,))), Field("i", INT, 32)))
    assert (POINT.depth, POINT.leaves) == (1, 2)
    assert (outer.depth, outer.leaves) == (3, 4)
    assert Record("Empty", 1, 1, ()).depth == 1


def test_field_ends_after_its_type() -> None:
    """The end is where the next field may begin."""
    assert Field("x", LONG, 4).end == 12


class Color(enum.Enum):
    RED = 0


@echo.event
class Paint:
    color: Color
    names: list[str]


def test_python_side_takes_no_part_in_equality() -> None:
    """A declared type equals the one that travels, and they are one key."""
    declared = Enumeration("Color", 2, (("RED", 0),), Color)
    assert declared == COLOR
    assert hash(declared) == hash(COLOR)
    assert Sequence(INT, (None,), 8, list) == LISTED
    record = dataclasses.replace(POINT, python=Paint)
    assert record == POINT
    assert len({record, POINT}) == 1


def test_documentation_takes_no_part_in_equality() -> None:
    """Two fields that differ in their doc describe the same memory."""
    assert Field("x", INT, doc="a") == Field("x", INT, doc="b")
    assert Field("x", INT, unit="a") != Field("x", INT, unit="b")


def pickled(value: object) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_types_are_copied_and_pickled(copied: Any) -> None:
    """A format can go to another process, as Spark will send it."""
    format_ = echo.format_of(Paint)
    again = copied(format_)
    assert again == format_
    assert again.record.python is Paint
    assert hash(again.record) == hash(format_.record)


def test_pickled_type_is_found_by_its_hash_in_another_process() -> None:
    """The kept hash of a record is made anew, since texts hash differently in each process."""
    script = (
        "import sys, pickle; given = pickle.load(sys.stdin.buffer);"
        "from echo_core.formats.types import *;"
        "made = Record('R', 1, 1, (Field('c', Enumeration('Color', 1, (('RED', 0),))),));"
        "sys.exit(0 if {made: 1}.get(given) and {made.fields: 1}.get(given.fields) else 1)"
    )
    record = Record("R", 1, 1, (Field("c", Enumeration("Color", 1, (("RED", 0),))),))
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-c", script], input=pickle.dumps(record), env=environment, check=True
        )
