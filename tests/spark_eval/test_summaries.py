"""Medians, spreads and ratios against numbers worked out by hand."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.spark_eval.report.summaries import (
    CellSummary,
    Key,
    Range,
    quantiles,
    ratios,
    summarise,
)

pytest.importorskip("pyarrow", reason="needs the extra `spark`")

OURS = Key("echo dataclass", "decode", "batch-10", "same", "objects")
RIVAL = OURS._replace(codec="pickle")


def _samples(*groups: tuple[Key, int, list[float]], **others: list[Any]) -> Any:
    """A table of (key, block, wall times of its samples); CPU time is nine tenths unless given."""
    pyarrow: Any = importlib.import_module("pyarrow")
    rows = [(key, block, wall) for key, block, walls in groups for wall in walls]
    columns: dict[str, list[Any]] = {
        name: [key[n] for key, _, _ in rows] for n, name in enumerate(Key._fields)
    }
    columns |= {
        "block": [block for _, block, _ in rows],
        "wall_ns": [wall for _, _, wall in rows],
        "cpu_ns": [wall * 0.9 for _, _, wall in rows],
        "noisy": [False] * len(rows),
        "records": [10] * len(rows),
        "payload_bytes": [963] * len(rows),
        "setup_ns": [500] * len(rows),
        "compile_ns": [7000 if block == 0 else 0 for _, block, _ in rows],
    }
    return pyarrow.table(columns | others)


def _only(samples: Any) -> CellSummary:
    (cell,) = summarise(samples).values()
    return cell


def test_median_is_taken_per_block_and_over_all_samples() -> None:
    """Blocks of 10, 20, 30 and of 40, 50: medians 20 and 45, and 30 over all."""
    cell = _only(_samples((OURS, 0, [10, 30, 20]), (OURS, 1, [40, 50])))
    assert cell.wall.by_block == {0: 20, 1: 45}
    assert cell.wall.median_ns == 30
    assert cell.wall_ns_per_record == 3
    assert cell.cpu_ns_per_record == pytest.approx(2.7)
    assert cell.bytes_per_record == 96.3


def test_spread_is_the_distance_of_the_extreme_blocks_by_the_median() -> None:
    """Medians 100, 104 and 110 of three blocks; (110 - 100) / 104."""
    cell = _only(_samples((OURS, 0, [100]), (OURS, 1, [110]), (OURS, 2, [104])))
    assert cell.wall.spread == pytest.approx(10 / 104)
    assert cell.cpu.spread == pytest.approx(10 / 104)


def test_spread_of_one_block_is_not_known() -> None:
    """One block says nothing of how far another would be."""
    assert math.isnan(_only(_samples((OURS, 0, [1, 2, 3]))).wall.spread)


def test_disturbed_samples_count_only_where_a_block_has_no_others() -> None:
    """In block 0 the quiet 10 stands, in block 1 both noisy ones do."""
    samples = _samples((OURS, 0, [10, 99]), (OURS, 1, [20, 40]), noisy=[False, True, True, True])
    cell = _only(samples)
    assert cell.wall.by_block == {0: 10, 1: 30}
    assert (cell.sample_count, cell.disturbed_count) == (4, 3)


@pytest.mark.parametrize(
    ("second_block", "cpu_share", "noisy"),
    [(109.0, 1.0, False), (112.0, 1.0, True), (100.0, 0.96, False), (100.0, 0.95, True)],
)
def test_cell_is_noisy_by_spread_or_by_wall_over_cpu(
    second_block: float, cpu_share: float, noisy: bool
) -> None:
    """The limits are 10 % between blocks and 1.05 of wall over CPU."""
    walls = [100.0, second_block]
    samples = _samples((OURS, 0, walls[:1]), (OURS, 1, walls[1:]), cpu_ns=[w * cpu_share for w in walls])
    assert _only(samples).noisy is noisy


def test_ratios_are_taken_inside_blocks() -> None:
    """A block twice as slow for both sides changes no ratio: 300/100, 700/200 and 100/100."""
    samples = _samples(
        (OURS, 0, [100]), (OURS, 1, [200]), (OURS, 2, [100]),
        (RIVAL, 0, [300]), (RIVAL, 1, [700]), (RIVAL, 2, [100]),
    )  # fmt: skip
    (ratio,) = ratios(summarise(samples))
    assert ratio.wall == Range(3, 1, 3.5)
    assert ratio.cpu == pytest.approx(Range(3, 1, 3.5))
    assert (ratio.ours, ratio.rival, ratio.verdict) == (OURS, RIVAL, "tie")


@pytest.mark.parametrize(("rival", "verdict"), [([90.0, 80.0], "rival"), ([120.0, 130.0], "ours")])
def test_verdict_needs_every_block(rival: list[float], verdict: str) -> None:
    """Faster in each block, not only in the median."""
    samples = _samples((OURS, 0, [100]), (OURS, 1, [100]), (RIVAL, 0, rival[:1]), (RIVAL, 1, rival[1:]))
    assert [ratio.verdict for ratio in ratios(summarise(samples))] == [verdict]


def test_cells_that_differ_in_more_than_the_codec_are_not_compared() -> None:
    """Another sender, target, shape or operation is another question."""
    others = [
        RIVAL._replace(sender="extra"), RIVAL._replace(target="columns"),
        RIVAL._replace(shape="odd"), RIVAL._replace(operation="encode"),
    ]  # fmt: skip
    assert ratios(summarise(_samples((OURS, 0, [1]), *((key, 0, [1.0]) for key in others)))) == []


def test_sides_without_a_common_block_are_not_compared() -> None:
    """Their quotient would hold the change of the machine between the blocks."""
    assert ratios(summarise(_samples((OURS, 0, [1]), (RIVAL, 1, [1])))) == []


def test_set_up_is_kept_by_the_dearest_and_the_median_block() -> None:
    """Only the first block of a process compiles."""
    cell = _only(_samples((OURS, 0, [1]), (OURS, 1, [1]), (OURS, 2, [1])))
    assert cell.compile_ns == Range(0, 0, 7000)
    assert cell.setup_ns == Range(500, 500, 500)


def test_quantiles_leave_out_what_is_not_known() -> None:
    """Of 0, 1, ..., 10 half are below 5 and nine tenths below 9."""
    found = quantiles([math.nan, *(float(n) for n in range(11))])
    assert (found.p50, found.p90, found.largest) == (5, 9, 10)
    assert math.isnan(quantiles([math.nan]).p90)


TIMES = st.lists(st.floats(1, 1e9), min_size=1, max_size=5)


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=4), st.floats(0.01, 100))
def test_ratio_does_not_depend_on_the_unit_and_lies_in_its_range(
    blocks: list[tuple[list[float], list[float]]], scale: float
) -> None:
    """Both clocks slowed down alike leave every ratio, and swapped sides its reciprocal."""

    def ratio(first: Key, second: Key, factor: float) -> Range:
        groups = [(first, n, [t * factor for t in ours]) for n, (ours, _) in enumerate(blocks)]
        groups += [(second, n, [t * factor for t in rival]) for n, (_, rival) in enumerate(blocks)]
        (found,) = ratios(summarise(_samples(*groups)))
        return found.wall

    plain = ratio(OURS, RIVAL, 1)
    swapped = ratio(RIVAL, OURS, 1)
    expected = [float(np.median(rival) / np.median(ours)) for ours, rival in blocks]
    assert plain == pytest.approx(Range(float(np.median(expected)), min(expected), max(expected)))
    assert plain.low <= plain.median <= plain.high
    assert ratio(OURS, RIVAL, scale) == pytest.approx(plain)
    assert (swapped.low, swapped.high) == pytest.approx((1 / plain.high, 1 / plain.low))
