"""Processes that join one channel at once: when the last one is linked to whom it has to be."""

from __future__ import annotations

import functools
import time

from bench.joining import Cast, joined, started
from bench.scale.growth import Growth, Study, in_turn, marginal


def joining(quick: bool) -> Study:
    """One source, the others sinks. Interpreters start before, for so long that there is one round."""
    sizes = (2, 4, 8) if quick else (2, 10, 25, 50, 100)

    def last_s(size: int) -> float:
        with started(size) as processes:
            began = time.monotonic()
            return max(linked for _, linked, _ in joined(Cast("", 1, size - 1), processes)) - began

    taken = in_turn({size: functools.partial(last_s, size) for size in sizes}, 1)
    growth = Growth(
        "everybody linked who has to be", "ms per process", marginal(taken, {n: n for n in sizes}, 1e3)
    )
    return Study("joining", "processes that join a channel at once", [growth])
