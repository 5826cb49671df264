"""Plans, and how a cell is measured."""

from __future__ import annotations

import gc
import pickle
import time
from collections import Counter
from itertools import groupby

import pytest

from echo_core.spark_eval.comparison import COLUMNS
from echo_core.spark_eval.measure import cells, codecs
from echo_core.spark_eval.measure.cells import PlannedCell
from echo_core.spark_eval.measure.codecs import Cell, Work
from echo_core.spark_eval.measure.workloads import SHAPES

SINGLE = Cell("echo dataclass", "decode", "single", "extra", "objects")


def entry(cell: Cell = SINGLE) -> PlannedCell:
    return PlannedCell(block=1, position=2, cell=cell, samples=3, sample_ns=50_000)


def test_every_block_has_every_cell_in_an_order_of_its_own() -> None:
    """Interleaved: what changes with time meets every codec alike."""
    plan = cells.plan(quick=False, seed=1)
    blocks = [[it.cell for it in its] for _, its in groupby(plan, key=lambda it: it.block)]
    assert len(blocks) >= 3
    assert {tuple(Counter(block).values()) for block in blocks} == {(1,) * len(blocks[0])}
    assert all(set(block) == set(blocks[0]) for block in blocks)
    assert blocks[0] != blocks[1]
    assert [it.position for it in plan if it.block == 0] == list(range(len(blocks[0])))


def test_the_order_is_that_of_the_seed() -> None:
    """A run can be repeated as it was."""
    assert cells.plan(quick=True, seed=7) == cells.plan(quick=True, seed=7)
    assert cells.plan(quick=True, seed=7) != cells.plan(quick=True, seed=8)


def test_a_full_plan_has_every_shape_and_codec_that_is_installed() -> None:
    """A quick one has fewer shapes, but as many codecs."""
    full, quick = (cells.plan(quick=it, seed=1) for it in (False, True))
    assert {it.cell.shape for it in full} == set(SHAPES)
    assert {it.cell.shape for it in quick} == {"single", "batch-100", "odd", "story"}
    assert {it.cell.codec for it in full} == {it.cell.codec for it in quick} == set(codecs.installed())


def test_a_plan_can_be_for_some() -> None:
    """Codecs and shapes by name."""
    plan = cells.plan(quick=True, seed=1, codecs=["pickle"], shapes=["wide"])
    assert {(it.cell.codec, it.cell.shape) for it in plan} == {("pickle", "wide")}


def test_plans_are_as_long_as_promised() -> None:
    """By estimate: a full one below eight minutes, a quick one below one."""
    assert cells.seconds_of(cells.plan(quick=False, seed=1)) < 480
    assert cells.seconds_of(cells.plan(quick=True, seed=1)) < 60


def test_entries_travel() -> None:
    """They are what the driver sends to an executor."""
    assert pickle.loads(pickle.dumps(entry())) == entry()


@pytest.mark.parametrize("operation", ["encode", "decode"])
def test_measuring_gives_rows_of_the_table(operation: codecs.Operation) -> None:
    """A row for each sample, with every column but no other."""
    rows = cells.measure(entry(Cell("echo dataclass", operation, "batch-10", "same", "objects")))
    assert all(sorted(row) == sorted(COLUMNS) for row in rows)
    assert [row["sample"] for row in rows] == list(range(len(rows)))
    assert len(rows) >= 3
    assert {row["records"] for row in rows} == {10}
    assert all(row["wall_ns"] > 0 and row["loops"] >= 1 for row in rows)
    assert (rows[0]["block"], rows[0]["position"]) == (1, 2)


def test_measuring_leaves_the_collector_on() -> None:
    """It is off while samples are taken."""
    cells.measure(entry())
    assert gc.isenabled()


def work_of(function: codecs.Function) -> Work:
    return Work(function, None, 1, 1, lambda _: None, 0, 0)


def test_loops_take_about_as_long_as_a_sample_should() -> None:
    """A call that takes longer is called once."""
    assert cells.calibrated(work_of(lambda _: None), 1_000_000) > 100

    def slow(_: object) -> None:
        until = time.perf_counter_ns() + 2_000_000
        while time.perf_counter_ns() < until:
            pass

    assert cells.calibrated(work_of(slow), 1_000_000) == 1


def test_noisy_samples_are_repeated_and_marked() -> None:
    """A thread that waits does not have the core to itself; all of its samples are kept."""
    samples = cells.samples_of(work_of(lambda _: time.sleep(0.001)), 1, 3)
    assert len(samples) == 3 * cells.MAX_ROUNDS
    assert all(sample["noisy"] for sample in samples)
