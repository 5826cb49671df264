"""Neighbours: the processes that one node is linked to, whoever has started the link.

All that is called from outside opens the books itself, where it has to.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from weakref import ref

from echo_core._c import links
from echo_core.dispatch.slowness import Grip
from echo_core.errors import (
    ClosedError,
    LinkError,
    RefusedError,
    TimedOutError,
    WireError,
    bare,
    unexpected,
)
from echo_core.roster import presence, seats, standby
from echo_core.roster.announcements import log_lost
from echo_core.roster.attendance import usable
from echo_core.roster.bookkeeping import books
from echo_core.roster.hearing import hear
from echo_core.roster.homes import Home, no_door
from echo_core.roster.ids import ChannelId
from echo_core.roster.link_table import LinkTable
from echo_core.roster.meetings import Meetings, has_gone, is_end
from echo_core.roster.memberships import Membership, tell_held
from echo_core.roster.peers import Peer
from echo_core.roster.places import Transport, reachable
from echo_core.roster.seats import Seat
from echo_core.roster.together import are_together
from echo_core.streams.conversations import Conversation
from echo_core.transports import limits
from echo_core.transports.addresses import (
    UNKNOWN_HOST,
    Address,
    UnixAddress,
    crosses_hosts,
    known_addresses,
)
from echo_core.transports.handshake.exchange import Established, Initiator, Responder
from echo_core.transports.handshake.words import Feature, Identity
from echo_core.transports.protocol.link import LinkProtocol
from echo_core.transports.protocol.link_state import Declaration
from echo_core.transports.protocol.messages import Member, Refusal, word_of
from echo_core.transports.repeats import Repeats
from echo_core.transports.threads import failures_logged
from echo_core.transports.wires import sockets
from echo_core.transports.wires.connecting import Connection, Memory, connect
from echo_core.transports.wires.doorkeeper import Doorkeeper, Happening, Tick, TurnedAway
from echo_core.values.backlog import nanoseconds
from echo_core.values.statistics import LinkStatistics

_ENDS_S = 1.0  # for the ends of links that were shut; a handler may still be at work on one
_END_OF = "the end of the link to {}"
# Nobody's fault.
_ORDINARY_REFUSALS = frozenset(map(word_of, (Refusal.DUPLICATE, Refusal.CLOSING, Refusal.SAME_NODE)))
_PATIENCE_S = 1.0  # with links that were made for another channel
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.02, 1.0  # after an attempt of a caller who waits


class AnotherNodeError(LinkError):
    """Where one node was looked for another one answers, which is linked to already."""

    def __init__(self, node_id: bytes) -> None:
        super().__init__("Expected another node at that address")
        self.node_id = node_id


class Neighbours:
    """Links that this node starts, those that others start, and the door by which these come in."""

    def __init__(self, home: Home) -> None:
        self.links_lost = 0
        self.handshakes_failed = 0
        self.addresses: tuple[Address, ...] = ()
        self._home = home
        self._links = LinkTable(home)
        self._door: Doorkeeper | None = None
        self._turned_away: defaultdict[str, Repeats] = defaultdict(Repeats)  # by the kind of error
        self._meetings = Meetings(home, self._attempt)
        self._grip = Grip()

    # -----------------------------------------------------------------------
    # Links that this node starts

    def join(
        self,
        membership: Membership,
        node_id: bytes,
        addresses: Sequence[Address],
        ways: Sequence[Transport],
        timeout_s: float,
    ) -> None:
        """Links to a node, if need be, and shares a channel with it."""
        limit, uid, pause_s = time.monotonic() + timeout_s, membership.id.uid, _FIRST_RETRY_S
        asked: set[Peer] = set()
        while not self._join_namesake(membership, node_id, asked, timeout_s):
            left_s = max(0.0, limit - time.monotonic())
            peer = self._links.peer(node_id, uid)
            try:
                if peer is None:
                    peer = self._connect(membership, node_id, reachable(addresses, ways), ways, left_s)
                _share(peer, membership, left_s, asked_s=timeout_s)
            except AnotherNodeError as found:
                self._replace(membership, node_id)
                node_id = found.node_id
            except RefusedError as error:
                if error.code != "duplicate" or left_s == 0:
                    raise
                # Another link is being made, or it has not seen the end of the last one yet.
                pause_s = self._pause(node_id, uid, asked, pause_s)
            except (ClosedError, LinkError):  # the link ended as it was found, or is about to
                if left_s == 0 or (peer is None and not self._is_linked(node_id, uid)):
                    raise
                if peer is not None:
                    end = partial(str.format, _END_OF, peer)
                    books.wait_for(partial(self._is_gone, peer), left_s, end, asked_s=timeout_s)
                    pause_s = self._pause(node_id, uid, asked, pause_s)
            else:
                if peer.node_id != node_id:
                    self._replace(membership, node_id)
                return

    def _join_namesake(
        self, membership: Membership, node_id: bytes, asked: set[Peer], timeout_s: float
    ) -> bool:
        """Whether a link that is there carries the channel now, though it was made for another.

        Who has taken the node's name on it may say no, or nothing: the node itself is asked after that.
        Who is in `asked` is not asked again.
        """
        uid, limit = membership.id.uid, time.monotonic() + min(_PATIENCE_S, timeout_s / 2)
        while (
            not self._is_linked(node_id, uid) and (peer := self._links.namesake(node_id, asked)) is not None
        ):
            asked.add(peer)
            with contextlib.suppress(ClosedError, LinkError, TimedOutError):
                _share(peer, membership, max(0.0, limit - time.monotonic()), asked_s=timeout_s)
                return True
        return False

    def _is_linked(self, node_id: bytes, uid: bytes) -> bool:
        return self._links.peer(node_id, uid) is not None

    def _may_join(self, node_id: bytes, uid: bytes, asked: set[Peer]) -> bool:
        return self._is_linked(node_id, uid) or self._links.namesake(node_id, asked) is not None

    def _pause(self, node_id: bytes, uid: bytes, asked: set[Peer], pause_s: float) -> float:
        """Unless there is a link meanwhile; returns how long the next pause is to be."""
        with contextlib.suppress(TimedOutError):
            books.wait_for(partial(self._may_join, node_id, uid, asked), pause_s, lambda: "a link")
        return min(2 * pause_s, _LONGEST_RETRY_S)

    @staticmethod
    def _replace(membership: Membership, node_id: bytes) -> None:
        with books.changing():
            membership.attendance.replaced(node_id)

    def _attempt(self, membership: Membership, member: Member, timeout_s: float) -> bytes:
        """Links to a member, once, and shares the channel with it; returns the id of who has answered."""
        limit = time.monotonic() + timeout_s
        if are_together(membership, member.node_id):
            with books.changing():
                presence.gather(membership)
            return member.node_id
        if self._join_namesake(membership, member.node_id, set(), timeout_s):
            return member.node_id
        ways = self._home.place.transports
        addresses = reachable(known_addresses(usable(member, self._home.host_id)), ways)
        try:
            peer = self._links.peer(member.node_id, membership.id.uid) or self._connect(
                membership, member.node_id, addresses, ways, timeout_s
            )
        except AnotherNodeError as found:
            return found.node_id
        _share(peer, membership, max(0.0, limit - time.monotonic()), asked_s=timeout_s)
        return peer.node_id

    def _is_gone(self, peer: Peer) -> bool:
        return peer not in self._links.peers()

    def _connect(
        self,
        membership: Membership,
        node_id: bytes,
        addresses: Sequence[Address],
        ways: Sequence[Transport],
        timeout_s: float,
    ) -> Peer:
        """Each address gets its share of the time, and of what those before it have left.

        On this host all of it: a process that is there is busy, and would be so at its other addresses, by
        which no memory can be shared. If it is not, that is known at once.
        """
        limit = time.monotonic() + timeout_s
        problems: list[str] = []
        cause: BaseException | None = (
            None  # "the process is gone" counts only where no address says otherwise
        )
        for position, address in enumerate(addresses):
            shares = 1 if isinstance(address, UnixAddress) else len(addresses) - position
            share_s = max(0.0, limit - time.monotonic()) / shares
            try:
                return self._connect_to(address, membership.id, node_id, ways, share_s)
            except (RefusedError, AnotherNodeError):
                raise
            except (LinkError, WireError) as error:  # a stranger may listen where a member did
                problems.append(str(error))
                if cause is None or is_end(cause):
                    cause = bare(error.__cause__ or error)
        transports = ", ".join(self._home.place.transports)
        reasons = "; ".join(problems) or f"it has no address that leads there from here by {transports}"
        msg = f"Expected to reach a node of channel {membership.id!r}: {reasons}"
        raise LinkError(msg) from cause

    def _connect_to(
        self, address: Address, id_: ChannelId, node_id: bytes, ways: Sequence[Transport], timeout_s: float
    ) -> Peer:
        attempt, others = object(), list[bytes]()
        shares_memory = self._home.place.shares_memory and "shm" in ways
        own = self.identity
        if not shares_memory:
            own = replace(own, features=own.features & ~Feature.SHARED_MEMORY)
        if crosses_hosts(address):  # its host is not known yet
            own = own.told_to(UNKNOWN_HOST)

        def admit(peer: Identity, uid: bytes) -> Refusal | None:
            if isinstance(address, UnixAddress) and "unix" not in ways and not peer.can_share_memory:
                raise unexpected(LinkError, f"a node that shares memory at {address}", "one that does not")
            with books.changing():
                if peer.node_id != node_id and self._links.peer(peer.node_id, uid) is not None:
                    others.append(peer.node_id)
                    return Refusal.DUPLICATE
                return self._links.start_proving(attempt, peer.node_id, uid)

        try:
            with self._links.proving(attempt):
                connection = connect(
                    address,
                    lambda: Initiator(own, id_.uid, id_.key, admit=admit),
                    memory=self.memory if shares_memory else None,
                    timeout_s=timeout_s,
                    stall_s=self._home.limits.stall_s,
                )
                return self._add(connection)
        except RefusedError:
            if others:
                raise AnotherNodeError(others[0]) from None
            raise

    # -----------------------------------------------------------------------
    # Links that others start

    @property
    def identity(self) -> Identity:
        home = self._home
        return Identity(
            node_id=home.id,
            process_id=os.getpid(),
            host_id=home.host_id,
            max_payload=home.limits.payload_bytes,
            features=Feature.DERIVED_CHANNELS | (Feature.SHARED_MEMORY if home.place.shares_memory else 0),
            name=home.name,
            addresses=home.addresses,
        )

    @property
    def memory(self) -> Memory | None:
        place = self._home.place
        return Memory(self._home.pool, place.spin_ns) if place.shares_memory else None

    def _responder(self) -> Responder:
        return Responder(self.identity, self._key_of, admit=self._admit)

    def _key_of(self, uid: bytes) -> bytes | None:
        membership = self._home.memberships.get(uid)
        return None if membership is None else membership.id.key

    def _admit(self, guest: Identity, uid: bytes) -> Refusal | None:
        with books.changing():
            return self._links.admit(guest.node_id, uid)

    def _attend(self, door: Doorkeeper) -> None:
        """The main function of the door's thread: it goes on, whatever becomes of one happening."""
        for happening in door.happenings():
            with failures_logged("the door of `%s`", self._home.name):
                self._follow(happening)
            del (
                happening
            )  # until the next one it would keep a connection's memory, though its link may be over

    def _follow(self, happening: Happening) -> None:
        if isinstance(happening, Connection):
            self._welcome(happening)
        elif isinstance(happening, TurnedAway):
            self._turn_away(happening)
        else:
            if isinstance(happening, Tick):
                self._tick(happening.late_s)
            self._meetings.begin()

    def _welcome(self, connection: Connection) -> None:
        try:
            with books.changing():
                self._end_admission(connection.established)
                self._add(connection)
        except Exception as error:  # noqa: BLE001 - a stranger's; the door stays open for others
            self._turn_away(TurnedAway(connection.peer_name, error, connection.established))

    def _end_admission(self, established: Established) -> None:
        self._links.end_admission(established.peer.node_id, established.uid)

    def _turn_away(self, guest: TurnedAway) -> None:
        if guest.established is not None:
            with books.changing():
                self._end_admission(guest.established)
        is_ordinary = isinstance(guest.error, RefusedError) and guest.error.code in _ORDINARY_REFUSALS
        if is_ordinary or self._home.is_closed:
            return
        self.handshakes_failed += 1
        level = logging.INFO if has_gone(guest.error) else logging.WARNING
        self._turned_away[_kind_of(guest.error)].say(level, "%s was not let in: %s", guest.who, guest.error)

    def _tick(self, late_s: float) -> None:
        """Tells components here what was lost on the way, and others what sinks here have dropped."""
        held_s = self._grip.held_s(late_s)
        with books.changing():
            for peer in self._links.peers():
                peer.tick()
            for membership in list(self._home.memberships.values()):  # a derived one may end
                membership.tick()
            if held_s:
                tell_held(held_s, self._home.memberships.values())
            self._meetings.tick()
        standby.stand_by()  # where there was no thread for that
        for repeats in self._turned_away.values():
            repeats.settle()

    # -----------------------------------------------------------------------
    # A link's life

    def _add(self, connection: Connection) -> Peer:
        """A handshake has ended well: a link, which is read when something comes."""
        try:
            peer = self._peer_at(connection)
        except BaseException:
            connection.wire.close()
            self._take_back(connection)
            raise
        try:
            with books.changing():
                self._links.add(peer)
            standby.attend(peer.link, f"echo-link-{peer}", partial(self._read, peer))
        except BaseException as error:  # an interrupt too: nobody would read the link
            self._discard(peer, str(error) or type(error).__name__)
            if isinstance(error, RuntimeError):
                msg = f"Expected a thread for the link to {peer}: {error}"
                raise LinkError(msg) from error
            raise
        return peer

    def _peer_at(self, connection: Connection) -> Peer:
        established = connection.established
        protocol = LinkProtocol(
            role=established.role,
            secret=established.secret,
            declaration_of=self._declaration_of,
            admit=lambda uid: self._links.admit_on(known(), uid),
        )
        described = f"{established.peer.name or 'a node'} ({connection.peer_name})"

        def control(kind: int, payload: bytes) -> None:
            hear(self._home, peer, kind, payload)

        link = self._make_link(connection, control)
        bounds = self._home.limits
        window = bounds.window_events, bounds.window_bytes
        with books.changing():
            node_id = established.peer.node_id
            allowances = self._home.known_nodes.allowances(node_id, established.uid)
        max_payload = established.peer.max_payload
        peer = Peer(
            Conversation(described, protocol, link, max_payload, window, allowances, node_id), connection
        )
        known = ref(peer)  # weak, as the peer has the protocol: both have to go without the garbage collector
        return peer

    def _declaration_of(self, uid: bytes) -> Declaration | None:
        """What a peer may learn of a channel."""
        membership = self._home.memberships.get(uid)
        if membership is None:
            return None
        types = tuple(type_.metadata for type_ in membership.types)
        return Declaration(membership.id.key, membership.name, types)

    def _make_link(self, connection: Connection, control: Callable[[int, bytes], None]) -> links.Link:
        bounds = self._home.limits
        try:
            return links.Link(
                connection.wire,
                control,
                max_payload=bounds.payload_bytes,
                control_bytes=limits.MAX_WAITING_CONTROL_BYTES,
                delay_ns=nanoseconds(bounds.delay_s),
                stall_ns=nanoseconds(bounds.stall_s),
                pool=connection.pool,
                holder=connection.holder,
                mapping=connection.mapping,
            )
        except OSError as error:
            msg = f"Expected descriptors to wait for links with: {error.strerror}"
            raise LinkError(msg) from error

    def _read(self, peer: Peer) -> None:
        """Unless another thread does, or has. Whoever reads last follows the end of the link."""
        if not peer.read():
            return
        try:
            peer.link.shut()
        except ClosedError:  # a handler has forked this process: the link is the parent's
            return
        try:
            with books.changing():
                self._end(peer)
        finally:
            peer.is_over.set()

    def _end(self, peer: Peer) -> None:
        standby.forget(peer.link)
        news = peer.end()
        self._links.remove(peer)
        shared = [each for each in self._home.memberships.values() if peer in each.peers]
        is_lost = news is not None and not self._home.is_closed
        if is_lost:
            self.links_lost += 1
            log_lost(str(peer), [each.shown for each in shared], str(news))
        reason, is_liar = peer.conversation.farewell, isinstance(peer.failure, WireError)
        for membership in shared:
            membership.remove_peer(peer, reason, is_liar=is_liar, is_logged=is_lost)
        self._take_back(peer.connection)

    def _discard(self, peer: Peer, reason: str) -> None:
        """A link that is not wanted: no thread can read it, or its beginning was interrupted."""
        with books.changing():
            peer.say_goodbye(reason)
        peer.link.rest(partial(self._read, peer))  # where it has not come to that
        peer.link.shut()
        self._read(peer)  # which is over at once, unless another thread does; the link lets go of the peer

    def _take_back(self, connection: Connection) -> None:
        """A link has ended: the memory that its peer held is free."""
        if connection.pool is not None:
            connection.pool.detach(connection.holder)

    # -----------------------------------------------------------------------
    # The node's life

    def listen(self) -> tuple[Address, ...]:
        """Where it can be reached, from the first channel on."""
        with books.changing():
            if self._door is None:
                self._open_door()
            return self.addresses

    def take_seat(self, id_: ChannelId, timeout_s: float) -> Seat:
        """The node holds a channel on this host. RefusedError: another one does. Not with the books open."""
        self.listen()
        assert self._door is not None
        return seats.take(id_, self.identity, self._door, timeout_s)

    def sit_beside(self, id_: ChannelId) -> Seat | None:
        """The node lets others in on this host beside who holds the channel. Not with the books open."""
        self.listen()
        assert self._door is not None
        return seats.take_beside(id_, self._door)

    def holder_of(self, id_: ChannelId, timeout_s: float) -> Identity | None:
        """The node that holds a channel on this host, if there is one."""
        return seats.holder_of(id_, self.identity, timeout_s)

    def node_at(self, id_: ChannelId, seat: UnixAddress, timeout_s: float) -> Identity | None:
        """The member that sits there."""
        return seats.holder_of(id_, self.identity, timeout_s, seat)

    def _open_door(self) -> None:
        """All listeners and who looks after them, or nothing, also where it is interrupted."""
        with contextlib.ExitStack() as unfinished:
            unfinished.callback(self._forget_door)
            listeners = [
                unfinished.enter_context(sockets.listen(address)) for address in self._wanted_addresses()
            ]
            door = self._new_door()
            unfinished.callback(door.close)
            self.addresses = tuple(
                sockets.bound_address(listener, advertised_host=self._home.place.advertised_host)
                for listener in listeners
            )
            self._home.addresses = tuple(map(str, self.addresses))
            self._door = door
            self._home.wake = door.call
            try:
                door.start(listeners, partial(self._attend, door))
            except RuntimeError as error:
                msg = f"Expected a thread for the door of node `{self._home.name}`: {error}"
                raise LinkError(msg) from error
            unfinished.pop_all()  # from here on they are the doorkeeper's to close

    def _new_door(self) -> Doorkeeper:
        try:
            home = self._home
            return Doorkeeper(home.name, self._responder, self.memory, stall_s=home.limits.stall_s)
        except OSError as error:
            msg = f"Expected descriptors for the door of node `{self._home.name}`: {error.strerror}"
            raise LinkError(msg) from error

    def _forget_door(self) -> None:
        self._door, self._home.wake = None, no_door
        self.addresses = self._home.addresses = ()

    def _wanted_addresses(self) -> list[Address]:
        place = self._home.place
        addresses: list[Address] = []
        if place.is_local:
            addresses.append(sockets.new_unix_address())
        if "tcp" in place.transports:
            addresses.append(place.listens_at)
        return addresses

    def statistics(self) -> tuple[LinkStatistics, ...]:
        with books.changing():
            peers = self._links.peers()
        return tuple(peer.statistics() for peer in peers)

    def __len__(self) -> int:
        return len(self._links)

    def close(self, linger_s: float) -> None:
        with books.changing():
            peers = self._links.peers()
            for peer in peers:
                peer.say_goodbye("the node is closed")
        limit = time.monotonic() + linger_s
        for peer in peers:
            peer.close(limit)
        limit = time.monotonic() + _ENDS_S
        for peer in peers:
            peer.wait_until_over(limit)
        if self._door is not None:
            self._door.close()
        self._home.close_pool()

    def abandon(self) -> None:
        """In a forked child: lets go of what belongs to the parent, without a word to anybody."""
        for peer in self._links.peers():
            peer.link.abandon()
        if self._door is not None:
            self._door.abandon()


def _kind_of(error: Exception) -> str:
    """Of why somebody was not let in: many lines of one kind hide none of another. Peers make no kinds."""
    if isinstance(error, RefusedError) and error.code in map(word_of, Refusal):
        return error.code
    return type(error).__name__


def _share(peer: Peer, membership: Membership, timeout_s: float, *, asked_s: float) -> None:
    try:
        with books.changing():
            channel = peer.join(membership.id.uid)
        answered = partial(peer.has_answered, channel)
        books.wait_for(answered, timeout_s, lambda: f"an answer from {peer}", asked_s=asked_s)
    except BaseException:
        with books.changing():
            membership.remove_peer(peer, "")
            peer.leave(membership.id.uid)
        raise
    with books.changing():
        peer.demand_joined(channel)
