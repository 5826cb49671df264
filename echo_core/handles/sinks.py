"""Sinks: where components get events: by a handler, in a loop, or with `async for`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload
from weakref import ref

from echo_core._c import links
from echo_core.dispatch.asynchronous import Events, next_event
from echo_core.dispatch.handlers import Handler
from echo_core.errors import ChannelError, ClosedError, IncompatibleError, TimedOutError, unexpected
from echo_core.formats.comparing.compare import Report
from echo_core.handles.closing import Closing
from echo_core.roster import ending, matching
from echo_core.roster.bookkeeping import books
from echo_core.roster.memberships import Membership
from echo_core.streams.receptions import Wanted
from echo_core.streams.targets import Target
from echo_core.transports.threads import OwnThread
from echo_core.values.backlog import Backlog, nanoseconds
from echo_core.values.event_info import EventInfo
from echo_core.values.statistics import SinkStatistics
from echo_core.values.waits import DEFAULT_WAIT_S, Wait, Waits

if TYPE_CHECKING:
    from echo_core.logs.views.log import Log

T = TypeVar("T")
_DEFAULT_NS = nanoseconds(DEFAULT_WAIT_S)


class Sink(Closing, Generic[T]):
    """Where a component's events arrive.

    Made by `Channel.sink`, whose arguments say what it takes and how.
    """

    __slots__ = ("__weakref__", "_membership", "_queue", "_target")

    def __init__(self, membership: Membership, target: Target) -> None:
        self._membership = membership
        self._target = target
        self._queue = target.queue if target.handler.function is None else None  # that components take from

    def get(self, timeout_s: float | None = DEFAULT_WAIT_S) -> T:
        """The next event.

        Arguments:
            timeout_s: how long to wait for one; None is without limit.

        Raises:
            TimedOutError: none has come in time.
            ClosedError: none is left, and none will come.
            ChannelError: the sink has a handler.

            particle = channel.sink(Particle).get(timeout_s=2)
        """
        try:
            queue = self._queue or self._own_queue()
            event = queue.get(_DEFAULT_NS if timeout_s is DEFAULT_WAIT_S else nanoseconds(timeout_s))
        except ClosedError:
            raise self._at_its_end() from None
        if event is None:
            raise self._late(timeout_s)
        return event  # type: ignore[no-any-return]

    def get_with_info(self, timeout_s: float | None = DEFAULT_WAIT_S) -> tuple[T, EventInfo]:
        """As `get`, a pair: the next event, and which source it is from.

        particle, info = channel.sink(Particle).get_with_info(timeout_s=2)
        """
        try:
            pair = self._own_queue().get_with_info(nanoseconds(timeout_s))
        except ClosedError:
            raise self._at_its_end() from None
        if pair is None:
            raise self._late(timeout_s)
        return pair  # type: ignore[no-any-return]

    async def get_async(self, timeout_s: float | None = DEFAULT_WAIT_S) -> T:
        """As `get`, for a task of an event loop, which goes on meanwhile.

        Several tasks may wait: each event goes to one of them. One that is cancelled takes none.

            particle = await sink.get_async(timeout_s=2)
        """
        queue = self._own_queue()
        return await self._get_async(queue, queue.get_nowait, timeout_s)  # type: ignore[no-any-return]

    async def get_with_info_async(self, timeout_s: float | None = DEFAULT_WAIT_S) -> tuple[T, EventInfo]:
        """As `get_with_info`, for a task of an event loop, which goes on meanwhile.

        particle, info = await sink.get_with_info_async(timeout_s=2)
        """
        queue = self._own_queue()
        return await self._get_async(queue, queue.get_nowait_with_info, timeout_s)  # type: ignore[no-any-return]

    async def _get_async(
        self, queue: links.Queue, get_nowait: Callable[[], Any], timeout_s: float | None
    ) -> Any:
        _ = nanoseconds(timeout_s)  # ChannelError: there is no such time
        try:
            async with asyncio.timeout(timeout_s):
                return await next_event(queue, get_nowait)
        except ClosedError:
            raise self._at_its_end() from None
        except TimeoutError:
            raise self._late(timeout_s) from None

    def _at_its_end(self) -> ClosedError:
        name = self._membership.name
        return ClosedError(f"Expected an open sink, that on `{name}` is closed, and nothing is left in it")

    def _late(self, timeout_s: float | None) -> TimedOutError:
        return TimedOutError(f"Expected an event on `{self._membership.name}` within {timeout_s} s")

    def __iter__(self) -> Iterator[T]:
        """Every event, until the sink is closed."""
        return iter(self._own_queue())

    def __aiter__(self) -> AsyncIterator[T]:
        """Every event, until the sink is closed, without blocking the event loop.

        A task that is cancelled or out of time within `anext` can go on with the same iterator: none is lost.
        """
        return Events(self._own_queue())

    @overload
    def after(
        self,
        log: str | PathLike[str] | Log,
        *,
        since_s: float | None = None,
        timeout_s: float = DEFAULT_WAIT_S,
        with_info: Literal[False] = False,
    ) -> Iterator[T]: ...

    @overload
    def after(
        self,
        log: str | PathLike[str] | Log,
        *,
        since_s: float | None = None,
        timeout_s: float = DEFAULT_WAIT_S,
        with_info: Literal[True],
    ) -> Iterator[tuple[T, EventInfo]]: ...

    def after(
        self,
        log: str | PathLike[str] | Log,
        *,
        since_s: float | None = None,
        timeout_s: float = DEFAULT_WAIT_S,
        with_info: bool = False,
    ) -> Iterator[Any]:
        """Every event that a log has of this channel, and then each that comes, until the sink is closed.

        Nothing is missing between the two, and nothing comes twice: the log is read up to where the sink
        began, while what comes waits in its queue. Where the recorder has not written that far yet, it is
        waited for. Events of the log have the `EventInfo` of their source, and are said to be kept.

        Arguments:
            log: its folder, or what `echo.open_log` gives; its recorder may be at work.
            since_s: of the log only what was recorded from then on, in seconds since 1970.
            timeout_s: how long the log may be behind; then what it has not got is told in the log of the
                process, and left out.
            with_info: gives pairs of an event and its `EventInfo`.

        Raises:
            LogError: there is no log.
            ChannelError: the sink has a handler, or takes arrays.

            with channel.sink(Particle) as sink:
                for particle in sink.after("run.echolog"):
                    print(particle)
        """
        from echo_core.handles.histories import following

        pairs = following(self, log, since_s=since_s, timeout_s=timeout_s)
        return pairs if with_info else (event for event, _ in pairs)

    def _own_queue(self) -> links.Queue:
        if self._queue is None:
            function = self._target.handler.function
            raise unexpected(ChannelError, "a sink without a handler", f"one whose events go to {function!r}")
        return self._queue

    def wait_matched(self, sources: int = 1, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """Blocks until sources feed the sink.

        Arguments:
            sources: how many.
            timeout_s: how long; None is without limit.

        Raises:
            IncompatibleError: only sources are there whose type the sink cannot take.
            TimedOutError: there are fewer when the time is up. It names those of types with other names.
            ClosedError: the sink is closed, or has been meanwhile.

            sink.wait_matched(2)
        """
        books.wait_for_all(self._matching(sources), timeout_s)

    async def wait_matched_async(self, sources: int = 1, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """As `wait_matched`, for a task of an event loop, which goes on meanwhile.

        await sink.wait_matched_async()
        """
        await books.await_all(self._matching(sources), timeout_s)

    def _matching(self, sources: int) -> Waits:
        target = self._target
        what = f"{sources} sources for a sink on `{self._membership.name}`"
        strangers = partial(matching.strangers_in_words, self._membership, target.wanted)
        yield Wait(
            lambda: target.feeds >= sources or target.is_closed or bool(target.refusals and not target.feeds),
            lambda: f"{what}, there are {target.feeds}{strangers()}",
        )
        if target.is_closed:
            raise unexpected(ClosedError, what, "a sink that is closed")
        with books.changing():
            there, refusals = target.feeds, target.refusals
        if refusals and there < sources:
            raise unexpected(IncompatibleError, what, f"{there} and these: {refusals[0]}")

    @property
    def refusals(self) -> tuple[Report, ...]:
        """The comparisons with sources of its type, by name, whose events this sink cannot take."""
        return self._target.refusals

    @property
    def comparisons(self) -> tuple[Report, ...]:
        """The comparisons with the formats of sources that feed the sink; see `Report.lookalikes`."""
        return self._target.comparisons

    @property
    def sources(self) -> int:
        """How many feed the sink."""
        return self._target.feeds

    @property
    def is_closed(self) -> bool:
        """Whether it, its channel or its node is closed."""
        return self._target.is_closed

    def statistics(self) -> SinkStatistics:
        """What it has counted so far, and what is queued now."""
        with books.changing():
            return self._target.statistics()

    def close(self, linger_s: float = 1.0) -> None:
        """No more events are taken; what is queued can still be had by iterating.

        A handler on a thread of its own gets `linger_s` for the event that it is at. A call that was
        interrupted is completed by the next one.
        """
        if ending.stop(self._membership, self._target):
            self._target.join(linger_s)

    def __repr__(self) -> str:
        wanted = self._target.wanted
        cls = "anything" if wanted.cls is None else wanted.cls.__qualname__
        return f"Sink({cls} from {self.sources} sources of `{self._membership.name}`)"


def make_sink(
    membership: Membership,
    wanted: Wanted,
    function: Callable[..., object] | None,
    *,
    own_thread: bool,
    backlog: Backlog,
) -> tuple[Sink[Any], Target]:
    """A sink, and its working part for the channel to connect."""
    if own_thread and function is None:
        raise unexpected(
            ChannelError,
            "a handler for the sink's own thread",
            "none",
            hint="without a handler, iterate the sink in a thread of yours",
        )
    home = membership.home

    def failed(target: Target, error: BaseException) -> None:
        if home.on_failure is not None:
            home.on_failure(known() or Sink[Any](membership, target), error)

    handler = Handler(
        function,
        channel=lambda: membership.name,
        expected="an event" if wanted.cls is None else f"`{wanted.cls.__qualname__}`",
        on_failure=failed,
    )
    has_queue = own_thread or function is None
    target = Target(wanted, handler, home.receptions, backlog if has_queue else None)
    sink = Sink[Any](membership, target)
    known = ref(sink)  # weak, as the sink refers to `failed`; a component that has dropped it takes any
    if own_thread:
        thread = OwnThread(partial(_handle_all, membership, target), f"echo-sink-{membership.name}")
        try:
            thread.start()
        except RuntimeError as error:
            msg = f"Expected a thread for a sink of channel `{membership.name}`: {error}"
            raise ChannelError(msg) from error
        target.thread = thread
    return sink, target


def _handle_all(membership: Membership, target: Target) -> None:
    """The main function of a sink's own thread."""
    assert target.queue is not None
    try:
        target.handler.run(target, target.queue)
    finally:  # nobody else takes what the queue would hold
        ending.stop(membership, target)
