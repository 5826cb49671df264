"""Lines of the log that may come again and again: the first at once, then a sum from time to time.

Whoever can make this process log, a stranger at the door or a handler that fails for every event, could fill
a disk with it otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from echo_core.transports.threads import log

PERIOD_S = 10.0


class Repeats:
    """Lines of one kind, from any thread.

    Without a lock, which a fork could leave taken: what two threads say in one instant may be counted once.
    """

    __slots__ = ("_clock", "_held", "_level", "_period_s", "_quiet_until", "_text", "was_logged")

    def __init__(self, *, period_s: float = PERIOD_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._period_s = period_s
        self._clock = clock
        self._quiet_until = float("-inf")
        self._held = 0  # lines since the last one that was logged
        self._level = 0
        self._text = ""
        self.was_logged = False  # what was said last

    def say(self, level: int, said: str, *words: object, exc_info: BaseException | None = None) -> None:
        """Logs a line, or counts it where one was logged less than a period ago."""
        now = self._clock()
        self.was_logged = now >= self._quiet_until
        if not self.was_logged:
            self._held += 1
            return
        held, self._held = self._held, 0
        self._quiet_until = now + self._period_s
        self._level, self._text = level, said % words
        more = f" ({held} more like the line before it)" if held else ""
        log.log(level, "%s%s", self._text, more, exc_info=exc_info)

    def settle(self, *, at_end: bool = False) -> None:
        """Logs how many lines were held back, once their period or all is over: for whoever has a tick."""
        now = self._clock()
        if self._held == 0 or (now < self._quiet_until and not at_end):
            return
        held, self._held = self._held, 0
        self._quiet_until = now + self._period_s
        log.log(self._level, "%d more within %g s like: %s", held, self._period_s, self._text)
