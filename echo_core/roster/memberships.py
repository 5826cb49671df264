"""A channel as one node has it: its sources and sinks here, and the processes that are on it too.

Called with the books open, but where it says otherwise. Nodes of one process that are on the same channel
connect their sources and sinks directly, unless one of them does not join in process.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from echo_core._c import links
from echo_core.codegen.machine.budgets import Budget
from echo_core.codegen.plain.counting import MostObjects
from echo_core.errors import ClosedError, LinkError
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.roster.announcements import Announcements
from echo_core.roster.attendance import EPOCH, HOLDS, SENDS, TAKES, Attendance, place_of, usable
from echo_core.roster.belonging import concern_each_other, in_words, made_ready
from echo_core.roster.bookkeeping import books
from echo_core.roster.counts import Counts
from echo_core.roster.ids import MAX_NAMED, ChannelId, Member
from echo_core.roster.peers import Peer
from echo_core.roster.places import Limits, Place
from echo_core.roster.seats import Seat
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.origins import Origin
from echo_core.streams.outgoing import OutgoingStream
from echo_core.streams.receptions import Receptions, Wanted
from echo_core.streams.resuming import Resuming
from echo_core.streams.targets import Feed, Target
from echo_core.transports.addresses import known_addresses
from echo_core.transports.protocol import messages
from echo_core.transports.threads import log
from echo_core.transports.wires import sockets
from echo_core.transports.wires.connecting import POOL_BLOCK_BYTES, POOL_BYTES
from echo_core.values.backlog import nanoseconds
from echo_core.values.notices import (
    HERE,
    EventsLost,
    HandlerSlow,
    Notice,
    PeerJoined,
    SourceClosed,
    SourceOpened,
)
from echo_core.values.statistics import ChannelStatistics


def no_door() -> None:
    """There is nobody yet who could look."""


@dataclass(slots=True, eq=False)
class Home:
    """What all channels and links of one node share."""

    name: str
    place: Place
    limits: Limits
    on_failure: Callable[[Any, BaseException], object] | None
    id: bytes = field(default_factory=partial(secrets.token_bytes, 16))
    host_id: bytes = field(default_factory=sockets.host_id)
    addresses: tuple[str, ...] = ()  # where others can link to it, once it listens
    wake: Callable[[], object] = no_door  # has the node look whom it has to be linked to, once it has a door
    is_closed: bool = False
    receptions: Receptions = field(init=False)
    memberships: dict[bytes, Membership] = field(default_factory=dict[bytes, "Membership"])  # by channel
    _pool: links.Pool | None = None

    def __post_init__(self) -> None:
        self.receptions = Receptions(MostObjects(self.limits.event_objects, "Limits.event_objects"))

    @property
    def joins_in_process(self) -> bool:
        return "process" in self.place.transports

    def pool(self) -> links.Pool | None:
        """Memory that other processes read in place; made when first asked for. Opens the books itself.

        LinkError: there is none, or no descriptor for it.
        """
        with books.changing():
            if self._pool is None and self.place.shares_memory and not self.is_closed:
                try:
                    self._pool = links.Pool(
                        block_bytes=POOL_BLOCK_BYTES, blocks=POOL_BYTES // POOL_BLOCK_BYTES
                    )
                except OSError as error:
                    msg = f"Expected memory for node `{self.name}` to share: {error.strerror}"
                    raise LinkError(msg) from error
            return self._pool

    def close_pool(self) -> None:
        """Its memory goes with whoever else refers to it. Opens the books itself."""
        with books.changing():
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


_MOST_NAMED = 3  # handlers, in one line of the log

_memberships_by_uid: dict[bytes, list[Membership]] = {}
_epochs = itertools.count(
    1
)  # each begins what a node says of itself on a channel above all that it has said there


def here(uid: bytes) -> list[Membership]:
    """The nodes of this process that are on a channel."""
    return _memberships_by_uid.get(uid, [])


def forget_all() -> None:
    """In a forked child: the parent's nodes are not here."""
    _memberships_by_uid.clear()


