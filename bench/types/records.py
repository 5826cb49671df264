"""Records within an event: one, an optional one, and lists of them. All their fields are read, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import echo_core as echo
from bench.types.case import Case, Spelling

Declare = Callable[[str, list[tuple[str, Any]]], Any]
"""Makes a class of a name and fields, as `msgspec.defstruct` and `dataclasses.make_dataclass` do."""


@echo.event
class Point:
    """A record of fixed size."""

    x: float
    n: int


@dataclass(slots=True)
class SlotsPoint:
    """The same as a dataclass."""

    x: float
    n: int


@echo.event
class Story:
    """One with variable parts."""

    title: str
    numbers: list[int]


@dataclass(slots=True)
class SlotsStory:
    """The same as a dataclass."""

    title: str
    numbers: list[int]


_POINTS = [(i / 4, i * 1000) for i in range(10)]
_STORIES = [(f"story number {i}", [1000 * i, 2000, 3000]) for i in range(10)]
_ONE_POINT = "((p := it.value).x, p.n)"
_ALL_POINTS = "[(p.x, p.n) for p in it.value]"
_ONE_STORY = "((p := it.value).title, p.numbers)"
_ALL_STORIES = "[(p.title, p.numbers) for p in it.value]"


def cases(declare: Declare) -> Iterator[Case]:
    """`declare` makes the peer's classes."""
    points = (Point, SlotsPoint, declare("StructPoint", [("x", float), ("n", int)]))
    stories = (Story, SlotsStory, declare("StructStory", [("title", str), ("numbers", list[int])]))
    yield _one("a record", points, _POINTS[3], _ONE_POINT, documented=("an event class",))
    yield _one("a record with text and list[int]", stories, _STORIES[3], _ONE_STORY)
    yield _one("a record or None, a value", points, _POINTS[3], _ONE_POINT, optional=True)
    yield _many("list of 10 records", points, _POINTS, _ALL_POINTS)
    yield _many("list of 10 records with text and list[int]", stories, _STORIES, _ALL_STORIES)


def _one(
    name: str,
    classes: tuple[Any, Any, Any],
    values: tuple[Any, ...],
    read: str,
    *,
    documented: tuple[str, ...] = (),
    optional: bool = False,
) -> Case:
    def spelled(cls: Any) -> Spelling:
        return Spelling((("value", cls | None if optional else cls),), cls(*values), read=read)

    event, dataclass_, struct = map(spelled, classes)
    return Case(name, documented, values, event, dataclass_, struct)


def _many(name: str, classes: tuple[Any, Any, Any], rows: list[Any], read: str) -> Case:
    def spelled(cls: Any) -> Spelling:
        annotation: Any = list[cls]  # not a type for a checker
        return Spelling((("value", annotation),), [cls(*values) for values in rows], read=read)

    event, dataclass_, struct = map(spelled, classes)
    return Case(name, (), rows, event, dataclass_, struct)
