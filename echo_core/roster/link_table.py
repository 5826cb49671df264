"""The links of one node: at most one to each other node, for all channels.

Where two nodes start a link to each other at the same time, the handshake keeps that of the smaller node id,
and refuses the other.
"""

from __future__ import annotations

from echo_core.errors import ClosedError, RefusedError
from echo_core.roster.memberships import Home
from echo_core.roster.peers import Peer
from echo_core.transports.handshake.exchange import duplicate
from echo_core.transports.handshake.words import Identity
from echo_core.transports.protocol.messages import Refusal, word_of


class LinkTable:
    """Called with the books open."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._peers: dict[bytes, Peer] = {}
        self._proving: set[bytes] = set()  # nodes to which an attempt of ours has sent its proof
        self._admitted: set[bytes] = set()  # nodes that were let in, and whose link is not there yet

    def __len__(self) -> int:
        return len(self._peers)

    def peer(self, node_id: bytes) -> Peer | None:
        return self._peers.get(node_id)

    def peers(self) -> list[Peer]:
        return list(self._peers.values())

    def add(self, peer: Peer) -> None:
        """The node may have been closed, or linked otherwise, since the handshake asked."""
        if self._home.is_closed:
            msg = f"Expected node `{self._home.name}` to be open, it has been closed"
            raise ClosedError(msg)
        if peer.node_id in self._peers:
            msg = f"Expected one link to {peer}, there is another already"
            raise RefusedError(msg, code=word_of(Refusal.DUPLICATE))
        self._peers[peer.node_id] = peer

    def remove(self, peer: Peer) -> None:
        if self._peers.get(peer.node_id) is peer:
            del self._peers[peer.node_id]

    def _is_linked(self, node_id: bytes) -> bool:
        return node_id in self._peers or node_id in self._admitted

    def start_proving(self, node_id: bytes) -> Refusal | None:
        """Before an attempt of ours sends its proof; without a refusal `end_proving` is to follow."""
        if self._is_linked(node_id) or node_id in self._proving:
            return Refusal.DUPLICATE
        self._proving.add(node_id)
        return None

    def end_proving(self, node_id: bytes) -> None:
        self._proving.discard(node_id)

    def admit(self, guest: Identity) -> Refusal | None:
        """A node that has started a link to here; without a refusal `end_admission` is to follow."""
        if self._home.is_closed:
            return Refusal.CLOSING
        if len(self._peers) >= self._home.limits.links:
            return Refusal.BUSY
        is_linked, is_proving = self._is_linked(guest.node_id), guest.node_id in self._proving
        refusal = duplicate(self._home.id, guest.node_id, is_linked=is_linked, is_proving=is_proving)
        if refusal is None:
            self._admitted.add(guest.node_id)
        return refusal

    def end_admission(self, node_id: bytes) -> None:
        self._admitted.discard(node_id)
