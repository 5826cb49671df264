"""Plans what is measured in which order, and measures one cell. Independent of Spark.

A plan consists of a few blocks. Each block contains every cell once, in random order, so that changes of the
machine over time affect all codecs alike. A cell is measured in one process and one thread: it is built and
checked, warmed up, and called in loops that take about as long as a sample should. A sample is noisy if the
thread did not have the core to itself. Noisy samples are repeated, so that there are enough quiet ones if the
machine allows it. All samples are kept.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import random
import resource
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from echo_core.spark_eval.measure import codecs
from echo_core.spark_eval.measure.codecs import Cell, Function, Work
from echo_core.spark_eval.measure.workloads import SHAPES

Row = dict[str, Any]

NOISY_RATIO = 1.05  # wall time over the thread's own
MAX_ROUNDS = 3  # of samples: if all are noisy, three times as many are taken
WARM_UP_CALLS = 3
QUICK_SHAPES = ("single", "batch-100", "odd", "story")


@dataclass(frozen=True, slots=True)
class Effort:
    """How often and how long each cell is measured."""

    blocks: int
    samples: int
    sample_ns: int


FULL = Effort(blocks=3, samples=11, sample_ns=3_000_000)
QUICK = Effort(blocks=2, samples=5, sample_ns=1_000_000)


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell in its place in the plan."""

    block: int
    position: int
    cell: Cell
    samples: int
    sample_ns: int


def plan(
    *,
    quick: bool,
    seed: int,
    codecs: Iterable[str] | None = None,
    shapes: Iterable[str] | None = None,
) -> list[PlannedCell]:
    """All cells of the given codecs and shapes, by default of all, in every block."""
    effort = QUICK if quick else FULL
    found = chosen(codecs, shapes or (QUICK_SHAPES if quick else SHAPES))
    generator = random.Random(seed)
    entries: list[PlannedCell] = []
    for block in range(effort.blocks):
        shuffled = generator.sample(found, len(found))
        entries += [
            PlannedCell(block, position, cell, effort.samples, effort.sample_ns)
            for position, cell in enumerate(shuffled)
        ]
    return entries


def chosen(names: Iterable[str] | None, shapes: Iterable[str]) -> list[Cell]:
    """The cells of the given codecs, by default all installed ones, with these shapes."""
    shapes = list(shapes)
    return [
        cell
        for name in (codecs.installed() if names is None else names)
        for shape in shapes
        for cell in codecs.cells(codecs.CODECS[name], SHAPES[shape])
    ]


# Typical times per record and for building a cell. XML takes longer per record, and building our codecs
# compiles code.
_RECORD_US = {"single": 1.5, "odd": 3.0, "wide": 12.0, "story": 10.0}
_BUILD_MS = {"wide": 30.0, "batch-1000": 25.0}
_XML_TIMES = 8
_COMPILE_MS = 20.0


def seconds_of(entries: Iterable[PlannedCell]) -> float:
    """The expected time of a plan on a quiet machine, without starting Spark."""
    return sum(map(_entry_seconds, entries))


def _entry_seconds(entry: PlannedCell) -> float:
    cell = entry.cell
    records = SHAPES[cell.shape].records
    times = _XML_TIMES if cell.codec.startswith("xml") else 1
    call_s = _RECORD_US.get(cell.shape, 1.0) * 1e-6 * records * times
    sample_s = max(entry.sample_ns * 1e-9, call_s)
    build_ms = _BUILD_MS.get(cell.shape, 8.0) + _COMPILE_MS * cell.codec.startswith("echo")
    return 1.5 * entry.samples * sample_s + 8 * call_s + build_ms * 1e-3


def measure(entry: PlannedCell) -> list[Row]:
    """Measure a cell; returns rows of the table of samples."""
    _tidy_once()
    work = codecs.build(entry.cell)
    for _ in range(WARM_UP_CALLS):
        work.call()
    gc.collect()
    gc.disable()
    try:
        loops = calibrated(work, entry.sample_ns)
        samples = samples_of(work, loops, entry.samples)
    finally:
        gc.enable()
    work.check(work.call())
    common = _common(entry, work, loops)
    return [common | {"sample": number} | sample for number, sample in enumerate(samples)]


@functools.cache
def _tidy_once() -> None:
    """Freeze all imported objects, so that garbage collections between cells are fast."""
    for name in codecs.installed():
        codecs.CODECS[name].load()
    gc.collect()
    gc.freeze()


def calibrated(work: Work, sample_ns: int) -> int:
    """How many calls take as long as a sample should; the minimum of several tries ignores disturbances."""
    loops = 1
    while True:
        taken = min(_taken_ns(work, loops) for _ in range(3))
        if taken * 4 >= sample_ns:
            return max(1, round(loops * sample_ns / taken))
        loops *= 4


def _taken_ns(work: Work, loops: int) -> int:
    begun = time.perf_counter_ns()
    _loop(work.function, work.argument, loops)
    return time.perf_counter_ns() - begun


def _loop(function: Function, argument: Any, loops: int) -> None:
    for _ in itertools.repeat(None, loops):
        function(argument)


def samples_of(work: Work, loops: int, wanted: int) -> list[Row]:
    """Take samples until `wanted` are quiet, at most `MAX_ROUNDS` times as many."""
    found: list[Row] = []
    quiet = 0
    while quiet < wanted and len(found) < wanted * MAX_ROUNDS:
        found.append(_sample(work, loops))
        quiet += not found[-1]["noisy"]
    return found


def _sample(work: Work, loops: int) -> Row:
    switches = _switches()
    cpu_begun = time.thread_time_ns()
    begun = time.perf_counter_ns()
    _loop(work.function, work.argument, loops)
    wall = time.perf_counter_ns() - begun
    cpu = time.thread_time_ns() - cpu_begun
    return {
        "wall_ns": wall / loops,
        "cpu_ns": cpu / loops,
        "switches": _switches() - switches,
        "noisy": wall > NOISY_RATIO * cpu,
    }


def _switches() -> int:
    """Involuntary context switches of this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _common(entry: PlannedCell, work: Work, loops: int) -> Row:
    cell = entry.cell
    return {
        "block": entry.block,
        "position": entry.position,
        "codec": cell.codec,
        "operation": cell.operation,
        "shape": cell.shape,
        "sender": cell.sender,
        "target": cell.target,
        "loops": loops,
        "records": work.records,
        "payload_bytes": work.payload_bytes,
        "setup_ns": work.setup_ns,
        "compile_ns": work.compile_ns,
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }
