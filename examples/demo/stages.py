"""Shared by the processes of the demo: its stages, their measurements, and output to the screen."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import echo_core as echo

PACED = "a thousand a second"
FLAT_OUT = "as fast as one thread can submit"
MAINFRAME = "a big-endian machine joins"
SNAPSHOTS = "snapshots: arrays of 100,000 particles"
END = "what the simulation has sent"
BETWEEN = ""

# Only events of one source are ordered: the mainframe's event may arrive before its stage is announced.
QUIET = {BETWEEN, MAINFRAME}


@echo.event
class Stage:
    """Announces a stage, on the channel of the particles, so that it arrives in order with them."""

    name: str


class Figures:
    """The number of events in a stage, and their latencies."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count = 0
        self._delays_ns: list[int] = []
        self._first_s = self._last_s = time.perf_counter()

    def add(self, sent_ns: int, count: int = 1) -> None:
        """Count events. Both ends read the same host's clock, so the difference is the one-way latency."""
        now_ns = time.perf_counter_ns()
        if self.count == 0:
            self._first_s = now_ns / 1e9
        self._last_s = now_ns / 1e9
        self.count += count
        self._delays_ns.append(now_ns - sent_ns)

    @property
    def rate(self) -> str:
        per_s = self.count / max(self._last_s - self._first_s, 1e-9)
        return f"{self.count:,} events, {per_s:,.0f} a second"

    @property
    def latency(self) -> str:
        delays = sorted(self._delays_ns)
        p50, p99 = (delays[int(len(delays) * part)] / 1000 for part in (0.5, 0.99))
        return f"{self.count:,} events, one way {p50:.0f} us (median), {p99:.0f} us (99 of 100)"

    def of(self, stage: str) -> str:
        """The figures of a stage. At full load latency would only measure the queue, so the rate is shown."""
        if self.count == 0:
            return "nothing"
        return self.latency if stage == PACED else self.rate


def say(who: str, text: object) -> None:
    """Print in one write, because several processes share the screen."""
    lines = "\n".join(f"{who:<11}| {line}" for line in str(text).splitlines())
    sys.stdout.write(lines + "\n")
    sys.stdout.flush()


def when_closed(channel: echo.Channel[Any], source: str, call: Callable[[], object]) -> None:
    """Call when a source of that name is closed, or when its process ends for any reason."""

    def notice(told: echo.Notice) -> None:
        if isinstance(told, echo.SourceClosed) and told.name == source:
            call()

    channel.watch(notice)


def wait_until_closed(channel: echo.Channel[Any], source: str) -> None:
    gone = threading.Event()
    when_closed(channel, source, gone.set)
    gone.wait()


def run(main: Callable[..., None], *arguments: str) -> None:
    """Exit quietly on Ctrl-C, which reaches all processes of a terminal."""
    try:
        main(*arguments)
    except KeyboardInterrupt:
        sys.exit(130)
