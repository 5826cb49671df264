"""Handlers that take long: which are at work for a second by now, and which of them have returned.

Whoever has a tick looks at them; an event pays for no clock. So times are as exact as ticks are frequent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from echo_core._c import links

_SLOW_S = 0.95  # a second, less what a tick may come too early
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Slow:
    """A handler is at work for so long by now, or has returned after so long."""

    delivery: links.Delivery
    seconds: float
    has_returned: bool


class Slowness:
    """Of one sink's handler."""

    __slots__ = ("_slow", "told")

    def __init__(self) -> None:
        self.told = 0  # calls that were slow
        self._slow: dict[links.Delivery, float] = {}  # those that still are, and for how long

    def look(self, deliveries: Iterable[links.Delivery]) -> list[Slow]:
        """What is news since the last look. Each slow call comes twice: while it is at work, and after it."""
        news: list[Slow] = []
        before, self._slow = self._slow, {}
        for delivery in deliveries:
            seconds, last = delivery.look() / _NS_PER_S, before.pop(delivery, 0.0)
            if last and seconds < last:
                news.append(Slow(delivery, last, has_returned=True))
                last = 0.0
            if seconds >= _SLOW_S:
                self._slow[delivery] = seconds
            if seconds >= _SLOW_S and not last:
                self.told += 1
                news.append(Slow(delivery, seconds, has_returned=False))
        return news + [Slow(delivery, seconds, has_returned=True) for delivery, seconds in before.items()]
