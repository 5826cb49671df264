"""The comparison of readers: its report, and what it refuses. The data source's tests have them agree."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from echo_core.spark_eval.readers import (
    CODECS,
    ReadersError,
    Sample,
    codecs_of,
    demand_agreement,
    ratio,
    report,
    write,
)


def sample(codec: str = "echo", run: int = 1, **changed: Any) -> Sample:
    made = Sample(codec, run, 1_000_000, 1.0, 96_000_000, 5, 1_000_000)
    return dataclasses.replace(made, **changed)


def test_readers_that_differ_are_refused() -> None:
    """Other rows, or fewer of them."""
    demand_agreement([sample(), sample("parquet")])
    for wrong in (sample("parquet", checksum=6), sample("parquet", rows=7)):
        with pytest.raises(ReadersError, match="Expected one checksum of 1000000 rows"):
            demand_agreement([sample(), wrong])


def test_codecs_are_chosen_by_name_and_ours_is_there_always() -> None:
    """An unknown one is named."""
    assert codecs_of(["parquet"]) == ["echo", "parquet"]
    assert codecs_of(None) == list(CODECS)
    with pytest.raises(ReadersError, match="got bson"):
        codecs_of(["bson"])


def test_ratios_are_taken_within_each_run_and_held_against_goals() -> None:
    """A slow minute of the machine slows both; a small job is mostly Spark's own work."""
    fast = [sample(), sample("parquet", seconds=0.95)]
    slow = [sample(run=2, seconds=10.0), sample("parquet", run=2, seconds=9.5)]
    assert ratio(fast + slow, "parquet") == pytest.approx(0.95)
    assert "| parquet | 5.22 | 0.95 | 0.9, met | 1.0, missed | 96 |" in report(fast + slow, "local[2]")
    small = [dataclasses.replace(it, records=100) for it in fast]
    assert "met" not in report(small, "local[2]")


def test_every_sample_is_kept(tmp_path: Path) -> None:
    """In Parquet, beside the page."""
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    samples = [sample(), sample("parquet", checksum=-1)]
    write(tmp_path, samples, report(samples, "local[2]"))
    rows = parquet.read_table(tmp_path / "readers.parquet").to_pylist()
    assert rows == [dataclasses.asdict(it) for it in samples]
    assert "on `local[2]`" in (tmp_path / "readers.md").read_text()
