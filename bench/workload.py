"""The events that every benchmark uses.

`Particle` is laid out the same by most machines; `Odd` by hardly any two, so that a claim about foreign
layouts is always measured on both.
"""

import echo_core as echo


@echo.event
class Particle:
    """96 bytes of every common kind."""

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


@echo.event
class Batch:
    """Many particles in one event."""

    step: int
    count: echo.Int32
    particles: echo.Array[Particle, "count"]  # noqa: F821 - a dimension, not a type


@echo.event
class Odd:
    """What C programs really declare."""

    c: echo.Chars[1]
    l: echo.Long  # noqa: E741 - the workload's name for it
    d: float
    ll: int
    s: echo.Int16
    text: str
    n: echo.Int32
    values: echo.Array[echo.Float32, "n"]  # noqa: F821 - a dimension, not a type


@echo.event
class Message:
    """Variable parts of the commonest kinds."""

    id: int
    name: str
    values: echo.Array[echo.Float64, ...]
    tags: list[str]


def particle(i: int = 7) -> Particle:
    """A particle whose fields all depend on `i`."""
    third = i / 3
    return Particle(
        id=i,
        x=third,
        y=-third,
        z=third * 1e6,
        vx=i % 17 / 4,
        vy=-1.5,
        vz=0.25,
        temp=300.0 + i % 100,
        cell=i % 1000,
        kind=i % 6,
        flags=i % 256,
        active=i % 2 == 0,
        mass=1.67e-27,
        charge=1.6e-19,
        tag=f"p{i % 100}",
        owner=i % 65536,
    )
