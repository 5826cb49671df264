"""Targets: where a sink's events end, and the streams that feed it.

Handlers run on the thread that reads the sender's link; those of events from this process on the thread that
submits. A sink with a thread of its own, or without a handler, has a queue. Whoever waits for the queue reads
the link, where one link alone feeds it, and leaves handlers of other sinks on it to the link's own thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

from echo_core._c import links
from echo_core.codegen.machine.budgets import Budget
from echo_core.dispatch.handlers import Handler
from echo_core.dispatch.slowness import Slow, Slowness
from echo_core.errors import IncompatibleError, unexpected
from echo_core.formats.comparing.compare import Report
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.types import holds_elements
from echo_core.streams.catching_up import CatchingUp, Keeper
from echo_core.streams.flow import Drops
from echo_core.streams.receptions import Reception, Receptions, Wanted
from echo_core.values.backlog import Backlog
from echo_core.values.event_info import Describing, EventInfo
from echo_core.values.notices import HERE
from echo_core.values.statistics import SinkStatistics

_MAX_REFUSALS = 16  # that are kept; a peer may offer any number of sources
_COUNTED = ("events", "bytes", "failures", "skipped", "compiled", "interpreted")  # by a Delivery


class _Missed(NamedTuple):
    """Events of a feed that never came."""

    lost: int
    filtered: int

    def since(self, before: _Missed) -> _Missed:
        return _Missed(self.lost - before.lost, self.filtered - before.filtered)


class Feed:
    """A stream as a target sees it: what its events look like, and how they come here."""

    __slots__ = ()

    format: Format
    describe: Describing  # where its event of a number is from
    has_closed: bool  # its source is closed: it will not come back

    @property
    def source_id(self) -> bytes:
        """By which its source is known again, on whichever link."""
        raise NotImplementedError

    @property
    def is_by_key(self) -> bool:
        """Whether its source keeps the last of each value of a key, so that those before are not lost."""
        return False

    @property
    def next_number(self) -> int | None:
        """Of the event that comes next; None: that is not known yet."""
        raise NotImplementedError

    @property
    def link(self) -> links.Link | None:
        """The link they come over; None: from this process."""
        return None

    @property
    def peer(self) -> str | None:
        """The process that they come from; None: this one."""
        return None

    @property
    def is_there(self) -> bool:
        """Whether its source can be expected to send anything: not while a link is lost."""
        return True

    @property
    def is_judged_here(self) -> bool:
        """Whether it is derived from another process's events as these come."""
        return False

    @property
    def lost(self) -> int:
        """Events that the stream has dropped before they came here."""
        return 0

    @property
    def filtered(self) -> int:
        """Events of the source behind a derived one that did not pass, as far as that is known."""
        return 0

    @property
    def budget(self) -> Budget | None:
        """Of the peer whose format it is, for what is compiled; None: it is our own."""
        return None