class Membership:
    """One channel of one node, for all components here that have opened it."""

    __slots__ = (
        "_counts",
        "_incoming",
        "_origins",
        "_peers",
        "_resuming",
        "_targets",
        "announcements",
        "attendance",
        "handles",
        "home",
        "id",
        "is_closing",
        "is_proven",
        "name",
        "seat",
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
        self.seat: Seat | None = None  # where this node holds the channel on this host
        self.announcements = Announcements()
        self._origins: list[Origin] = []
        self._targets: list[Target] = []
        self.attendance = self._attend()
        self._peers: list[Peer] = []
        self._incoming: list[IncomingStream] = []
        self._resuming = Resuming()
        self._counts = Counts()
        together = _memberships_by_uid.setdefault(id_.uid, [])
        home.memberships[id_.uid] = self  # no call from here on: Ctrl-C finds it in both, or in neither
        together += [self]

    # -----------------------------------------------------------------------
    # Who has to be linked

    def _attend(self) -> Attendance:
        home = self.home
        epoch = next(_epochs) * EPOCH
        own = messages.Member(0, home.id, epoch, self._standing, home.host_id, home.name, home.addresses)
        attendance = Attendance(own, forget_s=home.limits.forget_s, chance=random.Random())
        for member in self.id.members:
            attendance.name(member.node, tuple(map(str, member.addresses)), member.host)
        if home.place.is_local:
            attendance.name(self.id.uid, (str(self.id.seat),), home.host_id)
        return attendance

    def gather(self) -> None:
        """Meets the other nodes of this process that are on the channel."""
        now = time.monotonic()
        for mate in self._together():
            if mate is not self:
                self.attendance.meet(mate.attendance.own, now, is_here=True)
                mate.attendance.meet(self.attendance.own, now, is_here=True)
                mate.converse()
        self.converse()

    def hear_of(self, teller: bytes, member: messages.Member) -> None:
        """Another node tells of itself, or of a third one."""
        self.attendance.hear(teller, member, time.monotonic())
        rival = self.attendance.rival(teller)
        if rival is not None:
            self._settle_with(rival)
        self.converse()

    def _settle_with(self, rival: messages.Member) -> None:
        """Two hold the channel: the first in the order of all members goes on holding it.

        The other one keeps the seat of another host, so that who asks there for the channel is led to it.
        """
        own = self.attendance.own
        gives_way = place_of(rival) < place_of(own)
        if gives_way:
            self.id = replace(self.id, members=(_named(rival),))
            if self.seat is not None and rival.host_id == own.host_id:
                self.seat.give_up()
                self.seat = None
            self.stand()
        self.announcements.tell_held_twice(self.shown, own, rival, gives_way=gives_way)

    def converse(self) -> None:
        """Says what is to be said of members, to whom it is to be said."""
        peers = {peer.node_id: peer for peer in self._peers}
        mates = {mate.home.id: mate for mate in self._together()}
        for node_id, member in self.attendance.take_words():
            if (peer := peers.get(node_id)) is not None:
                peer.tell_member(self.id.uid, replace(member, addresses=usable(member, peer.host_id)))
            elif (mate := mates.get(node_id)) is not None:
                mate.hear_of(self.home.id, member)
        if self.attendance.is_due(time.monotonic()):
            self.home.wake()

    def stand(self) -> None:
        """Says what there is here, where that has changed."""
        self.attendance.stand(self._standing)
        self.converse()

    @property
    def _standing(self) -> int:
        what = ((HOLDS, self.is_creator), (SENDS, self._origins), (TAKES, self._targets))
        return sum(standing for standing, is_so in what if is_so)

    # -----------------------------------------------------------------------
    # Sources and sinks here

    def add_origin(self, origin: Origin) -> None:
        origin.channel = self.shown
        self._origins.append(origin)
        for other in self._together():
            for target in other._targets:
                other._connect(origin, target)
        for peer in self._peers:
            self._offer(peer, origin)
        for other in self._together():
            other.announcements.tell(SourceOpened(HERE, origin.name, origin.format))
        self.stand()

    def add_target(self, target: Target) -> None:
        self._targets.append(target)
        for other in self._together():
            for origin in other._origins:
                self._connect(origin, target)
        for stream in self._incoming:
            self._feed(stream, [target])
        self.stand()

    def catch_up(self, target: Target) -> None:
        """Hands a new sink what sources keep; runs handlers. Not with the books open."""
        behind = target.next_behind()
        while behind is not None:
            missed = None
            try:
                while missed is None:
                    behind.go_on()
                    with books.changing():
                        missed = behind.take_part()
            except BaseException:  # the thread is interrupted: the sink is there all the same
                with books.changing():
                    behind.take_part(is_due=True)
                raise
            target.note_missed(missed)
            behind = target.next_behind()

    def _connect(self, origin: Origin, target: Target) -> None:
        """A source and a sink of this process."""
        found = target.accept(origin.local, origin.cls)
        self._tell_lookalikes(HERE, origin.name, origin.local, target)
        if isinstance(found, links.Delivery):
            origin.local.add(target, found, is_direct=target.takes(origin.cls))
        elif found is not None and self._concern_each_other(origin.format, target.wanted):
            target.refuse(origin.local, found)
            origin.note_unreachable(target, str(found))
            self.announcements.tell_unreachable(self.name, HERE, origin.name, found)

    def _feed(self, stream: IncomingStream, targets: Sequence[Target]) -> None:
        """A source elsewhere and sinks of this node."""
        for problem in stream.feed(targets, self._concern_each_other):
            self.announcements.tell_unreachable(self.name, stream.peer, stream.name, problem)
        for target in targets:
            self._tell_lookalikes(stream.peer, stream.name, stream, target)

    def make_ready_for(self, sender: Format, budget: Budget) -> list[object]:
        """What its sinks make of a format that a source is about to have; not with the books open."""
        wanted = {target.wanted for target in tuple(self._targets)}
        return [made_ready(self.home.receptions, self.types, each, sender, budget) for each in wanted]

    def make_ready(self, wanted: Wanted) -> list[object]:
        """Likewise what a new sink will make of the formats of all sources elsewhere."""
        receptions, types = self.home.receptions, self.types
        streams = tuple(self._incoming)
        return [made_ready(receptions, types, wanted, each.format, each.budget) for each in streams]

    def _concern_each_other(self, sender: Format, wanted: Wanted) -> bool:
        return concern_each_other(self.types, sender, wanted)

    def _tell_lookalikes(self, peer: str, source: str, feed: Feed, target: Target) -> None:
        """Of fields where the sink takes the source's events, and of names where it does not."""
        report = target.comparison_with(feed)
        if report is not None and report.lookalikes:
            self.announcements.tell_lookalike_fields(self.name, peer, source, report)
        elif target.wanted.cls is not None and not target.wanted.knows(feed.format):
            wanted = format_of(target.wanted.cls).name
            self.announcements.tell_lookalike_types(self.name, peer, source, feed.format.name, wanted)

    def strangers_in_words(self, wanted: Wanted) -> str:
        """The sources that a sink does not know, for who waits for one. Opens the books itself."""
        with books.changing():
            near = [(HERE, each.name, each.format) for other in self._together() for each in other._origins]
            return in_words(wanted, near + [(each.peer, each.name, each.format) for each in self._incoming])

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
        target.handler.settle(at_end=True)
        self.announcements.tell_drops_at(self.name, target, target.drops_at_end())
        self._targets.remove(target)
        self._counts.add_sink(target)
        self.stand()

    def close_origin(self, origin: Origin, linger_s: float) -> None:
        """Ends a source; waits, for `linger_s` at most, until what is queued has left.

        Then what sinks would have to make room for first is dropped, and counted.
        """
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
            ways = origin.streams
            for peer in self._peers:
                stream = peer.stream_of(self.id.uid, origin)
                if stream is not None:
                    stream.withdraw()
            for other in self._together():
                for target in other._targets:
                    target.forget_refusal(origin.local)
                other.announcements.tell(SourceClosed(HERE, origin.name, origin.format))
            self._origins.remove(origin)
            self._counts.add_source(origin)
            self.stand()
        limit = time.monotonic() + linger_s
        try:
            for way in ways:
                with contextlib.suppress(ClosedError):  # it is the process's that has forked this one
                    way.drain(nanoseconds(max(0.0, limit - time.monotonic())))
        finally:  # what sinks have not granted by now is dropped
            for way in ways:
                way.give_up()

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

    def streams_of(self, origins: Sequence[Origin]) -> list[OutgoingStream]:
        """The ways of sources here to all peers. Who asks will wait: what was dropped is told first."""
        for origin in origins:
            self.announcements.tell_drops_of(origin)
        ways = [peer.stream_of(self.id.uid, origin) for peer in self._peers for origin in origins]
        return [stream for stream in ways if stream is not None]

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The sources here."""
        return tuple(self._origins)

    # -----------------------------------------------------------------------
    # Other processes

    def add_peer(self, peer: Peer) -> None:
        """A channel is shared with another process, from now on."""
        self._peers.append(peer)
        if self.attendance.meet(peer.member, time.monotonic()) and not peer.is_back:
            peer.is_back = True
            log.info("link to %s is back", str(peer))
        for origin in self._origins:
            self._offer(peer, origin)
        self.announcements.tell_joined(self.shown, str(peer))
        self.converse()

    @property
    def shown(self) -> str:
        """Its name; who has just joined has not heard that yet, and has a part of the id instead."""
        return self.name or self.id.uid.hex()[:8]

    def _offer(self, peer: Peer, origin: Origin) -> None:
        if not self.is_together_with(peer.node_id):
            peer.offer(self.id.uid, origin, self.name)

    def remove_peer(self, peer: Peer, reason: str, *, has_left: bool = False, is_liar: bool = False) -> None:
        """A process has left the channel, or its link is lost. `is_liar`: it has broken the protocol."""
        if peer not in self._peers:
            return
        self._peers.remove(peer)
        if has_left:
            self.attendance.part(peer.node_id, time.monotonic())
        else:
            self.attendance.lose(peer.node_id, time.monotonic(), is_liar=is_liar)
        for origin in self._origins:
            origin.forget_unreachable(peer.link)
        for origin in (*self._origins, *self._counts.ending):
            unconfirmed = peer.unconfirmed.pop(origin, 0)
            if unconfirmed:
                self.announcements.tell(EventsLost(str(peer), origin.name, unconfirmed, is_unconfirmed=True))
        for stream in [stream for stream in self._incoming if stream.link is peer.link]:
            if reason and stream.has_started:
                self._resuming.remember(stream)
            self.remove_incoming(stream)
        self.announcements.tell_left(self.shown, str(peer), reason)
        self.converse()

    def note_start(self, stream: IncomingStream) -> None:
        """Its events begin to come; those that never came since its last link was lost are counted."""
        self._resuming.note_start(stream)

    def add_incoming(self, stream: IncomingStream) -> None:
        self._incoming.append(stream)
        self._resuming.ask_for_missed(stream)
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
        for origin in self._origins:
            origin.channel = self.shown

    @property
    def peers(self) -> tuple[Peer, ...]:
        return tuple(self._peers)

    @property
    def is_alone(self) -> bool:
        """Whether no other node can be spoken to, here or elsewhere."""
        return not self._peers and len(self._together()) <= 1

    @property
    def is_creator(self) -> bool:
        """Whether this node has made the channel."""
        return any(member.node == self.home.id for member in self.id.members[:1])

    def invitation(self) -> ChannelId:
        """An id by which others can join now: its creator if it is there, this node, others, who was."""
        living = [self.attendance.own, *self.attendance.present()]
        named = {member.node_id: _named(member) for member in living}
        gone = [member for member in self.id.members if member.node not in named]
        creator = [named.pop(member.node) for member in self.id.members[:1] if member.node in named]
        return replace(self.id, members=(*creator, *named.values(), *gone)[:MAX_NAMED])

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
        """Tells what sources and sinks have dropped, and which handlers are slow, since it was last told."""
        for origin in self._origins:
            self.announcements.tell_drops_of(origin)
            if said := origin.take_forgetting():
                log.warning("channel `%s`: source `%s` %s", self.shown, origin.name, said)
        for stream in self._incoming:
            self.announcements.tell_losses_of(stream)
        now = time.monotonic()
        for target in self._targets:
            for slow in target.tick():
                self.announcements.tell_slow(self.name, target, slow)
            self.announcements.tell_drops_at(self.name, target, target.drops(now))
        self._counts.settle()

    def served(self) -> list[tuple[Membership, Target, str]]:
        """Sinks whose handlers were called between the last two ticks, and with whose events."""
        return [(self, target, peer) for target in self._targets for peer in target.peers_served]

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

    def statistics(self) -> ChannelStatistics:
        """With what sources and sinks that are closed had counted."""
        with books.changing():
            return self._counts.of_channel(
                self._origins,
                self._targets,
                peers=len(self._peers),
                members=self.attendance.members,
                missing=self.attendance.missing,
                remote_sources=len(self._incoming),
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
            try:
                if self.seat is not None:
                    self.seat.leave()
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
            for mate in self._together():
                if mate is not self:
                    mate.attendance.part(self.home.id, time.monotonic())
                    mate.converse()
            together.remove(self)  # late: an interrupt before it lets this begin again
            if not together:
                del _memberships_by_uid[self.id.uid]

    def abandon(self) -> None:
        """In a forked child: what is the parent's is closed here, and nobody is told."""
        self.is_closing = True
        if self.seat is not None:
            self.seat.abandon()
        for target in self._targets:
            target.abandon()
        for origin in self._origins:
            origin.abandon()


def tell_held(held_s: float, memberships: Iterable[Membership]) -> None:
    """One call has kept the interpreter's lock for so long: a handler's that ran meanwhile, or other code's.

    Where no other handler ran, the sink is told to be slow, as it would be if its handler were still at work.
    """
    suspects = [each for membership in memberships for each in membership.served()]
    if not suspects:
        return
    named = [f"handler `{target.handler.name}` of channel `{own.shown}`" for own, target, _ in suspects]
    more = [f"{len(named) - _MOST_NAMED} others"] if len(named) > _MOST_NAMED else []
    told = "one call has kept the interpreter's lock for %.1f s: in %s, or in other code of this process"
    log.warning(told, held_s, ", ".join(named[:_MOST_NAMED] + more))
    if len(suspects) == 1:
        [(membership, target, peer)] = suspects
        target.note_slow()
        membership.announcements.tell(HandlerSlow(peer, target.handler.name, held_s))


def _named(member: messages.Member) -> Member:
    """As an id names it."""
    return Member(member.node_id, tuple(known_addresses(member.addresses)), member.host_id)
