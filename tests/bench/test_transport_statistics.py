"""What is made of times: quantiles, bins, and ratios within a round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.transport.statistics import QUANTILES, Times, histogram, quantile, ratio_of_rounds

times = st.lists(st.integers(1, 10**10), min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50), (0.9, 90), (0.99, 99), (0.999, 100), (0, 1), (1, 100)]
)
def test_a_quantile_is_one_of_the_times(share: float, expected: int) -> None:
    """The smallest that so many do not exceed."""
    assert quantile(range(1, 101), share) == expected


@given(times)
def test_quantiles_grow(given_ns: list[int]) -> None:
    """Whatever order the times came in."""
    its = Times.of(given_ns)
    assert sorted(its.us(share) for share in QUANTILES) == [its.us(share) for share in QUANTILES]
    assert its.us(1) == max(given_ns) / 1e3


def test_no_times_are_refused() -> None:
    """There is no median of nothing."""
    with pytest.raises(ValueError, match="at least one"):
        Times.of([])


@given(times, st.integers(1, 50))
def test_a_histogram_counts_every_time(given_ns: list[int], count: int) -> None:
    """Also those outside its range, in the first and the last bin."""
    bins = histogram(given_ns, low_us=1, high_us=1000, bins=count)
    assert len(bins) == count
    assert sum(each.count for each in bins) == len(given_ns)


def test_bins_are_of_equal_width_on_a_logarithmic_scale() -> None:
    """A time stands in the bin that holds it."""
    bins = histogram([2_000, 20_000, 25_000, 200_000], low_us=1, high_us=1000, bins=3)
    assert [each.count for each in bins] == [1, 2, 1]
    assert [each.low_us for each in bins] == pytest.approx([1, 10, 100])
    assert [each.high_us for each in bins] == pytest.approx([10, 100, 1000])


def test_a_slow_round_changes_no_ratio() -> None:
    """It slows both sides, and the ratio is taken within the round."""
    assert ratio_of_rounds([2, 200, 4], [1, 100, 2]) == 2
