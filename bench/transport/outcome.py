"""What a suite hands to the command: figures beside goals, all that was seen, and times to draw."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.report import Row, Table, as_text
from bench.transport.rounds import Results, Stream
from bench.transport.statistics import QUANTILES, Times


@dataclass(frozen=True, slots=True)
class Options:
    """How much to measure, and beside whom; no names: those that a suite finds worth it."""

    quick: bool = False
    peers: Sequence[str] | None = None

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 5

    @property
    def budget_s(self) -> float:
        return 0.1 if self.quick else 0.4


@dataclass(frozen=True, slots=True)
class Chart:
    """The times of several, under one heading."""

    heading: str
    times_by_name: Mapping[str, Sequence[int]]


@dataclass(slots=True)
class Outcome:
    """All of a suite."""

    rows: list[Row] = field(default_factory=list[Row])
    tables: list[Table] = field(default_factory=list[Table])
    charts: list[Chart] = field(default_factory=list[Chart])

    def as_text(self) -> str:
        return "\n\n".join([*(table.as_text() for table in self.tables), as_text(self.rows)])

    def as_dict(self) -> dict[str, Any]:
        tables = [
            {"heading": it.heading, "columns": it.columns, "lines": it.lines, "notes": it.notes}
            for it in self.tables
        ]
        return {"rows": [row.as_dict() for row in self.rows], "tables": tables}


def times_table(heading: str, results: Results[Times], floor: str) -> Table:
    """Quantiles, each the median of the rounds', and the ratio of the middle to the floor's."""
    lines: list[tuple[str, ...]] = []
    for name in results.rounds_by_name:
        quantiles = [f"{results.median(name, operator.methodcaller('us', q)):.4g}" for q in QUANTILES]
        ratio = results.ratio(name, floor, lambda it: it.us(0.5))
        lines.append((name, *quantiles, f"{ratio:.2f}"))
    columns = ("", *(f"p{100 * q:g} us" for q in QUANTILES), "x floor")
    return Table(heading, columns, lines, _reasons(results))


def stream_table(heading: str, results: Results[Stream], message_bytes: int) -> Table:
    """Messages and bytes per second, and what TCP carried besides."""
    lines: list[tuple[str, ...]] = []
    for name, rounds in results.rounds_by_name.items():
        per_s = results.median(name, lambda it: it.per_s)
        added = rounds[-1].added_bytes
        megabytes = per_s * message_bytes / 1e6
        lines.append((name, f"{per_s:,.0f}", f"{megabytes:,.0f}", "-" if added is None else f"{added:.3g}"))
    columns = ("", "messages/s", "MB/s", "bytes added to each")
    return Table(heading, columns, lines, _reasons(results))


def _reasons(results: Results[Any]) -> list[str]:
    return [f"{name} was left out: {reason}" for name, reason in results.failures.items()]
