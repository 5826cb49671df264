"""Formats as tables for people."""

from __future__ import annotations

import pytest
from hypothesis import given

import echo_core as echo
from echo_core.formats import tables
from echo_core.formats.layout import Layout
from echo_core.formats.tables import layout_as_html, layout_as_text
from tests.formats.samples import Rich, Small
from tests.formats.strategies import layouts

RICH = """\
Rich (formerly Poor, Reich): 264 bytes, little-endian, aligned to 8, pointers of 8
offset  size  type             field     default            notes
     0     8  int64            id
     8     1  bool             ok
     9     1  uint8            small
    10     2  float16          half
    12     4  float32          temp                         [K]; how warm; formerly t, temperature
    16     8  complex64        wave
    24    16  char[16]         tag
    40     3  byte[3]          key
    48    24  float64[3]       position
    72    16  float32[...]     samples
    88    16  uint16[...][2]   image
   104     4  uint32           count
   112     8  int8[count]      counted
   120    16  Cell[...]        cells
     0     4  int32              i
     8     8  str                name
   136    24  Cell | None      first
     0     4  int32              i
     8     8  str                name
   160     4  enum Color       color
   168     8  timestamp        when
   176     8  duration         took
   184    16  uuid             who
   200     8  str | None       note      None
   208    16  float64 | None   limit     1.5
   224    16  bytes            raw       b'abc'
   240    16  str | None[...]  names     made on use
   256     2  int16            größe     -2                 [µm]
   260     4  enum Color       paint     <Color.BLUE: 'b'>"""


def test_description_is_a_table() -> None:
    """One line for each field, nested ones indented; columns that hold nothing are left out."""
    format_ = echo.format_of(Rich, abi="x86_64")
    assert format_.describe() == RICH
    assert str(format_) == RICH


def test_nested_record_without_a_wrapper_has_absolute_offsets() -> None:
    """A field inside a record inside the record has one place, counted from the outermost."""

    @echo.event
    class Inner:
        a: echo.Int8
        b: echo.Int32

    @echo.event
    class Outer:
        x: int
        inner: Inner

    lines = echo.format_of(Outer, abi="x86_64").describe().splitlines()
    assert [line.split() for line in lines[3:]] == [
        ["8", "8", "Inner", "inner"],
        ["8", "1", "int8", "a"],
        ["12", "4", "int32", "b"],
    ]


def test_big_endian_is_said() -> None:
    """The title has what the fields have in common."""
    title = echo.format_of(Small, abi="ppc").describe().splitlines()[0]
    assert title == "Small: 28 bytes, big-endian, aligned to 4, pointers of 4"


def test_notebook_shows_a_table() -> None:
    """The same cells, escaped, and the indentation kept."""
    shown = echo.format_of(Rich, abi="x86_64")._repr_html_()  # pyright: ignore[reportPrivateUsage]
    title = "Rich (formerly Poor, Reich): 264 bytes, little-endian, aligned to 8, pointers of 8"
    assert f"<caption>{title}</caption>" in shown
    assert "<td>&lt;Color.BLUE: &#x27;b&#x27;&gt;</td>" in shown
    assert "<td>&nbsp;&nbsp;name</td>" in shown
    assert shown.count("<tr>") == RICH.count("\n")


def test_repr_is_one_line() -> None:
    """For a list of formats, or a log."""
    assert repr(echo.format_of(Small, abi="ppc")) == "Format(Small, 28 bytes, big, 3 fields)"


@given(layouts())
def test_random_layouts_are_described(layout: Layout) -> None:
    """A line for each field at every depth, whatever it is; and the same in HTML."""
    assert len(layout_as_text(layout).splitlines()) == 2 + (layout.record.leaves)
    assert layout_as_html(layout).count("<tr>") == 1 + layout.record.leaves


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([("1", "", "x")], ["a  c", "1  x"]),
        ([("10", "b", ""), ("2", "", "")], [" a  bb", "10  b", " 2"]),
        ([], ["a  bb  c"]),
    ],
)
def test_columns_are_as_wide_as_they_must_be(rows: list[tuple[str, ...]], lines: list[str]) -> None:
    """Numbers stand on the right, and no line ends in spaces."""
    assert tables.as_lines(("a", "bb", "c"), rows, right=1) == lines
