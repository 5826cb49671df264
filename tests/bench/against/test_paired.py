"""What is said of ratios, and how sure it is."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.against.paired import Pair, Row, Verdict, interval

NOISE = random.Random(7)


def ratios(middle: float, spread: float, count: int = 21) -> list[float]:
    """Around a middle, on both sides."""
    return [middle * (1 + spread * NOISE.uniform(-1, 1)) for _ in range(count)]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (ratios(1.0, 0.05), Verdict.NO_WORSE),
        (ratios(1.1, 0.05), Verdict.SLOWER),
        (ratios(0.9, 0.05), Verdict.FASTER),
        ([*ratios(1.0, 0.01), 9.0, 9.0, 9.0], Verdict.NO_WORSE),
        ([1.0] * 5, Verdict.NO_WORSE),
    ],
    ids=["the same", "slower", "faster", "three rounds were disturbed", "without noise"],
)
def test_slower_is_what_is_surely_so(values: list[float], verdict: Verdict) -> None:
    """An interval that holds 1 says that nothing was seen."""
    assert interval(values).verdict() is verdict


def test_a_tolerance_forgives() -> None:
    """What is slower by 10 % is no worse where 15 % do not matter, and slower where 5 % do."""
    found = interval(ratios(1.1, 0.01))
    assert found.verdict(0.15) is Verdict.NO_WORSE
    assert found.verdict(0.05) is Verdict.SLOWER


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40))
def test_a_median_lies_in_its_interval(values: list[float]) -> None:
    """And the interval among the values."""
    found = interval(values)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)


def test_a_spell_that_slows_both_changes_no_ratio() -> None:
    """Times are compared within a round alone."""
    row = Row(("suite", "row"), [Pair(slow, 2 * slow) for slow in (1.0, 50.0, 1.0, 3.0, 1.0)])
    assert (row.ratio.low, row.ratio.high) == (2, 2)
    assert row.as_dict()["ratio"] == 2
