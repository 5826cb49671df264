"""What the events of a class are called: its own name or another, and former ones."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

import echo_core as echo
from echo_core.errors import FormatError
from echo_core.formats.types import Record


def names(cls: type[Any]) -> tuple[str, tuple[str, ...], bool]:
    return names_of(echo.format_of(cls).record)


def names_of(record: Record) -> tuple[str, tuple[str, ...], bool]:
    return record.name, record.aliases, record.is_named


class Outside:
    @echo.event
    class Inside:
        x: int


def test_event_is_called_as_its_class_is_without_what_it_is_in() -> None:
    assert names(Outside.Inside) == ("Inside", (), True)


def test_event_has_the_name_and_the_aliases_that_it_is_given() -> None:
    @echo.event(name="Thermometer", aliases=("Probe", "Sensor"))
    class Thermometer2:
        celsius: float

    assert names(Thermometer2) == ("Thermometer", ("Probe", "Sensor"), True)
    assert Thermometer2.__name__ == "Thermometer2"
    assert "Thermometer (formerly Probe, Sensor): 8 bytes" in echo.format_of(Thermometer2).describe()


def test_dataclass_is_named_below_or_above_its_decorator() -> None:
    @echo.named("Probe", aliases=("Sensor",))
    @dataclass(slots=True)
    class Above:
        x: int

    @dataclass(slots=True)
    @echo.named("Probe", aliases=("Sensor",))
    class Below:
        x: int

    assert names(Above) == names(Below) == ("Probe", ("Sensor",), True)


def test_event_may_be_named_below_its_decorator() -> None:
    @echo.event
    @echo.named(aliases=("Sensor",))
    class Probe:
        x: int

    assert names(Probe) == ("Probe", ("Sensor",), True)


def test_subclass_has_a_name_of_its_own() -> None:
    @echo.event(name="Sensor", aliases=("Probe",))
    class Base:
        x: int

    @echo.event
    class Derived(Base):
        y: int

    assert names(Derived) == ("Derived", (), True)


def test_names_are_of_a_class_whose_format_nobody_knows() -> None:
    """Whoever knows it would go on with the old ones."""

    @echo.event
    class Probe:
        x: int

    with pytest.raises(FormatError, match=r"nobody knows yet, got .*Probe`: name an event class"):
        echo.named("Sensor")(Probe)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"aliases": "Probe"}, r"write `aliases=\('Probe',\)`"),
        ({"aliases": (1,)}, "Expected text as alias, got `int`"),
        ({"name": 1}, "Expected text as name, got `int`"),
        ({"name": "two words"}, "Expected an identifier"),
        ({"name": "x" * 10_000}, "Expected an identifier of at most 255 bytes"),
        ({"aliases": ("x" * 10_000,)}, "Expected an identifier of at most 255 bytes"),
        ({"aliases": ("class",)}, "Expected an identifier"),
        ({"aliases": ("Given",)}, "names and aliases that are given once"),
        ({"aliases": ("Probe", "Probe")}, "names and aliases that are given once"),
        ({"aliases": tuple(f"P{i}" for i in range(17))}, "at most 16 aliases, got 17"),
    ],
)
def test_what_is_no_name_is_refused_at_the_declaration(given: dict[str, Any], expected: str) -> None:
    class Given:
        x: int

    with pytest.raises(FormatError, match=expected):
        echo.event(**given)(Given)


def test_names_travel_and_stay_with_classes_that_are_made_for_them() -> None:
    @echo.event(name="Sensor", aliases=("Probe",))
    class Sensor2:
        x: int

    sent = echo.Format.from_metadata(echo.format_of(Sensor2).metadata)
    assert names_of(sent.record) == ("Sensor", ("Probe",), True)
    assert echo.format_of(sent.record_class()) == sent


def test_c_struct_has_its_name() -> None:
    assert names_of(echo.Format.from_c("struct Probe { double x; };").record) == ("Probe", (), True)


def test_dtype_has_a_name_where_it_is_given_one() -> None:
    dtype = np.dtype([("x", "<f8"), ("inner", [("y", "<i4")])])
    unnamed, named = echo.Format.from_dtype(dtype), echo.Format.from_dtype(dtype, name="Probe")
    assert names_of(unnamed.record) == ("Record", (), False)
    assert names_of(named.record) == ("Probe", (), True)
    inner = named.record.fields[1].type
    assert isinstance(inner, Record)
    assert not inner.is_named
    assert names(unnamed.record_class()) == names_of(unnamed.record)


def test_names_are_part_of_the_format() -> None:
    plain, other = (dataclasses.make_dataclass("Probe", [("x", int)]) for _ in range(2))
    renamed = echo.named(aliases=("Sensor",))(cast("type[Any]", other))
    assert echo.format_of(plain).token != echo.format_of(renamed).token
