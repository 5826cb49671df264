"""Sources: where events leave. `submit` encodes once, for all sinks in other processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, cast

import numpy as np

from echo_core._c import links
from echo_core.backlog import Backlog
from echo_core.bookkeeping import books
from echo_core.errors import ClosedError, FormatError, IncompatibleError, LinkError
from echo_core.formats.format import Format
from echo_core.sinks import Sink
from echo_core.statistics import SourceStatistics

T = TypeVar("T")
_MAX_ANSWERS = 16  # of sinks that cannot be reached; a peer may send any number


class Keeper(Protocol):
    """What a source needs of the channel that it is on."""

    def remove_source(self, source: Source[Any], linger_s: float) -> None:
        """Does what is left of it, where it has been interrupted."""
        ...

    def flush(self, source: Source[Any], timeout_s: float | None) -> None: ...

    @property
    def pool(self) -> links.Pool | None: ...

    @property
    def name(self) -> str: ...


class Source(Generic[T]):
    """Made by `Channel.source`, whose arguments say what it sends and how."""

    submit: Callable[[T], None]
    """Sends one event: to sinks of this process before it returns, to others without waiting for them."""

    submit_array: Callable[[np.ndarray[Any, Any]], None]
    """Sends the records of a numpy structured array, one event each, without a Python object for any."""

    def __init__(
        self,
        keeper: Keeper,
        cls: type[T] | None,
        format_: Format,
        encode: Callable[[Any], bytes] | None,
        *,
        name: str,
        backlog: Backlog,
        delay_ns: int,
    ) -> None:
        self.cls = cls
        self.format = format_
        self.name = name
        self.backlog = backlog
        self.delay_ns = delay_ns
        self.unreachable: deque[tuple[object, str]] = deque(maxlen=_MAX_ANSWERS)  # by whom, and why
        self._has_refusals = False
        self._lost_route = ""  # why, since the last flush
        self.is_closed = False
        self._keeper = keeper
        self._local: dict[Sink[Any], links.Delivery] = {}
        self._remote_sinks: dict[links.OutgoingStream, int] = {}
        self._ending: list[links.OutgoingStream] = []  # no sink takes them any more, but something is queued
        self._past_dropped_here = 0  # at sinks of this process that are gone
        self._dropped_elsewhere = 0  # at sinks of others
        self._told_dropped = 0  # at sinks of this process, as components have been told
        self.outlet = links.Outlet(
            cls,
            encode or _no_events,
            record_size=format_.size_bytes if format_.is_fixed else 0,
            dtype=format_.dtype if format_.is_fixed else None,
        )
        self.outlet.pool = keeper.pool
        self.submit = self.outlet.submit
        self.submit_array = self.outlet.submit_array

    # -----------------------------------------------------------------------
    # What components call

    def submit_records(self, records: Any) -> None:
        """Sends records of fixed size that lie side by side in a buffer, in this source's own layout."""
        self.outlet.submit_records(records)

    def loan(self, count: int) -> np.ndarray[Any, Any]:
        """An array of `count` records to fill in and submit: in memory that other processes read in place,
        where there is such memory and some is free. Its content is whatever was there."""
        dtype = self.format.dtype
        pool = self.outlet.pool
        room = pool.loan(count * dtype.itemsize) if pool is not None and count > 0 else None
        return np.empty(count, dtype) if room is None else np.frombuffer(cast("Any", room), dtype, count)

    def wait_matched(self, sinks: int = 1, timeout_s: float | None = 10.0) -> None:
        """Blocks until so many sinks, here and elsewhere, take this source's events.

        IncompatibleError where only sinks are there that cannot be reached from this source's type.
        """
        what = f"{sinks} sinks for `{self.format.name}` on `{self._keeper.name}`"
        books.wait_for(
            lambda: self.sinks >= sinks or self.is_closed or bool(self.unreachable and not self.sinks),
            timeout_s,
            lambda: f"{what}, there are {self.sinks}",
        )
        if self.is_closed:
            msg = f"Expected {what}, got a source that is closed"
            raise ClosedError(msg)
        with books.changing():
            there, answers = self.sinks, [text for _, text in self.unreachable]
        if answers and there < sinks:
            msg = f"Expected {what}, got {there} and this answer: {answers[0]}"
            raise IncompatibleError(msg)

    def flush(self, timeout_s: float | None = 10.0) -> None:
        """Blocks until every other process has handed all events so far to its handlers and queues.

        LinkError, once: a link was lost since the last flush, with events that may not have arrived.
        """
        if self.is_closed:
            msg = f"Expected a source that is open, that of `{self.format.name}` has been closed"
            raise ClosedError(msg)
        try:
            self._keeper.flush(self, timeout_s)
        except LinkError:
            self._lost_route = ""  # it is said here
            raise
        with books.changing():
            lost, self._lost_route = self._lost_route, ""
        if lost:
            msg = (
                f"Expected all events of `{self.name}` to arrive, some are not known to have arrived: {lost}"
            )
            raise LinkError(msg)

    @property
    def sinks(self) -> int:
        """How many take this source's events."""
        return len(self._local) + self.remote_sinks

    @property
    def remote_sinks(self) -> int:
        return sum(self._remote_sinks.values())

    def statistics(self) -> SourceStatistics:
        with books.changing():
            self._settle()
            routes = [*self._remote_sinks, *self._ending]
            remote_sinks = self.remote_sinks
            dropped_here = self._dropped_here
        return SourceStatistics(
            events=self.outlet.sequence,
            size_bytes=self.outlet.bytes,
            dropped=self.outlet.dropped,
            dropped_at_sinks=dropped_here + self._dropped_elsewhere,
            queued_events=sum(route.queued_events for route in routes),
            queued_bytes=sum(route.queued_bytes for route in routes),
            local_sinks=len(self._local),
            remote_sinks=remote_sinks,
        )

    def close(self, linger_s: float = 1.0) -> None:
        """No more is sent; for `linger_s` at most it waits for what is queued to leave.

        What an interrupt has left of it is done by the next call.
        """
        try:
            with books.changing():
                self.is_closed = True
            self._keeper.remove_source(self, linger_s)
        finally:  # also when the wait is interrupted
            self.outlet.close()
            with books.changing():
                self.unreachable.clear()  # who answered is a link, or a sink

    def abandon(self) -> None:
        """In a forked child: the source is the parent's."""
        self.is_closed = True
        self.outlet.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Source({self.format.name} to {self.sinks} sinks of `{self._keeper.name}`)"

    # -----------------------------------------------------------------------
    # What its channel calls, with the books open

    lost = 0  # a feed of sinks in this process, which get everything
    link = None

    def add_local(self, sink: Sink[Any], delivery: links.Delivery, *, is_direct: bool) -> None:
        self._local[sink] = delivery
        if is_direct:
            self.outlet.direct += (delivery,)
        else:
            self.outlet.converting += (delivery,)

    def note_unreachable(self, who: object, text: str) -> bool:
        """A sink, or all behind a link, cannot take the events; whether that is news."""
        self.unreachable.append((who, text))
        is_first, self._has_refusals = not self._has_refusals, True
        return is_first

    def forget_unreachable(self, who: object) -> None:
        """It is gone, or takes them now."""
        for answer in [answer for answer in self.unreachable if answer[0] is who]:
            self.unreachable.remove(answer)

    def remove_local(self, sink: Sink[Any]) -> None:
        """The sink is closed, also while a batch is handed to it."""
        delivery = self._local.get(sink)
        if delivery is not None:
            delivery.close()
        self._release(sink)

    def _release(self, sink: Sink[Any]) -> None:
        self.forget_unreachable(sink)
        delivery = self._local.pop(sink, None)
        if delivery is not None:
            with suppress(ClosedError):  # then it has let go of all
                self.outlet.direct = _without(self.outlet.direct, delivery)
                self.outlet.converting = _without(self.outlet.converting, delivery)
            self._past_dropped_here += delivery.dropped
            sink.release(self)

    def end_local(self) -> None:
        """No more is submitted; of what was, sinks get all."""
        for sink in list(self._local):
            self._release(sink)

    def set_remote_sinks(self, route: links.OutgoingStream, sinks: int) -> None:
        """How many sinks there are at the end of a route, which the outlet sends over already."""
        self._remote_sinks[route] = sinks

    def add_dropped_at_sinks(self, events: int) -> None:
        """Sinks elsewhere have dropped so many."""
        self._dropped_elsewhere += events

    @property
    def _dropped_here(self) -> int:
        return self._past_dropped_here + sum(delivery.dropped for delivery in self._local.values())

    def newly_dropped_here(self) -> int:
        """How many events sinks of this process have dropped since this was last asked."""
        dropped = self._dropped_here
        newly, self._told_dropped = dropped - self._told_dropped, dropped
        return newly

    def pause(self, route: links.OutgoingStream) -> None:
        """Nobody takes events at its end; what it has queued is still sent."""
        with suppress(ClosedError):  # then it has let go of all
            self.outlet.outgoing = _without(self.outlet.outgoing, route)

    def note_lost_route(self, flushed: int, reason: str) -> None:
        """A link is gone, and nobody knows of more than so many events that they came to its end."""
        if self.outlet.sequence > flushed:
            self._lost_route = reason

    def remove_route(self, route: links.OutgoingStream) -> None:
        self.pause(route)
        if self._remote_sinks.pop(route, None) is not None:
            self._ending.append(route)
        self._settle()

    def _settle(self) -> None:
        """Lets go of such a route when nothing of it is queued; what it drops yet the outlet counts."""
        self._ending = [route for route in self._ending if route.queued_events]

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it is under way any more, so that it counts nothing more once it is closed.

        A submit that still has a route, and waits for room there or elsewhere, will drop what it has left.
        """
        self._settle()
        return not (self._remote_sinks or self.outlet.may_drop)

    @property
    def routes(self) -> tuple[links.OutgoingStream, ...]:
        return tuple(self._remote_sinks)


def _without(items: tuple[Any, ...], item: object) -> tuple[Any, ...]:
    return tuple(other for other in items if other is not item)


def _no_events(event: object) -> bytes:
    msg = f"Expected records of a source without a class, got `{type(event).__qualname__}`"
    raise FormatError(msg)
