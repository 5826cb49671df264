"""Figures beside their goals."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: reached when it is at most its goal, or at least, where more is better."""

    what: str
    measured: float
    goal: float
    unit: str
    at_least: bool = False

    @property
    def is_reached(self) -> bool:
        return self.measured >= self.goal if self.at_least else self.measured <= self.goal

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "is_reached": self.is_reached}


def as_text(rows: list[Row]) -> str:
    """A Markdown table, as it stands in RESULTS.md."""
    lines = ["| what | goal | measured | |", "|---|---|---|---|"]
    for row in rows:
        verdict = "reached" if row.is_reached else "**missed**"
        lines.append(f"| {row.what} | {row.goal:g} {row.unit} | {row.measured:.3g} {row.unit} | {verdict} |")
    return "\n".join(lines)


def best_of(repeats: int, call: Callable[[], object], *, calls: int = 1) -> float:
    """Seconds for one call: the best of several runs, for noise only ever adds."""
    gc.collect()
    gc.disable()
    try:
        return min(_seconds(call, calls) for _ in range(repeats)) / calls
    finally:
        gc.enable()


def _seconds(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start
