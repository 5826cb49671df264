"""Neighbours: the processes that one node is linked to, whoever has started the link.

All that is called from outside opens the books itself, where it has to.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from echo_core._c import links
from echo_core.errors import ClosedError, EchoError, LinkError, RefusedError, TimedOutError, unexpected
from echo_core.roster.bookkeeping import books
from echo_core.roster.hearing import Told, hear
from echo_core.roster.ids import ChannelId
from echo_core.roster.link_table import LinkTable
from echo_core.roster.memberships import Home, Membership
from echo_core.roster.peers import Peer
from echo_core.roster.places import Transport, reachable
from echo_core.streams.conversations import Conversation
from echo_core.transports import limits
from echo_core.transports.addresses import Address, UnixAddress, known_addresses
from echo_core.transports.handshake.exchange import Initiator, Responder
from echo_core.transports.handshake.words import Feature, Identity
from echo_core.transports.protocol.link import LinkProtocol
from echo_core.transports.protocol.link_state import Declaration
from echo_core.transports.protocol.messages import Refusal, word_of
from echo_core.transports.threads import OwnThread, failures_logged, log
from echo_core.transports.wires import sockets
from echo_core.transports.wires.connecting import Connection, Memory, connect
from echo_core.transports.wires.doorkeeper import Doorkeeper, Happening, TurnedAway
from echo_core.values.backlog import nanoseconds
from echo_core.values.statistics import LinkStatistics

_JOIN_THREADS_S = 1.0  # of links that were shut; a handler may still be at work on one
_END_OF = "the end of the link to {}"
_ORDINARY_REFUSALS = frozenset({word_of(Refusal.DUPLICATE), word_of(Refusal.CLOSING)})  # nobody's fault
_REFUSALS_OF_WHO_HAS_LEFT = frozenset({word_of(Refusal.UNKNOWN_CHANNEL), word_of(Refusal.CLOSING)})
_ENDS = (ConnectionError, EOFError)  # of processes that are gone, or were while they were spoken to
_RETRY_S = 0.02  # after an attempt while both sides start a link
_MAX_MEETINGS = 16  # threads that link to other members of channels at once
_MAX_ACQUAINTANCES = 4096  # members that wait for that


class Neighbours:
    """Links that this node starts, those that others start, and the door by which these come in."""

    def __init__(self, home: Home) -> None:
        self.links_lost = 0
        self.handshakes_failed = 0
        self.addresses: tuple[Address, ...] = ()
        self._home = home
        self._links = LinkTable(home)
        self._door: Doorkeeper | None = None
        self._meeting: set[tuple[bytes, bytes]] = (
            set()
        )  # nodes, each with the channel that they are linked to for
        self._to_meet: deque[tuple[Membership, bytes, list[Address]]] = deque()
        self._meeting_threads = 0

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
        limit = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, limit - time.monotonic())
            peer = self._links.peer(node_id)
            try:
                if peer is None:
                    peer = self._connect(membership, reachable(addresses, ways), ways, left_s)
                _share(peer, membership, left_s, asked_s=timeout_s)
            except RefusedError as error:
                if error.code != "duplicate" or left_s == 0:
                    raise
                # Either it starts a link itself, or has not seen the end of the last one yet.
                with contextlib.suppress(TimedOutError):
                    books.wait_for(lambda: self._links.peer(node_id) is not None, _RETRY_S, lambda: "a link")
            except (ClosedError, LinkError):  # the link ended as it was found, or is about to
                if left_s == 0 or (peer is None and self._links.peer(node_id) is None):
                    raise
                if peer is not None:
                    end = partial(str.format, _END_OF, peer)
                    books.wait_for(partial(self._is_gone, peer), left_s, end, asked_s=timeout_s)
            else:
                return

    def _is_gone(self, peer: Peer) -> bool:
        return self._links.peer(peer.node_id) is not peer

    def _connect(
        self,
        membership: Membership,
        addresses: Sequence[Address],
        ways: Sequence[Transport],
        timeout_s: float,
    ) -> Peer:
        """Each address gets its share of the time, and of what those before it have left."""
        limit = time.monotonic() + timeout_s
        problems: list[str] = []
        cause: BaseException | None = (
            None  # "the process is gone" counts only where no address says otherwise
        )
        for position, address in enumerate(addresses):
            share_s = max(0.0, limit - time.monotonic()) / (len(addresses) - position)
            try:
                return self._connect_to(address, membership.id, ways, share_s)
            except RefusedError:
                raise
            except LinkError as error:
                problems.append(str(error))
                if cause is None or isinstance(cause, _ENDS):
                    cause = (error.__cause__ or error).with_traceback(None)  # which keeps this frame
        transports = ", ".join(self._home.place.transports)
        reasons = "; ".join(problems) or f"none of its addresses is for {transports}"
        msg = f"Expected to reach a node of channel {membership.id!r}: {reasons}"
        raise LinkError(msg) from cause

    def _connect_to(
        self, address: Address, id_: ChannelId, ways: Sequence[Transport], timeout_s: float
    ) -> Peer:
        proving: list[bytes] = []
        shares_memory = self._home.place.shares_memory and "shm" in ways
        own = self.identity if shares_memory else replace(self.identity, features=0)

        def admit(peer: Identity) -> Refusal | None:
            if isinstance(address, UnixAddress) and "unix" not in ways and not peer.can_share_memory:
                raise unexpected(LinkError, f"a node that shares memory at {address}", "one that does not")
            with books.changing():
                refusal = self._links.start_proving(peer.node_id)
                if refusal is None:
                    proving.append(peer.node_id)
                return refusal

        try:
            connection = connect(
                address,
                lambda: Initiator(own, id_.uid, id_.key, admit=admit),
                memory=self.memory if shares_memory else None,
                timeout_s=timeout_s,
            )
            return self._add(connection)
        finally:
            with books.changing():
                for node_id in proving:
                    self._links.end_proving(node_id)

    # -----------------------------------------------------------------------
    # Other members of channels, which peers tell of: a few threads link to them

    def meet(self, told: Iterable[Told]) -> None:
        """Has other members linked to, by threads that may take their time."""
        with books.changing():
            for membership, node_id, addresses in told:
                if self._is_to_be_met(membership, node_id):
                    self._plan(membership, node_id, known_addresses(addresses))

    def _is_to_be_met(self, membership: Membership, node_id: bytes) -> bool:
        home, peer = self._home, self._links.peer(node_id)
        if node_id == home.id or (node_id, membership.id.uid) in self._meeting or home.is_closed:
            return False
        is_shared = peer is not None and peer.shares(membership.id.uid)
        return not is_shared and not membership.is_together_with(node_id)

    def _plan(self, membership: Membership, node_id: bytes, addresses: list[Address]) -> None:
        if len(self._to_meet) >= _MAX_ACQUAINTANCES:
            log.warning("channel `%s`: too many members at once, not all are linked to", membership.name)
            return
        self._meeting.add((node_id, membership.id.uid))
        self._to_meet.append((membership, node_id, addresses))
        if self._meeting_threads < _MAX_MEETINGS:
            self._start_meeting()

    def _start_meeting(self) -> None:
        """Without another thread, members wait for one that is there, or for the next one."""
        try:
            OwnThread(self._meet_all, f"echo-meet-{self._home.name}").start()
            self._meeting_threads += 1
        except RuntimeError as error:
            log.error("node `%s`: no thread to link to members of channels: %s", self._home.name, error)

    def _meet_all(self) -> None:
        while True:
            with books.changing():
                if not self._to_meet or self._home.is_closed:
                    self._meeting_threads -= 1
                    return
                membership, node_id, addresses = self._to_meet.popleft()
            try:
                self._meet(membership, node_id, addresses)
            finally:
                with books.changing():
                    self._meeting.discard((node_id, membership.id.uid))

    def _meet(self, membership: Membership, node_id: bytes, addresses: list[Address]) -> None:
        home = self._home
        try:
            if home.memberships.get(membership.id.uid) is not membership:  # closed while this waited
                return
            self.join(membership, node_id, addresses, home.place.transports, home.limits.connect_s)
        except Exception as error:  # noqa: BLE001 - a peer has told of it; the thread has others to link to
            if not home.is_closed:
                level = logging.INFO if has_gone(error) else logging.WARNING
                log.log(level, "channel `%s`: another member cannot be reached: %s", membership.name, error)

    # -----------------------------------------------------------------------
    # Links that others start

    @property
    def identity(self) -> Identity:
        home = self._home
        return Identity(
            node_id=home.id,
            process_id=os.getpid(),
            host_id=sockets.host_id(),
            max_payload=home.limits.payload_bytes,
            features=Feature.SHARED_MEMORY if home.place.shares_memory else 0,
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

    def _admit(self, guest: Identity) -> Refusal | None:
        with books.changing():
            return self._links.admit(guest)

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
            self._tick()

    def _welcome(self, connection: Connection) -> None:
        node_id = connection.established.peer.node_id
        try:
            with books.changing():
                self._links.end_admission(node_id)
                self._add(connection)
        except Exception as error:  # noqa: BLE001 - a stranger's; the door stays open for others
            self._turn_away(TurnedAway(connection.peer_name, error, node_id))

    def _turn_away(self, guest: TurnedAway) -> None:
        if guest.node_id is not None:
            with books.changing():
                self._links.end_admission(guest.node_id)
        is_ordinary = isinstance(guest.error, RefusedError) and guest.error.code in _ORDINARY_REFUSALS
        if is_ordinary or self._home.is_closed:
            return
        self.handshakes_failed += 1
        level = logging.INFO if has_gone(guest.error) else logging.WARNING
        log.log(level, "%s was not let in: %s", guest.who, guest.error)

    def _tick(self) -> None:
        """Tells components here what was lost on the way, and others what sinks here have dropped."""
        with books.changing():
            for peer in self._links.peers():
                peer.tick()
            for membership in self._home.memberships.values():
                membership.tick()

    # -----------------------------------------------------------------------
    # A link's life

    def _add(self, connection: Connection) -> Peer:
        """A handshake has ended well: a link, which its thread begins to read."""
        try:
            peer = self._peer_at(connection)
        except BaseException:
            connection.wire.close()
            self._take_back(connection)
            raise
        try:
            with books.changing():
                self._links.add(peer)
            if connection.watched is not None and self._door is not None:
                self._door.watch(connection.watched, peer.link.conclude)
            thread = OwnThread(partial(self._read, peer), f"echo-link-{peer}")
            thread.start()
            peer.thread = thread
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
            role=established.role, secret=established.secret, declaration_of=self._declaration_of
        )
        described = f"{established.peer.name or 'a node'} ({connection.peer_name})"

        def control(kind: int, payload: bytes) -> None:
            told = hear(self._home, peer, kind, payload)
            if told:
                self.meet(told)

        link = self._make_link(connection, control)
        peer = Peer(Conversation(described, protocol, link, established.peer.max_payload), connection)
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
        return links.Link(
            connection.wire,
            control,
            max_payload=bounds.payload_bytes,
            control_bytes=limits.MAX_LINK_METADATA_BYTES * 2,
            delay_ns=nanoseconds(bounds.delay_s),
            stall_ns=nanoseconds(bounds.stall_s),
            pool=connection.pool,
            holder=connection.holder,
            mapping=connection.mapping,
        )

    def _read(self, peer: Peer) -> None:
        """The main function of a link's thread."""
        if not peer.take_reading():
            return
        error = peer.run()
        try:
            peer.link.shut()
        except ClosedError:  # a handler has forked this process: the link is the parent's
            return
        with books.changing():
            self._end(peer, error)

    def _end(self, peer: Peer, error: EchoError | None) -> None:
        news = peer.end(error)
        self._links.remove(peer)
        if news is not None and not self._home.is_closed:
            self.links_lost += 1
            log.warning("link to %s lost: %s", str(peer), news)  # a record may be kept; a peer should not
        for membership in self._home.memberships.values():
            membership.remove_peer(peer, peer.conversation.farewell)
        self._take_back(peer.connection)

    def _discard(self, peer: Peer, reason: str) -> None:
        """A link that is not wanted: its thread cannot start, need not, or was interrupted in it."""
        with books.changing():
            peer.say_goodbye(reason)
        peer.link.shut()
        self._read(peer)  # which is over at once, if its thread has not begun; the link lets go of the peer

    def _take_back(self, connection: Connection) -> None:
        """A link has ended: the memory that its peer held is free."""
        if connection.pool is not None:
            connection.pool.detach(connection.holder)
        if connection.watched is not None and self._door is not None:
            self._door.unwatch(connection.watched)

    # -----------------------------------------------------------------------
    # The node's life

    def listen(self) -> tuple[Address, ...]:
        """Where it can be reached, from the first channel on."""
        with books.changing():
            if self._door is None:
                self._open_door()
            return self.addresses

    def _open_door(self) -> None:
        """All listeners and who looks after them, or nothing, also where it is interrupted."""
        with contextlib.ExitStack() as unfinished:
            unfinished.callback(self._forget_door)
            listeners = [
                unfinished.enter_context(sockets.listen(address)) for address in self._wanted_addresses()
            ]
            door = Doorkeeper(self._home.name, self._responder, self.memory)
            unfinished.callback(door.close)
            self.addresses = tuple(
                sockets.bound_address(listener, advertised_host=self._home.place.advertised_host)
                for listener in listeners
            )
            self._home.addresses = tuple(map(str, self.addresses))
            self._door = door
            try:
                door.start(listeners, partial(self._attend, door))
            except RuntimeError as error:
                msg = f"Expected a thread for the door of node `{self._home.name}`: {error}"
                raise LinkError(msg) from error
            unfinished.pop_all()  # from here on they are the doorkeeper's to close

    def _forget_door(self) -> None:
        self._door = None
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
        limit = time.monotonic() + _JOIN_THREADS_S
        for peer in peers:
            peer.join_thread(limit)
        if self._door is not None:
            self._door.close()
        self._home.close_pool()

    def abandon(self) -> None:
        """In a forked child: lets go of what belongs to the parent, without a word to anybody."""
        for peer in self._links.peers():
            peer.link.abandon()
        if self._door is not None:
            self._door.abandon()


def has_gone(error: BaseException) -> bool:
    """Whether a node that was to be linked to has left the channel, or is nowhere: it has just closed.

    Any other error is for somebody to look at: silence, another key.
    """
    if isinstance(error, RefusedError):
        return error.code in _REFUSALS_OF_WHO_HAS_LEFT
    return isinstance(error.__cause__ if isinstance(error, LinkError) else error, _ENDS)


def _share(peer: Peer, membership: Membership, timeout_s: float, *, asked_s: float) -> None:
    with books.changing():
        channel = peer.join(membership.id.uid)
    try:
        answered = partial(peer.has_answered, channel)
        books.wait_for(answered, timeout_s, lambda: f"an answer from {peer}", asked_s=asked_s)
    except BaseException:
        with books.changing():
            membership.remove_peer(peer, "")
            peer.leave(membership.id.uid)
        raise
    with books.changing():
        peer.demand_joined(channel)
