"""The links of one node: at most one to each other node for each channel, mostly one for all of them.

A node id is a name that anybody can take; a link is trusted with the channels whose keys it has proven. So
it keeps another one away under its name only on a channel that both have proven. Where two nodes start a link
for a channel to each other at the same time, the handshake keeps that of the smaller node id, and refuses the
other; JOINs on two links are decided likewise. Where they do so for different channels, the other one is put
off: it finds the link of the first a moment later, and joins its channel there. But for a second at most, as
an impostor may have that link.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Container

from echo_core._c import locks
from echo_core.errors import ClosedError, RefusedError
from echo_core.roster.claims import Claims
from echo_core.roster.homes import Home
from echo_core.roster.peers import Peer
from echo_core.transports.handshake.exchange import duplicate
from echo_core.transports.handshake.proofs import Role
from echo_core.transports.protocol.messages import Refusal, word_of

_UNUSED_PART = 8  # of the links that a node may have, so many may carry no channel yet
_LEAST_UNUSED = 16
_PUT_OFF_S, _ANEW_S = 1.0, 10.0  # for so long, and so much later once more

_Claim = tuple[bytes, bytes]  # a node id, and the channel whose key goes with it


class LinkTable:
    """Called with the books open."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._peers: dict[bytes, list[Peer]] = {}  # by the node id that they go by
        self._proving = Claims[_Claim]()  # to whom attempts of ours have sent their proofs
        self._admitted: set[_Claim] = set()  # who was let in, and whose link is not there yet
        self._put_off: dict[_Claim, float] = {}  # since when, as a link for another channel is being made

    def __len__(self) -> int:
        return sum(map(len, self._peers.values()))

    def peer(self, node_id: bytes, uid: bytes) -> Peer | None:
        """The link by which a node has proven the key of a channel."""
        proven = [peer for peer in self._peers.get(node_id, ()) if peer.has_proven(uid)]
        return next((peer for peer in proven if peer.shares(uid)), proven[0] if proven else None)

    def namesake(self, node_id: bytes, besides: Container[Peer]) -> Peer | None:
        """A link under the name of that node, whatever it has proven."""
        return next((peer for peer in self._peers.get(node_id, ()) if peer not in besides), None)

    def peers(self) -> list[Peer]:
        return [peer for namesakes in self._peers.values() for peer in namesakes]

    def add(self, peer: Peer) -> None:
        """The node may have been closed, or linked otherwise, since the handshake asked."""
        if self._home.is_closed:
            msg = f"Expected node `{self._home.name}` to be open, it has been closed"
            raise ClosedError(msg)
        if self.peer(peer.node_id, peer.uid) is not None:
            msg = f"Expected one link to {peer}, there is another already"
            raise RefusedError(msg, code=word_of(Refusal.DUPLICATE))
        self._peers.setdefault(peer.node_id, []).append(peer)

    def remove(self, peer: Peer) -> None:
        namesakes = self._peers.get(peer.node_id, [])
        if peer in namesakes:
            namesakes.remove(peer)
        if not namesakes:
            self._peers.pop(peer.node_id, None)

    def _is_linked(self, claim: _Claim) -> bool:
        return claim in self._admitted or self.peer(*claim) is not None

    def proving(self, attempt: object) -> locks.Held:
        """For `with`: an attempt of ours, which is over then. Not with the books open."""
        return self._proving.until_end_of(attempt)

    def start_proving(self, attempt: object, node_id: bytes, uid: bytes) -> Refusal | None:
        """Before an attempt of ours sends its proof, within `proving`."""
        claim = node_id, uid
        is_meeting = self._is_meeting(node_id, {*self._proving.all(), *self._admitted}, *Role)
        if self._is_linked(claim) or claim in self._proving.all() or (is_meeting and self._puts_off(claim)):
            return Refusal.DUPLICATE
        self._proving.add(attempt, claim)
        return None

    def admit(self, node_id: bytes, uid: bytes) -> Refusal | None:
        """A node that has started a link to here; without a refusal `end_admission` is to follow."""
        if self._home.is_closed:
            return Refusal.CLOSING
        if len(self) >= self._home.limits.links:
            return Refusal.BUSY
        claim = node_id, uid
        is_linked, is_proving = self._is_linked(claim), claim in self._proving.all()
        refusal = duplicate(self._home.id, node_id, is_linked=is_linked, is_proving=is_proving)
        if refusal is None and self._home.id < node_id:
            is_calling = self._is_meeting(node_id, self._proving.all(), Role.INITIATOR)
            refusal = Refusal.DUPLICATE if is_calling and self._puts_off(claim) else None
        if refusal is None:
            self._admitted.add(claim)
            self._make_room()
        return refusal

    def _is_meeting(self, node_id: bytes, claims: Collection[_Claim], *roles: Role) -> bool:
        """Whether a link to that node is being made, or has just been, by this node in one of these roles."""
        now = time.monotonic()
        return any(named == node_id for named, _ in claims) or any(
            now - peer.made_at < _PUT_OFF_S and peer.role in roles and not peer.conversation.farewell
            for peer in self._peers.get(node_id, ())
        )

    def _puts_off(self, claim: _Claim) -> bool:
        """For a second, so that the other link is there when it is tried again."""
        now = time.monotonic()
        self._put_off = {each: since for each, since in self._put_off.items() if now - since < _ANEW_S}
        return now - self._put_off.setdefault(claim, now) < _PUT_OFF_S

    def _make_room(self) -> None:
        """Who joins nothing has few of the places: the one that has been idle for longest goes."""
        unused = [peer for peer in self.peers() if peer.unused_s > 0]
        if len(unused) >= max(_LEAST_UNUSED, self._home.limits.links // _UNUSED_PART):
            max(unused, key=lambda peer: peer.unused_s).make_way()

    def end_admission(self, node_id: bytes, uid: bytes) -> None:
        self._admitted.discard((node_id, uid))

    def admit_on(self, peer: Peer | None, uid: bytes) -> Refusal | None:
        """A channel that a peer asks to share on its link: events would come twice over two links."""
        if peer is None:  # gone meanwhile
            return None
        others = [other for other in self._peers.get(peer.node_id, ()) if other is not peer]
        is_linked = any(other.shares(uid) for other in others)
        is_proving = any(other.is_asking_for(uid) for other in others)
        return duplicate(self._home.id, peer.node_id, is_linked=is_linked, is_proving=is_proving)
