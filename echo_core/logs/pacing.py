"""Pacing: when what was recorded is due, without a clock of its own: whoever plays passes the time.

Deadlines are absolute. An event that leaves late delays none after it, and no error adds up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from echo_core.errors import LogError, unexpected
from echo_core.logs.running_order import Run, RunningOrder

LATE_NS = 10_000_000  # an event that leaves so long after its deadline counts as late


class Pace:
    """Times of a log on a clock that does not go back."""

    def __init__(self, speed: float) -> None:
        """`speed`: 2.0 is twice as fast as it was recorded; 0.0 has everything due at once."""
        if not 0 <= speed < float("inf"):
            raise unexpected(LogError, "a speed of at least 0", f"{speed!r}")
        self.speed = speed
        self._log_ns = self._clock_ns = 0  # the same moment on both

    def begin(self, log_ns: int, now_ns: int) -> None:
        """What has that time is due now."""
        self._log_ns, self._clock_ns = log_ns, now_ns

    def due_ns(self, log_ns: int) -> int:
        """When what has that time is due."""
        if self.speed == 0:
            return self._clock_ns
        return self._clock_ns + int((log_ns - self._log_ns) / self.speed)

    def reached_ns(self, now_ns: int) -> int:
        """The time up to which all is due."""
        return self._log_ns + int((now_ns - self._clock_ns) * self.speed)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is due before `until_ns`; None: before something is changed."""

    until_ns: int | None


@dataclass(frozen=True, slots=True)
class End:
    """All was played."""


Open = Callable[[int | None], RunningOrder]


class Playback:
    """What is to be done next in playing a log: a state machine."""

    def __init__(self, open_: Open, speed: float, *, loop: bool = False) -> None:
        """`open_`: what is played, from a time on, or from where playing begins."""
        self._open = open_
        self._pace = Pace(speed)
        self._is_looping = loop
        self._order = open_(None)
        self._has_begun = False  # otherwise the next event is due at once
        self._has_played = False  # since the last beginning: an empty log does not loop
        self._paused_ns: int | None = None
        self.rounds = 0
        self.late = 0
        self.most_late_ns = 0

    @property
    def time_ns(self) -> int | None:
        """Of the next event; None: there is none."""
        return self._order.time_ns

    @property
    def is_paused(self) -> bool:
        return self._paused_ns is not None

    def step(self, now_ns: int) -> Run | Wait | End:
        """What is due, or how long to wait."""
        time_ns = self._order.time_ns
        if time_ns is None and not self._begins_anew():
            return End()
        if self.is_paused:
            return Wait(None)
        if time_ns is None:
            return self.step(now_ns)
        if not self._has_begun:
            self._pace.begin(time_ns, now_ns)
            self._has_begun = True
        return self._due(time_ns, now_ns)

    def _begins_anew(self) -> bool:
        """At the end of what is played: whether it is played again."""
        if not (self._is_looping and self._has_played):
            return False
        self._restart(None)
        self.rounds += 1
        return self._order.time_ns is not None

    def _due(self, time_ns: int, now_ns: int) -> Run | Wait:
        self._has_played = True
        if self._pace.speed == 0:
            return self._order.take()
        due_ns = self._pace.due_ns(time_ns)
        if due_ns > now_ns:
            return Wait(due_ns)
        run = self._order.take(max(time_ns, self._pace.reached_ns(now_ns)))
        self._note_late(run, now_ns - due_ns, now_ns)
        return run

    def _note_late(self, run: Run, late_ns: int, now_ns: int) -> None:
        """Those behind the first are late by less."""
        self.most_late_ns = max(self.most_late_ns, late_ns)
        if late_ns >= LATE_NS:
            self.late += run.events_until(self._pace.reached_ns(now_ns - LATE_NS))

    def _restart(self, log_ns: int | None) -> None:
        self._order = self._open(log_ns)
        self._has_begun = self._has_played = False

    def pause(self, now_ns: int) -> None:
        """Nothing is due until `resume`."""
        if self._paused_ns is None:
            self._paused_ns = now_ns

    def resume(self, now_ns: int) -> None:
        """It goes on as if no time had passed since."""
        if self._paused_ns is not None and self._has_begun:
            self._pace.begin(self._pace.reached_ns(self._paused_ns), now_ns)
        self._paused_ns = None

    def seek(self, log_ns: int) -> None:
        """What comes next is the first event with that time or a later one; it is due at once."""
        self._restart(log_ns)
