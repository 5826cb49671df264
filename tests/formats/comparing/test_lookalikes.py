"""Which names look alike."""

from __future__ import annotations

import tracemalloc
from dataclasses import make_dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.formats.comparing.compare import compare
from echo_core.formats.comparing.lookalikes import Lookalikes

ALIKE = [
    ("a letter less", "temperature", "temprature"),
    ("a letter more", "threshold", "treshold"),
    ("another letter", "celsius", "celcius"),
    ("two letters exchanged", "receive", "recieve"),
    ("a letter doubled, another one not", "threshold", "treshhold"),
    ("another case", "setPoint", "setpoint"),
    ("underscores", "set_point", "setpoint"),
    ("a unit behind it", "temperature", "temperature_c"),
    ("two words behind it", "max_speed", "max_speed_rad_s"),
    ("short", "temp", "tmp"),
]


@pytest.mark.parametrize(("name", "other"), [case[1:] for case in ALIKE], ids=[case[0] for case in ALIKE])
def test_names_look_alike(name: str, other: str) -> None:
    """Whichever of the two is looked for."""
    assert Lookalikes([other]).of(name) == [other]
    assert Lookalikes([name]).of(other) == [name]


DIFFERENT = [
    ("other words", "temperature", "pressure"),
    ("the same first word", "motor_speed", "motor_current"),
    ("numbers", "sensor1", "sensor2"),
    ("more numbers", "sensor1", "sensor12"),
    ("one letter", "x", "y"),
    ("two letters", "id", "ip"),
    ("a short word of one", "id", "id_of_motor"),
]


@pytest.mark.parametrize(
    ("name", "other"), [case[1:] for case in DIFFERENT], ids=[case[0] for case in DIFFERENT]
)
def test_names_do_not_look_alike(name: str, other: str) -> None:
    assert Lookalikes([other]).of(name) == []
    assert Lookalikes([name]).of(other) == []


def test_the_most_alike_is_the_first() -> None:
    assert Lookalikes(["temperature_max", "temperatur"]).of("temperature") == [
        "temperatur",
        "temperature_max",
    ]


def test_names_of_more_letters_than_are_looked_at_look_like_nothing() -> None:
    for letters, found in [(63, 1), (64, 1), (65, 0)]:
        name = "x" * letters
        assert len(Lookalikes([name[:-1] + "y"]).of(name)) == found


@given(st.text("abcdefgh", min_size=4, max_size=20), st.data())
def test_any_letter_may_be_missing(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    assert Lookalikes([name[:at] + name[at + 1 :]]).of(name)


def test_spellings_of_ignored_fields_are_made_where_one_of_ours_is_missing_only() -> None:
    """They take ten times the time of the comparison, and a peer chooses the names."""
    wide = make_dataclass(
        "R", [("a", int), *((f"temperature_of_sensor_{i:05d}", float) for i in range(1000))]
    )
    sender, receiver = echo.format_of(wide), echo.format_of(make_dataclass("R", [("a", int)]))
    compare(sender, receiver)
    tracemalloc.start()
    report = compare(sender, receiver)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(report.entries) == 1001
    assert peak < 1 << 20
