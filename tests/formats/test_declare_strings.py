"""Annotations as text: this module imports annotations from the future."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import echo_core as echo
from echo_core.errors import FormatError


class Color(enum.Enum):
    RED = 1


@echo.event
class Cell:
    i: echo.Int32


@echo.event
class Reading:
    id: int
    tag: echo.Chars[4]
    position: echo.Array[echo.Float64, 3]
    samples: typing.Annotated[NDArray[np.float32], echo.Array[echo.Float32, ...]]
    cells: list[Cell]
    quoted: echo.Array["Cell", 2]  # noqa: UP037 - the quotes are what is tested
    color: Color | None = None
    note: typing.Optional[str] = None  # noqa: UP045


@dataclasses.dataclass
class Child(Reading):
    extra: echo.Int8 = 0


TYPES = [
    "int64",
    "char[4]",
    "float64[3]",
    "float32[...]",
    "Cell[...]",
    "Cell[2]",
    "enum Color | None",
    "str | None",
]


def types_of(cls: type[Any]) -> list[str]:
    return [str(field.type) for field in echo.format_of(cls).fields]


def test_text_annotations_are_evaluated() -> None:
    """Every annotation of this module is text, and means what it says."""
    assert types_of(Reading) == TYPES


def test_inherited_text_annotations_are_evaluated() -> None:
    """A child's fields follow its parent's."""
    assert types_of(Child) == [*TYPES, "int8"]


def test_local_types_of_an_event_are_found() -> None:
    """`@event` resolves names of the function around it although they are text."""

    @echo.event
    class Inner:
        x: echo.Int16

    @echo.event
    class Outer:
        inner: Inner
        listed: list[Inner | None]

    assert types_of(Outer) == ["Inner", "Inner | None[...]"]


def test_local_types_of_a_dataclass_are_found() -> None:
    """`format_of` resolves names of its callers although they are text."""

    @dataclasses.dataclass
    class Inner:
        x: echo.Int16

    @dataclasses.dataclass
    class Outer:
        inner: Inner

    assert types_of(Outer) == ["Inner"]


def test_refusal_in_a_text_annotation_names_the_field() -> None:
    """A type without a layout is refused where `@event` stands."""
    with pytest.raises(FormatError, match=r"got `dict\[str, int\]` - at `Reading.tags`"):

        @echo.event
        class Reading:  # pyright: ignore[reportUnusedClass]
            tags: dict[str, int]
