"""Sinks: where events arrive. A handler is called, or the component asks, in a loop or with `async for`.

Handlers run on the thread that reads the sender's link, those of events from this process on the thread that
submits; a sink with a thread of its own has a queue before it, and so has one without a handler. Whoever
waits for such a queue reads the link in person, if only one feeds it, and with it what comes for others: an
interrupt (Ctrl-C) that hits in another sink's handler is then raised by the wait.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar
from weakref import WeakSet

from echo_core._c import links
from echo_core.asynchronous import events_of
from echo_core.backlog import Backlog, nanoseconds
from echo_core.bookkeeping import books, log
from echo_core.errors import (
    BacklogError,
    ChannelError,
    ClosedError,
    EchoError,
    IncompatibleError,
    TimedOutError,
)
from echo_core.formats.compare import Report
from echo_core.formats.format import Format
from echo_core.receptions import Receptions, Wanted
from echo_core.statistics import SinkStatistics
from echo_core.transports.threads import OwnThread, is_failure

T = TypeVar("T")
_MAX_REFUSALS = 16  # that are kept; a peer may offer any number of sources
_COUNTED = ("events", "bytes", "failures", "skipped", "compiled", "interpreted")  # by a Delivery

FailureHook = Callable[["Sink[Any]", BaseException], object]


class Feed(Protocol):
    """Where a sink's events come from: a source in this process, or the end of another's stream."""

    @property
    def format(self) -> Format: ...

    @property
    def link(self) -> links.Link | None:
        """The link they come over; None: there is none."""
        ...

    @property
    def lost(self) -> int: ...


class Keeper(Protocol):
    """What a sink needs of the channel that it is on."""

    def remove_sink(self, sink: Sink[Any]) -> None:
        """Does what is left of it, where it has been interrupted."""
        ...

    @property
    def receptions(self) -> Receptions: ...

    @property
    def failure_hook(self) -> FailureHook | None: ...

    @property
    def name(self) -> str: ...

    def concern_each_other(self, sender: Format, wanted: Wanted) -> bool: ...


class Sink(Generic[T]):
    """Made by `Channel.sink`, whose arguments say what it takes and how."""

    def __init__(
        self,
        keeper: Keeper,
        wanted: Wanted,
        handler: Callable[[Any], object] | None,
        *,
        own_thread: bool,
        backlog: Backlog,
    ) -> None:
        if own_thread and handler is None:
            msg = "Expected a handler for the sink's own thread, got none"
            raise ChannelError(msg, hint="without a handler, iterate the sink in a thread of yours")
        self.wanted = wanted
        self._keeper = keeper
        self._handler = handler
        self._queue = _queue(backlog) if own_thread or handler is None else None
        self._feeds: dict[Feed, tuple[links.Delivery, int]] = {}  # and what the feed had lost before
        self._refusals: dict[Feed, Report] = {}
        self._past: Counter[str] = Counter()  # what was counted of feeds that are gone
        self._late: list[tuple[links.Delivery, int]] = []  # with a batch under way, of feeds that are gone
        self._own_failures = 0  # on the thread of its own, which alone counts them
        self._feeds_by_link: Counter[links.Link | None] = Counter()
        self._led: links.Link | None = None
        self.is_leaving = False  # with others of its channel: what it refuses is no news
        self.is_closed = False
        if self._queue is not None:
            _queued.add(self)
        self._thread = self._start() if own_thread else None

    # -----------------------------------------------------------------------
    # What components call

    def get(self, timeout_s: float | None = None) -> T:
        """The next event. TimedOutError: none has come; ClosedError: none will, and none is left."""
        try:
            event = self._own_queue().get(nanoseconds(timeout_s))
        except ClosedError:
            msg = f"Expected an open sink, that on `{self._keeper.name}` is closed, and nothing is left in it"
            raise ClosedError(msg) from None
        if event is None:
            msg = f"Expected an event on `{self._keeper.name}` within {timeout_s} s"
            raise TimedOutError(msg)
        return event  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[T]:
        """Every event, until the sink is closed."""
        return iter(self._own_queue())

    def __aiter__(self) -> AsyncIterator[T]:
        return events_of(self._own_queue())

    def wait_matched(self, sources: int = 1, timeout_s: float | None = 10.0) -> None:
        """Blocks until so many sources feed the sink.

        IncompatibleError where there are only sources whose type this one cannot be reached from; ClosedError
        where the sink is closed, or has been meanwhile.
        """
        what = f"{sources} sources for a sink on `{self._keeper.name}`"
        books.wait_for(
            lambda: len(self._feeds) >= sources or self.is_closed or bool(self._refusals and not self._feeds),
            timeout_s,
            lambda: f"{what}, there are {len(self._feeds)}",
        )
        if self.is_closed:
            msg = f"Expected {what}, got a sink that is closed"
            raise ClosedError(msg)
        with books.changing():
            there, refusals = len(self._feeds), self.refusals
        if refusals and there < sources:
            msg = f"Expected {what}, got {there} and these: {refusals[0]}"
            raise IncompatibleError(msg)

    @property
    def refusals(self) -> tuple[Report, ...]:
        """The comparisons with sources that this sink's type cannot be reached from."""
        return tuple({id(report): report for report in self._refusals.values()}.values())

    @property
    def sources(self) -> int:
        """How many feed the sink."""
        return len(self._feeds)

    @property
    def has_queue(self) -> bool:
        """Whether events may wait here, and be dropped."""
        return self._queue is not None

    def statistics(self) -> SinkStatistics:
        with books.changing():
            counted = self._past.copy()
            for delivery, lost in self._late:
                counted.update(_counts_of(delivery, lost))
            for feed, (delivery, lost_before) in self._feeds.items():
                counted.update(_counts_of(delivery, feed.lost - lost_before))
            sources = len(self._feeds)
        queue = self._queue
        return SinkStatistics(
            events=counted["events"],
            size_bytes=counted["bytes"],
            lost=counted["lost"],
            dropped=counted["skipped"] + (queue.dropped if queue else 0),
            failures=counted["failures"] + self._own_failures,
            queued_events=queue.depth_events if queue else 0,
            queued_bytes=queue.depth_bytes if queue else 0,
            sources=sources,
            compiled=counted["compiled"],
            interpreted=counted["interpreted"],
        )

    def close(self, linger_s: float = 1.0) -> None:
        """No more events are taken; what is queued can still be had by iterating.

        A handler on a thread of its own gets `linger_s` for what it is at.
        """
        if self.stop():
            self.join(linger_s)

    def abandon(self) -> None:
        """In a forked child: the sink is the parent's, and so is what is queued."""
        self.is_closed = True
        if self._queue is not None:
            self._queue.close()
            self._queue.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        cls = "anything" if self.wanted.cls is None else self.wanted.cls.__qualname__
        return f"Sink({cls} from {len(self._feeds)} sources of `{self._keeper.name}`)"

    # -----------------------------------------------------------------------
    # What its channel calls, with the books open from `accept` on

    def stop(self) -> bool:
        """The part of `close` that waits for nobody; whether the sink was open.

        What an interrupt has left of it is done by the next call. The queue is closed also where one comes.
        """
        try:
            with books.changing():
                was_open, self.is_closed = not self.is_closed, True
                for delivery, _ in self._late:
                    delivery.close()
                self._keeper.remove_sink(self)
            return was_open
        finally:
            if self._queue is not None:
                self._queue.close()

    def join(self, linger_s: float) -> None:
        """Waits for the handler on a thread of its own."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(linger_s)

    def accept(self, feed: Feed, sends: type[Any] | None = None) -> links.Delivery | None:
        """The way from a feed to here, or None: then the refusal has been noted, if it is one.

        `sends`: the class of a source in this process, whose events may be handed over as they are.
        """
        found = self._keeper.receptions.of(self.wanted.where_sent(sends), feed.format)
        if isinstance(found, Report) and not self.takes(sends):
            if self._keeper.concern_each_other(feed.format, self.wanted):
                self._note_refusal(feed, found)
            return None
        reception = None if isinstance(found, Report) else found
        delivery = links.Delivery(
            self._queue or self._handler,  # type: ignore[arg-type]
            reception.decode if reception else _no_records,
            self._failed,
            record_size=feed.format.size_bytes if feed.format.is_fixed else 0,
            is_array=self.wanted.is_array,
            dtype=reception.dtype if reception else None,
            convert=reception.convert if reception else None,
            on_refusal=partial(self._refused, feed.format.name),
        )
        self._feeds[feed] = delivery, feed.lost
        self._feeds_by_link[feed.link] += 1
        self._choose_link()
        return delivery

    def refusal_of(self, feed: Feed) -> Report | None:
        """Why a source's events cannot be taken; None: they can be, or are none of this sink's business."""
        return self._refusals.get(feed)

    def forget_refusal(self, feed: Feed) -> None:
        """The source is gone: nobody waits in vain for it."""
        self._refusals.pop(feed, None)

    def _note_refusal(self, feed: Feed, report: Report) -> None:
        if len(self._refusals) == _MAX_REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[feed] = report

    def takes(self, sends: type[Any] | None) -> bool:
        """Whether events of a class can be handed over by reference."""
        if sends is None or self.wanted.is_array:
            return False
        return self.wanted.cls is None or issubclass(sends, self.wanted.cls)

    def release(self, feed: Feed) -> None:
        if feed in self._feeds:
            self._settle(feed)
            self._feeds_by_link[feed.link] -= 1
            if not self._feeds_by_link[feed.link]:
                del self._feeds_by_link[feed.link]
            self._choose_link()

    def _settle(self, feed: Feed) -> None:
        """A source may be closed while what it has submitted is still handed on."""
        delivery, lost_before = self._feeds[feed]
        late, self._late = [*self._late, (delivery, feed.lost - lost_before)], []
        for delivery, lost in late:
            if delivery.is_busy:
                self._late.append((delivery, lost))
            else:
                self._past.update(_counts_of(delivery, lost))
        del self._feeds[feed]

    def _choose_link(self) -> None:
        """Who waits for the queue may read the link that feeds it, where it is the only one."""
        if self._queue is None:
            return
        led = next(iter(self._feeds_by_link)) if len(self._feeds_by_link) == 1 else None
        if led is self._led:
            return
        if self._led is not None:
            self._led.unfollow(self._queue)
        if led is not None:
            led.follow(self._queue)
        self._queue.lead(led)
        self._led = led

    # -----------------------------------------------------------------------
    # Inside

    def _own_queue(self) -> links.Queue:
        if self._queue is None or self._handler is not None:
            msg = f"Expected a sink without a handler, got one whose events go to {self._handler!r}"
            raise ChannelError(msg)
        return self._queue

    def _start(self) -> threading.Thread:
        thread = OwnThread(self._handle_all, f"echo-sink-{self._keeper.name}")
        thread.start()
        return thread

    def _handle_all(self) -> None:
        assert self._queue is not None
        try:
            for event in self._queue:
                self._handle(event)
        except BacklogError as error:  # the policy "error"
            self._report(error, "a sink of channel `%s` has ended: %s", self._keeper.name, error)
        finally:  # nobody else takes what the queue would hold
            self.stop()

    def _handle(self, event: Any) -> None:
        assert self._handler is not None
        try:
            self._handler(event)
        except BaseException as error:  # the component's; reported, and stops nobody
            self._own_failures += 1
            if not self._failed(error):
                raise

    def _failed(self, error: BaseException) -> bool:
        """Reports what a handler has raised; False: it is the thread's, which is not the library's."""
        if not is_failure(error):
            return False
        self._report(error, "a handler of channel `%s` failed", self._keeper.name, trace=error)
        return True

    def _refused(self, sent: str, error: BaseException) -> bool:
        """Likewise, where no event could be made of a record: an error of ours says all there is to say."""
        if not is_failure(error):
            return False
        trace = None if isinstance(error, EchoError) else error
        wanted = "an event" if self.wanted.cls is None else f"`{self.wanted.cls.__qualname__}`"
        said = "channel `%s`: what a source of `%s` has sent cannot become %s: %s"
        self._report(error, said, self._keeper.name, sent, wanted, error, trace=trace)
        return True

    def _report(
        self, error: BaseException, said: str, *words: object, trace: BaseException | None = None
    ) -> None:
        log.error(said, *words, exc_info=trace)
        if self._keeper.failure_hook is not None:
            try:
                self._keeper.failure_hook(self, error)
            except BaseException as failure:  # likewise
                if not is_failure(failure):
                    raise
                log.exception("on_failure failed")


def _counts_of(delivery: links.Delivery, lost: int) -> dict[str, int]:
    return {**{name: getattr(delivery, name) for name in _COUNTED}, "lost": lost}


_queued: WeakSet[Sink[Any]] = WeakSet()  # with a queue; closed ones, which may still be iterated, too


def _abandon_queued() -> None:
    for sink in list(_queued):
        sink.abandon()


os.register_at_fork(after_in_child=_abandon_queued)


def _queue(backlog: Backlog) -> links.Queue:
    return links.Queue(
        max_events=backlog.events,
        max_bytes=backlog.size_bytes,
        policy=backlog.policy,
        timeout_ns=backlog.timeout_ns,
    )


def _no_records(record: object) -> Any:
    """A subclass's format may lead nowhere: its events are taken, its records are not."""
    msg = f"Expected events of a class, got a record that cannot become one: {record!r}"
    raise IncompatibleError(msg)
