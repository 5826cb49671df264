"""What it costs to know a format: importing, declaring, describing to a stranger, believing one."""

from __future__ import annotations

import dataclasses
import functools
import statistics
import subprocess
import sys

import echo_core as echo
from bench.report import Row, best_of
from bench.workload import Particle

IMPORTED = """
import sys, time
start = time.perf_counter()
import echo_core
print(time.perf_counter() - start)
heavy = {"llvmlite", "pyspark", "pandas", "construct"} & set(sys.modules)
assert not heavy, heavy
"""


def measure(*, quick: bool) -> list[Row]:
    """The figures that the formats promise."""
    repeats = 5 if quick else 50
    format_ = echo.format_of(Particle)
    metadata = format_.metadata
    return [
        Row("import echo_core, median", 1e3 * import_seconds(3 if quick else 15), 120, "ms"),
        Row("format_of a 16-field class, first", 1e6 * first_format_seconds(repeats), 1000, "us"),
        Row(
            "format_of the same class again",
            1e6 * best_of(repeats, lambda: echo.format_of(Particle), calls=10_000),
            1,
            "us",
        ),
        Row("metadata of a 16-field class", len(metadata), 500, "bytes"),
        Row("metadata and token, first", 1e6 * best_of(repeats, lambda: token_anew(format_)), 1000, "us"),
        Row("format from metadata", 1e6 * best_of(repeats, lambda: believed(metadata)), 1000, "us"),
    ]


def import_seconds(runs: int) -> float:
    """The median over fresh processes, which also check that nothing heavy came along."""
    return statistics.median(
        float(subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True).stdout)
        for _ in range(runs)
    )


def first_format_seconds(repeats: int) -> float:
    """The best time for a class that was never seen, out of as many classes."""
    best = float("inf")
    for _ in range(repeats):
        fields = [(f.name, Particle.__annotations__[f.name]) for f in dataclasses.fields(Particle)]
        fresh = dataclasses.make_dataclass("Particle", fields, namespace={"__module__": Particle.__module__})
        best = min(best, best_of(1, functools.partial(echo.format_of, fresh)))
        assert echo.format_of(fresh).size_bytes == 96
    return best


def token_anew(format_: echo.Format) -> echo.Token:
    """The token of a format that has not computed it yet."""
    return echo.Format(format_.layout).token


def believed(metadata: bytes) -> echo.Format:
    """The format of a stranger."""
    format_ = echo.Format.from_metadata(metadata)
    assert format_.size_bytes == 96
    return format_
