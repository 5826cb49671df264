"""What components are told of a channel: notices for those who watch it, and the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from echo_core.formats.compare import Report
from echo_core.roster.bookkeeping import books
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.origins import Origin
from echo_core.transports.threads import log
from echo_core.values.notices import EventsLost, Notice, Unreachable

HERE = "this process"

Watcher = Callable[[Notice], object]


class Announcements:
    """Of one channel in one node. Called with the books open; handlers run once these are closed."""

    __slots__ = ("_has_warned", "_watchers")

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []
        self._has_warned = False

    def add(self, watcher: Watcher, present: Iterable[Notice]) -> None:
        """Tells who is `present`, before who comes later: both go the same way."""
        books.tell_later(*(partial(watcher, notice) for notice in present))
        self._watchers.append(watcher)

    def remove(self, watcher: Watcher) -> None:
        """What has happened by now is still told."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def tell(self, notice: Notice) -> None:
        for watcher in self._watchers:
            books.tell_later(partial(watcher, notice))

    def tell_drops_of(self, origin: Origin) -> None:
        """What sinks of this process have dropped since that was last told."""
        newly = origin.local.newly_dropped()
        if newly:
            self.tell(EventsLost(HERE, origin.name, newly))

    def tell_losses_of(self, stream: IncomingStream) -> None:
        """What a source elsewhere has dropped since that was last told."""
        newly = stream.newly_lost()
        if newly:
            self.tell(EventsLost(stream.peer, stream.name, newly))

    def tell_unreachable(self, channel: str, peer: str, source: str, problem: Report | Exception) -> None:
        """A sink here cannot take a source's events. A peer may offer many: only the first is a warning."""
        level = logging.DEBUG if self._has_warned else logging.WARNING
        self._has_warned = True
        if not isinstance(problem, Report):
            told = "channel `%s`: a sink cannot take events of `%s` from %s: %s"
            log.log(level, told, channel, source, peer, problem)
            self.tell(Unreachable(peer, source, str(problem)))
            return
        log.log(level, "channel `%s`: a sink cannot take events of %s\n%s", channel, peer, problem)
        if self._watchers:  # the text of a long report takes its time
            self.tell(Unreachable(peer, source, str(problem), problem))

    def tell_unreachable_elsewhere(
        self, channel: str, peer: str, source: str, text: str, *, is_first: bool
    ) -> None:
        """A sink elsewhere cannot take a source's events; a peer may say so as often as it likes."""
        level = logging.WARNING if is_first else logging.DEBUG
        told = "channel `%s`: a sink of %s cannot take events of `%s`\n%s"
        log.log(level, told, channel, peer, source, text)
        self.tell(Unreachable(peer, source, text))
