"""A process of one commit: opens a suite's rows one after the other, and measures when it is asked to.

`python -m bench.against.workloads.worker FD` serves the runner, which has one of each commit and lets them
take turns.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Mapping

from bench.against.children import modules_of, serve
from bench.against.workloads import Case, Measure, codec, convert, inprocess, links

SUITES: Mapping[str, Callable[[], dict[str, Case]]] = {
    "codec": codec.cases,
    "convert": convert.cases,
    "fanout": links.fanout,
    "inprocess": inprocess.cases,
    "latency": links.latency,
    "throughput": links.throughput,
}


@functools.cache
def _cases(suite: str) -> dict[str, Case]:
    return SUITES[suite]()


class Worker:
    """One row at a time."""

    def __init__(self) -> None:
        self._opened = contextlib.ExitStack()
        self._measure: Measure

    def names(self, suite: str) -> list[str]:
        return list(_cases(suite))

    def open(self, suite: str, name: str) -> None:
        # Where memory lies within a page makes a few per cent. It would be the same in each round and another
        # for each commit, did not something of a random size come first.
        self._shift = bytearray(random.randrange(1 << 16))
        self._measure = self._opened.enter_context(_cases(suite)[name]())

    def measure(self, budget_s: float) -> float:
        """Seconds for one event."""
        return self._measure(budget_s)

    def close(self) -> None:
        """A suite's last check may be here."""
        self._opened.close()

    def modules(self) -> list[str]:
        """All of echo_core that this process and its partners have imported."""
        return modules_of("echo_core") + links.partner_modules()


def main() -> None:
    worker = Worker()
    try:
        serve({name: getattr(worker, name) for name in ("names", "open", "measure", "close", "modules")})
    finally:
        worker.close()
        links.close_partners()


if __name__ == "__main__":
    main()
