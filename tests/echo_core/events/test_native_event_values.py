"""What the fields of native records hold, and what is refused where it is assigned."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen.plain.objects import plain_of
from echo_core.errors import EncodeError
from tests.echo_core.events.native_events import (
    UTC,
    Color,
    Fixed,
    Level,
    Point,
    Varied,
    bad,
    codec,
    generic,
    received,
)


def test_field_holds_what_its_type_can() -> None:
    """A value is rounded, or brought to UTC, when it is assigned, not when it is sent."""
    event = Fixed(f32=0.1, f16=1 / 3, i8=np.int8(-5), u64=2**64 - 1, f64=3)  # type: ignore[arg-type]
    assert (event.f32, event.f16) == (float(np.float32(0.1)), float(np.float16(1 / 3)))
    assert (event.i8, event.u64, event.f64) == (-5, 2**64 - 1, 3.0)
    assert [type(v) for v in (event.i8, event.f64)] == [int, float]
    event.when = dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert (event.when, event.when.tzinfo) == (dt.datetime(2020, 1, 1, tzinfo=UTC), UTC)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("flag", [True, False]),
        ("i8", [-128, 127]),
        ("i16", [-(2**15), 2**15 - 1]),
        ("i32", [-(2**31), 2**31 - 1]),
        ("i64", [-(2**63), 2**63 - 1]),
        ("u8", [0, 255]),
        ("u16", [65535]),
        ("u32", [2**32 - 1]),
        ("u64", [2**63, 2**64 - 1, 0]),
        ("f32", [1.5, float("inf"), float("-inf")]),
        ("f64", [1e308, -0.0, float("inf")]),
        ("c64", [1 + 2j]),
        ("tag", ["", "abcd", "äö", "€"]),
        ("raw", [b"\0\1"]),
        ("color", [Color.BLUE]),
        ("level", [Level.HIGH]),
        ("span", [dt.timedelta(days=-1, microseconds=1)]),
        ("key", [uuid.UUID(int=2**100)]),
        ("maybe", [None, 5, 0]),
        ("names", [["", "xy"]]),
        ("point", [Point(3.0)]),
    ],
)
def test_value_is_read_as_it_was_assigned(name: str, values: list[Any]) -> None:
    """Before and after it was sent."""
    for value in values:
        event = Fixed(**{name: value})
        assert (getattr(event, name), type(getattr(event, name))) == (value, type(value))
        assert codec(Fixed).encode(event) == generic(Fixed).encode(event)
        assert getattr(received(event), name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flag", 1),
        ("i8", 128),
        ("i8", 1.0),
        ("u8", -1),
        ("u16", 2**64),
        ("i64", 2**63),
        ("u64", -1),
        ("u64", 2**64),
        ("f32", 1e39),
        ("f32", 10**400),
        ("f64", 10**400),
        ("f64", "1"),
        ("c64", "1"),
        ("tag", "abcde"),
        ("tag", "€€"),
        ("tag", "a\0"),
        ("tag", "\ud800"),
        ("tag", b"a"),
        ("raw", b"a"),
        ("color", "r"),
        ("level", 3),
        ("when", dt.datetime(2020, 1, 1)),
        ("span", 5),
        ("key", "x"),
        ("maybe", "x"),
        ("position", [1.0, 2.0]),
        ("names", ["abc", ""]),
        ("point", 5),
        ("points", [Point(1.0)]),
    ],
)
def test_assignment_is_checked(name: str, value: object) -> None:
    """With the field's path, in the words of the encoder; the value before stays."""
    event = Fixed()
    before = codec(Fixed).encode(event)
    message = bad(event, name, value)
    assert f" - at `Fixed.{name}" in message
    assert codec(Fixed).encode(event) == before
    field = next(field for field in echo.format_of(Fixed).fields if field.name == name)
    with pytest.raises(EncodeError) as caught:
        plain_of(field.type, value, f"Fixed.{name}")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", 5),
        ("text", "a\0"),
        ("text", "\ud800"),
        ("blob", "a"),
        ("note", 1),
        ("tags", "ab"),
        ("tags", ["a", 1]),
        ("values", [[1.0]]),
        ("values", np.array(["a"])),
    ],
)
def test_assignment_of_a_variable_part_is_checked(name: str, value: object) -> None:
    """It is kept as given, so a list is looked at again when it is sent."""
    assert f"`Varied.{name}" in bad(Varied(), name, value)
    event = Varied(tags=["a"])
    event.tags.append(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(EncodeError, match=r"Varied\.tags\[1\]"):
        codec(Varied).encode(event)


def test_variable_part_is_kept_as_given() -> None:
    """The very object, as in a dataclass."""
    tags = ["a"]
    event = Varied(tags=tags)
    assert event.tags is tags
    tags.append("b")
    assert received(event).tags == ["a", "b"]


def test_array_field_is_a_view() -> None:
    """An element can be assigned; the next reader and the encoder see it."""
    event = Fixed()
    event.position[1] = 2.5
    assert list(event.position) == [0.0, 2.5, 0.0]
    assert list(received(event).position) == [0.0, 2.5, 0.0]
    event.position = [1, 2, 3]
    assert event.position.tolist() == [1.0, 2.0, 3.0]
    event.points["y"] = 7.0
    assert event.points["x"].tolist() == [1.0, 2.0]
    assert received(event).points["y"].tolist() == [7.0, 7.0]


def test_array_field_of_a_frozen_event_is_read_only() -> None:
    """Or it would not be frozen."""

    @echo.event(frozen=True)
    class Frozen:
        position: echo.Array[echo.Float64, 2]

    event = Frozen(np.ones(2))
    with pytest.raises(ValueError, match="read-only"):
        event.position[0] = 2.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        event.position.flags.writeable = True


def test_nested_event_is_one_object() -> None:
    """What is changed in it is changed for every reader, and for the encoder, as in a dataclass."""
    event = Fixed()
    event.point.x = 9.0
    event.names[0] = "zz"
    assert event.point is event.point
    again = received(event)
    assert (again.point, again.names) == (Point(9.0), ["zz", "b"])
    again.point.y = 4.0
    assert received(again).point == Point(9.0, 4.0)


def test_structured_array_is_checked_when_it_is_sent() -> None:
    """It is written to by numpy, which knows no UTF-8."""

    @echo.event
    class Tag:
        text: echo.Chars[2]

    @echo.event
    class Tags:
        tags: echo.Array[Tag, 2]

    tags: Any = [Tag("a"), Tag("b")]
    event = Tags(tags)
    event.tags["text"][0] = b"\xff"
    with pytest.raises(EncodeError, match="UTF-8"):
        codec(Tags).encode(event)


def test_field_that_was_never_set_is_zero_or_missing() -> None:
    """A number is zero, as in C; what has no zero, and what is kept, is an AttributeError."""
    event = Fixed.__new__(Fixed)
    assert (event.i64, event.f64, event.tag, event.flag) == (0, 0.0, "", False)
    with pytest.raises(AttributeError):
        _ = event.level
    with pytest.raises(AttributeError):
        _ = Varied.__new__(Varied).text
    with pytest.raises(EncodeError, match=r"never set - at `Varied\.text`"):
        codec(Varied).encode(Varied.__new__(Varied))
