"""Targets: where a sink's events end, and the streams that feed it.

Handlers run on the thread that reads the sender's link; those of events from this process on the thread that
submits. A sink with a thread of its own, or without a handler, has a queue. Whoever waits for the queue reads
the link, where one link alone feeds it, and so runs the handlers of other sinks on it: Ctrl-C in one of these
is raised by the wait.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from functools import partial
from typing import Any
from weakref import WeakSet

from echo_core._c import links
from echo_core.dispatch.handlers import Handler
from echo_core.errors import IncompatibleError, unexpected
from echo_core.formats.compare import Report
from echo_core.formats.format import Format
from echo_core.streams.receptions import Receptions, Wanted
from echo_core.values.backlog import Backlog
from echo_core.values.statistics import SinkStatistics

_MAX_REFUSALS = 16  # that are kept; a peer may offer any number of sources
_COUNTED = ("events", "bytes", "failures", "skipped", "compiled", "interpreted")  # by a Delivery


class Feed:
    """A stream as a target sees it: what its events look like, and how they come here."""

    __slots__ = ()

    format: Format

    @property
    def link(self) -> links.Link | None:
        """The link they come over; None: from this process."""
        return None

    @property
    def lost(self) -> int:
        """Events that the stream has dropped before they came here."""
        return 0


class Target:
    """The working part of a sink. All but `join` and `statistics` is called with the books open."""

    def __init__(
        self, wanted: Wanted, handler: Handler, receptions: Receptions, backlog: Backlog | None
    ) -> None:
        """`backlog`: of the queue, where there is one."""
        self.wanted = wanted
        self.handler = handler
        self.queue = (
            None
            if backlog is None
            else links.Queue(
                max_events=backlog.events,
                max_bytes=backlog.size_bytes,
                policy=backlog.policy,
                timeout_ns=backlog.timeout_ns,
            )
        )
        self.thread: threading.Thread | None = None
        self.is_leaving = False  # its channel closes with all its sinks: what it refuses now is not reported
        self.is_closed = False
        self._receptions = receptions
        self._feeds: dict[Feed, tuple[links.Delivery, int]] = {}  # and what the feed had lost before
        self._refusals: dict[Feed, Report] = {}
        self._past: Counter[str] = Counter()  # what was counted of feeds that are gone
        self._late: list[
            tuple[links.Delivery, int]
        ] = []  # still handing over a batch, of feeds that are gone
        self._feeds_by_link: Counter[links.Link | None] = Counter()
        self._led: links.Link | None = None
        if self.queue is not None:
            _queued.add(self)

    # -----------------------------------------------------------------------
    # Feeds

    def accept(self, feed: Feed, sends: type[Any] | None = None) -> links.Delivery | Report:
        """The delivery of a feed's events, or why this sink cannot take them.

        `sends`: the class of a source in this process, whose events may be handed over by reference.
        """
        found = self._receptions.of(self.wanted.where_sent(sends), feed.format)
        if isinstance(found, Report) and not self.takes(sends):
            return found
        reception = None if isinstance(found, Report) else found
        delivery = links.Delivery(
            self.queue or self.handler.function,  # type: ignore[arg-type]
            reception.decode if reception else _no_records,
            partial(self.handler.failed, self),
            record_size=feed.format.size_bytes if feed.format.is_fixed else 0,
            is_array=self.wanted.is_array,
            dtype=reception.dtype if reception else None,
            convert=reception.convert if reception else None,
            on_refusal=partial(self.handler.refused, self, feed.format.name),
        )
        self._feeds[feed] = delivery, feed.lost
        self._feeds_by_link[feed.link] += 1
        self._choose_link()
        return delivery

    def takes(self, sends: type[Any] | None) -> bool:
        """Whether events of a class can be handed over by reference."""
        if sends is None or self.wanted.is_array:
            return False
        return self.wanted.cls is None or issubclass(sends, self.wanted.cls)

    def release(self, feed: Feed) -> None:
        """The feed has ended. A source may be closed while a batch of its events is still handed over."""
        if feed not in self._feeds:
            return
        delivery, lost_before = self._feeds.pop(feed)
        late, self._late = [*self._late, (delivery, feed.lost - lost_before)], []
        for delivery, lost in late:
            if delivery.is_busy:
                self._late.append((delivery, lost))
            else:
                self._past.update(_counts_of(delivery, lost))
        self._feeds_by_link[feed.link] -= 1
        if not self._feeds_by_link[feed.link]:
            del self._feeds_by_link[feed.link]
        self._choose_link()

    def _choose_link(self) -> None:
        """Whoever waits for the queue may read the link that feeds it, where it is the only one."""
        if self.queue is None:
            return
        led = next(iter(self._feeds_by_link)) if len(self._feeds_by_link) == 1 else None
        if led is self._led:
            return
        if self._led is not None:
            self._led.unfollow(self.queue)
        if led is not None:
            led.follow(self.queue)
        self.queue.lead(led)
        self._led = led

    @property
    def feeds(self) -> int:
        return len(self._feeds)

    def refuse(self, feed: Feed, report: Report) -> None:
        """Keeps why a feed's events cannot be taken, for whoever waits for them."""
        if len(self._refusals) == _MAX_REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[feed] = report

    def forget_refusal(self, feed: Feed) -> None:
        """The source is gone: nobody waits in vain for it."""
        self._refusals.pop(feed, None)

    @property
    def refusals(self) -> tuple[Report, ...]:
        """Each report once: several sources may have the same format."""
        return tuple({id(report): report for report in self._refusals.values()}.values())

    # -----------------------------------------------------------------------
    # Its end

    def close_late(self) -> None:
        """What is left of batches that are still handed over is dropped."""
        for delivery, _ in self._late:
            delivery.close()

    def close_queue(self) -> None:
        """No more is taken; what is queued can still be had."""
        if self.queue is not None:
            self.queue.close()

    def abandon(self) -> None:
        """In a forked child: the sink is the parent's, and so is what is queued."""
        self.is_closed = True
        if self.queue is not None:
            self.queue.close()
            self.queue.clear()

    def join(self, linger_s: float) -> None:
        """Waits for the handler on a thread of its own."""
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(linger_s)

    def statistics(self) -> SinkStatistics:
        counted = self._past.copy()
        for delivery, lost in self._late:
            counted.update(_counts_of(delivery, lost))
        for feed, (delivery, lost_before) in self._feeds.items():
            counted.update(_counts_of(delivery, feed.lost - lost_before))
        queue = self.queue
        return SinkStatistics(
            events=counted["events"],
            size_bytes=counted["bytes"],
            lost=counted["lost"],
            dropped=counted["skipped"] + (queue.dropped if queue else 0),
            failures=counted["failures"] + self.handler.failures,
            queued_events=queue.depth_events if queue else 0,
            queued_bytes=queue.depth_bytes if queue else 0,
            sources=len(self._feeds),
            compiled=counted["compiled"],
            interpreted=counted["interpreted"],
        )


def _counts_of(delivery: links.Delivery, lost: int) -> dict[str, int]:
    return {**{name: getattr(delivery, name) for name in _COUNTED}, "lost": lost}


_queued: WeakSet[Target] = WeakSet()  # with a queue; closed ones, which may still be iterated, too


def _abandon_queued() -> None:
    for target in list(_queued):
        target.abandon()


os.register_at_fork(after_in_child=_abandon_queued)


def _no_records(record: object) -> Any:
    """A subclass's format may be incompatible: its events are taken by reference, its records are not."""
    raise unexpected(IncompatibleError, "events of a class", f"a record that cannot become one: {record!r}")
