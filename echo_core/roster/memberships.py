"""A channel as one node has it: its sources and sinks here, and the processes that are on it too.

What becomes of them is in modules of their own: presence (who is there), together (nodes of this process),
matching (sources and sinks are connected), ending (they are closed). Called with the books open, but where it
says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from echo_core.errors import ClosedError
from echo_core.formats.format import Format
from echo_core.roster import derivations, ending, matching, presence, receipt, requests, together, vouching
from echo_core.roster.announcements import Announcements
from echo_core.roster.bookkeeping import books
from echo_core.roster.counts import Counts
from echo_core.roster.derivations import Descent
from echo_core.roster.homes import Home
from echo_core.roster.ids import ChannelId
from echo_core.roster.peers import Peer
from echo_core.roster.requests import Requester
from echo_core.roster.seats import Seat
from echo_core.roster.together import are_together, mates_of
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.origins import Origin
from echo_core.streams.outgoing import OutgoingStream
from echo_core.streams.relaying import Relay
from echo_core.streams.resuming import Resuming
from echo_core.streams.targets import Target
from echo_core.transports.threads import log
from echo_core.values.notices import (
    HERE,
    EventsLost,
    HandlerSlow,
    Notice,
    PeerJoined,
    SourceClosed,
    SourceOpened,
    Unreachable,
)
from echo_core.values.statistics import ChannelStatistics

_MOST_NAMED = 3  # handlers, in one line of the log


class Membership:
    """One channel of one node, for all components here that have opened it."""

    __slots__ = (
        "announcements",
        "attendance",
        "counts",
        "derived",
        "descent",
        "handles",
        "home",
        "id",
        "incoming",
        "is_closing",
        "is_proven",
        "name",
        "onlookers",
        "origins",
        "peers",
        "relayed",
        "relays",
        "requesters",
        "resuming",
        "seat",
        "side_seat",
        "targets",
        "types",
        "underivable",
    )

    def __init__(
        self,
        home: Home,
        id_: ChannelId,
        name: str,
        types: tuple[Format, ...],
        descent: Descent | None = None,
    ) -> None:
        self.home = home
        self.id = id_
        self.name = name
        self.types = types
        self.descent = descent  # from the channel that it is derived from; None: it is not, or not here
        self.derived: dict[bytes, Membership] = {}  # channels that are derived from it
        self.handles = 1  # of who makes it; an interrupt never finds a channel open that nobody could close
        self.is_closing = False
        self.is_proven = False  # whether its key is known to be the channel's
        self.seat: Seat | None = None  # where this node holds the channel on this host
        self.side_seat: Seat | None = None  # where it lets others in beside another holder
        self.announcements = Announcements(is_derived=descent is not None)
        self.origins: list[Origin] = []
        self.targets: list[Target] = []
        self.onlookers: list[object] = []  # watchers of all sources, wherever these are
        self.requesters: list[Requester] = []  # handles that request something of sources
        self.attendance = presence.attend(self)
        self.peers: list[Peer] = []
        self.incoming: list[IncomingStream] = []
        self.underivable: dict[bytes, dict[bytes, Unreachable]] = {}  # sources elsewhere, by node and id
        self.relays: list[Relay] = []  # of sources elsewhere that are derived from on receipt
        self.relayed: list[Origin] = []  # sources that are derived so, for the sinks of this node
        self.resuming = Resuming()
        self.counts = Counts()
        here = together.begin(id_.uid)
        home.memberships[id_.uid] = self  # no call from here on: Ctrl-C finds it in both, or in neither
        here += [self]

    def join_derived(
        self, id_: ChannelId, name: str, types: tuple[Format, ...], descent: Descent
    ) -> Membership:
        """This node on a channel that is derived from this one, of which it knows the key."""
        derived = Membership(self.home, id_, name, types, descent)
        derived.is_proven = True
        return derived

    # -----------------------------------------------------------------------
    # Sources and sinks here

    def add_origin(self, origin: Origin) -> None:
        origin.channel = self.shown
        self.origins.append(origin)
        for other in mates_of(self):
            for target in other.targets:
                matching.connect(other, origin, target)
                receipt.catch_up_later(target)
        for peer in self.peers:
            self._offer(peer, origin)
        for other in mates_of(self):
            other.announcements.tell(SourceOpened(HERE, origin.name, origin.format))
        presence.stand(self)
        for child in self.derived.values():
            derivations.branch(child, origin)

    def add_relayed(self, origin: Origin) -> None:
        """A source elsewhere that is derived from on receipt."""
        receipt.add(self, origin)

    def take_relayed(self) -> None:
        """Of all such sources, if anybody takes what is derived."""
        receipt.take_part(self)

    def end_relayed(self) -> None:
        """It is derived no longer."""
        for origin in list(self.relayed):
            receipt.end_relayed(self, origin)

    def add_target(self, target: Target) -> None:
        receipt.take_part(self, is_taken=True)
        self.targets.append(target)
        for other in mates_of(self):
            for origin in other.origins:
                matching.connect(self, origin, target)
        for origin in self.relayed:
            matching.connect(self, origin, target)
        for stream in self.incoming:
            matching.feed(self, stream, [target])
        presence.stand(self)

    def streams_of(self, origins: Sequence[Origin]) -> list[OutgoingStream]:
        """The ways of sources here to all peers. Who asks will wait: what was dropped is told first."""
        for origin in origins:
            self.announcements.tell_drops_of(origin)
        ways = [peer.stream_of(self.id.uid, origin) for peer in self.peers for origin in origins]
        own = [stream for stream in ways if stream is not None]
        for child in self.derived.values():
            derived = [each.origin for origin in origins for each in origin.branchings]
            own += child.streams_of([origin for origin in derived if origin in child.origins])
        return own

    # -----------------------------------------------------------------------
    # Other processes

    def add_peer(self, peer: Peer) -> None:
        """A channel is shared with another process, from now on."""
        self.peers.append(peer)
        if self.attendance.meet(peer.member, time.monotonic()) and not peer.is_back:
            peer.is_back = True
            log.info("link to %s is back", str(peer))
        for origin in self.origins:
            self._offer(peer, origin)
        self.announcements.tell_joined(str(peer))
        if self.name:
            self.announcements.log_joined(self.name)
        presence.converse(self)
        vouching.admit(self, peer)
        vouching.tell_underivable_to(self, peer)
        derivations.tell_all(self, peer)

    @property
    def shown(self) -> str:
        """Its name; who has just joined has not heard that yet, and has a part of the id instead."""
        return self.name or self.id.uid.hex()[:8]

    def _offer(self, peer: Peer, origin: Origin) -> None:
        if not are_together(self, peer.node_id):
            peer.offer(self.id.uid, origin, self.name)
            requests.tell_all(self, peer, origin)
            branching = derivations.branching_of(self, origin)
            if branching is not None:
                derivations.tell_judged_to(peer, self, branching)

    def remove_peer(
        self,
        peer: Peer,
        reason: str,
        *,
        has_left: bool = False,
        is_liar: bool = False,
        is_logged: bool = False,
    ) -> None:
        """A process has left the channel, or its link is lost.

        `is_liar`: it has broken the protocol. `is_logged`: the log has the loss.
        """
        if peer not in self.peers:
            return
        self.peers.remove(peer)
        self.underivable.pop(peer.node_id, None)
        if has_left:
            self.attendance.part(peer.node_id, time.monotonic())
        else:
            self.attendance.lose(peer.node_id, time.monotonic(), is_liar=is_liar)
        for origin in self.origins:
            origin.forget_unreachable(peer.link)
        for origin in (*self.origins, *self.counts.ending):
            unconfirmed = peer.unconfirmed.pop(origin, 0)
            if unconfirmed:
                self.announcements.tell_unconfirmed(self.shown, str(peer), origin, unconfirmed)
        for stream in [stream for stream in self.incoming if stream.link is peer.link]:
            if reason:
                self.resuming.remember(stream)
            self.remove_incoming(stream)
            stream.end()
        self.announcements.tell_left(self.shown, str(peer), reason, is_logged=is_logged)
        presence.converse(self)

    def note_start(self, stream: IncomingStream) -> None:
        """Its events begin to come; those that never came since its last link was lost are counted."""
        self.resuming.note_start(stream)

    def add_incoming(self, peer: Peer, stream: IncomingStream) -> None:
        self.incoming.append(stream)
        stream.had = self.resuming.had_of(stream)
        vouching.hold_back(self, peer, stream)
        if not stream.is_held_back:
            matching.feed(self, stream, list(self.targets))
            self.announcements.tell(SourceOpened(stream.peer, stream.name, stream.format))
        if not peer.knows_derived_channels:
            vouching.note_stranger(self, peer, stream)
            for child in self.derived.values():
                receipt.take_part(child)

    def remove_incoming(self, stream: IncomingStream) -> None:
        """Its source is closed, or its process has gone; the caller has the stream end."""
        self.incoming.remove(stream)
        vouching.forget_stranger(self, stream)
        self._tell_losses_of(stream)
        receipt.part(self, stream)
        for target in self.targets:
            target.forget_refusal(stream)
        if not stream.is_held_back:
            self.announcements.tell(SourceClosed(stream.peer, stream.name, stream.format))

    def learn(self, name: str, types: tuple[Format, ...]) -> None:
        """What another process has said of the channel."""
        self.name = self.name or name
        self.types = self.types or types
        for origin in self.origins:
            origin.channel = self.shown
        self.announcements.log_joined(self.shown)

    @property
    def is_alone(self) -> bool:
        """Whether no other node can be spoken to, here or elsewhere."""
        return not self.peers and len(mates_of(self)) <= 1

    @property
    def is_creator(self) -> bool:
        """Whether this node has made the channel."""
        return any(member.node == self.home.id for member in self.id.members[:1])

    # -----------------------------------------------------------------------
    # What components are told

    def tick(self) -> None:
        """Tells what sources and sinks have dropped, and which handlers are slow, since it was last told."""
        for origin in self.origins:
            self.announcements.tell_drops_of(origin)
            if origin.receipts is not None:
                origin.receipts.tick(self.attendance.expects)
            if said := origin.take_forgetting():
                log.warning("channel `%s`: source `%s` %s", self.shown, origin.name, said)
        for stream in self.incoming:
            self._tell_losses_of(stream)
        for relay in self.relays:
            relay.handler.settle()
        for origin in self.relayed:
            self.announcements.tell_drops_of(origin)
        now = time.monotonic()
        for target in self.targets:
            for slow in target.tick():
                self.announcements.tell_slow(self.name, target, slow)
            self.announcements.tell_drops_at(self.name, target, target.drops(now))
        self.counts.settle()
        derivations.tick(self)
        requests.tick(self)

    def _tell_losses_of(self, stream: IncomingStream) -> None:
        newly = stream.newly_lost()
        if newly:
            self.announcements.tell(EventsLost(stream.peer, stream.name, newly))
            receipt.tell_losses(self, stream, newly)

    def served(self) -> list[tuple[Membership, Target, str]]:
        """Sinks whose handlers were called between the last two ticks, and with whose events."""
        return [(self, target, peer) for target in self.targets for peer in target.peers_served]

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
        for other in mates_of(self):
            for origin in other.origins:
                yield SourceOpened(HERE, origin.name, origin.format)
        for peer in self.peers:
            yield PeerJoined(str(peer))
        for stream in self.incoming:
            if not stream.is_held_back:
                yield SourceOpened(stream.peer, stream.name, stream.format)
        for origin in self.relayed:
            if origin.local.is_there:
                yield SourceOpened(origin.peer, origin.name, origin.format)
        yield from vouching.underivable_now(self)

    # -----------------------------------------------------------------------
    # Statistics; opens the books itself

    def statistics(self) -> ChannelStatistics:
        """With what sources and sinks that are closed had counted."""
        with books.changing():
            return self.counts.of_channel(
                self.origins,
                self.targets,
                self.relayed,
                peers=len(self.peers),
                members=self.attendance.members,
                missing=self.attendance.missing,
                remote_sources=len(self.incoming),
            )

    # -----------------------------------------------------------------------
    # Opening and closing; opens the books itself

    def demand_open(self) -> None:
        if self.is_closing or self not in together.here(self.id.uid):
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
            ending.end(self, list(self.targets), list(self.origins), time.monotonic() + linger_s)
        except BaseException:  # an interrupt, which may have come before `end` could see to it
            ending.end(self, list(self.targets), list(self.origins), time.monotonic())
            raise
        finally:
            try:
                for seat in filter(None, (self.seat, self.side_seat)):
                    seat.leave()
            finally:
                self._leave()

    def _leave(self) -> None:
        with books.changing():
            if self not in together.here(self.id.uid):
                return
            for peer in list(self.peers):
                try:
                    self.remove_peer(peer, "")
                finally:
                    peer.leave(self.id.uid)  # which ends a link that no channel needs any longer
            derivations.let_go(self)
            receipt.let_go(self)
            requests.let_go(self)
            self.home.memberships.pop(self.id.uid, None)
            here = together.here(self.id.uid)
            for mate in mates_of(self):
                if mate is not self:
                    mate.attendance.part(self.home.id, time.monotonic())
                    presence.converse(mate)
            here.remove(self)  # late: an interrupt before it lets this begin again
            together.end(self.id.uid)

    def abandon(self) -> None:
        """In a forked child: what is the parent's is closed here, and nobody is told."""
        self.is_closing = True
        for seat in filter(None, (self.seat, self.side_seat)):
            seat.abandon()
        for target in self.targets:
            target.abandon()
        for origin in (*self.origins, *self.relayed, *(relay.origin for relay in self.relays)):
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
