"""`@event` and `field`: dataclasses with a layout."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import echo_core as echo
from echo_core.errors import FormatError


@echo.event
class Point:
    x: float
    y: float = 0.0


@echo.event(frozen=True, order=True)
class Version:
    major: int
    minor: int


@echo.event(kw_only=True)
class Named:
    name: str


@echo.event(eq=False)
class Unequal:
    x: int


def test_event_is_a_dataclass_with_slots() -> None:
    """It is made, compared and printed as one, and takes no attribute that was not declared."""
    point = Point(1.0)
    assert [field.name for field in dataclasses.fields(point)] == ["x", "y"]
    assert (repr(point), point == Point(1.0, 0.0)) == ("Point(x=1.0, y=0.0)", True)
    other: Any = point
    with pytest.raises(AttributeError):
        other.z = 1


def test_options_are_those_of_dataclasses() -> None:
    """frozen, order, eq and kw_only."""
    assert Version(1, 2) < Version(1, 3)
    assert hash(Version(1, 2)) == hash(Version(1, 2))
    frozen: Any = Version(1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        frozen.major = 2
    assert Unequal(1) != Unequal(1)
    positional: Any = Named
    with pytest.raises(TypeError):
        positional("x")
    assert Named(name="x").name == "x"


def test_layout_is_checked_where_the_class_is_declared() -> None:
    """A type without a layout does not get past `@event`."""
    with pytest.raises(FormatError, match=r"got `set\[int\]` - at `Broken.tags`"):

        @echo.event
        class Broken:  # pyright: ignore[reportUnusedClass]
            tags: set[int]


def test_format_is_there_before_it_is_asked_for() -> None:
    """`@event` has declared the class already."""
    assert echo.format_of(Point) is echo.format_of(Point)
    assert echo.format_of(Version).size_bytes == 16


def test_field_takes_the_options_of_dataclasses() -> None:
    """Those that echo_core adds stand in the metadata."""

    @echo.event
    class Made:
        a: int = echo.field(default=1, repr=False, compare=False)
        b: list[int] = echo.field(default_factory=list, kw_only=True, doc="many")
        c: int = echo.field(default=2, init=False, hash=False)

    assert repr(Made()).endswith(".Made(b=[], c=2)")
    assert Made(5) == Made(6)
    assert Made(b=[1]).b == [1]
    assert [field.doc for field in echo.format_of(Made).fields] == ["", "many", ""]


def test_text_as_aliases_is_refused() -> None:
    """It would be taken for one alias per letter."""
    text: Any = "old"
    with pytest.raises(FormatError) as caught:
        echo.field(aliases=text)
    assert str(caught.value) == (
        "Expected a tuple of names as aliases, got the text 'old': write `aliases=('old',)`"
    )


def test_aliases_may_be_any_collection() -> None:
    """A list of them is kept as a tuple."""
    listed: Any = ["a", "b"]
    cls = dataclasses.make_dataclass("R", [("x", int, echo.field(aliases=listed))])
    assert echo.format_of(cls).fields[0].aliases == ("a", "b")


def test_event_travels() -> None:
    """Encoded and decoded, an event equals itself."""
    for event in (Point(1.5, -2.0), Version(1, 2), Named(name="größe")):
        assert echo.decoder(type(event))(echo.encoder(type(event))(event)) == event
