"""Events that the tests of expressions share."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Any

import echo_core as echo

ABC: Any = "abc"


def _grid() -> Any:
    return [[0, 1, 2], [3, 4, 5]]


class Kind(enum.Enum):
    """What a particle is."""

    ion = 1
    electron = 2
    photon = 7


@dataclasses.dataclass(slots=True)
class Point:
    """A place."""

    x: float
    y: echo.Float32 = 0.0


@dataclasses.dataclass(slots=True)
class Particle:
    """A field of each sort."""

    id: int = 1
    temp: echo.Float32 = 300.5
    energy: float = 2.0
    mass: echo.UInt64 = 9
    cell: echo.Int16 = -3
    kind: Kind = Kind.ion
    tag: echo.Chars[8] = ABC
    name: str = "héllo"
    raw: bytes = b"xyz"
    hot: bool = True
    at: Point = dataclasses.field(default_factory=lambda: Point(1.5, 2.5))
    origin: Point | None = None
    weight: float | None = None
    note: str | None = None
    parts: list[float] = dataclasses.field(default_factory=lambda: [1.0, 2.0, 4.5])
    points: list[Point] = dataclasses.field(default_factory=lambda: [Point(1.0), Point(5.0)])
    grid: echo.Array[echo.Int32, 2, 3] = dataclasses.field(default_factory=_grid)
    time: dt.datetime = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    span: dt.timedelta = dt.timedelta(seconds=2)
    pair: echo.Complex128 = 1j


@dataclasses.dataclass(slots=True)
class Hit:
    """Of fixed size, with leaves that are judged in their slots."""

    id: int = 1
    temp: echo.Float32 = 300.5
    kind: Kind = Kind.ion
    tag: echo.Chars[8] = ABC
    at: Point = dataclasses.field(default_factory=lambda: Point(1.5, 2.5))


@echo.event
class Kept:
    """Of fixed size, with its record inline."""

    id: int = 1
    temp: echo.Float32 = 300.5
    kind: Kind = Kind.ion
    tag: echo.Chars[8] = ABC
