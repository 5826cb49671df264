"""The comparison as a job: every cell is measured by a task on an executor, one task at a time.

The result is a folder with all samples (samples.parquet), the environment (environment.json), and the report,
which is generated from both.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import itertools
import json
import os
import platform
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import echo_core as echo
from echo_core.spark_eval import readers
from echo_core.spark_eval.console import Progress, demand_writable, say, span
from echo_core.spark_eval.measure import cells, codecs
from echo_core.spark_eval.measure.cells import PlannedCell, Row
from echo_core.spark_eval.measure.workloads import SHAPES
from echo_core.spark_eval.report import folder as report
from echo_core.spark_eval.report.headline import sentences
from echo_core.spark_eval.runtime.session import MASTER_VARIABLE, default_master, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[1]"  # one task at a time, and the other cores stay free
START_S = 8.0  # of a session and its first task
TASK_S = 0.7  # the work of a task: a few cells, so that the progress bar moves
TASK_COST_S = 0.05

CONF = {
    "spark.cores.max": "1",  # of a cluster: one executor with one core, so that nothing runs beside a cell
    "spark.executor.cores": "1",
    "spark.speculation": "false",
    "spark.locality.wait": "0",
    "spark.task.maxFailures": "1",
    "spark.python.worker.reuse": "true",
    "spark.executorEnv.ECHO_CACHE": "0",  # no cached code, so that the cost of compiling is measured
}


PACKAGES = (
    "echo-core",
    "numpy",
    "llvmlite",
    "msgpack",
    "msgspec",
    "protobuf",
    "lxml",
    "pyarrow",
    "pandas",
    "pyspark",
)


class CompareError(echo.EchoError):
    """The comparison cannot be made."""


# A row per sample. Times are those of one call; set-up costs are those of the cell's function.
COLUMNS: dict[str, str] = {
    "block": "int32",
    "position": "int32",
    "codec": "string",
    "operation": "string",
    "shape": "string",
    "sender": "string",
    "target": "string",
    "sample": "int32",
    "loops": "int64",
    "wall_ns": "float64",
    "cpu_ns": "float64",
    "records": "int64",
    "payload_bytes": "int64",
    "switches": "int64",
    "noisy": "bool",
    "setup_ns": "int64",
    "compile_ns": "int64",
    "pid": "int64",
    "host": "string",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m echo_core.spark_eval compare`."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where samples and report go")
    parser.add_argument("--quick", action="store_true", help="fewer shapes and samples: half a minute")
    parser.add_argument("--master", metavar="URL", help=f"spark://host:port ...; {MASTER} without it")
    parser.add_argument("--codecs", metavar="A,B", type=_names, help="some of the codecs")
    parser.add_argument("--shapes", metavar="A,B", type=_names, help="some of the shapes")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the order of the cells")
    parser.add_argument(
        "--readers",
        action="store_true",
        help="instead: a log and files of other formats, read by the same job",
    )
    parser.add_argument(
        "--records", type=int, default=1_000_000, metavar="N", help="of each file, for --readers"
    )
    parser.add_argument(
        "--runs", type=int, default=5, metavar="N", help="of each reader, after one to warm up"
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def run(arguments: argparse.Namespace) -> int:
    """Measure, write the report, and print where it is and its first sentences."""
    if arguments.readers:
        master = arguments.master or default_master()
        return readers.run(arguments.codecs, arguments.records, arguments.runs, master, arguments.out)
    entries = planned(arguments)
    master = arguments.master or os.environ.get(MASTER_VARIABLE) or MASTER
    demand_writable(arguments.out)
    say(estimate(entries))
    with session(master, app="echo compare", conf=CONF) as spark:
        facts = facts_of(spark, entries, quick=arguments.quick)
        rows = measured(spark, entries)
    write(rows, facts, arguments.out)
    conclude(rows, arguments.out)
    return 0


def planned(arguments: argparse.Namespace) -> list[PlannedCell]:
    """The plan for the given arguments; CompareError for unknown names, or if nothing is to be measured."""
    _demand_known("codecs", arguments.codecs, codecs.installed())
    _demand_known("shapes", arguments.shapes, list(SHAPES))
    entries = cells.plan(
        quick=arguments.quick, seed=arguments.seed, codecs=arguments.codecs, shapes=arguments.shapes
    )
    if not entries:
        msg = "These codecs have nothing to measure at these shapes"
        raise CompareError(msg)
    return entries


def _demand_known(what: str, asked: list[str] | None, known: list[str]) -> None:
    unknown = [name for name in asked or () if name not in known]
    if unknown:
        msg = f"Expected {what} out of {', '.join(known)}, got {', '.join(unknown)}"
        raise CompareError(msg)


def estimate(entries: list[PlannedCell]) -> str:
    """A sentence with the number of cells and the expected time."""
    work_s = cells.seconds_of(entries)
    seconds = START_S + work_s * (1 + TASK_COST_S / TASK_S)
    blocks = 1 + entries[-1].block
    return (
        f"{len(entries) // blocks} cells, {blocks} times in different orders, one at a time: about "
        f"{span(seconds)} on a quiet machine"
    )


def tasks(entries: Iterable[PlannedCell]) -> Iterator[list[PlannedCell]]:
    """Split the plan, in its order, into tasks of a few cells."""
    group: list[PlannedCell] = []
    for entry in entries:
        group.append(entry)
        if cells.seconds_of(group) >= TASK_S:
            yield group
            group = []
    if group:
        yield group


def measure_all(entries: Iterable[PlannedCell]) -> list[Row]:
    """Run a task: measure all its cells."""
    return list(itertools.chain.from_iterable(map(cells.measure, entries)))


def measured(spark: SparkSession, entries: list[PlannedCell]) -> list[Row]:
    """Measure all cells on an executor, one task after the other."""
    rows: list[Row] = []
    with Progress(len(entries), "compare") as progress:
        for group in tasks(entries):
            found: Any = spark.sparkContext.parallelize(group, 1).mapPartitions(measure_all).collect()
            rows += found
            progress.advance(len(group), group[-1].cell.codec)
    return rows


def facts_of(spark: SparkSession, entries: list[PlannedCell], *, quick: bool) -> dict[str, Any]:
    """The facts about this run: settings, time, and the executor's machine and packages."""
    context: Any = spark.sparkContext
    of_executor: dict[str, Any] = context.parallelize([0], 1).map(_environment).collect()[0]
    return of_executor | {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "java": context._jvm.java.lang.System.getProperty("java.vm.version"),
        "spark": spark.version,
        "master": context.master,
        "quick": quick,
        "blocks": 1 + entries[-1].block,
        "samples": entries[0].samples,
        "sample_ms": entries[0].sample_ns / 1e6,
        "cells": len({entry.cell for entry in entries}),
    }


def _environment(_: int) -> dict[str, Any]:
    """The machine, Python and packages of this process, which is an executor."""
    return {"machine": _machine(), "python": platform.python_version(), "packages": _packages()}


def _machine() -> dict[str, Any]:
    """The processor, memory and operating system."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "os": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _packages() -> dict[str, str]:
    """The versions of the packages that are installed."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write(rows: list[Row], facts: dict[str, Any], folder: Path) -> None:
    """Write the table of samples, the facts, and the report that is generated from both."""
    pa: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    schema = pa.schema([(name, pa.type_for_alias(type_)) for name, type_ in COLUMNS.items()])
    table = pa.Table.from_pylist(rows, schema=schema)
    parquet.write_table(table, folder / report.SAMPLES, compression="zstd")
    (folder / report.ENVIRONMENT).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    report.write(folder)


def conclude(rows: list[Row], folder: Path) -> None:
    """Print the first sentences of the report, and where it is."""
    noisy = sum(row["noisy"] for row in rows)
    say(f"{len(rows):,} samples, of which {noisy:,} were disturbed by others on the machine.")
    for text in sentences(report.read(folder)):
        say(text.replace("**", "").replace("`", ""))
    say(f"The report: {(folder / 'report.html').resolve()} (or report.md)")
