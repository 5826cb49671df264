"""The pipeline: all codecs to the same rows, and what is said of them."""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pa: Any = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
pytest.importorskip("msgpack")

from echo_core.spark_eval.columns.schema import arrow_schema  # noqa: E402
from echo_core.spark_eval.measure.workloads import Particle  # noqa: E402
from echo_core.spark_eval.pipeline import (  # noqa: E402 - needs all three
    PipelineError,
    Sample,
    Size,
    add_arguments,
    codecs_of,
    demand_agreement,
    goals,
    report,
    run_once,
    size_of,
    table,
    write,
)
from echo_core.spark_eval.routes import NAMES, NAMES_OF_ROUTES, particles, route  # noqa: E402


def sample(codec: str = "echo", run: int = 1, seconds: float = 1.0, **changed: Any) -> Sample:
    """One run of a thousand particles."""
    given = Sample(codec, run, True, 1000, 10, seconds, 0.1, 0.1, 0.1, 96_000, 81_000, 0xAB, 1000)
    return dataclasses.replace(given, **changed)


def size(*given: str) -> Size:
    """What the command makes of its arguments."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return size_of(parser.parse_args(given))


@pytest.mark.parametrize("codec", NAMES_OF_ROUTES)
def test_a_route_gives_back_the_columns_that_it_was_given(codec: str) -> None:
    """Exactly, in the types of the schema; whole messages and one that is not full."""
    columns = particles(300, 250)
    messages = route(codec).encode(columns, 100)
    found = route(codec).decode(pa.array(messages, pa.binary()))
    assert len(messages) == 3
    for name, column, field in zip(NAMES, found, arrow_schema(Particle), strict=True):
        assert column.type == field.type
        assert column.to_pylist() == columns[name].tolist()


def test_particles_depend_on_their_numbers_alone() -> None:
    """So that every codec is given the same ones, on whatever executor."""
    first, again = particles(100, 50), particles(100, 50)
    assert all((first[name] == again[name]).all() for name in NAMES)
    assert (first["x"] != particles(200, 50)["x"]).any()


def test_codecs_that_disagree_are_an_error_that_names_them() -> None:
    """As are rows that got lost on the way of all of them."""
    with pytest.raises(PipelineError, match="echo: ab of 1000 rows; pickle: ac of 1000 rows"):
        demand_agreement([sample(), sample("pickle", checksum=0xAC)])
    with pytest.raises(PipelineError, match="one checksum of 1000 rows"):
        demand_agreement([sample(rows=999), sample("pickle", rows=999)])


def test_messages_are_whole_and_tasks_are_large() -> None:
    """125,000 records to a task, two tasks at least."""
    assert size("--records", "1000050") == Size(1_000_000, 100, 8)
    assert size("--records", "7") == Size(100, 100, 2)
    assert size("--records", "5000", "--per-message", "10", "--partitions", "3") == Size(5000, 10, 3)


def test_codecs_are_chosen_by_name_and_ours_is_always_there() -> None:
    """An unknown one is named."""
    assert codecs_of("pickle") == ["echo", "pickle"]
    assert codecs_of("") == list(NAMES_OF_ROUTES)
    with pytest.raises(PipelineError, match="got bson"):
        codecs_of("bson, pickle")


def test_ratios_are_taken_within_each_run() -> None:
    """A slow minute of the machine slows both."""
    slow = [sample(seconds=1.0), sample("pickle", seconds=3.0, payload_bytes=150_000)]
    slower = [sample(run=2, seconds=10.0), sample("pickle", run=2, seconds=30.0, payload_bytes=150_000)]
    assert "| pickle | 3.00, goal met | 1.4 | 2 | 0.64 | 0.70 |" in goals(slow + slower)


@pytest.mark.parametrize(("seconds", "verdict"), [(1.3, "missed"), (1.6, "met"), (2.0, "goal met")])
def test_a_goal_is_missed_or_met(seconds: float, verdict: str) -> None:
    """And says so."""
    assert f"{seconds:.2f}, {verdict} |" in goals([sample(), sample("pickle", seconds=seconds)])


def test_the_table_has_a_row_for_each_codec() -> None:
    """With both settings of the shuffle's compression."""
    text = table([sample(), sample("pickle", seconds=2.0), sample(is_compressed=False, shuffle_bytes=97_000)])
    assert "| echo | 1.00 | 1.0 | 0.10 | 0.10 | 0.10 | 96 | 81 | 97 |" in text
    assert "| pickle | 2.00 | 2.0 |" in text


def test_every_sample_is_kept(tmp_path: Path) -> None:
    """In Parquet, beside the page."""
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    samples = [sample(), sample("pickle", checksum=-1)]
    write(tmp_path / "new", samples, report(samples, "local[2]"))
    rows = parquet.read_table(tmp_path / "new" / "pipeline.parquet").to_pylist()
    assert rows == [dataclasses.asdict(it) for it in samples]
    assert "on `local[2]`" in (tmp_path / "new" / "pipeline.md").read_text()


def test_goals_are_those_of_large_jobs() -> None:
    """In a small one, Spark's own work hides the codecs."""
    small = [sample(), sample("pickle", seconds=1.1)]
    large = [dataclasses.replace(it, records=1_000_000, rows=1_000_000) for it in small]
    assert "missed" not in report(small, "local[2]")
    assert "| pickle | 1.10, missed |" in report(large, "local[2]")


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_every_codec_gives_the_same_rows_in_spark(spark: SparkSession) -> None:
    """Checksums agree, payload and shuffle are counted, nothing is lost."""
    samples = [run_once(spark, codec, Size(2000, 100, 2)) for codec in NAMES_OF_ROUTES]
    demand_agreement(samples)
    ours = samples[0]
    assert (ours.rows, ours.messages, ours.payload_bytes) == (2000, 20, 20 * (32 + 100 * 96))
    assert all(it.shuffle_bytes > 20 * 2000 and it.encode_s > 0 and it.decode_s > 0 for it in samples)
    assert all(ours.payload_bytes < it.payload_bytes for it in samples[1:])


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_command_writes_what_it_prints(java_is_here: None, tmp_path: Path) -> None:
    """One after the other in sessions that compress and do not."""
    command = [sys.executable, "-m", "echo_core.spark_eval", "pipeline", "--records=2000", "--runs=1"]
    given = [*command, "--codecs=msgpack map", "--master=local[2]", "--out", str(tmp_path)]
    result = subprocess.run(given, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "pipeline.md").read_text()
    assert page.strip() == result.stdout.strip()
    assert "| msgpack map |" in page
    assert (tmp_path / "pipeline.parquet").exists()
