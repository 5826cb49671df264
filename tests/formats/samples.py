"""Classes that several suites describe: the goals' workload, one of every kind of field, and a small one."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid

import echo_core as echo


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


@echo.event
class Cell:
    i: echo.Int32
    name: str


@echo.event(aliases=("Poor", "Reich"))
class Rich:
    """Every kind, wrapper, code for defaults, and text that metadata can hold."""

    id: int
    ok: bool
    small: echo.UInt8
    half: echo.Float16
    temp: echo.Float32 = echo.field(unit="K", doc="how warm", aliases=("t", "temperature"))
    wave: echo.Complex64
    tag: echo.Chars[16]
    key: echo.Bytes[3]
    position: echo.Array[echo.Float64, 3]
    samples: echo.Array[echo.Float32, ...]
    image: echo.Array[echo.UInt16, ..., 2]
    count: echo.UInt32
    counted: echo.Array[echo.Int8, "count"]  # noqa: F821, UP037 - the name of a field
    cells: list[Cell]
    first: Cell | None
    color: Color
    when: dt.datetime
    took: dt.timedelta
    who: uuid.UUID
    note: str | None = None
    limit: float | None = 1.5
    raw: bytes = b"abc"
    names: list[str | None] = echo.field(default_factory=list)
    größe: echo.Int16 = echo.field(default=-2, unit="µm")
    paint: Color = Color.BLUE


@echo.event
class Tiny:
    """As little metadata as has an entry in every table."""

    a: echo.Array[echo.Int8, 2]
    n: echo.Int16 = echo.field(default=7, aliases=("m",), unit="s")
    c: Color | None = None


@echo.event
class Small:
    """Little metadata that still has every table, and a record in the record."""

    n: echo.Int16 = echo.field(default=7, aliases=("m",), unit="s")
    c: Color | None = None
    cells: echo.Array[Cell, 2] = echo.field(default_factory=list)


@dataclasses.dataclass
class Particle:
    id: int
    x: float
    y: float
    z: float
    vx: echo.Float32
    vy: echo.Float32
    vz: echo.Float32
    temp: echo.Float32
    cell: echo.Int32
    kind: echo.Int16
    flags: echo.UInt8
    active: bool
    mass: float
    charge: float
    tag: echo.Chars[16]
    owner: echo.UInt32


@dataclasses.dataclass
class Batch:
    step: int
    count: echo.Int32
    particles: echo.Array[Particle, "count"]  # noqa: F821, UP037 - the name of a field


@dataclasses.dataclass
class Odd:
    c: echo.Int8
    l: echo.Long  # noqa: E741 - as the goals call it
    d: float
    ll: int
    s: echo.Int16
    text: str
    n: echo.Int32
    values: echo.Array[echo.Float32, "n"]  # noqa: F821, UP037 - the name of a field
