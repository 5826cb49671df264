"""Numbers as they are read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.spark_eval.report.summaries import Range
from echo_core.spark_eval.report.units import duration, percent, round_duration, size, times, times_range


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"), (1.384, "1.38 ns"), (99.96, "100 ns"), (999.4, "999 ns"), (999.96, "1.00 µs"),
        (12_345, "12.3 µs"), (7e6, "7.00 ms"), (2.5e9, "2.50 s"), (1.5e12, "1,500 s"),
    ],
)  # fmt: skip
def test_duration_has_three_digits_and_a_unit(nanoseconds: float, text: str) -> None:
    """The unit changes where the digits would be four."""
    assert duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.0083, "0.0083"), (0.994, "0.99"), (1.004, "1.00"), (1.98, "1.98"), (2.04, "2.0"), (12.4, "12"),
        (1178, "1,178"),
    ],
)  # fmt: skip
def test_ratio_is_exact_where_its_side_of_one_is_in_question(ratio: float, text: str) -> None:
    """Far from 1 two digits will do."""
    assert times(ratio) == text + "\N{MULTIPLICATION SIGN}"


def test_range_that_reads_alike_is_one_number() -> None:
    """14 to 14 would say that something was rounded away."""
    assert times_range(Range(0, 13.9, 14.1)) == times(14)
    assert times_range(Range(0, 2, 3)) == f"2.0\N{EN DASH}{times(3)}"


def test_what_is_not_known_is_a_dash() -> None:
    """A spread of one block, and its ratio."""
    assert {percent(math.nan), times(math.nan)} == {"\N{EN DASH}"}


def test_other_numbers() -> None:
    """Shares, bytes and ticks."""
    assert (percent(0.0545), size(96.32), size(1734.2)) == ("5.5 %", "96.3", "1,734")
    assert (round_duration(300), round_duration(1e4)) == ("300 ns", "10 µs")


@given(st.floats(1e-3, 1e11))
def test_duration_is_within_half_a_percent(nanoseconds: float) -> None:
    """Three digits are never fewer."""
    number, unit = duration(nanoseconds).split()
    factor = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(number.replace(",", "")) * factor == pytest.approx(nanoseconds, rel=0.005001)
