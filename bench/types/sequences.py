"""Types of many values: arrays, lists and tuples."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np

import echo_core as echo
from bench.types.case import Case, Spelling, array, same
from bench.types.records import Point
from bench.types.scalars import DURATION, MOMENT, UUID, Color

_WHOLE = [i * 1000 for i in range(10)]
_TEXTS = [f"tag number {i}" for i in range(10)]
_TIMES = [MOMENT + timedelta(seconds=i) for i in range(5)]
_SPANS = [DURATION * i for i in range(1, 6)]
_UUIDS = [uuid.UUID(int=UUID.int + i) for i in range(5)]
_COLORS = [Color.RED, Color.BLUE] * 5


def cases() -> Iterator[Case]:
    """In the order of the document."""
    yield from _arrays()
    yield from _lists()


def _arrays() -> Iterator[Case]:
    numbers = np.arange(10.0)
    yield array(
        "Array[Float64, 3]", echo.Array[echo.Float64, 3], np.arange(3.0), documented=("echo.Array[T, 3]",)
    )
    matrix = np.arange(16.0).reshape(4, 4)
    yield array(
        "Array[Float64, 4, 4]", echo.Array[echo.Float64, 4, 4], matrix, documented=("echo.Array[T, 4, 4]",)
    )
    yield array(
        "Array[Float64, ...] of 10",
        echo.Array[echo.Float64, ...],
        numbers,
        documented=("echo.Array[T, ...]",),
    )
    yield array("Array[Float64, ...] of 1000", echo.Array[echo.Float64, ...], np.arange(1000.0))
    rows = np.arange(30.0).reshape(10, 3)
    yield array(
        "Array[Float64, ..., 3] of 10 rows",
        echo.Array[echo.Float64, ..., 3],
        rows,
        documented=("echo.Array[T, ..., 3]",),
    )
    counted = Spelling((("n", int), ("value", echo.Array[echo.Float64, "n"])), numbers, "len(value), value")
    yield array('Array[Float64, "n"] of 10', None, numbers, documented=('echo.Array[T, "n"]',), ours=counted)
    yield array("Array[bool, ...] of 10", echo.Array[bool, ...], numbers > 4)
    moments = np.arange(5).astype("M8[ns]")
    yield array("Array[datetime, ...] of 5", echo.Array[datetime, ...], moments)
    points = np.zeros(10, echo.format_of(Point).dtype)
    points["n"] = np.arange(10)
    yield array("Array[record, ...] of 10", echo.Array[Point, ...], points)
    yield same("Array[str, ...] of 10", echo.Array[str, ...], _TEXTS, struct=list[str])


def _lists() -> Iterator[Case]:
    yield same("list[int] of 10", list[int], _WHOLE, documented=("list[T]",))
    yield same("list[int] of 1000", list[int], [i * 1000 for i in range(1000)])
    yield same("list[UInt8] of 10", list[echo.UInt8], list(range(10)), struct=list[int])
    yield same("list[float] of 10", list[float], [i / 3 for i in range(10)])
    yield same("list[Float32] of 10", list[echo.Float32], [i / 4 for i in range(10)], struct=list[float])
    yield same("list[bool] of 10", list[bool], [True, False] * 5)
    yield same("list[str] of 10", list[str], _TEXTS)
    yield same("list[Chars[16]] of 10", list[echo.Chars[16]], _TEXTS, struct=list[str])
    yield same("list[bytes] of 10", list[bytes], [it.encode() for it in _TEXTS])
    yield same("list[Enum] of 10", list[Color], _COLORS)
    yield same("list[datetime] of 5", list[datetime], _TIMES)
    yield same("list[timedelta] of 5", list[timedelta], _SPANS)
    yield same("list[UUID] of 5", list[uuid.UUID], _UUIDS)
    optionals = [i / 2 if i % 2 else None for i in range(10)]
    yield same("list[float or None] of 10", list[float | None], optionals)
    yield same("list[list[int]] of 3 of 3", list[list[int]], [[1000, 2000, 3000]] * 3)
    yield same("tuple[int, ...] of 10", tuple[int, ...], tuple(_WHOLE), documented=("tuple[T, ...]",))
    yield same("tuple[str, ...] of 10", tuple[str, ...], tuple(_TEXTS))
