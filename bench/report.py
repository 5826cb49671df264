"""Figures beside their goals."""

from __future__ import annotations

import gc
import itertools
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: reached when it is at most its goal, or at least, where more is better.

    Without a goal it is there to be seen, and misses nothing. Rows of one `group` that follow each other
    share a table under that heading.
    """

    what: str
    measured: float
    goal: float | None
    unit: str
    at_least: bool = False
    group: str = ""

    @property
    def is_reached(self) -> bool:
        if self.goal is None:
            return True
        return self.measured >= self.goal if self.at_least else self.measured <= self.goal

    @property
    def verdict(self) -> str:
        """In a word, as the table has it."""
        if self.goal is None:
            return "-"
        return "reached" if self.is_reached else "**missed**"

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "is_reached": self.is_reached}


def as_text(rows: list[Row]) -> str:
    """Markdown tables, as they stand in RESULTS.md: one for each group, or one alone."""
    tables: list[str] = []
    for group, members in itertools.groupby(rows, operator.attrgetter("group")):
        heading = f"### {group}\n\n" if group else ""
        tables.append(heading + _table(members))
    return "\n\n".join(tables)


def _table(rows: Iterable[Row]) -> str:
    lines = ["| what | goal | measured | |", "|---|---|---|---|"]
    for row in rows:
        goal = "-" if row.goal is None else f"{row.goal:g} {row.unit}"
        lines.append(f"| {row.what} | {goal} | {row.measured:.3g} {row.unit} | {row.verdict} |")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, names of columns, and lines of as many cells."""

    heading: str
    columns: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()

    def as_text(self) -> str:
        rules = ("---",) * len(self.columns)
        lines = [f"| {' | '.join(line)} |" for line in (self.columns, rules, *self.lines)]
        notes = [f"\n{note}" for note in self.notes]
        return "\n".join([f"### {self.heading}", "", *lines, *notes])


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
