"""The benchmarks run, check their own outputs and say whether goals are reached."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench.__main__ import SUITES, main
from bench.report import Row, as_text


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("suite", sorted(SUITES))
def test_a_suite_runs_and_writes_its_figures(suite: str, tmp_path: Path) -> None:
    """A quick run of each suite yields figures beside their goals; noise may take a difference below 0."""
    file = tmp_path / "figures.json"
    main([suite, "--quick", "--json", str(file)])
    figures = json.loads(file.read_text())
    assert figures
    assert all(math.isfinite(row["measured"]) and (row["goal"] is None or row["goal"] > 0) for row in figures)


def test_a_missed_goal_is_said() -> None:
    """A figure above its goal is marked in the table."""
    rows = [Row("fast", 1.0, 2.0, "us"), Row("slow", 3.0, 2.0, "us")]
    lines = as_text(rows).splitlines()
    assert lines[2].endswith("| reached |")
    assert lines[3].endswith("| **missed** |")
