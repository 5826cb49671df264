"""Objects to plain values and back: what a field accepts, what it refuses and where, what comes back."""

import dataclasses
import datetime as dt
import enum
import math
import re
import uuid
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.plain.objects import plain_of, value_of
from echo_core.codegen.plain.records import flat, nested, shape_of
from echo_core.codegen.plans.verification import MAX_EXTENT
from echo_core.errors import EncodeError, WireError
from echo_core.formats.abi import NATIVE
from echo_core.formats.layout import Layout
from echo_core.formats.leaves import is_numeric
from echo_core.formats.types import (
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Type,
)
from tests.formats.strategies import comparable, examples, layouts, plain_values


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = -1
    HIGH = 5


@dataclass
class Point:
    x: echo.Int32
    y: echo.Float32 = 0.0


@dataclass
class Named:
    name: str


@echo.event
class Everything:
    """A field of every kind; each has a default, so that a test gives only the one it is about."""

    flag: bool = False
    i8: echo.Int8 = 0
    u8: echo.UInt8 = 0
    i64: int = 0
    u64: echo.UInt64 = 0
    f16: echo.Float16 = 0.0
    f32: echo.Float32 = 0.0
    f64: float = 0.0
    c64: echo.Complex64 = 0j
    when: dt.datetime = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    span: dt.timedelta = dt.timedelta(0)
    key: uuid.UUID = echo.field(default=uuid.UUID(int=0))
    tag: echo.Chars[4] = echo.field(default="")
    raw4: echo.Bytes[4] = echo.field(default=bytes(4))
    color: Color = Color.RED
    level: Level = Level.LOW
    text: str = ""
    raw: bytes = b""
    maybe: str | None = None
    point: Point = echo.field(default_factory=lambda: Point(0))
    grid: echo.Array[echo.Float64, 2, 2] = echo.field(default_factory=lambda: np.zeros((2, 2)))
    rows: echo.Array[echo.Int16, ..., 2] = echo.field(default_factory=lambda: np.zeros((0, 2), np.int16))
    counts: list[echo.UInt8] = echo.field(default_factory=list[Any])
    halves: list[echo.Float16] = echo.field(default_factory=list[Any])
    flags: echo.Array[bool, ...] = echo.field(default_factory=list[Any])
    times: echo.Array[dt.datetime, ...] = echo.field(default_factory=list[Any])
    spans: list[dt.timedelta] = echo.field(default_factory=list[Any])
    big: echo.Array[echo.UInt64, ...] = echo.field(default_factory=list[Any])
    floats: echo.Array[echo.Float32, ...] = echo.field(default_factory=list[Any])
    complexes: echo.Array[echo.Complex64, ...] = echo.field(default_factory=list[Any])
    names: tuple[str, ...] = ()
    nested: list[list[str]] = echo.field(default_factory=list[Any])
    words: echo.Array[str, ..., ...] = echo.field(default_factory=list[Any])
    points: echo.Array[Point, ...] = echo.field(default_factory=list[Any])
    named: echo.Array[Named, ...] = echo.field(default_factory=list[Any])
    colors: list[Color | None] = echo.field(default_factory=list[Any])


encode = echo.encoder(Everything)
decode = echo.decoder(Everything)


def there_and_back(name: str, value: Any) -> Any:
    """What a receiver sees of a field."""
    return getattr(decode(encode(Everything(**{name: value}))), name)


# ---------------------------------------------------------------------------------------------------
# What is accepted

UTC_PLUS_2 = dt.timezone(dt.timedelta(hours=2))


class Accepted(NamedTuple):
    field: str
    value: Any
    seen: Any


