"""A channel as one node has it: its sources and sinks here, and the processes that are on it too.

Called with the books open, but where it says otherwise. Nodes of one process that are on the same channel
connect their sources and sinks directly, unless one of them does not join in process.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeVar

from echo_core._c import links
from echo_core.errors import ClosedError, IncompatibleError
from echo_core.formats.compare import compare
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.roster.announcements import HERE, Announcements
from echo_core.roster.bookkeeping import books
from echo_core.roster.ids import ChannelId
from echo_core.roster.peers import Peer
from echo_core.roster.places import Limits, Place
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.origins import Origin
from echo_core.streams.outgoing import OutgoingStream
from echo_core.streams.receptions import Receptions, Wanted
from echo_core.streams.targets import Target
from echo_core.transports.wires.connecting import POOL_BLOCK_BYTES, POOL_BYTES
from echo_core.values.backlog import nanoseconds
from echo_core.values.notices import (
    EventsLost,
    Notice,
    PeerJoined,
    PeerLeft,
    SourceClosed,
    SourceOpened,
)
from echo_core.values.statistics import ChannelStatistics, SinkStatistics, SourceStatistics

_Counts = TypeVar("_Counts", SourceStatistics, SinkStatistics)


@dataclass(slots=True, eq=False)
class Home:
    """What all channels and links of one node share."""

    name: str
    place: Place
    limits: Limits
    on_failure: Callable[[Any, BaseException], object] | None
    id: bytes = field(default_factory=partial(secrets.token_bytes, 16))
    addresses: tuple[str, ...] = ()  # where others can link to it, once it listens
    is_closed: bool = False
    receptions: Receptions = field(default_factory=Receptions)
    memberships: dict[bytes, Membership] = field(default_factory=dict[bytes, "Membership"])  # by channel
    _pool: links.Pool | None = None

    @property
    def joins_in_process(self) -> bool:
        return "process" in self.place.transports

    def pool(self) -> links.Pool | None:
        """Memory that other processes read in place; made when first asked for. Opens the books itself."""
        with books.changing():
            if self._pool is None and self.place.shares_memory and not self.is_closed:
                self._pool = links.Pool(block_bytes=POOL_BLOCK_BYTES, blocks=POOL_BYTES // POOL_BLOCK_BYTES)
            return self._pool

    def close_pool(self) -> None:
        """Its memory goes with whoever else refers to it. Opens the books itself."""
        with books.changing():
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


_memberships_by_uid: dict[bytes, list[Membership]] = {}


def here(uid: bytes) -> list[Membership]:
    """The nodes of this process that are on a channel."""
    return _memberships_by_uid.get(uid, [])


def forget_all() -> None:
    """In a forked child: the parent's nodes are not here."""
    _memberships_by_uid.clear()


