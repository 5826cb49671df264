"""Handlers that take long: which are at work for a second by now, and which of them have returned.

Whoever has a tick looks at them; an event pays for no clock. So times are as exact as ticks are frequent. A
handler that keeps the interpreter's lock in a single call, as C code may, keeps the ticks waiting too: what
shows then is that a tick comes late although the process was at work.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from echo_core._c import links

_SLOW_S = 0.95  # a second, less what a tick may come too early
_UNSEEN_S = 0.25  # of a call before the first look at it and behind the last one, as a rule
_NS_PER_S = 1_000_000_000
_IDLE = -2  # what a look at a delivery gives whose handler was not called since the last one


@dataclass(frozen=True, slots=True)
class Slow:
    """A handler is at work for so long by now, or has returned after so long."""

    delivery: links.Delivery
    seconds: float
    has_returned: bool


class Slowness:
    """Of one sink's handler."""

    __slots__ = ("_slow", "told", "worked")

    def __init__(self) -> None:
        self.told = 0  # calls that were slow
        self.worked: list[links.Delivery] = []  # that have called the handler between the last two looks
        self._slow: dict[links.Delivery, float] = {}  # those that still are, and for how long

    def look(self, deliveries: Iterable[links.Delivery]) -> list[Slow]:
        """What is news since the last look. Each slow call comes twice: while it is at work, and after it."""
        news: list[Slow] = []
        before, self._slow = self._slow, {}
        self.worked = []
        for delivery in deliveries:
            seen = delivery.look()
            seconds, last = seen / _NS_PER_S, before.pop(delivery, 0.0)
            if seen != _IDLE and seconds < _SLOW_S:
                self.worked.append(delivery)
            if last and seconds < last:
                news.append(Slow(delivery, last + _UNSEEN_S, has_returned=True))
                last = 0.0
            if seconds >= _SLOW_S:
                self._slow[delivery] = seconds
            if seconds >= _SLOW_S and not last:
                self.told += 1
                news.append(Slow(delivery, seconds, has_returned=False))
        gone = [
            Slow(delivery, seconds + _UNSEEN_S, has_returned=True) for delivery, seconds in before.items()
        ]
        return news + gone


class Grip:
    """On the interpreter's lock: whether one call has kept it from all other threads for long."""

    __slots__ = ("_used_s",)

    def __init__(self) -> None:
        self._used_s = time.process_time()

    def held_s(self, late_s: float) -> float:
        """For how long it was, as a tick that is so late can tell; 0: for no length worth telling.

        A process that was suspended, or not run on a busy machine, is late without having computed so long.
        """
        before, self._used_s = self._used_s, time.process_time()
        held_s = min(late_s, self._used_s - before)
        return held_s if held_s >= _SLOW_S else 0.0