ACCEPTED = [
    Accepted("flag", True, True),
    Accepted("flag", np.True_, True),
    Accepted("i8", -128, -128),
    Accepted("i8", np.int64(127), 127),
    Accepted("i8", True, 1),
    Accepted("i64", Level.HIGH, 5),
    Accepted("u64", 2**64 - 1, 2**64 - 1),
    Accepted("u64", np.uint64(2**64 - 1), 2**64 - 1),
    Accepted("f16", 65519, 65504.0),
    Accepted("f16", math.inf, math.inf),
    Accepted("f32", 1, 1.0),
    Accepted("f32", np.float32(0.1), float(np.float32(0.1))),
    Accepted("f32", np.int8(3), 3.0),
    Accepted("f64", True, 1.0),
    Accepted("f64", 2**1023, 2.0**1023),
    Accepted("f64", Fraction(1, 2), 0.5),
    Accepted("f64", -math.inf, -math.inf),
    Accepted("c64", 1, 1 + 0j),
    Accepted("c64", np.complex64(1 + 2j), 1 + 2j),
    Accepted(
        "when",
        dt.datetime(2020, 1, 1, 2, tzinfo=UTC_PLUS_2),
        dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    ),
    Accepted("when", np.datetime64(1500, "ms"), dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC)),
    Accepted("when", np.datetime64(-1, "ns"), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
    Accepted("span", dt.timedelta(days=-1), dt.timedelta(days=-1)),
    Accepted("span", np.timedelta64(1, "s"), dt.timedelta(seconds=1)),
    Accepted("key", uuid.UUID(int=7), uuid.UUID(int=7)),
    Accepted("tag", "äö", "äö"),
    Accepted("tag", np.str_("ab"), "ab"),
    Accepted("raw4", bytearray(b"abcd"), b"abcd"),
    Accepted("color", Color.BLUE, Color.BLUE),
    Accepted("level", Level.HIGH, Level.HIGH),
    Accepted("text", "\U0001f600", "\U0001f600"),
    Accepted("raw", memoryview(b"\0a"), b"\0a"),
    Accepted("maybe", "", ""),
    Accepted("maybe", None, None),
    Accepted("grid", [[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
    Accepted("grid", [np.zeros(2), np.ones(2)], [[0.0, 0.0], [1.0, 1.0]]),
    Accepted("grid", np.eye(2, dtype=bool), [[1.0, 0.0], [0.0, 1.0]]),
    Accepted("grid", np.arange(4.0).reshape(2, 2).T, [[0.0, 2.0], [1.0, 3.0]]),
    Accepted("grid", np.ones((2, 2)).data, [[1.0, 1.0], [1.0, 1.0]]),
    Accepted("grid", np.ones((2, 2), ">f8"), [[1.0, 1.0], [1.0, 1.0]]),
    Accepted("rows", [(1, 2), (3, 4)], [[1, 2], [3, 4]]),
    Accepted("counts", range(3), [0, 1, 2]),
    Accepted("counts", (1, 2), [1, 2]),
    Accepted("counts", deque([1]), [1]),
    Accepted("counts", bytearray(b"ab"), [97, 98]),
    Accepted("counts", np.array([1, 255], np.int64), [1, 255]),
    Accepted("counts", np.array([True]), [1]),
    Accepted("halves", [65519.9, -math.inf], [65504.0, -math.inf]),
    Accepted("flags", [True, np.False_], [True, False]),
    Accepted("big", [2**64 - 1], [2**64 - 1]),
    Accepted("big", np.array([2**63]), [2**63]),
    Accepted("floats", [1, np.float16(2)], [1.0, 2.0]),
    Accepted("floats", np.array([1e-60, 2**53 + 1]), [0.0, float(2**53)]),
    Accepted("complexes", np.array([1, 2]), [1 + 0j, 2 + 0j]),
    Accepted("spans", [dt.timedelta(seconds=1)], [dt.timedelta(seconds=1)]),
    Accepted("spans", np.array([1], "m8[s]"), [dt.timedelta(seconds=1)]),
    Accepted("names", ["a", "b"], ("a", "b")),
    Accepted("names", np.array(["a", "b"]), ("a", "b")),
    Accepted("nested", [[], ["a"]], [[], ["a"]]),
    Accepted("words", [["a", "b"], ["c", "d"]], [["a", "b"], ["c", "d"]]),
    Accepted("words", [[], []], []),
    Accepted("named", [Named("a")], [Named("a")]),
    Accepted("colors", [Color.RED, None], [Color.RED, None]),
]


def case_name(case: Any) -> str:
    """A field and a value; some are too long to print, and some cannot be."""
    shown = repr(case.value)[:40] if type(case.value) in (bool, float, list) else ""
    return f"{case.field}-{shown or type(case.value).__name__}"


@pytest.mark.parametrize("case", ACCEPTED, ids=case_name)
def test_value_that_fits_arrives(case: Accepted) -> None:
    """As the type that the field was declared with."""
    seen = there_and_back(case.field, case.value)
    seen = seen.tolist() if isinstance(seen, np.ndarray) else seen
    assert seen == case.seen
    assert type(seen) is type(case.seen)


def test_nan_arrives() -> None:
    """NaN is a number like any other."""
    assert math.isnan(there_and_back("f16", math.nan))
    assert math.isnan(there_and_back("floats", np.array([math.nan]))[0])


@pytest.mark.parametrize("value", [[], (), np.zeros((0, 2), int)], ids=repr)
def test_empty_rows_are_as_long_as_declared(value: Any) -> None:
    """A list without elements says nothing about the dimensions inside it; the declaration does."""
    assert there_and_back("rows", value).shape == (0, 2)


def test_received_array_is_the_receivers_own() -> None:
    """A plain dataclass has a copy to write to; an event that holds its record shows what it got."""

    @dataclasses.dataclass
    class Floats:
        values: echo.Array[float, ...]

    given: Any = [1.0]
    array = echo.decoder(Floats)(echo.encoder(Floats)(Floats(given))).values
    array[0] = 2
    assert array[0] == 2
    assert not there_and_back("floats", [1.0]).flags.writeable


def test_structured_array_is_taken_for_a_list_of_records() -> None:
    """In any byte order, with or without padding, and in types that fit into the fields' own."""
    for dtype in ([("x", "<i4"), ("y", "<f4")], [("x", ">i2"), ("y", ">f2")]):
        seen = there_and_back("points", np.array([(1, 2.5), (3, 4.5)], dtype))
        assert seen.dtype == echo.format_of(Point).dtype
        assert seen.tolist() == [(1, 2.5), (3, 4.5)]


def test_list_of_records_arrives_as_a_structured_array() -> None:
    """The declaration says so, not what the sender had."""
    assert there_and_back("points", [Point(1), Point(2, 0.5)]).tolist() == [(1, 0.0), (2, 0.5)]


@echo.event
class Empty:
    pass


@echo.event
class Empties:
    items: echo.Array[Empty, 2]


def test_array_of_records_without_fields_can_be_sent_on() -> None:
    """What arrives is a structured array of no columns, and that is what is taken."""
    message = echo.encoder(Empties)(Empties(np.zeros(2, echo.format_of(Empty).dtype)))
    assert echo.encoder(Empties)(echo.decoder(Empties)(message)) == message


@echo.event
class Extended(Everything):
    more: int = 0


def test_instance_of_a_subclass_is_sent_as_the_class() -> None:
    """What a subclass adds stays at home."""
    seen = decode(encode(Extended(i8=3, more=4)))
    assert type(seen) is Everything
    assert seen.i8 == 3


# ---------------------------------------------------------------------------------------------------
# What is refused


class Refused(NamedTuple):
    field: str
    value: Any
    message: str
    path: str = ""


HUGE = 10**5000
OLD = dt.datetime(1, 1, 1, tzinfo=dt.UTC)

REFUSED = [
    Refused("flag", 1, "Expected `bool`, got `int`"),
    Refused("flag", np.int8(1), "Expected `bool`, got `int8`"),
    Refused("flag", None, "Expected `bool`, got `NoneType`"),
    Refused("i8", 128, "Expected `int8` from -128 to 127, got 128"),
    Refused("i8", -129, "Expected `int8` from -128 to 127, got -129"),
    Refused("i8", 1.0, "Expected `int8`, got `float`"),
    Refused("i8", np.float64(1), "Expected `int8`, got `float64`"),
    Refused("i8", "1", "Expected `int8`, got `str`"),
    Refused("i8", np.array([1]), "Expected `int8`, got `ndarray`"),
    Refused("u8", -1, "Expected `uint8` from 0 to 255, got -1"),
    Refused("u8", np.int8(-1), "Expected `uint8` from 0 to 255, got -1"),
    Refused("i64", 2**63, "Expected `int64` from"),
    Refused("i64", HUGE, "an integer of 16610 bits"),
    Refused("u64", 2**64, "Expected `uint64` from 0"),
    Refused("f16", 65520, "within the range of `float16`"),
    Refused("f32", 1e39, "within the range of `float32`"),
    Refused("f64", HUGE, "within the range of `float64`"),
    Refused("f64", Fraction(HUGE), "within the range of `float64`"),
    Refused("f64", 1j, "Expected `float64`, got `complex`"),
    Refused("f64", "1.0", "Expected `float64`, got `str`"),
    Refused("f64", np.True_, "Expected `float64`, got `bool"),
    Refused("c64", 1e39, "within the range of `float32`"),
    Refused("c64", complex(0, 1e39), "within the range of `float32`"),
    Refused("c64", HUGE, "within the range of `float32`"),
    Refused("c64", "1", "Expected `complex64`, got `str`"),
    Refused("when", dt.datetime(2020, 1, 1), "Expected a datetime with a time zone, got a naive one"),
    Refused("when", dt.date(2020, 1, 1), "Expected `timestamp`, got `date`"),
    Refused("when", 0, "Expected `timestamp`, got `int`"),
    Refused("when", OLD, "within 292 years"),
    Refused("when", dt.datetime.max.replace(tzinfo=dt.UTC), "within 292 years"),
    Refused("when", np.datetime64("NaT", "s"), "within 292 years"),
    Refused("when", np.datetime64(10**12, "s"), "within 292 years"),
    Refused("when", np.timedelta64(1, "s"), "Expected `timestamp`, got `timedelta64`"),
    Refused("span", dt.timedelta.max, "within 292 years"),
    Refused("span", 1, "Expected `duration`, got `int`"),
    Refused("key", "00000000-0000-0000-0000-000000000000", "Expected `uuid`, got `str`"),
    Refused("key", bytes(16), "Expected `uuid`, got `bytes`"),
    Refused("tag", "äöü", "at most 4 bytes, got 6"),
    Refused("tag", "a\0", "NUL"),
    Refused("tag", b"a", "Expected `char[4]`, got `bytes`"),
    Refused("raw4", b"abc", "Expected exactly 4 bytes, got 3"),
    Refused("raw4", b"abcde", "Expected exactly 4 bytes, got 5"),
    Refused("raw4", "abcd", "Expected `byte[4]`, got `str`"),
    Refused("color", "r", "Expected `enum Color`, got `str`"),
    Refused("color", Level.LOW, "Expected `enum Color`, got `Level`"),
    Refused("level", -1, "Expected `enum Level`, got `int`"),
    Refused("text", "a\0b", "NUL"),
    Refused("text", "\ud800", "lone surrogate"),
    Refused("text", b"", "Expected `str`, got `bytes`"),
    Refused("text", None, "Expected `str`, got `NoneType`"),
    Refused("raw", "", "Expected `bytes`, got `str`"),
    Refused("raw", [1], "Expected `bytes`, got `list`"),
    Refused("maybe", 0, "Expected `str`, got `int`"),
    Refused("point", (1, 2.0), "Expected `Point`, got `tuple`"),
    Refused("point", Point("1"), "Expected `int32`, got `str`", ".x"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Refused("grid", [[1, 2]], "Expected the dimensions [2, 2], got [1, 2]"),
    Refused("grid", [[1, 2], [3]], "Expected rows of one length, got [1, 2]"),
    Refused("grid", [1, 2], "Expected `float64[2][2]`, got `int`"),
    Refused("grid", [], "Expected the dimensions [2, 2], got [0, 0]"),
    Refused("grid", np.zeros(4), "Expected an array of 2 dimensions, got 1"),
    Refused("grid", np.zeros((2, 3)), "Expected the dimensions [2, 2], got [2, 3]"),
    Refused("grid", [[1, 2], [3, "4"]], "Expected `float64`, got `str`", "[3]"),
    Refused("grid", np.array([["1", "2"], ["3", "4"]]), "Expected an array of `float64`"),
    Refused("rows", [[], []], "Expected the dimensions [2, 2], got [2, 0]"),
    Refused("rows", np.zeros((0, 3), int), "Expected the dimensions [0, 2], got [0, 3]"),
    Refused("rows", np.zeros((1, 2)), "Expected an array of `int16`, got one of `float64`"),
    Refused("counts", [1, 256], "Expected `uint8` from 0 to 255, got 256", "[1]"),
    Refused("counts", np.array([1, 256]), "range of `uint8`, got 256"),
    Refused("counts", np.array([-1]), "range of `uint8`, got -1"),
    Refused("counts", np.array([1], object), "got one of `object`"),
    Refused("counts", np.array(1), "Expected an array of 1 dimensions, got 0"),
    Refused("counts", b"ab", "Expected `uint8[...]`, got `bytes`"),
    Refused("counts", "ab", "Expected `uint8[...]`, got `str`"),
    Refused("counts", {1}, "Expected `uint8[...]`, got `set`"),
    Refused("counts", None, "Expected `uint8[...]`, got `NoneType`"),
    Refused("counts", iter([1]), "got `list_iterator`"),
    Refused("halves", [1, 65520], "range of `float16`", "[1]"),
    Refused("halves", np.array([1, 65520.0]), "range of `float16`, got 65520.0"),
    Refused("halves", np.array([1, 65520]), "range of `float16`, got 65520"),
    Refused("flags", [1], "Expected `bool`, got `int`", "[0]"),
    Refused("flags", np.array([1]), "Expected an array of `bool`, got one of `int64`"),
    Refused("times", [dt.datetime(2020, 1, 1)], "naive", "[0]"),
    Refused("times", np.array([10**12], "M8[s]"), "range of `timestamp`, got 33658"),
    Refused("times", np.array([1], "M8[ps]"), "range of `timestamp`"),
    Refused("times", np.array([1], "m8[ns]"), "Expected an array of `timestamp`"),
    Refused("times", np.array([1]), "Expected an array of `timestamp`"),
    Refused("big", np.array([-1]), "range of `uint64`, got -1"),
    Refused("big", [-1], "Expected `uint64` from 0", "[0]"),
    Refused("big", (HUGE,), "an integer of 16610 bits", "[0]"),
    Refused("floats", np.array([1, 1e39]), "range of `float32`, got 1e+39"),
    Refused("floats", [1j], "Expected `float32`, got `complex`", "[0]"),
    Refused("floats", np.array([1j]), "Expected an array of `float32`"),
    Refused("complexes", np.array([1e39j]), "range of `complex64`"),
    Refused("complexes", np.array([complex(1e39, math.inf)]), "range of `complex64`"),
    Refused("c64", complex(math.inf, 1e39), "within the range of `float32`"),
    Refused("names", ["a", 1], "Expected `str`, got `int`", "[1]"),
    Refused("names", "ab", "Expected `str[...]`, got `str`"),
    Refused("nested", [["a"], ["b", None]], "Expected `str`, got `NoneType`", "[1][1]"),
    Refused("words", [["a"], []], "Expected rows of one length, got [0, 1]"),
    Refused("points", [Point(1), (1, 2)], "Expected `Point`, got `tuple`", "[1]"),
    Refused("points", [Point(1), Point(2**31)], "Expected `int32`", "[1].x"),
    Refused("points", np.array([(2**40, 1)], [("x", "i8"), ("y", "f4")]), "may not fit"),
    Refused("points", np.array([(1.5, 1)], [("x", "f4"), ("y", "f4")]), "may not fit"),
    Refused("points", np.array([(1, 1)], [("y", "i4"), ("x", "f4")]), "fields ['y', 'x']"),
    Refused("points", np.array([1]), "Expected `Point`, got `int64`", "[0]"),
    Refused("named", np.array([("a",)], [("name", "S1")]), "its records have variable parts"),
    Refused("named", [Named(1)], "Expected `str`, got `int`", "[0].name"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Refused("colors", [Color.RED, 1], "Expected `enum Color`, got `int`", "[1]"),
]


@pytest.mark.parametrize("case", REFUSED, ids=case_name)
def test_value_that_does_not_fit_is_refused_with_its_path(case: Refused) -> None:
    """EncodeError, whatever it was: the caller learns which field of which record."""
    with pytest.raises(EncodeError) as caught:
        encode(Everything(**{case.field: case.value}))
    assert case.message in str(caught.value)
    assert caught.value.path == f"Everything.{case.field}{case.path}"
    assert isinstance(caught.value, TypeError) == bool(
        re.search("got (one of|one with|`|a numpy)", str(caught.value))
    )


def test_event_of_another_class_is_refused() -> None:
    """The root of the path is the record's name."""
    with pytest.raises(EncodeError, match="Expected `Everything`, got `Point` - at `Everything`"):
        encode(Point(1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_attribute_that_was_never_set_is_refused() -> None:
    """An event made without its constructor, or with a field deleted."""
    with pytest.raises(EncodeError, match=r"never set - at `Point\.x`"):
        echo.encoder(Point)(object.__new__(Point))


def test_array_of_unbounded_extent_is_refused_where_it_is_sent() -> None:
    """What no receiver would accept is the sender's mistake."""

    @dataclass
    class Empty:
        a: echo.Array[echo.Int8, ..., ...]

    encode_empty = echo.encoder(Empty)
    assert encode_empty(Empty(np.zeros((MAX_EXTENT, 0), np.int8)))
    with pytest.raises(EncodeError, match="at most 1099511627776 elements"):
        encode_empty(Empty(np.zeros((MAX_EXTENT + 1, 0), np.int8)))


def test_structured_array_with_bad_text_is_the_callers_fault() -> None:
    """It is found while encoding, so it is no WireError."""

    @dataclass
    class Tag:
        text: echo.Chars[2]

    @dataclass
    class Tags:
        tags: echo.Array[Tag, ...]

    encode_tags = echo.encoder(Tags)
    assert encode_tags(Tags(np.array([(b"ab",)], [("text", "S2")])))
    with pytest.raises(EncodeError, match="UTF-8"):
        encode_tags(Tags(np.array([(b"\xff",)], [("text", "S2")])))


# ---------------------------------------------------------------------------------------------------
# Fields that count


@dataclass
class Counted:
    n: echo.Int16
    a: echo.Array[echo.Int32, "n"]  # noqa: F821 - the name of a field
    b: echo.Array[str, "n", 2]  # noqa: F821
    c: echo.Array[echo.Int8, "n"] | None = None  # noqa: F821


def test_counts_that_agree_are_sent() -> None:
    """And come back."""
    sent = Counted(1, [5], [["x", "y"]], np.array([7]))  # pyright: ignore[reportArgumentType]
    event = echo.decoder(Counted)(echo.encoder(Counted)(sent))
    assert (event.n, list(event.a), event.b) == (1, [5], [["x", "y"]])
    assert event.c is not None
    assert list(event.c) == [7]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Counted(2, [1], [["x", "y"]]), "Expected 1, the length of `a`, got 2"),
        (Counted(1, [1], [["x", "y"], ["z", "w"]]), "Expected 2, the length of `b`, got 1"),
        (Counted(1, [1], [["x", "y"]]), "Expected 0, the length of `c`, got 1"),
        (Counted(0, [], [["x", "y"]]), "Expected 1, the length of `b`, got 0"),
    ],
)
def test_count_that_disagrees_is_refused(event: Counted, message: str) -> None:
    """A C program at the other end would read past the end, or stop short."""
    with pytest.raises(EncodeError, match=message) as caught:
        echo.encoder(Counted)(event)
    assert caught.value.path == "Counted.n"


def test_absent_sequence_counts_as_none() -> None:
    """None is in order where the count is 0."""
    event = echo.decoder(Counted)(echo.encoder(Counted)(Counted(0, [], [])))
    assert (event.n, len(event.a), event.b, event.c) == (0, 0, [], None)


# ---------------------------------------------------------------------------------------------------
# Instances


@dataclass
class Watched:
    """Counts its constructor calls; `double` is what `__post_init__` makes."""

    x: int
    double: int = dataclasses.field(init=False)
    made: ClassVar[int] = 0

    def __post_init__(self) -> None:
        self.double = 2 * self.x
        type(self).made += 1


def test_post_init_is_called_for_a_received_event() -> None:
    """So that an event keeps its promises, wherever it was made."""
    message = echo.encoder(Watched)(Watched(4))
    before = Watched.made
    seen = echo.decoder(Watched)(message)
    assert (seen.double, Watched.made) == (8, before + 1)


@dataclass
class Scaled:
    x: int
    factor: dataclasses.InitVar[int]

    def __post_init__(self, factor: int) -> None:
        self.x *= factor


def test_post_init_that_asks_for_more_is_not_called() -> None:
    """Only a constructor could give it what it asks for."""
    assert echo.decoder(Scaled)(echo.encoder(Scaled)(Scaled(2, 3))).x == 6


@dataclass
class Refusing:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(self.x)


def test_error_of_post_init_reaches_the_caller() -> None:
    """It is the component's own error, and its own business."""
    event = Refusing(1)
    event.x = -1
    message = echo.encoder(Refusing)(event)
    with pytest.raises(ValueError, match="-1"):
        echo.decoder(Refusing)(message)


@dataclass(frozen=True)
class Frozen:
    x: int


@dataclass(slots=True)
class Slotted:
    x: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    x: int


@echo.event
class Event:
    x: int


@pytest.mark.parametrize("cls", [Frozen, Slotted, Strict, Event])
def test_every_kind_of_dataclass_comes_back_equal(cls: Any) -> None:
    """Frozen, with slots, keyword-only, or made by `echo.event`."""
    event = cls(x=5)
    seen = echo.decoder(cls)(echo.encoder(cls)(event))
    assert type(seen) is cls
    assert seen == event


def test_unknown_number_of_an_enumeration_is_the_peers_fault() -> None:
    """No member can be made of it."""
    message = bytearray(encode(Everything(level=Level.HIGH)))
    at = next(f.offset for f in echo.format_of(Everything).fields if f.name == "level")
    message[at : at + 4] = (77).to_bytes(4, NATIVE.byte_order)
    with pytest.raises(WireError, match=r"Expected a number of `enum Level`, got 77"):
        decode(bytes(message))


@pytest.mark.parametrize("name", ["__a", "_x", "self", "cls", "list", "object", "MISSING"])
def test_any_name_on_the_wire_makes_a_class(name: str) -> None:
    """Names that Python mangles, or that the code of dataclasses uses, are as good as others."""
    record = Record("R", 4, 4, (Field(name, Scalar(Kind.INT, 4)),))
    layout = Layout(NATIVE.byte_order, NATIVE.pointer_size, record)
    event = value_of(record, {name: 5}, "R")
    assert getattr(event, name) == 5
    assert plain_of(layout.record, event, "R") == {name: 5}


def test_number_is_what_stands_for_an_enumeration_of_a_stranger() -> None:
    """Its class is not known here."""
    enumeration = Enumeration("E", 2, (("A", 1),))
    assert value_of(enumeration, 9, "E") == 9
    assert plain_of(enumeration, 9, "E") == 9
    with pytest.raises(EncodeError, match="Expected `int16`"):
        plain_of(enumeration, 2**15, "E")


@examples(120)
@given(st.data())
def test_instance_of_a_made_class_gives_its_plain_value_again(data: st.DataObject) -> None:
    """For every layout: plain value, instance, plain value; times lose what a datetime does not hold."""
    layout = data.draw(layouts())
    record = layout.record
    plain = in_microseconds(record, data.draw(plain_values(layout)))
    again = plain_of(record, value_of(record, plain, record.name), record.name)
    assert comparable(again) == comparable(plain)


TIMES = (Scalar(Kind.TIMESTAMP, 8), Scalar(Kind.DURATION, 8))


def in_microseconds(type_: Type, plain: Any) -> Any:
    """A plain value with its single times as exact as a datetime is; arrays of times are exact anyway."""
    match type_:
        case Record():
            return {field.name: in_microseconds(field.type, plain[field.name]) for field in type_.fields}
        case Nullable():
            return None if plain is None else in_microseconds(type_.element, plain)
        case StaticArray() | Sequence() if type_.element in TIMES:
            array = np.array(plain)
            array[np.isnat(array)] = 0  # NaT, which no sender sends
            return array
        case StaticArray() | Sequence() if is_numeric(type_.element):
            return plain
        case StaticArray() | Sequence():
            items = [in_microseconds(type_.element, item) for item in flat(plain, len(type_.shape))]
            return nested(items, shape_of(plain, len(type_.shape)))
        case Scalar(kind=Kind.TIMESTAMP | Kind.DURATION):
            return abs(plain) // 1000 * 1000 * (1 if plain > 0 else -1)
        case _:
            return plain
