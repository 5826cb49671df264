"""Channels: what components open, and put sources and sinks on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import starmap
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from echo_core._c import locks
from echo_core.codegen.codecs import FormatEncoder, encoder
from echo_core.codegen.expressions.deriving import Selection, derive
from echo_core.codegen.expressions.reading import Expression
from echo_core.errors import ChannelError, ClosedError, unexpected
from echo_core.formats.abi import Abi
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.keys import place_of_key
from echo_core.handles.closing import Closing
from echo_core.handles.options import (
    Match,
    demand_flag,
    demand_handler,
    demand_name,
    is_by_shape,
    keep_of,
    option,
)
from echo_core.handles.parameters import requested
from echo_core.handles.sinks import Sink, make_sink
from echo_core.handles.sources import Source
from echo_core.roster import derivations, ending, matching, presence, requests
from echo_core.roster.belonging import demand_sink_type, demand_source_type
from echo_core.roster.bookkeeping import books
from echo_core.roster.flushing import flushing
from echo_core.roster.memberships import Membership
from echo_core.roster.opening import Opening
from echo_core.roster.requests import Requester
from echo_core.roster.telling import tell
from echo_core.streams.origins import Origin
from echo_core.streams.receptions import Wanted
from echo_core.streams.targets import Target
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.messages import Standing
from echo_core.values.backlog import Backlog, nanoseconds
from echo_core.values.event_info import EventInfo
from echo_core.values.keep import Keep
from echo_core.values.members import Member
from echo_core.values.notices import Notice
from echo_core.values.statistics import ChannelStatistics
from echo_core.values.waits import DEFAULT_WAIT_S, Waits

if TYPE_CHECKING:
    from echo_core.handles.derived import DerivedChannel
    from echo_core.handles.recorders import Compression, LevelName, OnFull, Recorder
    from echo_core.logs.described import Retain, Rotate

T = TypeVar("T")
U = TypeVar("U")


class Channel(Closing, Generic[T]):
    """One component's handle on a channel; what it has put on the channel is closed with it.

    Made by `create_channel` and `open_channel`. Events of several types may share a channel: each sink takes
    those that its type can be reached from.
    """

    __slots__ = (
        "_cls",
        "_membership",
        "_opening",
        "_origins",
        "_requester",
        "_targets",
        "_watches",
        "is_closed",
    )

    def __init__(self, membership: Membership, cls: type[T] | None, opening: Opening) -> None:
        """Takes over one of the membership's handles."""
        self._membership = membership
        self._opening = opening
        self._cls = cls
        self._origins: list[Origin] = []
        self._targets: list[Target] = []
        self._watches: list[Watch] = []
        self._requester: Requester | None = None  # until it requests something
        self.is_closed = False

    @property
    def id(self) -> str:
        """Who has this text can open the channel, while one of the members is there that it names.

        It names up to four: the creator, this node, others. So it changes with who is there.
        """
        with books.changing():
            return str(presence.invitation(self._membership))

    @property
    def identity(self) -> str:
        """The text that outlives whoever is on the channel: `create_channel(identity=...)` makes it again.

        It is a secret like `id`, and does not change. Once its creator has asked for it, nobody else on this
        host can create the channel until that one has closed it, or ended.

        Raises:
            RefusedError: another process holds the channel already; `code` is "held".
            ClosedError: the channel is closed.
        """
        self._demand_open()
        return str(self._opening.keep(self._membership))

    @property
    def name(self) -> str:
        """What its creator has called it."""
        return self._membership.name

    @property
    def types(self) -> tuple[Format, ...]:
        """The formats that the channel was declared with."""
        return self._membership.types

    # -----------------------------------------------------------------------
    # Sources and sinks

    @overload
    def source(
        self,
        cls: None = None,
        *,
        name: str = "",
        abi: str | Abi = "native",
        backlog: Backlog | None = None,
        latency_budget_s: float = 0.0,
        keep: int | Keep = 0,
        timestamps: bool = False,
    ) -> Source[T]: ...

    @overload
    def source(
        self,
        cls: type[U],
        *,
        name: str = "",
        abi: str | Abi = "native",
        backlog: Backlog | None = None,
        latency_budget_s: float = 0.0,
        keep: int | Keep = 0,
        timestamps: bool = False,
    ) -> Source[U]: ...

    @overload
    def source(
        self,
        cls: Format,
        *,
        name: str = "",
        backlog: Backlog | None = None,
        latency_budget_s: float = 0.0,
        keep: int | Keep = 0,
        timestamps: bool = False,
    ) -> Source[Any]: ...

    def source(
        self,
        cls: type[Any] | Format | None = None,
        *,
        name: str = "",
        abi: str | Abi = "native",
        backlog: Backlog | None = None,
        latency_budget_s: float = 0.0,
        keep: int | Keep = 0,
        timestamps: bool = False,
    ) -> Source[Any]:
        """A source of events.

        Arguments:
            cls: the class of its events; by default that of the channel. With a Format instead, the source
                sends events of whichever class has this format, and records that are laid out so.
            name: what others are told of it.
            abi: lays events out as another machine would.
            backlog: how much may be queued for each other process, and what happens then.
            latency_budget_s: how long events may be held back, to be sent together.
            keep: so many of the last events are kept, and are the first that a sink gets which comes later; a
                `Keep` says of each value of which field.
            timestamps: each event goes with the time at which it was submitted, `EventInfo.submitted_ns`.

        Raises:
            ChannelError: no class is known, or it is one of several, or an argument is wrong; or the channel
                is derived from another one, whose sources are its sources.
            FormatError: the class cannot be laid out, or has no field to keep events by.
            IncompatibleError: it fits no type of the channel.
            ClosedError: the channel is closed.

            with channel.source(Particle) as source:
                source.submit(Particle(id=1, temperature=300.0))
        """
        self._demand_open()
        self._demand_underived()
        declared, bound = self._class(cls), option(Backlog, backlog)
        format_ = declared if isinstance(declared, Format) else format_of(declared, abi=abi)
        event_class = None if isinstance(declared, Format) else declared
        demand_source_type(self.name, self.types, format_)
        demand_name(name)
        kept = keep_of(keep)
        key = None if kept is None or kept.per is None else place_of_key(format_, kept.per)
        demand_flag("timestamps", timestamps)
        encode = FormatEncoder(format_) if event_class is None else encoder(event_class, abi=abi)
        return self._begun(
            Origin(
                event_class,
                format_,
                encode,
                name=name or format_.name,
                backlog=bound,
                delay_ns=nanoseconds(latency_budget_s),
                pool=self._membership.home.pool(),
                keep=kept,
                key=key,
                has_times=timestamps,
            )
        )

    def _begun(self, origin: Origin) -> Source[Any]:
        with books.changing():
            self._demand_open()
            self._origins = [*(held for held in self._origins if not held.is_closed), origin]
            self._membership.add_origin(origin)
        return Source(self._membership, origin)

    @overload
    def sink(
        self,
        cls: type[U],
        handler: Callable[[U], object] | None = None,
        *,
        batch: Literal[False] = False,
        own_thread: bool = False,
        backlog: Backlog | None = None,
        lossy: bool = False,
        match: Match = "name",
        strict: bool = False,
    ) -> Sink[U]: ...

    @overload
    def sink(
        self,
        cls: type[U],
        handler: Callable[[U, EventInfo], object],
        *,
        batch: Literal[False] = False,
        own_thread: bool = False,
        backlog: Backlog | None = None,
        lossy: bool = False,
        match: Match = "name",
        strict: bool = False,
    ) -> Sink[U]: ...

    @overload
    def sink(
        self,
        cls: type[Any] | None,
        handler: Callable[[Any], object] | Callable[[Any, EventInfo], object] | None = None,
        *,
        batch: bool = False,
        own_thread: bool = False,
        backlog: Backlog | None = None,
        lossy: bool = False,
        match: Match = "name",
        strict: bool = False,
    ) -> Sink[Any]: ...

    def sink(
        self,
        cls: type[Any] | None,
        handler: Callable[[Any], object] | Callable[[Any, EventInfo], object] | None = None,
        *,
        batch: bool = False,
        own_thread: bool = False,
        backlog: Backlog | None = None,
        lossy: bool = False,
        match: Match = "name",
        strict: bool = False,
    ) -> Sink[Any]:
        """A sink of events, whatever version of its class their sources have.

        Arguments:
            cls: the class of its events; None takes events of all types.
            handler: called with each event, and where it has two parameters without defaults, with its
                `EventInfo` too; without a handler, use `get`, `for` or `async for`.
            batch: events come as numpy structured arrays, as many as have arrived at once.
            own_thread: the handler has a thread of its own, so that it may be slow.
            backlog: how much may be queued for that thread or for the loop, and what happens then.
            lossy: also take types whose values may not fit; an event with such a value is reported and not
                delivered.
            match: "name" takes what is called as `cls` is, by its name or a former one; "shape" whatever has
                fields that convert. Events whose format has no name, such as a numpy dtype's, match by shape.
            strict: refuse sources that have a field with a name similar to one that takes its default; else
                that is only told of.

        Raises:
            ChannelError: an argument is wrong.
            FormatError: the class cannot be laid out, or has no arrays.
            IncompatibleError: it fits no type of the channel, or is called otherwise.
            ClosedError: the channel is closed.

            channel.sink(Particle, lambda particle: print(particle.temperature))
        """
        self._demand_open()
        demand_handler(handler, hint="without a handler, take the events with `async for`")
        bound = option(Backlog, backlog)
        wanted = Wanted(cls, batch, lossy, by_shape=is_by_shape(match), is_strict=strict)
        if cls is not None:
            if batch:
                _ = format_of(cls).dtype  # FormatError: there are none of records that vary in size
            demand_sink_type(self.name, self.types, wanted)
        ready = matching.make_ready(self._membership, wanted)
        with books.changing():
            self._demand_open()
            sink, target = make_sink(self._membership, wanted, handler, own_thread=own_thread, backlog=bound)
            self._targets = [*(held for held in self._targets if not held.is_closed), target]
            self._membership.add_target(target)
        del ready  # the sink has it
        matching.catch_up(target)
        return sink

    def derive(
        self,
        cls: type[Any] | Format | None = None,
        *,
        where: Expression | None = None,
        select: Selection | None = None,
        on_change: Expression | None = None,
        every: int = 1,
        min_interval_s: float = 0.0,
        name: str = "",
        **parameters: object,
    ) -> DerivedChannel:
        """A channel of those events that pass, or of what is selected of them: the sources do the work.

        An event that does not pass is neither encoded nor sent. Whoever has the id of the derived channel
        gets what comes there, and nothing of this one.

        Arguments:
            cls: of which events; by default those of the one type that the channel was declared with.
            where: a condition in text, or a lambda or function of one parameter, as in `echo.where`.
            select: names of fields, or new names with expressions, as in `echo.select`.
            on_change: a value; events pass where it differs from that of the last that `where` let pass.
            every: of those that have come so far the first passes, and then one of so many.
            min_interval_s: how long after one that has passed no other does, at each source.
            name: what the selected events are called; without one they are known by their shape.
            parameters: values of the names that expressions use; `DerivedChannel.set` changes them.

        Raises:
            ExpressionError: an expression is none, or does not fit the fields; the message points into it.
            ChannelError: no type is known, or it is one of several.
            ClosedError: the channel is closed.

            hot = channel.derive(where="temperature > limit", limit=300.0)
            hot.sink(Particle, print)
        """
        from echo_core.handles.derived import condition_of, derived_from

        self._demand_open()
        declared = self._known_type(cls)
        format_ = declared if isinstance(declared, Format) else format_of(declared)
        derived = derive(
            format_.record,
            where=condition_of(where, on_change, select, every=every, min_interval_s=min_interval_s),
            select=select,
            on_change=on_change,
            every=every,
            min_interval_s=min_interval_s,
            name=name,
            parameters=parameters,
        )
        return derived_from(self._membership, declared, derived, name, self._opening)

    def request(
        self, /, *, timeout_s: float | None = DEFAULT_WAIT_S, **values: bool | float | str | None
    ) -> list[str]:
        """Requests values of the parameters of all sources that have them, also of those that come later.

        They hold until this handle requests another value, or None, which is nothing any more; until it is
        closed, or its process ends. Each source merges what all request of it.

        Arguments:
            timeout_s: how long the answers may take; None is without limit. The request holds all the same.
            values: the value of each parameter, by its name.

        Returns:
            The `EventInfo.source_id` of the sources that have any of them, and have answered; none where
            there are no sources yet. Those of members that it has yet to be linked to are waited for.

        Raises:
            ChannelError: sources are there, and none has such a parameter; or one cannot have the value, and
                then nothing is requested. Also where only the id of a derived channel is known: it grants no
                more than what comes there; and in a handler on a thread that reads a link, where sources
                elsewhere would have to answer: nothing is requested then, either.
            TimedOutError: not all have answered in time; the message names those that have not.
            ClosedError: the channel is closed.

            channel.request(resolution=128, timeout_s=1)
        """
        self._demand_open()
        root = derivations.root_of(self._membership)
        if root.id.is_derived:
            expected = "a channel whose sources can be asked"
            hint = "open the one that it is derived from"
            raise unexpected(ChannelError, expected, f"the derived `{self.name}` alone", hint=hint)
        if self._requester is None or self._requester.membership is not root:
            self._requester = Requester(root)
        return requested(self._requester, values, timeout_s)

    def members(self) -> tuple[Member, ...]:
        """The other nodes on the channel, as far as this one has heard; those that it is linked to first.

        It takes a moment to hear of all after the channel was opened.

            print([member.name for member in channel.members() if member.has_sources])
        """
        with books.changing():
            self._demand_open()
            attendance = self._membership.attendance
            return tuple(starmap(_described, attendance.others()))

    def watch(self, handler: Callable[[Notice], object], *, everywhere: bool = False) -> Watch:
        """Reports who comes and goes, which types do not fit, and which events were lost.

        Arguments:
            handler: called with a `Notice` for each process and source there is, before this returns; then,
                by a thread of its own, for each change in order, until the returned `Watch` is closed. One
                that is slow holds up other notices and nothing else.
            everywhere: also of sources that no sink here has use for: this node links to all who have any.

        Raises:
            ChannelError: the handler cannot be called.
            ClosedError: the channel is closed.

            watch = channel.watch(print)
        """
        demand_handler(handler)
        demand_flag("everywhere", everywhere)
        watch = Watch(handler, self._membership, everywhere=everywhere)
        with watch.in_turn():
            with books.changing():
                self._demand_open()
                self._watches = [*(held for held in self._watches if not held.is_closed), watch]
                present = watch._begin()  # pyright: ignore[reportPrivateUsage] - this module
            for notice in present:
                tell(partial(watch._call, notice))  # pyright: ignore[reportPrivateUsage] - this module
        return watch

    def record(
        self,
        path: str | PathLike[str],
        *,
        level: LevelName = "buffered",
        compress: Compression | None = None,
        where: Expression | None = None,
        on_full: OnFull = "drop",
        rotate: Rotate | None = None,
        retain: Retain | None = None,
        before_s: float | None = None,
    ) -> Recorder:
        """Keeps what flows here in a log, of whatever types, until the recorder is closed, or this handle.

        Arguments: path, level, compress, where, on_full, rotate, retain, before_s: as for `echo.record`,
        whose log may be of several channels.

        Raises what that does.

            with channel.record("run.echolog") as recorder:
                source.submit(Particle(id=1, temperature=300.0))
        """
        from echo_core.handles.recorders import record

        return record(
            self,
            path,
            level=level,
            compress=compress,
            where=where,
            on_full=on_full,
            rotate=rotate,
            retain=retain,
            before_s=before_s,
        )

    # -----------------------------------------------------------------------
    # Its life

    def statistics(self) -> ChannelStatistics:
        """What the channel's sources and sinks in this node have counted, closed ones included."""
        return self._membership.statistics()

    def drain(self, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """Blocks until all that this handle's sources have submitted has arrived in every other process.

        Sources and sinks go on; events that are submitted meanwhile are not waited for. Before the end:

            channel.drain(timeout_s=2)
            channel.close()

        Arguments:
            timeout_s: how long; None is without limit.

        Raises:
            TimedOutError: not all have answered in time; the message has each process that has not, and how
                many events of which source may not have arrived there.
            LinkError: a link was lost, with events that may not have arrived. Raised once.
            ClosedError: the channel is closed.
        """
        books.wait_for_all(self._draining(), timeout_s)

    async def drain_async(self, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """As `drain`, for a task of an event loop, which goes on meanwhile.

        await channel.drain_async(timeout_s=2)
        """
        await books.await_all(self._draining(), timeout_s)

    def _draining(self) -> Waits:
        self._demand_open()
        with books.changing():
            origins = [origin for origin in self._origins if not origin.is_closed]
            streams = self._membership.streams_of(origins)
        yield from flushing(origins, streams)

    def close(self, linger_s: float = 1.0) -> None:
        """Closes this handle's sinks, then its sources, which get `linger_s` to send what is queued.

        A call that was interrupted is completed by the next one.
        """
        limit = time.monotonic() + linger_s
        try:
            with books.changing():
                self._let_go()
        except BaseException:
            limit = time.monotonic()  # who interrupts does not want to wait
            raise
        finally:
            self._end(limit)

    def __repr__(self) -> str:
        return f"Channel({self.name!r}, {self._membership.id!r})"

    # -----------------------------------------------------------------------
    # Inside

    def _let_go(self) -> None:
        """Whatever an interrupt parts, a second time does the rest and nothing twice."""
        if self._requester is not None:
            requests.withdraw(self._requester)
        if not self.is_closed:
            self.is_closed, self._membership.handles = True, self._membership.handles - 1
        for watch in self._watches:
            watch._stop()  # pyright: ignore[reportPrivateUsage] - this module

    def _end(self, limit: float) -> None:
        try:
            ending.end(self._membership, self._targets, self._origins, limit)
        finally:  # else nobody in this process could open the channel any more
            if self._membership.handles == 0:
                self._membership.close(max(0.0, limit - time.monotonic()))

    def _class(self, cls: type[Any] | Format | None) -> type[Any] | Format:
        if cls is not None:
            return cls
        if len(self.types) > 1:
            several = ", ".join(f"`{type_.name}`" for type_ in self.types)
            raise unexpected(ChannelError, f"one of the types of channel `{self.name}`: {several}", "none")
        if self._cls is None:
            raise unexpected(
                ChannelError,
                f"a class for a source on channel `{self.name}`",
                "none",
                hint="the channel was created without one, or elsewhere",
            )
        return self._cls

    def _demand_underived(self) -> None:
        if self._membership.id.is_derived:
            descent = self._membership.descent
            base = "the channel that it is derived from" if descent is None else f"`{descent.base.name}`"
            expected = "a channel that is not derived, for a source"
            raise unexpected(ChannelError, expected, f"`{self.name}`", hint=f"put it on {base}")

    def _known_type(self, cls: type[Any] | Format | None) -> type[Any] | Format:
        """A format is enough: that of the channel's one type, where it was declared elsewhere."""
        if cls is None and self._cls is None and len(self.types) == 1:
            return self.types[0]
        return self._class(cls)

    def _demand_open(self) -> None:
        if self.is_closed:
            msg = f"Expected channel `{self.name}` to be open, this handle has been closed"
            raise ClosedError(msg)
        self._membership.demand_open()


def _described(member: messages.Member, is_linked: bool) -> Member:
    standing = member.standing
    return Member(
        member.name,
        member.node_id,
        member.addresses,
        holds_channel=bool(standing & Standing.HOLDS),
        has_sources=bool(standing & Standing.SENDS),
        has_sinks=bool(standing & Standing.TAKES),
        is_linked=is_linked,
    )


def record_source(channel: Channel[Any], format_: Format, *, name: str, backlog: Backlog) -> Source[Any]:
    """A source of records as they lie, for what has been recorded: `submit` takes the bytes of one.

    They are not verified: who receives what breaks the rules takes it for this process's fault.
    """
    membership = channel._membership  # pyright: ignore[reportPrivateUsage] - this module
    channel._demand_open()  # pyright: ignore[reportPrivateUsage] - this module
    channel._demand_underived()  # pyright: ignore[reportPrivateUsage] - this module
    demand_source_type(channel.name, channel.types, format_)
    pool = membership.home.pool()
    named = name or format_.name
    origin = Origin(None, format_, bytes, name=named, backlog=backlog, delay_ns=0, pool=pool)
    return channel._begun(origin)  # pyright: ignore[reportPrivateUsage] - this module


def take_all(channel: Channel[Any], put_on: Callable[[Membership], Target]) -> None:
    """Has a target take what comes on the channel until this handle is closed."""
    with books.changing():
        channel._demand_open()  # pyright: ignore[reportPrivateUsage] - this module
        target = put_on(channel._membership)  # pyright: ignore[reportPrivateUsage] - this module
        held = [each for each in channel._targets if not each.is_closed]  # pyright: ignore[reportPrivateUsage] - this module
        channel._targets = [*held, target]  # pyright: ignore[reportPrivateUsage] - this module
    matching.catch_up(target)


class Watch(Closing):
    """A handler of notices, made by `Channel.watch`: it is told until this is closed, or the channel."""

    __slots__ = ("_everywhere", "_handler", "_membership", "_turn", "is_closed")

    def __init__(
        self, handler: Callable[[Notice], object], membership: Membership, *, everywhere: bool
    ) -> None:
        self._handler = handler
        self._everywhere = everywhere
        self._membership = membership
        self._turn = threading.RLock()
        self.is_closed = False

    def in_turn(self) -> locks.Held:
        """For `with`: what happens meanwhile is told after it, by the thread that tells."""
        return locks.Held(self._turn)

    def _tell(self, notice: Notice) -> None:
        with self.in_turn():
            self._call(notice)

    def _call(self, notice: Notice) -> None:
        if not self.is_closed:
            self._handler(notice)

    def _begin(self) -> list[Notice]:
        """What is there now, which is not told yet."""
        self._membership.announcements.add(self._tell)
        if self._everywhere:
            self._membership.onlookers.append(self)
            presence.stand(self._membership)
        return list(self._membership.present())

    def _stop(self) -> None:
        """What has happened by now is still told."""
        self._membership.announcements.remove(self._tell)
        if self in self._membership.onlookers:
            self._membership.onlookers.remove(self)
            presence.stand(self._membership)

    def close(self) -> None:
        """Nothing more is told; a call of the handler that is under way is not waited for."""
        self.is_closed = True
        with books.changing():
            self._stop()
