"""Who is on a channel and what they send: heard within a moment, without taking an event."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import echo_core as echo

LONGEST_S = 2.0  # for members that cannot be reached
_QUIET_S = 0.2  # nothing new for so long: all has been heard
_STEP_S = 0.01


@dataclass(slots=True)
class Survey:
    """What has been heard of a channel."""

    members: tuple[echo.Member, ...] = ()
    sources: list[echo.SourceOpened] = field(default_factory=list[echo.SourceOpened])
    problems: list[echo.Notice] = field(default_factory=list[echo.Notice])

    def formats(self, channel: echo.Channel[Any]) -> list[echo.Format]:
        """Those that the channel was declared with, then those of sources, each once."""
        found = [*channel.types, *(source.format for source in self.sources)]
        return list({format_.token: format_ for format_ in found}.values())


class Surveyor:
    """Hears what is told of a channel, until it is closed."""

    def __init__(self, channel: echo.Channel[Any], on_source: Callable[[], object] = lambda: None) -> None:
        """`on_source`: called by another thread after each source that has come."""
        self._channel = channel
        self._lock = threading.Lock()
        self._survey = Survey()
        self._heard_at = time.monotonic()
        self._on_source = on_source
        self._watch = channel.watch(self._note, everywhere=True)

    def _note(self, notice: echo.Notice) -> None:
        with self._lock:
            self._heard_at = time.monotonic()
            match notice:
                case echo.SourceOpened():
                    self._survey.sources.append(notice)
                case echo.SourceClosed(peer, name, format_):
                    gone = echo.SourceOpened(peer, name, format_)
                    if gone in self._survey.sources:
                        self._survey.sources.remove(gone)
                case echo.Unlinked():
                    self._survey.problems.append(notice)
                case _:
                    pass
        if isinstance(notice, echo.SourceOpened):
            self._on_source()

    def now(self) -> Survey:
        """What has been heard so far."""
        with self._lock:
            sources, problems = list(self._survey.sources), list(self._survey.problems)
        return Survey(self._channel.members(), sources, problems)

    def wait(self, limit_s: float = LONGEST_S) -> Survey:
        """Until all who are known have been heard, and nothing new has come for a moment."""
        limit, members = time.monotonic() + limit_s, self._channel.members()
        while time.monotonic() < limit and not self._is_quiet(members):
            time.sleep(_STEP_S)
            if members != (members := self._channel.members()):
                self._heard_at = time.monotonic()
        return self.now()

    def _is_quiet(self, members: tuple[echo.Member, ...]) -> bool:
        senders_are_linked = all(member.is_linked for member in members if member.has_sources)
        has_answered = bool(members) and self._channel.statistics().missing == 0
        return has_answered and senders_are_linked and time.monotonic() > self._heard_at + _QUIET_S

    def close(self) -> None:
        """Nothing more is heard."""
        self._watch.close()


def survey(channel: echo.Channel[Any]) -> Survey:
    """What can be heard of a channel at once."""
    surveyor = Surveyor(channel)
    try:
        return surveyor.wait()
    finally:
        surveyor.close()
