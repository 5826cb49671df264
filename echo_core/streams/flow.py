"""How streams flow: what there is to log where events are dropped, or stand still.

Counts and times come in, words go out: whoever has a tick looks, and an event pays for nothing. What is over
is said with its sum. What begins again within ten seconds is counted, and said when these have passed; a
stream that stands still again and again is told of ever more seldom: one that is always in trouble fills no
disk.
"""

from __future__ import annotations

from typing import NamedTuple

from echo_core.transports.repeats import PERIOD_S

STALL_S = 0.95  # a second, less what a tick may come too early
SILENCE_S = 2.0  # of a receiver that has what was sent: it says four times a second what it has finished with
SELDOM_S = 600.0  # the longest time for which a stream that stands still again is not told of
CALM_S = 1.0  # without a drop, and they are over
LOOK_S = PERIOD_S + 2 * CALM_S  # after the last trouble there is nothing left to say


class Drops:
    """Of one place: the first drop is said, others are counted, and their sum is said when they are over."""

    __slots__ = ("_before", "_began_at", "_count", "_dropped_at", "_quiet_until", "_said")

    def __init__(self) -> None:
        self._count = 0  # at the last look
        self._before = 0  # those of drops that are over
        self._said = 0  # in the first line of those that are not; 0: they are still to be said
        self._began_at = self._dropped_at = 0.0
        self._quiet_until = float("-inf")

    def look(self, now: float, count: int) -> str:
        """What is to be said of so many drops in all; empty: nothing."""
        if count != self._count:
            self._count, self._dropped_at = count, now
        if not self._said:
            return self._begin(now) if count > self._before and now >= self._quiet_until else ""
        return self._end(now) if now - self._dropped_at >= CALM_S else ""

    def _begin(self, now: float) -> str:
        self._began_at, self._quiet_until = now, now + PERIOD_S
        self._said = self._count - self._before
        return f"has begun to drop events: {self._said} by now"

    def _end(self, now: float) -> str:
        said, dropped = self._said, self.take(self._count)
        over_s = self._dropped_at - self._began_at
        return f"drops no more events: {dropped} were dropped within {over_s:.1f} s" if dropped > said else ""

    def take(self, count: int) -> int:
        """Their sum, which the caller says: they are over."""
        dropped, self._count, self._before, self._said = count - self._before, count, count, 0
        return dropped

    def finish(self, count: int) -> str:
        """No more are looked at."""
        said, dropped = self._said, self.take(count)
        return f"has ended: {dropped} events were dropped" if dropped > said else ""


class Counts(NamedTuple):
    """Of a stream, in events."""

    waiting: int  # here, in the backlog
    sent: int  # and not confirmed
    moved: int  # sent, and confirmed: what changes with either
    dropped: int


class Flow:
    """Of one outgoing stream. It stands still where events wait for a second, and none moves.

    So it does where what was sent is not confirmed for two: a process is stopped, or a sink reads nothing.
    """

    __slots__ = ("_drops", "_is_stalled", "_moved", "_quiet_s", "_quiet_until", "_since")

    def __init__(self) -> None:
        self._drops = Drops()
        self._moved = -1
        self._since = 0.0  # when something had moved, or nothing waited
        self._is_stalled = False
        self._quiet_s = PERIOD_S
        self._quiet_until = float("-inf")

    def look(self, now: float, counts: Counts) -> list[str]:
        """What is to be said of it now."""
        is_still = counts.waiting + counts.sent > 0 and counts.moved == self._moved
        said = self._stand(now, counts) if is_still else self._go_on(now, counts)
        return [line for line in (self._drops.look(now, counts.dropped), said) if line]

    def _stand(self, now: float, counts: Counts) -> str:
        still_s = now - self._since
        is_long = still_s >= (STALL_S if counts.waiting else SILENCE_S)
        if self._is_stalled or not is_long or now < self._quiet_until:
            return ""
        is_again = now - self._quiet_until < self._quiet_s
        self._quiet_s = min(2 * self._quiet_s, SELDOM_S) if is_again else PERIOD_S
        self._is_stalled, self._quiet_until = True, now + self._quiet_s
        return f"has stood still for {still_s:.1f} s: {counts.waiting + counts.sent} events wait"

    def _go_on(self, now: float, counts: Counts) -> str:
        was_stalled, still_s = self._is_stalled, now - self._since
        self._is_stalled, self._since, self._moved = False, now, counts.moved
        if not was_stalled:
            return ""
        return f"goes on after {still_s:.1f} s: {self._drops.take(counts.dropped)} events were dropped"

    def finish(self, dropped: int) -> str:
        """It has ended."""
        return self._drops.finish(dropped)
