"""Ratios of pairs of times: their median, how far it can be trusted, and what is said of it."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Key = tuple[str, str]  # a suite and a row of it

SHARE = 0.95
_RESAMPLES = 4000
FEWEST = 5  # rounds: of fewer, all are on one side too often by chance


class Verdict(enum.Enum):
    """Whether the interval holds 1."""

    FASTER = "faster"
    NO_WORSE = "no worse"
    SLOWER = "**slower**"


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, and where the true one lies with a probability of `SHARE`."""

    median: float
    low: float
    high: float

    def verdict(self, tolerance: float = 0.0) -> Verdict:
        """Of a ratio new / old. Slower is what is surely slower by more than the tolerance."""
        if self.low > 1.0 + tolerance:
            return Verdict.SLOWER
        return Verdict.FASTER if self.high < 1.0 else Verdict.NO_WORSE


def interval(values: Sequence[float], *, seed: int = 0) -> Interval:
    """By bootstrap: medians of as many values drawn with replacement, and what most of those lie between.

    It asks nothing of how times are distributed, which is lucky: they have long tails, and several peaks.
    """
    drawn = np.random.default_rng(seed).choice(np.asarray(values), (_RESAMPLES, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return Interval(statistics.median(values), float(low), float(high))


@dataclass(frozen=True, slots=True)
class Pair:
    """A round of one row: seconds for an event in the old commit and in the new."""

    old_s: float
    new_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """All rounds of one row."""

    key: Key
    pairs: Sequence[Pair]

    @property
    def ratio(self) -> Interval:
        """New over old: below 1 is faster."""
        return interval([pair.new_s / pair.old_s for pair in self.pairs])

    @property
    def old_s(self) -> float:
        return statistics.median(pair.old_s for pair in self.pairs)

    @property
    def new_s(self) -> float:
        return statistics.median(pair.new_s for pair in self.pairs)

    def as_dict(self) -> dict[str, Any]:
        ratio = self.ratio
        return {
            "suite": self.key[0],
            "name": self.key[1],
            "old_s": [pair.old_s for pair in self.pairs],
            "new_s": [pair.new_s for pair in self.pairs],
            "ratio": ratio.median,
            "low": ratio.low,
            "high": ratio.high,
        }
