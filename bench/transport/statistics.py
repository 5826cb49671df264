"""From times to what is reported of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

QUANTILES = (0.5, 0.9, 0.99, 0.999)


def quantile(ordered: Sequence[int], share: float) -> int:
    """The smallest time that this share of all does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Times:
    """Of one kind, in order."""

    ordered_ns: tuple[int, ...]

    @classmethod
    def of(cls, times_ns: Sequence[int]) -> Times:
        if not times_ns:
            msg = "Expected at least one time"
            raise ValueError(msg)
        return cls(tuple(sorted(times_ns)))

    def us(self, share: float) -> float:
        """A quantile in microseconds."""
        return quantile(self.ordered_ns, share) / 1e3


@dataclass(frozen=True, slots=True)
class Trips:
    """Round trips one after the other: when the first began, and what each took."""

    began_ns: int
    times_ns: Sequence[int]

    @property
    def ended_ns(self) -> int:
        """Nearly: what lies between two round trips is left out."""
        return self.began_ns + sum(self.times_ns)


@dataclass(frozen=True, slots=True)
class Bin:
    """How many times of all lie from `low_us` up to `high_us`."""

    low_us: float
    high_us: float
    count: int


def histogram(times_ns: Sequence[int], *, low_us: float, high_us: float, bins: int) -> list[Bin]:
    """Bins of equal width on a logarithmic scale; what lies outside is in the first and the last."""
    step = math.log(high_us / low_us) / bins
    counts = [0] * bins
    for time_ns in times_ns:
        position = math.log(max(time_ns, 1) / 1e3 / low_us) / step
        counts[min(max(int(position), 0), bins - 1)] += 1
    edges = [low_us * math.exp(step * i) for i in range(bins + 1)]
    return [Bin(low, high, count) for (low, high), count in zip(pairwise(edges), counts, strict=True)]


def ratio_of_rounds(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of each round's ratio: what slows the machine down for a round slows both."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
