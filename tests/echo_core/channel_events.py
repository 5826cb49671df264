"""Events that the tests of channels send: three versions of one, and others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import echo_core as echo


@echo.event
class Reading1:
    id: int
    temperature: echo.Float32


@echo.event(aliases=("Reading1",))
class Reading2:
    """A superset, in another order."""

    tag: echo.Chars[8]
    temperature: echo.Float32
    id: int
    pressure: float = 1.0


@echo.event(aliases=("Reading2", "Reading1"))
class Reading3:
    """Renamed and widened, with a field that no earlier one has."""

    temp: float = echo.field(aliases=("temperature",))
    id: int = 0
    origin: str = "unknown"


@dataclass(slots=True)
class Plain:
    """A dataclass with slots, which compiled code writes."""

    id: int
    x: float


@dataclass
class Story:
    """Everything that varies in size."""

    id: int
    title: str
    body: bytes
    samples: echo.Array[echo.Float32, ...]
    tags: list[str]
    note: str | None = None

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Story)
        mine = (self.id, self.title, self.body, self.tags, self.note)
        return mine == (other.id, other.title, other.body, other.tags, other.note) and bool(
            np.array_equal(self.samples, other.samples)
        )


@echo.event
class Other:
    """Nothing that a reading could become."""

    id: str


@echo.event(aliases=("Plain", "Reading1", "Story"))
class Misfit:
    """Called as others were, but nothing that they could become."""

    id: str


@echo.event(aliases=("Plain",))
class Untitled:
    """Another one, for another reason."""

    id: int
    title: str


def reading(i: int) -> Reading1:
    return Reading1(i, i / 4)


def plain(i: int) -> Plain:
    return Plain(i, i / 3)


def story(i: int) -> Story:
    return Story(i, f"title {i}", bytes([i % 256]) * (i % 7), np.arange(i % 5, dtype="f4"), ["a"] * (i % 3))


def readings(count: int) -> np.ndarray[Any, Any]:
    array = np.zeros(count, echo.format_of(Reading1).dtype)
    array["id"] = np.arange(count)
    array["temperature"] = np.arange(count) / 2
    return array
