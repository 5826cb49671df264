"""What is made of formats, once for all who use it.

Formats come from peers, so what nobody uses any more is bounded.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Recent(Generic[V]):
    value: V
    cost: int
    used: int  # the higher, the later


class Kept(Generic[K, V]):
    """Values by key, for as long as somebody uses them; those that were used last stay up to a cost in all.

    Threads may use it at once: a value that is kept is found by each of them.
    """

    def __init__(self, most: int) -> None:
        """`most` is the cost of those that stay. The newest stays whatever it costs.

        It is looked at whenever an eighth of it has come, not with each value: adding up what is kept takes
        longer the more there is.
        """
        self._most = most
        self._uncounted = 0  # what has come since it was looked at
        self._alive: WeakValueDictionary[K, V] = WeakValueDictionary()
        self._recent: dict[K, _Recent[V]] = {}
        self._uses = itertools.count()

    def get(self, key: K) -> V | None:
        """The value, if there is one."""
        recent = self._recent.get(key)
        if recent is None:
            return self._alive.get(key)
        recent.used = next(self._uses)
        return recent.value

    def put(self, key: K, value: V, cost: int) -> V:
        """Keeps a new value, and lets go what has become too much; the value."""
        self._alive[key] = value
        self._recent[key] = _Recent(value, cost, next(self._uses))
        self._uncounted += cost
        if self._uncounted > self._most // 8:
            self._uncounted = 0
            self._let_go_what_is_too_much()
        return value

    def _let_go_what_is_too_much(self) -> None:
        entries = self._recent.copy()
        excess = sum(recent.cost for recent in entries.values()) - self._most
        if excess > 0:
            self._let_go(sorted(entries.items(), key=lambda entry: entry[1].used)[:-1], excess)

    def _let_go(self, oldest: list[tuple[K, _Recent[V]]], excess: int) -> None:
        for old, recent in oldest:
            if excess <= 0:
                break
            self._recent.pop(old, None)
            excess -= recent.cost
