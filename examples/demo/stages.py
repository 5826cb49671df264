"""What the components of the demo share: how its stages are announced, measured and written to the screen."""

from __future__ import annotations

import os
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
ARGUMENTS = "DEMO_ARGUMENTS"  # the variable that says what a component is to open, and how

# Order is kept for each source, not among them: the mainframe may be heard before its stage is.
QUIET = {BETWEEN, MAINFRAME}


@echo.event
class Stage:
    """What begins now; on the particles' channel, so that all see it between the right particles."""

    name: str


class Figures:
    """How many events have come since the last stage, and how long each was under way."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count = 0
        self._delays_ns: list[int] = []
        self._first_s = self._last_s = time.perf_counter()

    def add(self, sent_ns: int, count: int = 1) -> None:
        """Both ends read the clock of one host, so that the difference is the way of the event alone."""
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
        """What is worth telling of a stage; flat out, a latency would be that of the queue."""
        if self.count == 0:
            return "nothing"
        return self.latency if stage == PACED else self.rate


def say(who: str, text: object) -> None:
    """One write, for several processes share the screen."""
    lines = "\n".join(f"{who:<11}| {line}" for line in str(text).splitlines())
    sys.stdout.write(lines + "\n")
    sys.stdout.flush()


def when_closed(channel: echo.Channel[Any], source: str, call: Callable[[], object]) -> None:
    """Calls when a source of that name is closed, or its process has gone, by whatever means."""

    def notice(told: echo.Notice) -> None:
        if isinstance(told, echo.SourceClosed) and told.name == source:
            call()

    channel.watch(notice)


def wait_until_closed(channel: echo.Channel[Any], source: str) -> None:
    gone = threading.Event()
    when_closed(channel, source, gone.set)
    gone.wait()


def run(main: Callable[..., None]) -> None:
    """Ctrl-C reaches all processes of a terminal; each closes what it has, and says nothing."""
    try:
        main(*os.environ.get(ARGUMENTS, "").split())
    except KeyboardInterrupt:
        sys.exit(130)
