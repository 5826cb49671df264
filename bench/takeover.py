"""How long an emergency stop takes past a handler that sleeps: another thread has to read the link instead.

Two processes, two channels over a Unix socket. In each round a handler of one channel waits until the stop
on the other one has been handled, which is submitted up to 10 ms after it began. A busy process has a thread
that computes in Python besides, and so holds the interpreter's lock for 5 ms at a time.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import echo_core as echo
from bench.report import Row

GOAL_MS = 20.0

ROBOT = """
import sys, threading, time
import echo_core as echo
from bench.takeover import Signal, compute
is_stopped = threading.Event()
def work(event):
    print("at work", flush=True)
    is_stopped.wait(5)
    is_stopped.clear()
def stop(event):
    print(time.monotonic_ns(), flush=True)
    is_stopped.set()
node = echo.Node(transports=["unix"])
node.open_channel(sys.argv[1]).sink(Signal, work)
node.open_channel(sys.argv[2]).sink(Signal, stop)
if sys.argv[3] == "busy":
    threading.Thread(target=compute, daemon=True).start()
sys.stdin.read()
"""


@dataclass
class Signal:
    """What goes over both channels."""

    number: int


def compute() -> None:
    """Until the process ends."""
    number = 0
    while True:
        number = (number * 31 + 7) % 1_000_003


def measure(*, quick: bool) -> Iterator[Row]:
    """The distribution over rounds."""
    rounds = 20 if quick else 500
    for process in ("idle", "busy"):
        yield from _rows(
            f"stop past a sleeping handler, {process} process", sorted(stops_ms(process, rounds))
        )


def _rows(group: str, times: list[float]) -> Iterator[Row]:
    percentiles = statistics.quantiles(times, n=100, method="inclusive")
    yield Row("median", statistics.median(times), None, "ms", group=group)
    yield Row("99 %", percentiles[98], GOAL_MS, "ms", group=group)
    yield Row("most", times[-1], None, "ms", group=group)


def stops_ms(process: str, rounds: int) -> list[float]:
    """How long each took, from submit to its handler."""
    with echo.Node(transports=["unix"]) as node:
        work, stops = node.create_channel("work", Signal), node.create_channel("stops", Signal)
        robot = subprocess.Popen(
            [sys.executable, "-c", ROBOT, work.id, stops.id, process],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with robot:
            try:
                return _rounds(robot, work.source(), stops.source(), rounds)
            finally:
                robot.kill()


def _rounds(
    robot: subprocess.Popen[str], working: echo.Source[Signal], stopping: echo.Source[Signal], rounds: int
) -> list[float]:
    working.wait_matched(timeout_s=30)
    stopping.wait_matched(timeout_s=30)
    chance, pause = random.Random(1), threading.Event()
    times: list[float] = []
    for number in range(rounds):
        working.submit(Signal(number))
        _hear(robot)
        pause.wait(chance.uniform(0, 0.01))
        begin = time.monotonic_ns()
        stopping.submit(Signal(number))
        times.append((int(_hear(robot)) - begin) / 1e6)
        working.flush(30)
    return times


def _hear(robot: subprocess.Popen[str]) -> str:
    assert robot.stdout is not None
    line = robot.stdout.readline()
    if not line:
        msg = "the other process has ended"
        raise RuntimeError(msg)
    return line