class Membership:
    """One channel of one node, for all components here that have opened it."""

    __slots__ = (
        "_ending",
        "_gone_sinks",
        "_gone_sources",
        "_incoming",
        "_origins",
        "_peers",
        "_targets",
        "announcements",
        "handles",
        "home",
        "id",
        "is_closing",
        "is_proven",
        "name",
        "types",
    )

    def __init__(self, home: Home, id_: ChannelId, name: str, types: tuple[Format, ...]) -> None:
        self.home = home
        self.id = id_
        self.name = name
        self.types = types
        self.handles = 1  # of who makes it; an interrupt never finds a channel open that nobody could close
        self.is_closing = False
        self.is_proven = False  # whether its key is known to be the channel's
        self.announcements = Announcements()
        self._origins: list[Origin] = []
        self._targets: list[Target] = []
        self._peers: list[Peer] = []
        self._incoming: list[IncomingStream] = []
        self._ending: list[Origin] = []  # closed, but what they have queued may yet be dropped
        self._gone_sources = SourceStatistics(*[0] * 8)  # so that the channel's counts never fall
        self._gone_sinks = SinkStatistics(*[0] * 10)
        together = _memberships_by_uid.setdefault(id_.uid, [])
        home.memberships[id_.uid] = self  # no call from here on: Ctrl-C finds it in both, or in neither
        together += [self]

    # -----------------------------------------------------------------------
    # Sources and sinks here

    def add_origin(self, origin: Origin) -> None:
        self._origins.append(origin)
        for other in self._together():
            for target in other._targets:
                other._connect(origin, target)
        for peer in self._peers:
            self._offer(peer, origin)
        for other in self._together():
            other.announcements.tell(SourceOpened(HERE, origin.name, origin.format))

    def add_target(self, target: Target) -> None:
        self._targets.append(target)
        for other in self._together():
            for origin in other._origins:
                self._connect(origin, target)
        for stream in self._incoming:
            self._feed(stream, [target])

    def _connect(self, origin: Origin, target: Target) -> None:
        """A source and a sink of this process."""
        found = target.accept(origin.local, origin.cls)
        if isinstance(found, links.Delivery):
            origin.local.add(target, found, is_direct=target.takes(origin.cls))
        elif self._concern_each_other(origin.format, target.wanted):
            target.refuse(origin.local, found)
            origin.note_unreachable(target, str(found))
            self.announcements.tell_unreachable(self.name, HERE, origin.name, found)

    def _feed(self, stream: IncomingStream, targets: Sequence[Target]) -> None:
        """A source elsewhere and sinks of this node."""
        for problem in stream.feed(targets, self._concern_each_other):
            self.announcements.tell_unreachable(self.name, stream.peer, stream.name, problem)

    def _concern_each_other(self, sender: Format, wanted: Wanted) -> bool:
        """Whether a sink ought to take a source's events: not where each fits another of several types."""
        if len(self.types) < 2 or wanted.cls is None:
            return True
        receiver = format_of(wanted.cls)
        return any(
            compare(sender, type_).is_accepted and compare(type_, receiver, lossy=wanted.is_lossy).is_accepted
            for type_ in self.types
        )

    def demand_known_type(self, format_: Format, *, is_sink: bool, lossy: bool = False) -> None:
        """IncompatibleError where a type fits none of those that the channel was declared with."""
        reports = [
            compare(type_, format_, lossy=lossy) if is_sink else compare(format_, type_)
            for type_ in self.types
        ]
        if reports and not any(report.is_accepted for report in reports):
            declared = ", ".join(f"`{type_.name}`" for type_ in self.types)
            nearest = min(reports, key=lambda report: len(report.refused))
            msg = f"Expected a type that fits channel `{self.name}` of {declared}"
            raise IncompatibleError(msg, path=nearest.refused[0].path, hint=str(nearest))  # lines, so last

    # -----------------------------------------------------------------------
    # Closing sources and sinks; opens the books itself

    def stop(self, target: Target) -> bool:
        """Ends a sink without waiting for its handler; whether it was open.

        What an interrupt has left of it is done by the next call. The queue is closed also where one comes.
        """
        try:
            with books.changing():
                was_open, target.is_closed = not target.is_closed, True
                target.close_late()
                self._remove_target(target)
            return was_open
        finally:
            target.close_queue()

    def _remove_target(self, target: Target) -> None:
        """What can be done twice comes first, as an interrupt may have it begin again."""
        if not self._has(target, self._targets):
            return
        for other in self._together():
            for origin in other._origins:
                origin.forget_unreachable(target)
                origin.local.remove(target)
                other.announcements.tell_drops_of(origin)
        for stream in self._incoming:
            if stream.remove(target):
                stream.feed(stream.take_refusing(), self._concern_each_other)
        self._targets.remove(target)
        self._gone_sinks = _sum(SinkStatistics, [self._gone_sinks, target.statistics()])

    def close_origin(self, origin: Origin, linger_s: float) -> None:
        """Ends a source; waits, for `linger_s` at most, until what is queued has left."""
        try:
            with books.changing():
                origin.is_closed = True
            self._remove_origin(origin, linger_s)
        finally:  # also when the wait is interrupted
            origin.outlet.close()
            with books.changing():
                origin.unreachable.clear()  # who answered is a link, or a sink

    def _remove_origin(self, origin: Origin, linger_s: float) -> None:
        with books.changing():
            if not self._has(origin, self._origins):
                return
            origin.local.end()
            self.announcements.tell_drops_of(origin)
            ways = {stream.link for stream in origin.streams}
            for peer in self._peers:
                stream = peer.stream_of(self.id.uid, origin)
                if stream is not None:
                    stream.withdraw()
            for other in self._together():
                for target in other._targets:
                    target.forget_refusal(origin.local)
                other.announcements.tell(SourceClosed(HERE, origin.name, origin.format))
            self._origins.remove(origin)
            self._ending.append(origin)
            self._settle()
        limit = time.monotonic() + linger_s
        for way in ways:
            with contextlib.suppress(ClosedError):  # it is the process's that has forked this one
                way.drain(nanoseconds(max(0.0, limit - time.monotonic())))

    def _has(self, end: object, ends: Sequence[object]) -> bool:
        """Nothing in a forked child: what is in the lists there is the parent's."""
        return end in ends and self in here(self.id.uid)

    def end(self, targets: Sequence[Target], origins: Sequence[Origin], limit: float) -> None:
        """Closes them: sinks at once, sources when what is queued has left; also when that is interrupted."""
        for target in targets:
            target.is_leaving = True
        try:
            self._end_in_time(targets, origins, limit)  # no loop here: CPython 3.13 jumps back outside `try`
        finally:
            for target in targets:
                self.stop(target)
            for origin in origins:
                self.close_origin(origin, 0.0)

    def _end_in_time(self, targets: Sequence[Target], origins: Sequence[Origin], limit: float) -> None:
        for target in [target for target in targets if self.stop(target)]:
            target.join(max(0.0, limit - time.monotonic()))
        for origin in origins:
            self.close_origin(origin, max(0.0, limit - time.monotonic()))

    def flush(self, origin: Origin, timeout_s: float | None) -> None:
        """Returns when every peer has handed over all of a source's events. LinkError: a link was lost."""
        with books.changing():
            self.announcements.tell_drops_of(origin)
            streams = [peer.stream_of(self.id.uid, origin) for peer in self._peers]
        limit = None if timeout_s is None else time.monotonic() + timeout_s
        for stream in streams:
            left_s = None if limit is None else max(0.0, limit - time.monotonic())
            if stream is not None:
                _flush(origin, stream, left_s, asked_s=timeout_s)

    # -----------------------------------------------------------------------
    # Other processes

    def add_peer(self, peer: Peer) -> None:
        self._peers.append(peer)
        for origin in self._origins:
            self._offer(peer, origin)
        self.announcements.tell(PeerJoined(str(peer)))

    def _offer(self, peer: Peer, origin: Origin) -> None:
        if not self.is_together_with(peer.node_id):
            peer.offer(self.id.uid, origin, self.name)

    def remove_peer(self, peer: Peer, reason: str) -> None:
        """A process has left the channel, or its link is lost."""
        if peer not in self._peers:
            return
        self._peers.remove(peer)
        for origin in self._origins:
            origin.forget_unreachable(peer.link)
        for stream in [stream for stream in self._incoming if stream.link is peer.link]:
            self.remove_incoming(stream)
        self.announcements.tell(PeerLeft(str(peer), reason))

    def add_incoming(self, stream: IncomingStream) -> None:
        self._incoming.append(stream)
        self._feed(stream, list(self._targets))
        self.announcements.tell(SourceOpened(stream.peer, stream.name, stream.format))

    def remove_incoming(self, stream: IncomingStream) -> None:
        """Its source is closed, or its process has gone."""
        self._incoming.remove(stream)
        self.announcements.tell_losses_of(stream)
        stream.end()
        for target in self._targets:
            target.forget_refusal(stream)
        self.announcements.tell(SourceClosed(stream.peer, stream.name, stream.format))

    def learn(self, name: str, types: tuple[Format, ...]) -> None:
        """What another process has said of the channel."""
        self.name = self.name or name
        self.types = self.types or types

    @property
    def peers(self) -> tuple[Peer, ...]:
        return tuple(self._peers)

    def acquaintances(self) -> list[tuple[bytes, tuple[str, ...]]]:
        """The other nodes on the channel that this one knows of, and where they can be reached."""
        others = [(other.home.id, other.home.addresses) for other in self._together() if other is not self]
        return others + [(peer.node_id, peer.addresses) for peer in self._peers]

    def is_together_with(self, node_id: bytes) -> bool:
        """Whether events reach a node without a link; over one they would come a second time."""
        return any(other.home.id == node_id for other in self._together())

    def _together(self) -> list[Membership]:
        """This node's, and those of other nodes in the process that it meets directly."""
        if not self.home.joins_in_process:
            return [self]
        return [other for other in here(self.id.uid) if other is self or other.home.joins_in_process]

    # -----------------------------------------------------------------------
    # What components are told

    def tick(self) -> None:
        """Tells what sources and sinks have dropped since it was last told."""
        for origin in self._origins:
            self.announcements.tell_drops_of(origin)
        for stream in self._incoming:
            self.announcements.tell_losses_of(stream)
        self._settle()

    def dropped_elsewhere(self, peer: Peer, origin: Origin, events: int) -> None:
        """A sink elsewhere has dropped events of a source here."""
        origin.dropped_elsewhere += events
        self.announcements.tell(EventsLost(str(peer), origin.name, events))

    def refused_elsewhere(self, peer: Peer, origin: Origin, text: str) -> None:
        """A sink elsewhere cannot take a source's events."""
        is_first = origin.note_unreachable(peer.link, text)
        self.announcements.tell_unreachable_elsewhere(
            self.name, str(peer), origin.name, text, is_first=is_first
        )

    def present(self) -> Iterator[Notice]:
        """Who is there now. A process stands before its sources."""
        for other in self._together():
            for origin in other._origins:
                yield SourceOpened(HERE, origin.name, origin.format)
        for peer in self._peers:
            yield PeerJoined(str(peer))
        for stream in self._incoming:
            yield SourceOpened(stream.peer, stream.name, stream.format)

    # -----------------------------------------------------------------------
    # Statistics; opens the books itself

    def _settle(self) -> None:
        """Lets go of closed sources that nothing is left of."""
        settled = [origin for origin in self._ending if origin.is_settled]
        self._ending = [origin for origin in self._ending if origin not in settled]
        if settled:
            gone = [self._gone_sources, *(origin.statistics() for origin in settled)]
            self._gone_sources = _sum(SourceStatistics, gone)

    def statistics(self) -> ChannelStatistics:
        """With what sources and sinks that are closed had counted."""
        with books.changing():
            self._settle()
            sending = [origin.statistics() for origin in (*self._origins, *self._ending)]
            taking = [target.statistics() for target in self._targets]
            waiting: list[SourceStatistics | SinkStatistics] = [*sending, *taking]
            sent = _sum(SourceStatistics, [self._gone_sources, *sending])
            taken = _sum(SinkStatistics, [self._gone_sinks, *taking])
            return ChannelStatistics(
                sources=len(self._origins),
                sinks=len(self._targets),
                peers=len(self._peers),
                remote_sources=len(self._incoming),
                remote_sinks=sum(origin.remote_sinks for origin in self._origins),
                submitted_events=sent.events,
                submitted_bytes=sent.size_bytes,
                dropped=sent.dropped,
                dropped_at_sinks=sent.dropped_at_sinks,
                received_events=taken.events,
                received_bytes=taken.size_bytes,
                lost=taken.lost,
                dropped_here=taken.dropped,
                queued_events=sum(each.queued_events for each in waiting),
                queued_bytes=sum(each.queued_bytes for each in waiting),
            )

    # -----------------------------------------------------------------------
    # Opening and closing; opens the books itself

    def demand_open(self) -> None:
        if self.is_closing or self not in here(self.id.uid):
            msg = f"Expected channel `{self.name}` to be open, it has been closed"
            raise ClosedError(msg)

    def let_go(self) -> None:
        """One handle less; the last one closes the channel here, at once."""
        try:
            with books.changing():
                self.handles -= 1
            if self.handles == 0:
                self.close(0.0)
        except BaseException:  # an interrupt: else nobody in this process could open the channel any more
            if self.handles == 0:
                self.close(0.0)
            raise

    def close(self, linger_s: float) -> None:
        """Everything here ends: sinks at once, sources when what is queued has left or time is up."""
        try:
            with books.changing():
                self.is_closing = True
            self.end(list(self._targets), list(self._origins), time.monotonic() + linger_s)
        except BaseException:  # an interrupt, which may have come before `end` could see to it
            self.end(list(self._targets), list(self._origins), time.monotonic())
            raise
        finally:
            self._leave()

    def _leave(self) -> None:
        with books.changing():
            if self not in here(self.id.uid):
                return
            for peer in list(self._peers):
                try:
                    self.remove_peer(peer, "")
                finally:
                    peer.leave(self.id.uid)  # which ends a link that no channel needs any longer
            self.home.memberships.pop(self.id.uid, None)
            together = here(self.id.uid)
            together.remove(self)  # late: an interrupt before it lets this begin again
            if not together:
                del _memberships_by_uid[self.id.uid]

    def abandon(self) -> None:
        """In a forked child: what is the parent's is closed here, and nobody is told."""
        self.is_closing = True
        for target in self._targets:
            target.abandon()
        for origin in self._origins:
            origin.abandon()


def _flush(origin: Origin, stream: OutgoingStream, timeout_s: float | None, *, asked_s: float | None) -> None:
    """Whoever leaves the channel meanwhile needs no more. `asked_s`: the time given to all peers together."""
    conversation = stream.conversation
    with books.changing():
        sequence = origin.outlet.sequence
        number = stream.ask_flush()
    if number is None:
        return
    try:
        books.wait_for(
            lambda: number not in conversation.unanswered or stream.has_ended,
            timeout_s,
            lambda: f"an answer from {conversation.name}",
            asked_s=asked_s,
        )
        with books.changing():
            if number not in conversation.unanswered:
                stream.note_flushed(sequence)
            elif stream.was_cut:
                raise conversation.lost()
    finally:
        with books.changing():
            conversation.unanswered.discard(number)


def _sum(cls: type[_Counts], counts: Sequence[_Counts]) -> _Counts:
    """Field by field."""
    return cls(**{each.name: sum(getattr(count, each.name) for count in counts) for each in fields(cls)})
