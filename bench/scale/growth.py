"""Costs against sizes, and whether they stay flat.

A *marginal* cost is what one unit more costs: between two neighbouring sizes, the difference of the times
over the difference of the amounts of work. In each round all sizes take their turn, so that a slow spell of
the machine meets all of them; a marginal cost is the median of the rounds'. A cost that is no sum over units,
such as a round trip beside so many idle links, has to stay the same itself.

Flat means that no step costs more than 1.25 times the least of all steps.
"""

from __future__ import annotations

import enum
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.report import Row, Table

MOST = 1.25
Costs = Mapping[int, float]
"""By size."""
Rounds = Mapping[int, Sequence[float]]
"""By size, what each round measured."""


class Judged(enum.Enum):
    """What is held against a goal."""

    FLAT = "the greatest cost over the least"
    MOST = "the greatest cost"
    LAST = "the cost at the greatest size"


@dataclass(frozen=True, slots=True)
class Growth:
    """One cost as something grows, beside a peer's.

    Costs below `resolution` count as that: nobody has to be flat where a unit costs next to nothing.
    """

    what: str
    unit: str
    costs: Costs
    peers: Mapping[str, Costs] = field(default_factory=dict[str, Costs])
    judged: Judged = Judged.FLAT
    goal: float | None = MOST
    resolution: float = 1e-9

    def row(self, group: str = "") -> Row:
        """The verdict."""
        costs = {size: max(cost, self.resolution) for size, cost in self.costs.items()}
        most, unit = max(costs.values()), self.unit
        match self.judged:
            case Judged.FLAT:
                measured, unit = most / min(costs.values()), "x its least"
            case Judged.MOST:
                measured = most
            case Judged.LAST:
                measured = costs[max(costs)]
        return Row(self.what, measured, self.goal, unit, group=group)


@dataclass(frozen=True, slots=True)
class Study:
    """All that was measured while one thing grew."""

    name: str
    what_grows: str
    growths: Sequence[Growth]
    notes: Sequence[str] = ()

    def rows(self) -> list[Row]:
        return [growth.row(self.what_grows) for growth in self.growths]

    def table(self) -> Table:
        """A line for each cost and each peer's; sizes from left to right."""
        sizes = sorted({size for growth in self.growths for size in growth.costs})
        lines: list[tuple[str, ...]] = []
        for growth in self.growths:
            row = growth.row()
            told = ("", "") if row.goal is None else (f"{row.goal:g}", f"{row.measured:.3g} {row.unit}")
            lines.append((growth.what, growth.unit, *_cells(growth.costs, sizes), *told, row.verdict))
            lines += [
                (f"{growth.what}: {name}", growth.unit, *_cells(costs, sizes), "", "", "")
                for name, costs in growth.peers.items()
            ]
        columns = ("", "", *map(shortened, sizes), "goal", "measured", "")
        return Table(f"{self.name}: {self.what_grows}", columns, lines, self.notes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what_grows": self.what_grows,
            "growths": [
                {
                    "what": it.what,
                    "unit": it.unit,
                    "costs": dict(it.costs),
                    "peers": {name: dict(costs) for name, costs in it.peers.items()},
                    **it.row().as_dict(),
                }
                for it in self.growths
            ],
        }


def _cells(costs: Costs, sizes: Sequence[int]) -> list[str]:
    return [f"{costs[size]:.3g}" if size in costs else "" for size in sizes]


def shortened(size: int) -> str:
    """As people say it: 64, 10k, 16Mi."""
    for unit, text in ((1 << 20, "Mi"), (1 << 10, "Ki")):
        if size % unit == 0:
            return f"{size // unit}{text}"
    for unit, text in ((1_000_000, "M"), (1000, "k")):
        if size % unit == 0:
            return f"{size // unit}{text}"
    return str(size)


def in_turn(timed: Mapping[int, Callable[[], float]], rounds: int) -> Rounds:
    """Every size once a round."""
    taken: dict[int, list[float]] = {size: [] for size in timed}
    for _ in range(rounds):
        for size, time in timed.items():
            taken[size].append(time())
    return taken


def medians(rounds: Rounds, factor: float = 1.0) -> Costs:
    """Of costs that have to stay the same themselves."""
    return {size: factor * statistics.median(each) for size, each in rounds.items()}


def marginal(rounds: Rounds, amounts: Mapping[int, float], factor: float = 1.0) -> Costs:
    """What one unit more costs, by the larger size of each step."""
    steps = itertools.pairwise(sorted(rounds))
    return {
        larger: factor * _slope(rounds[smaller], rounds[larger], amounts[larger] - amounts[smaller])
        for smaller, larger in steps
    }


def _slope(smaller: Sequence[float], larger: Sequence[float], amount: float) -> float:
    return statistics.median(more - less for less, more in zip(smaller, larger, strict=True)) / amount
