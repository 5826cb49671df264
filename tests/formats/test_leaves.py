"""Every leaf: what it takes from a component, what it refuses, and its bytes."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import math
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.errors import EncodeError, WireError
from echo_core.formats.abi import ByteOrder
from echo_core.formats.leaves import (
    Leaf,
    from_plain,
    integer_range,
    is_numeric,
    pack,
    pack_default,
    scalar_dtype,
    to_plain,
    unpack,
    unpack_default,
)
from echo_core.formats.types import Blob, Enumeration, Kind, Scalar, StaticArray, Text
from tests.formats.strategies import leaf_values


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Other(enum.Enum):
    RED = "r"


class Grown(enum.Enum):
    RED = 0


def scalar(kind: Kind, size: int) -> Scalar:
    return Scalar(kind, size)


BOOL = Scalar(Kind.BOOL, 1)
INT8, INT64 = Scalar(Kind.INT, 1), Scalar(Kind.INT, 8)
UINT8, UINT64 = Scalar(Kind.UINT, 1), Scalar(Kind.UINT, 8)
FLOAT16, FLOAT32, FLOAT64 = (Scalar(Kind.FLOAT, size) for size in (2, 4, 8))
COMPLEX64, COMPLEX128 = Scalar(Kind.COMPLEX, 8), Scalar(Kind.COMPLEX, 16)
TIMESTAMP, DURATION = Scalar(Kind.TIMESTAMP, 8), Scalar(Kind.DURATION, 8)
UUID = Scalar(Kind.UUID, 16)
CHARS, BYTES = Scalar(Kind.CHARS, 4), Scalar(Kind.BYTES, 2)
TEXT, BLOB = Text(8), Blob(8)
COLOR = Enumeration("Color", 1, (("RED", 0), ("BLUE", 1)), Color)
NUMBERED = Enumeration("Color", 1, (("RED", 0), ("BLUE", 1)))

UTC = dt.UTC
SOME_ID = uuid.UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")

ACCEPTED: list[tuple[Leaf, object, Any]] = [
    (BOOL, True, True),
    (BOOL, np.bool_(False), False),
    (INT8, -128, -128),
    (INT8, 127, 127),
    (INT8, True, 1),
    (INT8, np.int64(5), 5),
    (INT64, -(2**63), -(2**63)),
    (INT64, 2**63 - 1, 2**63 - 1),
    (UINT8, 255, 255),
    (UINT8, 0, 0),
    (UINT64, 2**64 - 1, 2**64 - 1),
    (FLOAT64, 1, 1.0),
    (FLOAT64, 1.5, 1.5),
    (FLOAT64, np.float32(1.5), 1.5),
    (FLOAT64, fractions.Fraction(1, 2), 0.5),
    (FLOAT64, math.inf, math.inf),
    (FLOAT32, 0.1, float(np.float32(0.1))),
    (FLOAT32, -math.inf, -math.inf),
    (FLOAT16, 65504.0, 65504.0),
    (COMPLEX128, 1, 1 + 0j),
    (COMPLEX128, 1 + 2j, 1 + 2j),
    (COMPLEX64, np.complex128(1 + 2j), 1 + 2j),
    (TIMESTAMP, dt.datetime(1970, 1, 1, tzinfo=UTC), 0),
    (TIMESTAMP, dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), 1000),
    (TIMESTAMP, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1000),
    (TIMESTAMP, dt.datetime(1970, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), 0),
    (TIMESTAMP, np.datetime64(7, "ns"), 7),
    (TIMESTAMP, np.datetime64("2000-01-01"), 946_684_800 * 10**9),
    (DURATION, dt.timedelta(days=-1), -86400 * 10**9),
    (DURATION, dt.timedelta(microseconds=1), 1000),
    (DURATION, np.timedelta64(3, "ns"), 3),
    (DURATION, np.timedelta64(3, "s"), 3 * 10**9),
    (UUID, SOME_ID, bytes(range(16))),
    (CHARS, "", ""),
    (CHARS, "éé", "éé"),
    (CHARS, np.str_("ab"), "ab"),
    (BYTES, b"ab", b"ab"),
    (BYTES, bytearray(b"ab"), b"ab"),
    (TEXT, "größer", "größer"),
    (BLOB, memoryview(b"abc"), b"abc"),
    (BLOB, b"", b""),
    (COLOR, Color.BLUE, 1),
    (NUMBERED, 77, 77),
    (NUMBERED, -128, -128),
]


@pytest.mark.parametrize(("leaf", "value", "plain"), ACCEPTED)
def test_value_that_fits_becomes_plain(leaf: Leaf, value: object, plain: Any) -> None:
    """What a component may give for a leaf, and what it means."""
    made = to_plain(leaf, value, "R.x")
    if leaf is FLOAT32:
        made = float(np.float32(made))
    assert made == plain
    assert type(made) is type(plain)


TOO_FAR = "within 292 years of its zero"
REFUSED: list[tuple[Leaf, object, str]] = [
    (BOOL, 1, "Expected `bool`, got `int`"),
    (BOOL, None, "Expected `bool`, got `NoneType`"),
    (INT8, -129, "Expected `int8` from -128 to 127, got -129"),
    (INT8, 128, "Expected `int8` from -128 to 127, got 128"),
    (INT8, 1.0, "Expected `int8`, got `float`"),
    (INT8, "1", "Expected `int8`, got `str`"),
    (UINT8, -1, "Expected `uint8` from 0 to 255, got -1"),
    (UINT8, 256, "Expected `uint8` from 0 to 255, got 256"),
    (INT64, 2**63, "got 9223372036854775808"),
    (UINT64, 2**64, "got 18446744073709551616"),
    (FLOAT64, "1", "Expected `float64`, got `str`"),
    (FLOAT64, 1j, "Expected `float64`, got `complex`"),
    (FLOAT64, decimal.Decimal(1), "Expected `float64`, got `Decimal`"),
    (FLOAT64, 10**400, "Expected a number within the range of `float64`, got a larger one"),
    (FLOAT32, 1e39, "Expected a number within the range of `float32`, got a larger one"),
    (FLOAT16, 65520.0, "Expected a number within the range of `float16`, got a larger one"),
    (COMPLEX128, "1", "Expected `complex128`, got `str`"),
    (COMPLEX64, complex(0, 1e39), "within the range of `float32`"),
    (COMPLEX128, 10**400, "within the range of `float64`"),
    (TIMESTAMP, dt.datetime(2020, 1, 1), "got a naive one: give tzinfo=datetime.UTC"),
    (TIMESTAMP, dt.datetime(2263, 1, 1, tzinfo=UTC), TOO_FAR),
    (TIMESTAMP, dt.datetime(1, 1, 1, tzinfo=UTC), TOO_FAR),
    (TIMESTAMP, dt.date(2020, 1, 1), "Expected `timestamp`, got `date`"),
    (TIMESTAMP, 5, "Expected `timestamp`, got `int`"),
    (TIMESTAMP, np.datetime64("NaT", "ns"), TOO_FAR),
    (TIMESTAMP, np.datetime64("3000-01-01"), TOO_FAR),
    (DURATION, dt.timedelta(days=200_000), TOO_FAR),
    (DURATION, 5, "Expected `duration`, got `int`"),
    (DURATION, np.timedelta64("NaT", "ns"), TOO_FAR),
    (UUID, str(SOME_ID), "Expected `uuid`, got `str`"),
    (CHARS, "ééé", "Expected text of at most 4 bytes, got 6"),
    (CHARS, b"ab", "Expected `char[4]`, got `bytes`"),
    (CHARS, "a\0", "Expected text without NUL characters"),
    (BYTES, b"a", "Expected exactly 2 bytes, got 1"),
    (BYTES, b"abc", "Expected exactly 2 bytes, got 3"),
    (BYTES, "ab", "Expected `byte[2]`, got `str`"),
    (TEXT, b"ab", "Expected `str`, got `bytes`"),
    (TEXT, "a\0b", "declare it `bytes`"),
    (TEXT, "\ud800", "Expected text that UTF-8 can hold, got a lone surrogate"),
    (BLOB, "ab", "Expected `bytes`, got `str`"),
    (BLOB, [1], "Expected `bytes`, got `list`"),
    (COLOR, "r", "Expected `enum Color`, got `str`"),
    (COLOR, Other.RED, "Expected `enum Color`, got `Other`"),
    (NUMBERED, 128, "Expected `int8` from -128 to 127, got 128"),
    (NUMBERED, "RED", "got `str`"),
]


@pytest.mark.parametrize(("leaf", "value", "message"), REFUSED)
def test_value_that_does_not_fit_is_refused(leaf: Leaf, value: object, message: str) -> None:
    """The error says what was expected, what came, and where."""
    with pytest.raises(EncodeError) as caught:
        to_plain(leaf, value, "R.x")
    assert message in str(caught.value)
    assert " - at `R.x`" in str(caught.value)
    assert caught.value.path == "R.x"
    assert isinstance(caught.value, TypeError) == ("got `" in str(caught.value))


def test_integer_too_long_to_print_is_refused_at_once() -> None:
    """Python takes a second, or refuses, to print one of a hundred thousand digits."""
    with pytest.raises(EncodeError, match="got an integer of 332193 bits"):
        to_plain(INT64, 10**100_000, "")


def test_range_of_timestamps_is_exact_to_the_microsecond() -> None:
    """The last microsecond that 64 bits of nanoseconds hold is taken, the next one is not."""
    last = dt.datetime(2262, 4, 11, 23, 47, 16, 854_775, tzinfo=UTC)
    assert to_plain(TIMESTAMP, last, "") == 9_223_372_036_854_775_000
    with pytest.raises(EncodeError):
        to_plain(TIMESTAMP, last + dt.timedelta(microseconds=1), "")
    first = dt.datetime(1677, 9, 21, 0, 12, 43, 145_225, tzinfo=UTC)
    assert to_plain(TIMESTAMP, first, "") == -9_223_372_036_854_775_000
    with pytest.raises(EncodeError):
        to_plain(TIMESTAMP, first - dt.timedelta(microseconds=1), "")


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_nanoseconds_of_numpy_are_exact(nanoseconds: int) -> None:
    """numpy's times lose nothing on the way in."""
    assert to_plain(TIMESTAMP, np.datetime64(nanoseconds, "ns"), "") == nanoseconds
    assert to_plain(DURATION, np.timedelta64(nanoseconds, "ns"), "") == nanoseconds


