"""What is wanted of a source: by all who take its events, here and elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Demand:
    """What anybody wants of a source, as far as it has heard: `Source.wanted`. False where nobody wants any.

    It never changes; what is asked anew is another one. It is advice: who submits more does nothing wrong.
    """

    fields: frozenset[str] = frozenset()
    """The fields that somebody reads: all of them, where somebody takes events as they are."""

    rate_hz: float = 0.0
    """So many events a second pass at most for anybody: 0 where nobody asks, infinity without a limit.

    It follows from `min_interval_s`. Conditions judge what is submitted: at a lower rate they may miss some.
    """

    share: float = 0.0
    """Likewise such a part of the events, from `every`: 1 where somebody may want each."""

    parameters: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """The values of the parameters that somebody has requested, merged."""

    def __bool__(self) -> bool:
        return self.share > 0

    def thinned(self, fields: frozenset[str], every: int, min_interval_s: float) -> Demand:
        """What it takes of the source behind, where these fields are read there, and events are left out."""
        most_hz = 1 / min_interval_s if min_interval_s else math.inf
        return Demand(fields, min(self.rate_hz, most_hz), self.share / every)


def all_of(demands: Iterable[Demand]) -> Demand:
    """What several want together."""
    wanted = [demand for demand in demands if demand]
    return Demand(
        frozenset[str]().union(*(demand.fields for demand in wanted)),
        max((demand.rate_hz for demand in wanted), default=0.0),
        max((demand.share for demand in wanted), default=0.0),
    )
