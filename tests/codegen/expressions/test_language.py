"""Each operation at its edges: Python's result on the record's values, or an error."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from typing import Any

import pytest

import echo_core as echo
from echo_core.codegen.expressions.canonical import canonical
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.reading import read
from echo_core.formats.declare import format_of
from tests.codegen.expressions.particles import Particle, Point

LEAST, MOST = -(2**63), 2**63 - 1
FAILS = "fails"


def value_of(text: str, event: Any, **parameters: Any) -> Any:
    """By the interpreter; FAILS for a run-time error."""
    format_ = format_of(event.__class__)
    reading = read([text], format_.record, parameters)
    made = canonical(reading.tree, reading.roots)
    program = lower([(made.tree, made.roots)], format_)
    values = [reading.values[old].value for old in made.parameters]
    (value,) = program.native().evaluate(echo.encoder(event.__class__)(event), program.snapshot(values))
    return FAILS if isinstance(value, tuple) else value


def passes(text: str, event: Any, **parameters: Any) -> bool:
    """By compiled code, whose answer is also the interpreter's."""
    compiled = echo.where(event.__class__, text, tier="compiled", **parameters)
    interpreted = echo.where(event.__class__, text, tier="interpreted", **parameters)
    assert compiled(event) is interpreted(event)
    assert (compiled.failure, compiled.statistics().failed) == (
        interpreted.failure,
        interpreted.statistics().failed,
    )
    return compiled(event)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("id + 1", 8),
        ("id // -2", -4),
        ("id % -2", -1),
        ("-id // 2", -4),
        ("id / 2", 3.5),
        ("id ** 4", 2401),
        ("id ** 0", 1),
        ("energy ** 3", 8.0),
        ("id & 3 | 8 ^ 1", 11),
        ("~id", -8),
        ("id << 3", 56),
        ("id >> 1", 3),
        ("abs(cell)", 3),
        ("-energy", -2.0),
        ("energy // 0.3", 2.0 // 0.3),
        ("-energy % 0.3", -2.0 % 0.3),
        ("sqrt(energy)", math.sqrt(2.0)),
        ("floor(temp)", 300),
        ("ceil(temp)", 301),
        ("int(-temp)", -300),
        ("float(id)", 7.0),
        ("int(mass)", 9),
        ("int(hot)", 1),
        ("min(id, 9, 3)", 3),
        ("max(temp, energy)", 300.5),
        ("1 < id <= 7 < 8", True),
        ("id if hot else 0", 7),
        ("not hot", False),
        ("id in (1, 7, 9)", True),
        ("id not in [1, 2]", True),
        ("energy in {2, 3}", True),
        ("len(name)", 5),
        ("len(raw)", 3),
        ("len(parts)", 3),
        ("name == 'héllo'", True),
        ("name > 'hz'", True),
        ("'ll' in name", True),
        ("name.startswith('hé')", True),
        ("tag.endswith('bc')", True),
        ("raw == b'xyz'", True),
        ("tag in ('x', 'abc')", True),
        ("kind == 'ion'", True),
        ("kind in ('electron', 'photon')", False),
        ("at.x + at.y", 4.0),
        ("parts[0] + parts[-1]", 5.5),
        ("sum(parts)", 7.5),
        ("sum(parts[1:])", 6.5),
        ("sum(parts[-2:-1])", 2.0),
        ("len(parts[2:1])", 0),
        ("max(parts)", 4.5),
        ("min(p.x for p in points)", 1.0),
        ("sum(1 for p in points if p.x > 2)", 1),
        ("any(p.x > 4 for p in points)", True),
        ("all(p.x > 4 for p in points)", False),
        ("grid[1][2]", 5),
        ("sum(sum(row) for row in grid)", 15),
        ("origin is None", True),
        ("origin is not None and origin.x > 1", False),
        ("weight if weight is not None else 1.5", 1.5),
        ("note is None or note == 'x'", True),
        ("span == time - time or span > other", True),
        ("isnan(energy) or isinf(energy) or isfinite(energy)", True),
    ],
)
def test_an_operation_gives_what_python_does(text: str, wanted: object) -> None:
    """By the interpreter, of each sort of value."""
    parameters = {"other": dt.timedelta(seconds=1)} if "other" in text else {}
    got = value_of(text, Particle(id=7), **parameters)
    assert (got, type(got)) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("id + 1 > 0", Particle(id=MOST)),
        ("id - 1 < 0", Particle(id=LEAST)),
        ("id * 2 > 0", Particle(id=MOST)),
        ("-id > 0", Particle(id=LEAST)),
        ("abs(id) > 0", Particle(id=LEAST)),
        ("id // -1 > 0", Particle(id=LEAST)),
        ("id // 0 > 0", Particle()),
        ("id % 0 > 0", Particle()),
        ("id / 0 > 0", Particle()),
        ("energy / 0 > 0", Particle()),
        ("energy // 0.0 > 0", Particle()),
        ("energy % 0.0 > 0", Particle()),
        ("id ** 2 > 0", Particle(id=2**32)),
        ("energy ** 2 > 0", Particle(energy=1e200)),
        ("sqrt(energy) > 0", Particle(energy=-1.0)),
        ("id << 63 > 0", Particle(id=2)),
        ("id << 64 > 0", Particle(id=0)),
        ("id >> -1 > 0", Particle()),
        ("int(energy) > 0", Particle(energy=math.nan)),
        ("int(energy) > 0", Particle(energy=2.0**63)),
        ("floor(energy) > 0", Particle(energy=math.inf)),
        ("int(mass) > 0", Particle(mass=2**63)),
        ("mass - 10 > 0", Particle(mass=9)),
        ("mass + 1 > 0", Particle(mass=2**64 - 1)),
        ("parts[3] > 0", Particle()),
        ("parts[-4] > 0", Particle()),
        ("min(parts) > 0", Particle(parts=[])),
        ("max(x for x in parts if x > 9) > 0", Particle()),
        ("sum(x // 0 for x in parts) > 0", Particle()),
    ],
)
def test_what_python_raises_for_fails(text: str, event: Particle) -> None:
    """So does what needs more than 64 bits; the event does not pass, and the error points into the text."""
    assert not passes(text, event)
    predicate = echo.where(Particle, text)
    assert not predicate(event)
    assert predicate.statistics().failed == 1
    assert predicate.failure.startswith("Run-time error: ")
    assert predicate.failure.count("\n") == 2


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("id % -1 == 0", Particle(id=LEAST)),
        ("id ** 2 == 9223372030926249001", Particle(id=3037000499)),
        ("id << 1 == 8", Particle(id=4)),
        ("int(energy) < 0", Particle(energy=-(2.0**63))),
        ("id != energy", Particle(id=2**53 + 1, energy=2.0**53)),
        ("id > energy", Particle(id=MOST, energy=9.2e18)),
        ("id < energy", Particle(id=MOST, energy=2.0**63)),
        ("mass > id", Particle(id=-1, mass=2**64 - 1)),
        ("mass < energy", Particle(mass=2**64 - 1, energy=2.0**64)),
        ("not energy == energy and not energy < 1 and not energy >= 1", Particle(energy=math.nan)),
        ("energy == 0.0", Particle(energy=-0.0)),
        ("hot or 1 / 0 > 1", Particle()),
        ("not hot and 1 // 0 > 1 or True", Particle()),
        ("(1 if hot else id // 0) == 1", Particle()),
        ("len(parts) == 0 or parts[0] > 1", Particle(parts=[])),
        ("any(x > 1 or 1 // 0 > 1 for x in parts)", Particle(parts=[2.0])),
        ("sum(parts) == 0", Particle(parts=[])),
        ("not any(x > 0 for x in parts) and all(x > 0 for x in parts)", Particle(parts=[])),
    ],
)
def test_an_edge_is_exact(text: str, event: Particle) -> None:
    """Compiled and interpreted; what guards guard is not asked for."""
    assert passes(text, event)


