"""Sources: where components let events leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import numpy as np

from echo_core.errors import BacklogError, ClosedError, IncompatibleError, TimedOutError, unexpected
from echo_core.formats.format import Format
from echo_core.handles.closing import Closing
from echo_core.handles.options import demand_handler
from echo_core.handles.parameters import Parameter, V, type_of_parameter
from echo_core.handles.receipts import Receipt
from echo_core.roster import ending, requests
from echo_core.roster.bookkeeping import books
from echo_core.roster.flushing import flushing
from echo_core.roster.memberships import Membership
from echo_core.roster.tracking import receipts_of
from echo_core.streams.origins import Origin
from echo_core.streams.parties import UNDER_WAY
from echo_core.streams.receipts import MAX_RECEIPTS, NOT_SUBMITTED, Receipts
from echo_core.values.demand import Demand
from echo_core.values.parameters import Value
from echo_core.values.statistics import SourceStatistics
from echo_core.values.waits import DEFAULT_WAIT_S, Wait, Waits

T = TypeVar("T")


class Source(Closing, Generic[T]):
    """Where a component's events leave.

    Made by `Channel.source`, whose arguments say what it sends and how.
    """

    # The two are built-in functions of the source's outlet: a submit runs no Python code of ours.
    __slots__ = {  # noqa: RUF023 - help() shows them in this order
        "submit": """submit(event): sends one event.

        Sinks of this process have it when the call returns; for other processes it is written or queued.

        Raises:
            BacklogError: the backlog is full and its policy is "error", or "block" and the time is up.
            EncodeError: the event is not what the class declares.
            ClosedError: the source is closed.

            source.submit(Particle(id=1, temperature=300.0))
        """,
        "submit_array": """submit_array(array): sends the records of a numpy structured array, one event each.

        Arguments:
            array: of the dtype of the source's format, `source.format.dtype`.

        Raises what `submit` does. No Python object is made for any event.

            source.submit_array(np.zeros(1000, source.format.dtype))
        """,
        "__weakref__": "A source can be referred to weakly.",
        "_membership": "The channel.",
        "_origin": "The working part.",
        "_receipts": "Of events that were asked for; None: there are none yet.",
    }

    submit: Callable[[T], None]
    submit_array: Callable[[np.ndarray[Any, Any]], None]

    def __init__(self, membership: Membership, origin: Origin) -> None:
        self._membership = membership
        self._origin = origin
        self._receipts: Receipts | None = None
        self.submit = origin.outlet.submit
        self.submit_array = origin.outlet.submit_array

    def submit_tracked(self, event: T) -> Receipt:
        """As `submit`, and returns what knows who has the event.

        A source has 65,536 receipts at most that are not done: as many events are under way, then this waits
        until the oldest one is handled everywhere, as long as `submit` waits for room at most.

        Raises what `submit` does, and

            BacklogError: there are so many receipts, and the time is up.

            receipt = source.submit_tracked(Order(7))
            print(receipt.wait(timeout_s=2))
        """
        receipts = self._receipts or self._begin_receipts()
        if len(receipts.open) >= receipts.limit:
            self._make_room(receipts)
        outlet = receipts.outlet
        receipt = Receipt()
        receipt.standing = None
        receipt.serial = receipt.following = UNDER_WAY
        receipt.first = outlet.sequence
        receipt._receipts = receipts  # pyright: ignore[reportPrivateUsage] - it is made here
        receipts.open.append(receipt)
        try:
            self.submit(event)
        except BaseException:
            receipt.standing = NOT_SUBMITTED
            raise
        receipt.following = outlet.sequence
        receipt.serial = receipts.take_serial()
        receipts.is_fresh = True
        return receipt

    def _begin_receipts(self) -> Receipts:
        self._receipts = receipts_of(self._membership, self._origin)
        return self._receipts

    def _make_room(self, receipts: Receipts) -> None:
        """Mostly it is enough to ask what has been handled by now, as nobody has for long."""
        with books.changing():
            receipts.ask_in_time()
        if len(receipts.open) < MAX_RECEIPTS:
            return
        timeout_ns = self._origin.backlog.timeout_ns
        try:
            books.wait_for(
                lambda: len(receipts.open) < MAX_RECEIPTS or self._origin.is_closed,
                timeout_ns / 1e9 if timeout_ns >= 0 else None,
                lambda: f"fewer than {MAX_RECEIPTS} receipts of `{self.name}` that are not done",
            )
        except TimedOutError as error:
            raise BacklogError(str(error)) from None

    def submit_records(self, records: Any) -> None:
        """Sends records of fixed size that lie side by side in a buffer, in this source's own layout.

        Arguments:
            records: bytes, or anything with the buffer protocol.

        Raises what `submit` does.

            source.submit_records(file.read(100 * source.format.size_bytes))
        """
        self._origin.outlet.submit_records(records)

    def loan(self, count: int) -> np.ndarray[Any, Any]:
        """An array of `count` records to fill in and pass to `submit_array`.

        Where other processes share memory with this one and some is free, it lies there, and they read it in
        place: nothing is copied. Its content is whatever was there.

            array = source.loan(1000)
            array["temperature"] = 300.0
            source.submit_array(array)
        """
        dtype = self.format.dtype
        pool = self._origin.outlet.pool
        room = pool.loan(count * dtype.itemsize) if pool is not None and count > 0 else None
        return np.empty(count, dtype) if room is None else np.frombuffer(cast("Any", room), dtype, count)

    def wait_matched(self, sinks: int = 1, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """Blocks until sinks, here and elsewhere, take this source's events.

        Arguments:
            sinks: how many.
            timeout_s: how long; None is without limit.

        Raises:
            IncompatibleError: only sinks are there that cannot take this source's type.
            TimedOutError: there are fewer when the time is up.
            ClosedError: the source is closed, or has been meanwhile.

            source.wait_matched(2)
        """
        books.wait_for_all(self._matching(sinks), timeout_s)

    async def wait_matched_async(self, sinks: int = 1, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """As `wait_matched`, for a task of an event loop, which goes on meanwhile.

        await source.wait_matched_async()
        """
        await books.await_all(self._matching(sinks), timeout_s)

    def _matching(self, sinks: int) -> Waits:
        origin = self._origin
        what = f"{sinks} sinks for `{origin.format.name}` on `{self._membership.name}`"
        yield Wait(
            lambda: (
                origin.sinks >= sinks or origin.is_closed or bool(origin.unreachable and not origin.sinks)
            ),
            lambda: f"{what}, there are {origin.sinks}",
        )
        if origin.is_closed:
            raise unexpected(ClosedError, what, "a source that is closed")
        with books.changing():
            there, answers = origin.sinks, [text for _, text in origin.unreachable]
        if answers and there < sinks:
            raise unexpected(IncompatibleError, what, f"{there} and this answer: {answers[0]}")

    def flush(self, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """Blocks until every other process has handed all events so far to its handlers and queues.

        Arguments:
            timeout_s: how long; None is without limit.

        Raises:
            LinkError: a link was lost since the last flush, with events that may not have arrived. Raised
                once.
            TimedOutError: not all have answered in time; the message has each of them, and how many events
                may not have arrived there.
            ClosedError: the source is closed.

            source.flush(timeout_s=2)
        """
        books.wait_for_all(self._flushing(), timeout_s)

    async def flush_async(self, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """As `flush`, for a task of an event loop, which goes on meanwhile.

        await source.flush_async(timeout_s=2)
        """
        await books.await_all(self._flushing(), timeout_s)

    def _flushing(self) -> Waits:
        origin = self._origin
        if origin.is_closed:
            msg = f"Expected a source that is open, that of `{origin.format.name}` has been closed"
            raise ClosedError(msg)
        with books.changing():
            streams = self._membership.streams_of([origin])
        yield from flushing([origin], streams)

    def drain(self, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """As `flush`: what is called before the end, here as on channels and nodes, for all sources at once.

        source.drain(timeout_s=2)
        """
        self.flush(timeout_s)

    async def drain_async(self, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """As `drain`, for a task of an event loop, which goes on meanwhile.

        await source.drain_async(timeout_s=2)
        """
        await self.flush_async(timeout_s)

    @property
    def wanted(self) -> Demand:
        """What anybody wants of this source, here and elsewhere: fields, rate, requested parameters.

        It is put together again only where that has changed, so that it may be asked for each event.

            if "spectrum" in source.wanted.fields:
                event.spectrum = compute_spectrum()
        """
        demand = self._origin.demand
        return demand if demand is not None else self._look_at_demand()

    def _look_at_demand(self) -> Demand:
        with books.changing():
            return self._origin.look_at_demand()

    def parameter(
        self,
        name: str,
        default: V,
        *,
        low: V | None = None,
        high: V | None = None,
        choices: tuple[str, ...] = (),
        merge: Callable[..., Any] = max,
        on_change: Callable[[V], object] | None = None,
    ) -> Parameter[V]:
        """Something that receivers may ask of this source by `Channel.request`, such as a resolution.

        Arguments:
            name: what they call it: a Python name.
            default: its value where nobody requests one; a bool, int, float or str, as all values are.
            low: the least value that may be requested, of numbers.
            high: the greatest one.
            choices: the texts that may be requested, from the least to the greatest.
            merge: max or min: which of several requests counts.
            on_change: called with each new value, by the thread that tells notices; of changes that come
                while it is at work it hears the last.

        Raises:
            ChannelError: an argument is wrong, or the source has one of that name, or 32.
            ClosedError: the source is closed.

            resolution = source.parameter("resolution", 64, low=1, high=1024)
            spectrum = compute_spectrum(resolution.value)
        """
        type_ = type_of_parameter(name, default, low, high, choices, merge)
        demand_handler(on_change)
        with books.changing():
            if self._origin.is_closed:
                raise unexpected(ClosedError, f"an open source for `{name}`", "one that is closed")
            told = cast("Callable[[Value], object] | None", on_change)
            return Parameter(requests.declare(self._membership, self._origin, type_, told))

    @property
    def name(self) -> str:
        """What others are told of it; that of its format, if it was given none."""
        return self._origin.name

    @property
    def id(self) -> str:
        """32 hexadecimal digits, which no other source has: the `source_id` of its events' `EventInfo`."""
        return self._origin.id.hex()

    @property
    def format(self) -> Format:
        """How its events are laid out."""
        return self._origin.format

    @property
    def is_closed(self) -> bool:
        """Whether it, its channel or its node is closed."""
        return self._origin.is_closed

    @property
    def sinks(self) -> int:
        """How many take this source's events."""
        return self._origin.sinks

    def statistics(self) -> SourceStatistics:
        """What it has counted so far, and what is queued now."""
        with books.changing():
            return self._origin.statistics()

    def close(self, linger_s: float = 1.0) -> None:
        """No more is sent; waits, for `linger_s` at most, until what is queued has left.

        A call that was interrupted is completed by the next one.
        """
        ending.close_origin(self._membership, self._origin, linger_s)

    def __repr__(self) -> str:
        return f"Source({self.format.name} to {self.sinks} sinks of `{self._membership.name}`)"
