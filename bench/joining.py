"""How long it takes many processes that are started at once until everybody is linked who has to be.

All are on one channel. Interpreters start first, which is told apart: it costs more than all that follows.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.report import Row

_ROOT = Path(__file__).parents[1]
_FAREWELL_S = 60.0  # for 100 processes on two cores
_CHILD = """
import sys, threading, time
import echo_core as echo

LIMIT_S = 100.0  # no process outlives a benchmark that was ended

@echo.event
class Tick:
    n: int

def say(*words):
    print(*words, flush=True)

echo.default_node()  # which imports the rest
say("ready")
id_, role, partners = sys.stdin.readline().split()
began = time.process_time()
if id_ == "-":
    channel = echo.create_channel("bench", Tick)
    say(channel.id)
else:
    channel = echo.open_channel(id_, timeout_s=LIMIT_S)
opened = time.monotonic()
end = channel.source(Tick) if role == "source" else channel.sink(Tick)
end.wait_matched(int(partners), LIMIT_S)
say(opened, time.monotonic(), time.process_time() - began)
sys.stdin.readline()
say(len(echo.default_node().statistics().links), threading.active_count())
sys.stdin.readline()
"""


@dataclass(frozen=True)
class Cast:
    """Who is on the channel. The creator is the first source."""

    name: str
    sources: int
    sinks: int


def measure(*, quick: bool) -> Iterator[Row]:
    """Goals are for 40 processes on two cores that nothing else uses; more are there to be seen."""
    if quick:
        yield from _rows(Cast("4 processes, one source", 1, 3), None)
        return
    yield from _rows(Cast("40 processes, one source", 1, 39), 3.0)
    yield from _rows(Cast("40 processes, 20 sources", 20, 20), 3.0)
    yield from _rows(Cast("100 processes, one source", 1, 99), None)
    yield from _rows(Cast("100 processes, 50 sources", 50, 50), None)


def _rows(cast: Cast, goal_s: float | None) -> Iterator[Row]:
    began = time.monotonic()
    with started(cast.sources + cast.sinks) as processes:
        started_s = time.monotonic() - began
        began = time.monotonic()
        times = list(joined(cast, processes))
        for process in processes:
            _tell(process, "count")
        counts = [tuple(map(int, _hear(process).split())) for process in processes]
    links, threads = zip(*counts, strict=True)
    opened, linked, used = zip(*times, strict=True)
    for what, measured, goal, unit in (
        ("interpreters started, with all imports", started_s, None, "s"),
        ("the channel open in all", max(opened) - began, None, "s"),
        ("everybody linked who has to be", max(linked) - began, goal_s, "s"),
        ("processor time of a process for that, median", statistics.median(used), None, "s"),
        ("processor time of a process for that, most", max(used), None, "s"),
        ("links of a process, median", statistics.median(links), None, ""),
        ("links of a process, most", max(links), None, ""),
        ("threads of a process, median", statistics.median(threads), None, ""),
        ("threads of a process, most", max(threads), None, ""),
    ):
        yield Row(what, measured, goal, unit, group=cast.name)


def joined(cast: Cast, processes: list[subprocess.Popen[str]]) -> Iterator[tuple[float, float, float]]:
    """When each process had opened the channel, and was linked; and what processor time it took for that."""
    creator, *others = processes
    _tell(creator, f"- source {cast.sinks}")
    id_ = _hear(creator)
    for number, process in enumerate(others, start=1):
        is_source = number < cast.sources
        partners = cast.sinks if is_source else cast.sources
        _tell(process, f"{id_} {'source' if is_source else 'sink'} {partners}")
    for process in processes:
        opened, linked, used_s = map(float, _hear(process).split())
        yield opened, linked, used_s


@contextlib.contextmanager
def started(count: int) -> Generator[list[subprocess.Popen[str]]]:
    """Once all their interpreters have started. In the end they take leave: a warning is never of that."""
    with contextlib.ExitStack() as running:
        made: list[subprocess.Popen[str]] = []
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-c", _CHILD],
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            running.enter_context(process)
            running.callback(process.kill)
            made.append(process)
        for process in made:
            _hear(process)
        yield made
        for process in made:
            assert process.stdin is not None
            process.stdin.close()
        for process in made:
            process.wait(_FAREWELL_S)


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        msg = "Expected a process of the benchmark to say something, it has ended"
        raise RuntimeError(msg)
    return line
