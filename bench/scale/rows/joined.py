"""Processes that join one channel at once: when the last one is linked to whom it has to be."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.joining import Cast, joined, started
from bench.scale.growth import Growth, Study, marginal


@dataclass(frozen=True, slots=True)
class Together:
    """Of all that have joined."""

    last_s: float
    processor_s: float


def joining(quick: bool) -> Study:
    """One source, the others sinks. Interpreters start before, for so long that there is one round."""
    sizes = (2, 4, 8) if quick else (2, 10, 25, 50, 100)
    together = {size: _together(size) for size in sizes}
    amounts = {size: size for size in sizes}
    last = marginal({size: [it.last_s] for size, it in together.items()}, amounts, 1e3)
    processor = marginal({size: [it.processor_s] for size, it in together.items()}, amounts, 1e3)
    growths = [
        Growth("everybody linked who has to be", "ms per process", last),
        Growth("processor time of all together", "ms per process", processor),
    ]
    note = "Processor time says what is ours where others use the processors too."
    return Study("joining", "processes that join a channel at once", growths, (note,))


def _together(size: int) -> Together:
    with started(size) as processes:
        began = time.monotonic()
        times = list(joined(Cast("", 1, size - 1), processes))
        return Together(max(linked for _, linked, _ in times) - began, sum(used for _, _, used in times))