def test_a_float32_is_compared_as_its_record_has_it() -> None:
    """300.1 is above 300.1 once it is a float32, also where the object is judged as it is."""
    event = Particle(temp=300.1)
    assert passes("temp > limit", event, limit=300.1)
    assert passes("temp == limit", event, limit=300.1000061035156)


def test_min_and_max_take_what_python_takes_of_no_number() -> None:
    """They compare, so the order of their arguments counts."""
    event = Particle(parts=[math.nan, 1.0])
    assert math.isnan(value_of("min(parts)", event))
    assert value_of("min(parts)", Particle(parts=[1.0, math.nan])) == 1.0
    assert math.isnan(value_of("max(energy, 1.0)", Particle(energy=math.nan)))
    assert value_of("max(1.0, energy)", Particle(energy=math.nan)) == 1.0


def test_a_sum_goes_from_left_to_right() -> None:
    """Also where Python's own, from 3.12 on, compensates."""
    assert value_of("sum(parts)", Particle(parts=[1e16, 1.0, -1e16])) == 0.0


def test_none_is_told_apart_where_it_is_asked_for() -> None:
    """In each form that narrows."""
    nothing, something = Particle(), Particle(weight=2.0, origin=Point(9.0), note="x")
    for text in (
        "weight is not None and weight > 1",
        "not (weight is None) and weight > 1",
        "not (weight is None or weight <= 1)",
        "(weight if weight is not None else 0.0) > 1",
        "(0.0 if weight is None else weight) > 1",
        "weight is not None and origin is not None and weight < origin.x",
        "note is not None and note == 'x'",
    ):
        assert not passes(text, nothing), text
        assert passes(text, something), text


def test_a_time_is_compared_with_a_parameter() -> None:
    """A datetime or a timedelta, to the nanosecond that a record has."""
    event = Particle()
    assert passes("time >= since", event, since=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    assert not passes("time > since", event, since=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    assert passes("time - start > span", event, start=dt.datetime(2025, 1, 1, tzinfo=dt.UTC))


def test_parameters_are_set_while_a_predicate_is_used() -> None:
    """They count from the next event on; an int becomes a float where it was one."""
    predicate = echo.where(Particle, "temp > limit and tag == wanted", limit=300, wanted="abc")
    assert predicate.parameters == {"limit": 300.0, "wanted": "abc"}
    assert predicate(Particle())
    predicate.set(limit=301)
    assert not predicate(Particle())
    predicate.set(limit=1.5, wanted="ab")
    assert not predicate(Particle())
    assert predicate(dataclasses.replace(Particle(), tag="ab"))


def test_a_set_is_given_as_a_parameter() -> None:
    """Of texts, of numbers, of members; it can be empty."""
    assert passes("tag in wanted", Particle(), wanted=("x", "abc"))
    assert passes("id in wanted", Particle(), wanted={1, 2})
    assert passes("kind in wanted", Particle(), wanted=[type(Particle().kind).ion])
    assert not passes("id in wanted", Particle(), wanted=())