class Target:
    """The working part of a sink. All but `join` and `statistics` is called with the books open."""

    decodes = True  # whether records become events here, by what takes long to make ready

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
                with_info=handler.takes_info,
                until_next=handler.function is not None,
            )
        )
        self.thread: threading.Thread | None = None
        self.is_leaving = False  # its channel closes with all its sinks: what it refuses now is not reported
        self.is_closed = False
        self._receptions = receptions
        self._feeds: dict[Feed, tuple[links.Delivery, _Missed]] = {}  # and what it had not sent before
        self._reception_by_feed: dict[Feed, Reception] = {}  # of those that feed it; it keeps them
        self._refusals: dict[Feed, Report] = {}
        self._past: Counter[str] = Counter()  # what was counted of feeds that are gone
        self._late: list[
            tuple[links.Delivery, _Missed]
        ] = []  # still handing over a batch, of feeds that are gone
        self._feeds_by_link: Counter[links.Link | None] = Counter()
        self._led: links.Link | None = None
        self._slowness = Slowness()
        self._sharers = links.Sharers()
        self._drops = Drops()  # of the queue
        self._most = sys.maxsize if backlog is None else backlog.events  # that it can be handed at once
        self._behind: deque[CatchingUp] = deque()  # what it has to be handed by whoever has made it
        if self.queue is not None:
            _queued.add(self)

    # -----------------------------------------------------------------------
    # Feeds

    def accept(self, feed: Feed, sends: type[Any] | None = None) -> links.Delivery | Report | None:
        """The delivery of a feed's events, or why this sink cannot take them. None: it does not want them.

        `sends`: the class of a source in this process, whose events may be handed over by reference.
        """
        if not self.wanted.knows(feed.format):
            return None
        found = self._receptions.of(self.wanted.where_sent(sends), feed.format, feed.budget)
        if isinstance(found, Report) and not self.takes(sends):
            return found
        reception = None if isinstance(found, Report) else found
        delivery = self._delivery(feed, reception, feed.describe)
        if reception is not None:
            self._reception_by_feed[feed] = reception
        return self._enter(feed, delivery)

    def _enter(self, feed: Feed, delivery: links.Delivery) -> links.Delivery:
        """Its events come by that delivery from now on."""
        self._feeds[feed] = delivery, _missed_of(feed)
        self._feeds_by_link[feed.link] += 1
        self._choose_link()
        return delivery

    def _delivery(
        self, feed: Feed, reception: Reception | None, describe: Callable[..., EventInfo]
    ) -> links.Delivery:
        return links.Delivery(
            self.queue or self.handler.function,  # type: ignore[arg-type]
            reception.decode if reception else _no_records,
            partial(self.handler.failed, self),
            record_size=feed.format.size_bytes if feed.format.is_fixed else 0,
            is_array=self.wanted.is_array,
            dtype=reception.dtype if reception else None,
            convert=reception.convert if reception else None,
            on_refusal=partial(self.handler.refused, self, feed.format.name),
            sink=self._sharers,
            describe=describe if self.handler.takes_info or self.handler.function is None else None,
        )

    def catch_up(
        self,
        feed: Feed,
        keeper: Keeper,
        join: Callable[[int | None], int | None],
        *,
        is_by_key: bool,
    ) -> CatchingUp:
        """Has what a feed keeps handed over before the sink takes part in what is new."""
        delivery, most = self._delivery_of_kept(feed), self._most
        behind = CatchingUp(keeper, delivery, most, join, is_by_key=is_by_key)
        self._behind.append(behind)
        return behind

    def _delivery_of_kept(self, feed: Feed) -> links.Delivery | None:
        reception = self._reception_by_feed.get(feed)
        if reception is None:
            return None
        delivery = self._delivery(feed, reception, feed.describe.kept)
        self._late.append((delivery, _Missed(0, 0)))
        return delivery

    @property
    def may_drop(self) -> bool:
        """Whether it may have no room for what comes, of which sources are told."""
        return self.queue is not None

    def takes(self, sends: type[Any] | None) -> bool:
        """Whether events of a class can be handed over by reference.

        Those with lists and arrays cannot: they may be written into once they are submitted, and be something
        else than what other processes get.
        """
        if sends is None or self.wanted.is_array or holds_elements(format_of(sends).record):
            return False
        return self.wanted.cls is None or issubclass(sends, self.wanted.cls)

    def next_behind(self) -> CatchingUp | None:
        """What it has to be handed yet; by whoever has made it, mostly, but any thread may ask."""
        try:
            return self._behind.popleft()
        except IndexError:
            return None

    @property
    def is_behind(self) -> bool:
        """Whether there is any such."""
        return len(self._behind) > 0

    def note_missed(self, events: int) -> None:
        """It was too slow for them to be handed over before it took part."""
        self._past["lost"] += events

    def release(self, feed: Feed) -> None:
        """The feed has ended. A source may be closed while a batch of its events is still handed over."""
        if feed not in self._feeds:
            return
        delivery, before = self._feeds.pop(feed)
        self._reception_by_feed.pop(feed, None)
        late, self._late = [*self._late, (delivery, _missed_of(feed).since(before))], []
        for delivery, missed in late:
            if delivery.is_busy:
                self._late.append((delivery, missed))
            else:
                self._past.update(_counts_of(delivery, missed))
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
        return sum(feed.is_there for feed in self._feeds)

    @property
    def next_numbers(self) -> dict[bytes, int | None]:
        """Of the event that comes next from each source, by its id; None: that is not known yet."""
        return {feed.source_id: feed.next_number for feed in self._feeds}

    def reception(self, sender: Format) -> Reception | Report | None:
        """What becomes of records of a format, by whichever way they come; None: they are not wanted."""
        return self._receptions.of(self.wanted, sender) if self.wanted.knows(sender) else None

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
        return _each_once(self._refusals.values())

    @property
    def comparisons(self) -> tuple[Report, ...]:
        """With the formats of all feeds."""
        return _each_once(reception.report for reception in self._reception_by_feed.values())

    def comparison_with(self, feed: Feed) -> Report | None:
        reception = self._reception_by_feed.get(feed)
        return None if reception is None else reception.report

    def tick(self) -> list[Slow]:
        """What there is to tell of its handler: whether it is slow, or has been."""
        self.handler.settle()
        own = [] if self.handler.own is None else [self.handler.own]
        return self._slowness.look([*own, *(delivery for delivery, _ in self._feeds.values())])

    @property
    def peers_served(self) -> list[str]:
        """Whose events its handler was called with between the last two ticks, once for each stream."""
        return [self.peer_of(delivery) or HERE for delivery in self._slowness.worked]

    def note_slow(self) -> None:
        """Its handler was slow in a call that no tick has seen."""
        self._slowness.told += 1

    def drops(self, now: float) -> str:
        """What there is to say of what its queue drops; empty: nothing."""
        return self._drops.look(now, self._dropped)

    def drops_at_end(self) -> str:
        return self._drops.finish(self._dropped)

    @property
    def _dropped(self) -> int:
        return self.queue.dropped if self.queue is not None else 0

    def peer_of(self, delivery: links.Delivery) -> str | None:
        """The process that a delivery's events come from; None: this one, or any, by way of the queue."""
        fed = (feed.peer for feed, (other, _) in self._feeds.items() if other is delivery)
        return next(fed, None)

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
        for delivery, missed in self._late:
            counted.update(_counts_of(delivery, missed))
        for feed, (delivery, before) in self._feeds.items():
            counted.update(_counts_of(delivery, _missed_of(feed).since(before)))
        queue = self.queue
        return SinkStatistics(
            events=counted["events"],
            size_bytes=counted["bytes"],
            lost=counted["lost"],
            dropped=counted["skipped"] + self._dropped,
            failures=counted["failures"] + self.handler.failures,
            slow=self._slowness.told,
            queued_events=queue.depth_events if queue else 0,
            queued_bytes=queue.depth_bytes if queue else 0,
            sources=self.feeds,
            judged_here=sum(feed.is_judged_here and feed.is_there for feed in self._feeds),
            compiled=counted["compiled"],
            interpreted=counted["interpreted"],
            filtered=counted["filtered"],
        )


def _each_once(reports: Iterable[Report]) -> tuple[Report, ...]:
    """Several sources may have the same format."""
    return tuple({id(report): report for report in reports}.values())


def _counts_of(delivery: links.Delivery, missed: _Missed) -> dict[str, int]:
    return {**{name: getattr(delivery, name) for name in _COUNTED}, **missed._asdict()}


def _missed_of(feed: Feed) -> _Missed:
    return _Missed(feed.lost, feed.filtered)


_queued: WeakSet[Target] = WeakSet()  # with a queue; closed ones, which may still be iterated, too


def _abandon_queued() -> None:
    for target in list(_queued):
        target.abandon()


os.register_at_fork(after_in_child=_abandon_queued)


def _no_records(record: object) -> Any:
    """A subclass's format may be incompatible: its events are taken by reference, its records are not."""
    raise unexpected(IncompatibleError, "events of a class", f"a record that cannot become one: {record!r}")
