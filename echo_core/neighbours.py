"""Neighbours: the processes that one node is linked to, whoever has started the link.

There is one link to each, for all channels. Where two nodes start one at the same time, the handshake lets
the link of the smaller node id be, and refuses the other.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from echo_core._c import links
from echo_core.backlog import nanoseconds
from echo_core.bookkeeping import books, log
from echo_core.channel_ids import ChannelId
from echo_core.errors import ClosedError, EchoError, LinkError, RefusedError, TimedOutError
from echo_core.meetings import Meetings
from echo_core.memberships import Membership
from echo_core.peers import Peer, declaration_of
from echo_core.places import Limits, Place, Transport, reachable
from echo_core.statistics import LinkStatistics
from echo_core.transports import limits
from echo_core.transports.addresses import Address, UnixAddress, known_addresses
from echo_core.transports.handshake.exchange import Initiator, Responder, duplicate
from echo_core.transports.handshake.words import Feature, Identity
from echo_core.transports.protocol.joining import Declaration
from echo_core.transports.protocol.link import LinkProtocol
from echo_core.transports.protocol.messages import Farewell, Refusal, word_of
from echo_core.transports.wires import sockets
from echo_core.transports.wires.connecting import POOL_BYTES, Connection, Memory, connect
from echo_core.transports.wires.doorkeeper import Doorkeeper

_POOL_BLOCK_BYTES = 1 << 20
_POOL_BLOCKS = POOL_BYTES // _POOL_BLOCK_BYTES
_JOIN_THREADS_S = 1.0  # of links that were shut; a handler may still be at work on one
_END_OF = "the end of the link to {}"
_ORDINARY_REFUSALS = frozenset({word_of(Refusal.DUPLICATE), word_of(Refusal.CLOSING)})  # nobody's fault
_REFUSALS_OF_WHO_HAS_LEFT = frozenset({word_of(Refusal.UNKNOWN_CHANNEL), word_of(Refusal.CLOSING)})
_ENDS = (ConnectionError, EOFError)  # of processes that are gone, or were while they were spoken to
_RETRY_S = 0.02  # after an attempt while both sides start a link


class Node(Protocol):
    """Whose neighbours they are."""

    id: bytes
    name: str
    is_closed: bool

    @property
    def memberships(self) -> Iterable[Membership]: ...

    def membership_of(self, uid: bytes) -> Membership | None: ...


class Neighbours:
    """All that is called from outside holds the books open itself, where it has to."""

    def __init__(self, node: Node, place: Place, bounds: Limits) -> None:
        self.links_lost = 0
        self.handshakes_failed = 0
        self._node = node
        self._place = place
        self._bounds = bounds
        self._peers: dict[bytes, Peer] = {}
        self._proving: set[bytes] = set()  # nodes to which an attempt has sent its proof
        self._admitted: set[bytes] = set()  # nodes that were let in, and whose link is not there yet
        self._meetings = Meetings(node.name, lambda: node.is_closed)
        self._pool: links.Pool | None = None
        self._door: Doorkeeper | None = None
        self.addresses: tuple[Address, ...] = ()

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
            peer = self._peers.get(node_id)
            try:
                if peer is None:
                    peer = self._connect(membership, reachable(addresses, ways), ways, left_s)
                _share(peer, membership, left_s, asked_s=timeout_s)
            except RefusedError as error:
                if error.code != "duplicate" or left_s == 0:
                    raise
                # Either it starts a link itself, or has not seen the end of the last one yet.
                self._wait_briefly(lambda: node_id in self._peers)
            except (ClosedError, LinkError):  # the link ended as it was found, or is about to
                if left_s == 0 or (peer is None and node_id not in self._peers):
                    raise
                if peer is not None:
                    end = partial(str.format, _END_OF, peer)
                    books.wait_for(partial(self._is_gone, peer), left_s, end, asked_s=timeout_s)
            else:
                return

    def _is_gone(self, peer: Peer) -> bool:
        return self._peers.get(peer.node_id) is not peer

    @staticmethod
    def _wait_briefly(is_met: Callable[[], bool]) -> None:
        with contextlib.suppress(TimedOutError):
            books.wait_for(is_met, _RETRY_S, lambda: "a link")

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
        cause: BaseException | None = None  # a process that is gone is one only where nothing else is
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
        reasons = "; ".join(problems) or f"none of its addresses is for {', '.join(self._place.transports)}"
        msg = f"Expected to reach a node of channel {membership.id!r}: {reasons}"
        raise LinkError(msg) from cause

    def _connect_to(
        self, address: Address, id_: ChannelId, ways: Sequence[Transport], timeout_s: float
    ) -> Peer:
        proving: list[bytes] = []
        shares_memory = self._place.shares_memory and "shm" in ways
        own = self.identity if shares_memory else replace(self.identity, features=0)

        def admit(peer: Identity) -> Refusal | None:
            if isinstance(address, UnixAddress) and "unix" not in ways and not peer.can_share_memory:
                msg = f"Expected a node that shares memory at {address}, got one that does not"
                raise LinkError(msg)
            with books.changing():
                is_linked = self._is_linked(peer.node_id) or peer.node_id in self._proving
                refusal = duplicate(self._node.id, peer.node_id, is_linked=is_linked, is_proving=False)
                if refusal is None:
                    proving.append(peer.node_id)
                    self._proving.add(peer.node_id)
                return refusal

        try:
            connection = connect(
                address,
                lambda: Initiator(own, id_.uid, id_.key, admit=admit),
                own=own,
                memory=self.memory if shares_memory else None,
                timeout_s=timeout_s,
            )
            return self._add(connection)
        finally:
            with books.changing():
                self._proving.difference_update(proving)

    def meet(self, membership: Membership, node_id: bytes, addresses: tuple[str, ...]) -> None:
        """Another member of a channel: linked to in another thread, which may take its time."""
        meeting = node_id, membership.id.uid
        if node_id == self._node.id or meeting in self._meetings or self._node.is_closed:
            return
        peer = self._peers.get(node_id)
        is_shared = peer is not None and peer.shares(membership)
        if is_shared or membership.is_together_with(node_id):
            return
        if self._meetings.are_too_many:
            log.warning("channel `%s`: too many members at once, not all are linked to", membership.name)
            return
        self._meetings.add(meeting, partial(self._meet, membership, node_id, known_addresses(addresses)))

    def _meet(self, membership: Membership, node_id: bytes, addresses: list[Address]) -> None:
        try:
            if self.membership_of(membership.id.uid) is not membership:  # closed while this waited
                return
            self.join(membership, node_id, addresses, self._place.transports, self._bounds.connect_s)
        except Exception as error:  # noqa: BLE001 - a peer has told of it; the thread has others to link to
            if self._node.is_closed:
                return
            level = logging.INFO if has_gone(error) else logging.WARNING
            log.log(level, "channel `%s`: another member cannot be reached: %s", membership.name, error)

    # -----------------------------------------------------------------------
    # Links that others start: what the doorkeeper asks

    @property
    def identity(self) -> Identity:
        return Identity(
            node_id=self._node.id,
            process_id=os.getpid(),
            host_id=sockets.host_id(),
            max_payload=self._bounds.payload_bytes,
            features=Feature.SHARED_MEMORY if self._place.shares_memory else 0,
            name=self._node.name,
            addresses=tuple(map(str, self.addresses)),
        )

    @property
    def memory(self) -> Memory | None:
        return Memory(self._make_pool, self._place.spin_ns) if self._place.shares_memory else None

    @property
    def pool(self) -> links.Pool | None:
        return self._make_pool() if self._place.shares_memory else None

    def _make_pool(self) -> links.Pool | None:
        with books.changing():
            if self._pool is None and not self._node.is_closed:
                self._pool = links.Pool(block_bytes=_POOL_BLOCK_BYTES, blocks=_POOL_BLOCKS)
            return self._pool

    def responder(self) -> Responder:
        return Responder(self.identity, self._key_of, admit=self._admit)

    def _key_of(self, uid: bytes) -> bytes | None:
        membership = self.membership_of(uid)
        return None if membership is None else membership.id.key

    def _admit(self, peer: Identity) -> Refusal | None:
        with books.changing():
            if self._node.is_closed:
                return Refusal.CLOSING
            if len(self._peers) >= self._bounds.links:
                return Refusal.BUSY
            is_linked, is_proving = self._is_linked(peer.node_id), peer.node_id in self._proving
            refusal = duplicate(self._node.id, peer.node_id, is_linked=is_linked, is_proving=is_proving)
            if refusal is None:
                self._admitted.add(peer.node_id)
            return refusal

    def _is_linked(self, node_id: bytes) -> bool:
        return node_id in self._peers or node_id in self._admitted

    def welcome(self, connection: Connection) -> None:
        with books.changing():
            self._admitted.discard(connection.established.peer.node_id)
            self._add(connection)

    def _add(self, connection: Connection) -> Peer:
        """A handshake has ended well: a link, which its thread begins to read."""
        try:
            peer = self._peer_at(connection)
        except BaseException:
            connection.wire.close()
            self._take_back(connection)
            raise
        try:
            self._register(peer)
            if connection.watched is not None and self._door is not None:
                self._door.watch(connection.watched, peer.link.conclude)
            peer.start()
        except BaseException as error:  # an interrupt too: nobody would read the link
            peer.discard(str(error) or type(error).__name__)
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
        return Peer(
            self,
            established.peer.node_id,
            described,
            established.peer.addresses,
            protocol,
            partial(self._make_link, connection),
            wire_name=connection.wire.name,
            max_payload=established.peer.max_payload,
            on_end=partial(self._take_back, connection),
        )

    def _register(self, peer: Peer) -> None:
        """The node may have been closed, or linked otherwise, since the handshake asked."""
        with books.changing():
            if self._node.is_closed:
                msg = f"Expected node `{self._node.name}` to be open, it has been closed"
                raise ClosedError(msg)
            if peer.node_id in self._peers:
                msg = f"Expected one link to {peer}, there is another already"
                raise RefusedError(msg, code=word_of(Refusal.DUPLICATE))
            self._peers[peer.node_id] = peer

    def _make_link(self, connection: Connection, control: Callable[[int, bytes], None]) -> links.Link:
        return links.Link(
            connection.wire,
            control,
            max_payload=self._bounds.payload_bytes,
            control_bytes=limits.MAX_LINK_METADATA_BYTES * 2,
            delay_ns=nanoseconds(self._bounds.delay_s),
            stall_ns=nanoseconds(self._bounds.stall_s),
            pool=connection.pool,
            holder=connection.holder,
            mapping=connection.mapping,
        )

    def _take_back(self, connection: Connection) -> None:
        """A link has ended: the memory that its peer held is free."""
        if connection.pool is not None:
            connection.pool.detach(connection.holder)
        if connection.watched is not None and self._door is not None:
            self._door.unwatch(connection.watched)

    def turn_away(self, who: str, error: Exception, admitted: bytes | None = None) -> None:
        with books.changing():
            self._admitted.difference_update([] if admitted is None else [admitted])
        is_ordinary = isinstance(error, RefusedError) and error.code in _ORDINARY_REFUSALS
        if is_ordinary or self._node.is_closed:
            return
        self.handshakes_failed += 1
        level = logging.INFO if has_gone(error) else logging.WARNING
        log.log(level, "%s was not let in: %s", who, error)

    def tick(self) -> None:
        """Tells components here what was lost on the way, and others what sinks here have dropped."""
        with books.changing():
            for peer in self._peers.values():
                peer.tick()
            for membership in self._node.memberships:
                membership.tick()

    # -----------------------------------------------------------------------
    # What peers ask

    def membership_of(self, uid: bytes) -> Membership | None:
        return self._node.membership_of(uid)

    def members_of(self, membership: Membership) -> list[tuple[bytes, tuple[str, ...]]]:
        """Who else is on a channel, and where: other processes, and other nodes of this one."""
        return membership.acquaintances()

    def _declaration_of(self, uid: bytes) -> Declaration | None:
        membership = self._node.membership_of(uid)
        return None if membership is None else declaration_of(membership)

    def release_if_unused(self, peer: Peer) -> None:
        """A link that carries no channel any more is ended."""
        if not peer.is_used and not any(peer in held.peers for held in self._node.memberships):
            peer.say_goodbye("no channel is left on the link", Farewell.UNUSED)

    def peer_ended(self, peer: Peer, reason: str, error: EchoError | None) -> None:
        if self._peers.get(peer.node_id) is peer:
            del self._peers[peer.node_id]
        if error is not None and not self._node.is_closed:
            self.links_lost += 1
            log.warning("link to %s lost: %s", str(peer), error)  # a record may be kept; a peer should not
        for membership in self._node.memberships:
            membership.remove_peer(peer, reason)

    # -----------------------------------------------------------------------
    # Their life

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
            door = Doorkeeper(self, self._node.name)
            unfinished.callback(door.close)
            self.addresses = tuple(
                sockets.bound_address(listener, advertised_host=self._place.advertised_host)
                for listener in listeners
            )
            self._door = door
            try:
                door.start(listeners)
            except RuntimeError as error:
                msg = f"Expected a thread for the door of node `{self._node.name}`: {error}"
                raise LinkError(msg) from error
            unfinished.pop_all()  # from here on they are the doorkeeper's to close

    def _forget_door(self) -> None:
        self._door = None
        self.addresses = ()

    def _wanted_addresses(self) -> list[Address]:
        addresses: list[Address] = []
        if self._place.is_local:
            addresses.append(sockets.new_unix_address())
        if "tcp" in self._place.transports:
            addresses.append(self._place.listens_at)
        return addresses

    def statistics(self) -> tuple[LinkStatistics, ...]:
        with books.changing():
            peers = list(self._peers.values())
        return tuple(peer.statistics() for peer in peers)

    def __len__(self) -> int:
        return len(self._peers)

    def close(self, linger_s: float) -> None:
        with books.changing():
            peers = list(self._peers.values())
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
        with books.changing():
            pool, self._pool = self._pool, None  # whose memory goes with whoever else refers to it
        if pool is not None:
            pool.close()

    def abandon(self) -> None:
        """In a forked child: lets go of what belongs to the parent, without a word to anybody."""
        for peer in self._peers.values():
            peer.link.abandon()
        if self._door is not None:
            self._door.abandon()


def has_gone(error: BaseException) -> bool:
    """Whether one of two nodes that were to be linked is not on the channel any more, or nowhere.

    That is how one looks that has just left. Anything else wants somebody's eyes: silence, another key.
    """
    if isinstance(error, RefusedError):
        return error.code in _REFUSALS_OF_WHO_HAS_LEFT
    return isinstance(error.__cause__ if isinstance(error, LinkError) else error, _ENDS)


def _share(peer: Peer, membership: Membership, timeout_s: float, *, asked_s: float) -> None:
    with books.changing():
        peer.join(membership)
    try:
        answered = partial(peer.has_answered, membership)
        books.wait_for(answered, timeout_s, lambda: f"an answer from {peer}", asked_s=asked_s)
    except BaseException:
        with books.changing():
            peer.give_up(membership)
        raise
    with books.changing():
        peer.demand_joined(membership)
