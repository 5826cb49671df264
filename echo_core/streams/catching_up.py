"""Catching up: how a sink gets what was kept before it came, where others take the events already.

What is kept is handed over by the thread that has made the sink, while new events go on to the others, and
are kept for it; from the first moment when nothing is missing the sink takes part. It never gets an event
twice, nor a new one before a kept one. A source that stays ahead for some rounds is held up: one of
this process for a tenth of a second at a time, one of another for a second in which it is granted event by
event. What a handler misses all the same, as it is slower still, counts as lost: it falls behind alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from echo_core._c import links

_ROUNDS = 64  # in which a sink has to come up with its source
_FREE_ROUNDS = 3  # in which the source is not held up


class Keeper(Protocol):
    """What keeps events: of sources here, elsewhere, and derived ones. `links.Outlet` has the words."""

    def kept_since(
        self, number: int, is_following: bool = False, /
    ) -> tuple[list[tuple[int, bytes, int]], int]: ...
    def follow(self, more: bool, /) -> None: ...
    def hold(self, change: int, /) -> None: ...


class CatchingUp:
    """Of one sink with one source."""

    def __init__(
        self,
        keeper: Keeper,
        delivery: links.Delivery | None,
        most: int,
        join: Callable[[int | None], int | None],
        *,
        is_by_key: bool,
    ) -> None:
        """`delivery`: of what is kept; None: the sink cannot take records. `most`: as many fit into its
        queue.

        `is_by_key`: of what is kept others may come later of the same key, so that it is none that is missed.
        `join`: has the sink take part, if the next event has that number, or whichever it has. Returns its
        number; None: it is another.
        """
        self._keeper = keeper
        self._delivery = delivery
        self._most = most
        self._join = join
        self._is_by_key = is_by_key
        self._follows = self._holds = False  # an interrupt may come before either
        self._rounds = 0
        self.next_number = 0  # of the event behind those that it has been handed
        self._missed = 0  # what was pushed out before it could be handed over

    def go_on(self) -> None:
        """Hands over what is kept, and what has been submitted meanwhile. Runs handlers."""
        before = self.next_number
        if not self._follows:
            self._keeper.follow(True)
            self._follows = True
        if self._rounds >= _FREE_ROUNDS:
            self._keeper.hold(0 if self._holds else 1)
            self._holds = True
        kept, self.next_number = self._keeper.kept_since(before, self._rounds > 0)
        kept = kept[-self._most :]
        if self._rounds and not self._is_by_key:
            self._missed += self.next_number - before - len(kept)
        self._rounds += 1
        if self._delivery is not None:
            for number, record, submitted_ns in kept:
                self._delivery.hand(record, number, submitted_ns)

    def take_part(self, *, is_due: bool = False) -> int | None:
        """Called with the books open. How many events it has missed; None: it has to go on."""
        is_due = is_due or self._rounds >= _ROUNDS
        number = self._join(None if is_due else self.next_number)
        if number is None:
            return None
        self._end()
        return self._missed + max(0, number - self.next_number)

    def _end(self) -> None:
        """Others may still be at it."""
        if self._holds:
            self._keeper.hold(-1)
        if self._follows:
            self._keeper.follow(False)
        self._holds = self._follows = False
