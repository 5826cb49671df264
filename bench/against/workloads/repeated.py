"""Calls that are timed by repeating them: all that needs one process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator

from bench.against.workloads import Case, Measure
from bench.timing import Call, timed

_RUN_S = 0.001  # long beside a look at the clock, short beside a turn of the scheduler


def case(prepare: Callable[[], Call], count: int = 1) -> Case:
    """A call that does so many events."""

    @contextlib.contextmanager
    def opened() -> Generator[Measure]:
        yield measure_of(prepare(), count)

    return opened


def measure_of(call: Call, count: int = 1) -> Measure:
    """The best of as many runs as the time allows: noise only ever adds."""
    number = max(1, int(_RUN_S / max(min(timed(call, 1)() for _ in range(5)), 1e-9)))
    run = timed(call, number)

    def measure(budget_s: float) -> float:
        stop = time.perf_counter() + budget_s
        best = run()
        while time.perf_counter() < stop:
            best = min(best, run())
        return best / count

    measure(0.01)
    return measure