@given(st.datetimes(dt.datetime(1678, 1, 1), dt.datetime(2262, 1, 1), timezones=st.just(UTC)))
def test_datetimes_come_back(moment: dt.datetime) -> None:
    """Microseconds survive the way to nanoseconds and back."""
    assert from_plain(TIMESTAMP, to_plain(TIMESTAMP, moment, ""), "") == moment


@given(st.timedeltas(dt.timedelta(days=-100_000), dt.timedelta(days=100_000)))
def test_timedeltas_come_back(span: dt.timedelta) -> None:
    """Microseconds survive the way to nanoseconds and back."""
    assert from_plain(DURATION, to_plain(DURATION, span, ""), "") == span


FROM_PLAIN: list[tuple[Leaf, Any, object]] = [
    (INT8, 5, 5),
    (TEXT, "x", "x"),
    (TIMESTAMP, 1999, dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    (TIMESTAMP, -1999, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    (DURATION, 1999, dt.timedelta(microseconds=1)),
    (DURATION, -1999, dt.timedelta(microseconds=-1)),
    (UUID, bytes(range(16)), SOME_ID),
    (COLOR, 1, Color.BLUE),
    (NUMBERED, 1, 1),
]


@pytest.mark.parametrize(("leaf", "plain", "value"), FROM_PLAIN)
def test_plain_value_becomes_pythons(leaf: Leaf, plain: Any, value: object) -> None:
    """What a component sees; a datetime holds microseconds, and the rest is cut towards zero."""
    assert from_plain(leaf, plain, "") == value


@pytest.mark.parametrize("nanoseconds", [-(2**63), 2**63 - 1])
def test_every_int64_is_a_datetime(nanoseconds: int) -> None:
    """No time of a peer is out of Python's range, and what Python makes of it can be sent again."""
    for leaf in (TIMESTAMP, DURATION):
        value = from_plain(leaf, nanoseconds, "")
        assert abs(to_plain(leaf, value, "") - nanoseconds) < 1000


def test_number_without_a_member_is_the_peers_fault() -> None:
    """An enumeration's number must be known to the class."""
    with pytest.raises(WireError, match=r"Expected a number of `enum Color`, got 5 - at `R\.x`"):
        from_plain(COLOR, 5, "R.x")


def test_member_that_the_class_lacks_is_left_out() -> None:
    """Names of the format that the class does not have lead to no member."""
    grown = Enumeration("Grown", 1, (("RED", 0), ("GREEN", 1)), Grown)
    assert from_plain(grown, 0, "") is Grown.RED
    with pytest.raises(WireError):
        from_plain(grown, 1, "")


# ---------------------------------------------------------------------------------------------------
# Bytes

PACKED: list[tuple[Scalar | Enumeration, Any, bytes]] = [
    (BOOL, True, b"\1"),
    (INT8, -2, b"\xfe"),
    (INT64, 1, b"\0\0\0\0\0\0\0\1"),
    (UINT64, 2**64 - 1, b"\xff" * 8),
    (FLOAT16, 1.0, b"\x3c\0"),
    (FLOAT32, 1.0, b"\x3f\x80\0\0"),
    (FLOAT64, 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
    (COMPLEX64, 1j, b"\0\0\0\0\x3f\x80\0\0"),
    (TIMESTAMP, 258, b"\0\0\0\0\0\0\1\2"),
    (DURATION, -1, b"\xff" * 8),
    (UUID, bytes(range(16)), bytes(range(16))),
    (CHARS, "é", b"\xc3\xa9\0\0"),
    (BYTES, b"ab", b"ab"),
    (COLOR, 1, b"\1"),
    (Enumeration("E", 4, (("A", 1),)), -2, b"\xff\xff\xff\xfe"),
]


def is_array_of_bytes(leaf: Scalar | Enumeration) -> bool:
    return isinstance(leaf, Scalar) and leaf.kind in (Kind.UUID, Kind.CHARS, Kind.BYTES)


def swapped(leaf: Scalar | Enumeration, data: bytes) -> bytes:
    if is_array_of_bytes(leaf):
        return data
    half = leaf.alignment
    return b"".join(data[i : i + half][::-1] for i in range(0, len(data), half))


@pytest.mark.parametrize(("leaf", "plain", "big"), PACKED)
def test_plain_value_has_its_bytes(leaf: Scalar | Enumeration, plain: Any, big: bytes) -> None:
    """In both byte orders, and back."""
    orders: list[tuple[ByteOrder, bytes]] = [("big", big), ("little", swapped(leaf, big))]
    for order, data in orders:
        assert pack(leaf, plain, order) == data
        assert unpack(leaf, data, order, "") == plain


def test_characters_end_at_the_first_nul() -> None:
    """What stands after it is not looked at."""
    assert unpack(CHARS, b"a\0\xff\xff", "little", "") == "a"


def test_text_that_is_not_utf8_is_the_peers_fault() -> None:
    """The message has the byte and its place."""
    with pytest.raises(WireError, match=r"Expected UTF-8, got the byte 0xff at 1 of 4 - at `R\.x`"):
        unpack(CHARS, b"a\xffbc", "little", "R.x")


@pytest.mark.parametrize(("leaf", "plain"), [(case[0], case[1]) for case in PACKED])
def test_dtype_has_the_same_bytes(leaf: Scalar | Enumeration, plain: Any) -> None:
    """numpy, an oracle that shares no code, agrees on size and value."""
    orders: list[ByteOrder] = ["little", "big"]
    for order in orders:
        dtype = scalar_dtype(leaf, order)
        assert dtype.itemsize == leaf.size
        if not is_array_of_bytes(leaf):
            seen = np.frombuffer(pack(leaf, plain, order), dtype)[0]
            assert seen == np.array(plain).astype(seen.dtype)


def test_numeric_types_are_those_that_numpy_holds() -> None:
    """Arrays of these are numpy arrays, others are lists."""
    assert [kind for kind in Kind if is_numeric(Scalar(kind, 8))] == list(Kind)[:7]
    assert not is_numeric(COLOR)
    assert not is_numeric(TEXT)
    assert not is_numeric(StaticArray(INT8, (2,)))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_integer_range_is_numpys(size: int) -> None:
    """Both signs, every width."""
    signed, unsigned = np.iinfo(f"i{size}"), np.iinfo(f"u{size}")
    assert integer_range(Kind.INT, size) == (signed.min, signed.max)
    assert integer_range(Kind.UINT, size) == (unsigned.min, unsigned.max)


# ---------------------------------------------------------------------------------------------------
# Defaults

LEAVES: list[Leaf] = [*(case[0] for case in PACKED), TEXT, BLOB]


@given(st.data())
def test_defaults_come_back(data: st.DataObject) -> None:
    """The byte form of a default is exact for every leaf."""
    leaf = data.draw(st.sampled_from(LEAVES))
    plain = data.draw(leaf_values(leaf))
    again = unpack_default(leaf, pack_default(leaf, plain), "")
    assert again == plain or again != again  # not a number


DEFAULT_FAULTS: list[tuple[Leaf, bytes, str]] = [
    (INT64, b"\0", "Expected a default of 8 bytes for `int64`, got 1"),
    (BOOL, b"", "Expected a default of 1 bytes for `bool`, got 0"),
    (CHARS, b"12345", "Expected a default for `char[4]`, got b'12345'"),
    (CHARS, b"1\0", "Expected a default for `char[4]`, got"),
    (TEXT, b"1\0", "Expected a default for `str`, got"),
    (TEXT, b"\xff", "Expected UTF-8"),
    (COLOR, b"", "Expected a default of 1 bytes for `enum Color`, got 0"),
    (BYTES, b"abc", "Expected a default of 2 bytes for `byte[2]`, got 3"),
]


@pytest.mark.parametrize(("leaf", "data", "message"), DEFAULT_FAULTS)
def test_default_of_another_form_is_refused(leaf: Leaf, data: bytes, message: str) -> None:
    """Only bytes that `pack_default` makes are a default."""
    with pytest.raises(WireError) as caught:
        unpack_default(leaf, data, "R.x")
    assert str(caught.value).startswith(message)
    assert caught.value.path == "R.x"
