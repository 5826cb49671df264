"""Events of a derived format: fields as they are, under other names, and computed ones."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

import echo_core as echo
from tests.codegen.expressions.particles import Hit, Kind, Particle, Point


def decoded(projection: echo.Projection, event: Any) -> Any:
    made = projection(event)
    assert made is not None
    return echo.decoder(None, sender=projection.format)(made)


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_fields_are_taken_over_as_they_are(tier: Any) -> None:
    """With their types, variable parts included."""
    projection = echo.select(Particle, ["points", "id", "kind", "origin", "name"], name="Some", tier=tier)
    some = decoded(projection, Particle(origin=Point(7.0)))
    assert (some.id, some.name, some.kind, some.origin.x) == (1, "héllo", Kind.ion, 7.0)
    assert [point.x for point in some.points] == [1.0, 5.0]
    assert [str(field.type) for field in projection.format.fields][1] == "int64"


@dataclasses.dataclass(slots=True)
class Path:
    """Points have four bytes behind them that belong to nothing."""

    at: Point
    ends: echo.Array[Point, 2]
    more: list[Point]
    last: Point | None


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_what_lies_between_the_fields_of_a_sender_stays_there(tier: Any) -> None:
    """Also in records that are taken over as a whole, alone or in arrays."""
    points: Any = [Point(1.0), Point(2.0)]
    record = echo.encoder(Path)(Path(Point(3.0), points, points, Point(4.0)))
    filled = bytearray(record)
    for at in range(0, len(record) - 15, 8):
        if record[at + 8 : at + 16] == bytes(8):  # y, which is 0, and what is behind it
            filled[at + 12 : at + 16] = b"\xee" * 4
    projection = echo.select(Path, ["ends", "at", "more", "last"], name="Taken", tier=tier)
    assert filled.count(0xEE) >= 4 * 6
    assert b"\xee" not in (projection(bytes(filled)) or b"\xee")


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_new_fields_are_computed(tier: Any) -> None:
    """Beside those that are taken over, under any name, also one that the event has for something else."""
    fields = {
        "temp": "temp * 2",
        "celsius": "temp",
        "big": "id > 5",
        "mass": "mass + 1",
        "since": "time - start",
        "parts": "parts",
        "y": "at.y",
    }
    start = dt.datetime(2025, 12, 31, tzinfo=dt.UTC)
    projection = echo.select(Particle, fields, name="New", tier=tier, start=start)
    new = decoded(projection, Particle(id=6))
    assert (new.temp, new.celsius, new.big, new.mass, new.y) == (601.0, 300.5, True, 10, 2.5)
    assert new.since == dt.timedelta(days=1)
    assert list(new.parts) == [1.0, 2.0, 4.5]
    types = {field.name: str(field.type) for field in projection.format.fields}
    assert types["celsius"] == "float32"
    assert (types["temp"], types["big"], types["mass"]) == ("float64", "bool", "uint64")


def test_a_renamed_field_is_found_by_its_former_name() -> None:
    """By a receiver that has kept it, as any alias."""
    projection = echo.select(Hit, {"number": "id"}, name="Numbered")
    (field,) = projection.format.fields
    assert (field.name, field.aliases) == ("number", ("id",))


def test_a_run_time_error_makes_no_record() -> None:
    """And says where."""
    projection = echo.select(Hit, {"ratio": "10 // id"})
    assert projection(Hit(id=0)) is None
    assert "division by zero" in projection.failure
    assert decoded(projection, Hit(id=3)).ratio == 3


def test_parameters_of_a_projection_are_set() -> None:
    """From the next event on."""
    projection = echo.select(Hit, {"scaled": "temp * factor"}, factor=2.0)
    assert decoded(projection, Hit()).scaled == 601.0
    projection.set(factor=0.5)
    assert decoded(projection, Hit()).scaled == 150.25


def test_a_derived_record_is_known_by_its_shape_unless_it_is_named() -> None:
    """As a channel's sinks match it."""
    assert not echo.select(Hit, ["id"]).format.record.is_named
    assert echo.select(Hit, ["id"], name="Id").format.record.is_named
    assert echo.select(Hit, ["id"], name="Id").record_class()(id=3).id == 3


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"x": "tag if id > 1 else tag"}, "a number, a bool or a time to compute"),
        ({"x": "kind if id > 1 else kind"}, "a number, a bool or a time to compute"),
        (["tmp"], "is `temp` meant"),
        ([], "1 to 64 fields to select, got 0"),
        ({"not a name": "id"}, "name"),
        ({"x": "sum(at)"}, "an array"),
    ],
)
def test_what_cannot_be_selected_is_refused(fields: Any, said: str) -> None:
    """With a caret where it is about an expression."""
    with pytest.raises(echo.ExpressionError, match=said):
        echo.select(Hit, fields)


def test_a_record_of_a_format_is_projected_without_a_class() -> None:
    """Whatever machine it is from."""
    sender = echo.format_of(Hit, abi="s390x")
    projection = echo.select(sender, {"id": "id", "twice": "temp * 2"}, name="Twice", tier="compiled")
    record = echo.codec(Hit, abi="s390x").encode(Hit(id=5, kind=Kind.photon))
    assert (decoded(projection, record).id, decoded(projection, record).twice) == (5, 601.0)
