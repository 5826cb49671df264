"""The job: what it asks for, and a small plan through a real session."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from echo_core.spark_eval import comparison
from echo_core.spark_eval.measure import cells
from echo_core.spark_eval.report import folder as report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

parquet: Any = pytest.importorskip("pyarrow.parquet")


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    comparison.add_arguments(parser)
    return parser.parse_args(["--out", "unused", *given])


@pytest.mark.parametrize("given", [("--codecs", "echo event,corba"), ("--shapes", "round")])
def test_what_is_unknown_is_refused_with_what_is_known(given: tuple[str, str]) -> None:
    """Before anything is started."""
    with pytest.raises(comparison.CompareError, match="out of"):
        comparison.planned(arguments(*given))


def test_nothing_to_measure_is_refused() -> None:
    """Arrow has cells for batches alone."""
    with pytest.raises(comparison.CompareError, match="nothing to measure"):
        comparison.planned(arguments("--codecs", "arrow ipc", "--shapes", "single"))


def test_tasks_are_the_plan_in_its_order() -> None:
    """A few cells at a time, so that a bar moves."""
    plan = cells.plan(quick=True, seed=1)
    groups = list(comparison.tasks(plan))
    assert [entry for group in groups for entry in group] == plan
    assert len(groups) > 10
    assert max(map(len, groups)) < len(plan) / 5


def test_the_estimate_comes_before_the_work() -> None:
    """How many cells, how often, how long."""
    assert "2 times in different orders" in comparison.estimate(cells.plan(quick=True, seed=1))


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_small_plan_is_measured_on_executors(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples with the right columns, the facts, and the report."""
    entries = cells.plan(quick=True, seed=1, codecs=["echo dataclass", "msgpack array"], shapes=["single"])
    facts = comparison.facts_of(spark, entries, quick=True)
    rows = comparison.measured(spark, entries)
    comparison.write(rows, facts, tmp_path)
    comparison.conclude(rows, tmp_path)
    table = parquet.read_table(tmp_path / report.SAMPLES)
    assert {field.name: str(field.type) for field in table.schema} == {
        name: {"float64": "double"}.get(type_, type_) for name, type_ in comparison.COLUMNS.items()
    }
    assert len(table) == len(rows) >= len(entries) * 5
    assert set(table["block"].to_pylist()) == {0, 1}
    found = json.loads((tmp_path / report.ENVIRONMENT).read_text())
    assert found["cells"] == len(entries) // 2
    assert found["machine"]["cores"] >= 1
    assert (tmp_path / "report.html").exists()
    assert "The report: " in capsys.readouterr().out
