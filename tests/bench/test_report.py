"""A report says what was reached, what was missed, and what was only looked at."""

from __future__ import annotations

import pytest

from bench.report import Row, as_text


@pytest.mark.parametrize(("measured", "verdict"), [(1.0, "**missed**"), (2.0, "reached"), (3.0, "reached")])
def test_more_is_better_where_a_row_says_so(measured: float, verdict: str) -> None:
    """A figure that is its goal has reached it."""
    assert Row("ratio", measured, 2.0, "x", at_least=True).verdict == verdict


def test_a_row_without_a_goal_misses_nothing() -> None:
    """It has a figure and no verdict, in the table and in JSON."""
    row = Row("seen", 3.0, None, "x")
    assert as_text([row]).splitlines()[2] == "| seen | - | 3 x | - |"
    assert row.as_dict()["goal"] is None
    assert row.is_reached


def test_rows_of_a_group_share_a_table() -> None:
    """Each group has its heading, and rows of no group have none."""
    rows = [Row("a", 1, 1, "x"), Row("b", 1, 1, "x", group="G"), Row("c", 1, 1, "x", group="G")]
    first, heading, second = as_text(rows).split("\n\n")
    assert first.splitlines()[2:] == ["| a | 1 x | 1 x | reached |"]
    assert heading == "### G"
    assert [line[:5] for line in second.splitlines()[2:]] == ["| b |", "| c |"]
