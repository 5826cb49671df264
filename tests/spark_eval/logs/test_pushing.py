"""Filters that go to a log: what passes there is all that Spark would take, and maybe more."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from tests.formats.strategies import examples

pytest.importorskip("pyarrow")
filters: Any = pytest.importorskip("pyspark.sql.datasource")

from echo_core.spark_eval.logs.pushing import Pushed, pushed  # noqa: E402 - needs both


@echo.event
class Cell:
    """A nested record."""

    x: float


@echo.event
class Reading:
    """What is filtered."""

    id: int
    temp: float
    small: echo.UInt16
    cell: Cell
    tag: echo.Chars[4]
    maybe: float | None


RECEIVER = echo.format_of(Reading)
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
NOON_NS = 1769860800 * 10**9
NUMBERS = st.sampled_from([-1.0, 0.0, 1.0, 2.0, math.inf, -math.inf, math.nan])
NAMES = ("EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


def in_spark(name: str, left: float, right: float) -> bool:
    """NaN equals itself there, and is greater than all numbers."""
    a, b = (math.isnan(left), left), (math.isnan(right), right)
    if a[0] or b[0]:
        a, b = (a[0], 0.0), (b[0], 0.0)
    return {
        "EqualTo": a == b,
        "GreaterThan": a > b,
        "GreaterThanOrEqual": a >= b,
        "LessThan": a < b,
        "LessThanOrEqual": a <= b,
    }[name]


@examples(200)
@given(
    temps=st.lists(NUMBERS, min_size=1, max_size=6),
    asked=st.lists(st.tuples(st.sampled_from(NAMES), NUMBERS), max_size=3),
)
def test_what_spark_takes_passes_the_log(temps: list[float], asked: list[tuple[str, float]]) -> None:
    """Also what is no number, of which the two languages think differently."""
    found, left = pushed([getattr(filters, name)(("temp",), value) for name, value in asked], RECEIVER)
    assert len(left) == len(asked)
    wanted = [i for i, temp in enumerate(temps) if all(in_spark(name, temp, value) for name, value in asked)]
    if not found.condition:
        return
    records = np.zeros(len(temps), RECEIVER.dtype)
    records["temp"] = temps
    passing = echo.where(Reading, found.condition, **found.parameters).indices(records)
    assert set(wanted) <= set(passing.tolist())


def test_comparisons_of_fields_become_one_condition() -> None:
    """All of them have to hold; those of nested records, too."""
    given = [
        filters.GreaterThanOrEqual(("id",), 5),
        filters.LessThan(("cell", "x"), 2),
        filters.In(("small",), (1, 2, None)),
    ]
    found, left = pushed(given, RECEIVER)
    assert found.condition == "id >= p0 and cell.x < p1 and (small == p2 or small == p3)"
    assert found.parameters == {"p0": 5, "p1": 2.0, "p2": 1, "p3": 2}
    assert left == given
    echo.where(Reading, found.condition, **found.parameters)


def test_question_for_nulls_is_answered_where_there_are_none() -> None:
    """Spark asks it with each comparison, and would ask each row."""
    never = filters.IsNotNull(("id",))
    may = filters.IsNotNull(("maybe",))
    assert pushed([never, filters.IsNotNull(("_time",)), may], RECEIVER) == (Pushed(), [may])


@pytest.mark.parametrize(
    "given",
    [
        filters.EqualTo(("tag",), "a"),
        filters.GreaterThan(("maybe",), 1.0),
        filters.GreaterThan(("nothing",), 1),
        filters.GreaterThan(("id", "x"), 1),
        filters.GreaterThan(("temp",), math.nan),
        filters.GreaterThan(("id",), 1 << 70),
        filters.In(("id",), tuple(range(1000))),
        filters.Not(filters.EqualTo(("id",), 1)),
        filters.StringStartsWith(("tag",), "a"),
        filters.EqualTo(("_source",), "a"),
        filters.EqualTo(("_time",), dt.datetime(2026, 1, 31)),
    ],
    ids=repr,
)
def test_what_a_log_cannot_judge_is_left_to_spark(given: Any) -> None:
    """All of it."""
    assert pushed([given], RECEIVER) == (Pushed(), [given])


def test_times_and_numbers_bound_the_blocks() -> None:
    """Times by a microsecond more, which is what Spark does not see."""
    time, number = ("_time",), ("_sequence",)
    found, _ = pushed([filters.GreaterThan(time, NOON), filters.LessThanOrEqual(time, NOON)], RECEIVER)
    assert (found.since_ns, found.until_ns) == (NOON_NS - 1000, NOON_NS + 1000)
    asked = [
        filters.GreaterThan(number, 3),
        filters.GreaterThanOrEqual(number, 5),
        filters.LessThan(number, 20),
        filters.LessThanOrEqual(number, 18),
    ]
    found, _ = pushed(asked, RECEIVER)
    assert (found.first, found.stop) == (5, 19)
    found, _ = pushed([filters.EqualTo(number, 7)], RECEIVER)
    assert (found.first, found.stop) == (7, 8)
