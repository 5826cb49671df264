"""Whose sources are those of a derived channel: of nodes that have its base, and of what that base has.

Whoever has the id of a derived channel alone takes what comes there, and can put no sources on it. A node
that has the base holds a source of another process back until that has proven the base's key on the same
link. A source that cannot have what the derivation reads has none there, which is told at both ends. Called
with the books open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from echo_core.errors import ChannelError, ClosedError, EchoError, RefusedError, unexpected
from echo_core.roster import matching, presence
from echo_core.roster.together import mates_of
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.origins import Origin
from echo_core.transports.limits import MAX_REPORT_BYTES
from echo_core.transports.protocol.link import cut
from echo_core.transports.protocol.messages import Underivable
from echo_core.values.notices import HERE, SourceOpened, Unreachable

if TYPE_CHECKING:
    from echo_core.roster.memberships import Membership
    from echo_core.roster.peers import Peer

_REMEDY = "derive by a class that has a default for what sources lack, and types that theirs convert to"
_STRANGE = (
    "its process does not know of derived channels: who has the channel that this is derived from gets it"
)
_UNTOLD = "it lacks what the derivation reads; who has the channel that it is derived from is told what"
_MOST_KNOWN = 64  # of one peer; it may tell of any number

# ---------------------------------------------------------------------------
# Sources that cannot be derived from


def note_underivable(child: Membership, origin: Origin, error: EchoError) -> None:
    """A source here has nothing on a derived channel: said here, and to all who take that channel."""
    descent = child.descent
    assert descent is not None
    text = cut(f"{error}: {_REMEDY}", MAX_REPORT_BYTES)
    if origin.peer != HERE:  # on receipt, which is this node's own affair
        descent.unreceivable[origin] = text
        child.announcements.tell_underivable(child.shown, origin.peer, origin.name, text)
        return
    descent.underivable[origin] = text
    descent.base.announcements.tell_underivable(descent.base.shown, HERE, origin.name, text)
    for mate in mates_of(child):
        if mate is not child or child.handles > 1 or child.targets:  # else nobody here has opened it
            mate.announcements.tell_underivable(mate.shown, HERE, origin.name, _told_to(mate, text))
    for peer in child.peers:
        _tell_underivable(child, peer, origin)
    presence.stand(child)


def tell_underivable_to(child: Membership, peer: Peer) -> None:
    """A peer that is new on a derived channel hears of sources that have nothing there."""
    descent = child.descent
    if descent is not None:
        for origin in descent.underivable:
            _tell_underivable(child, peer, origin)
        for _, stream in strangers_on(descent.base):
            _tell_stranger(child, peer, stream, _STRANGE)


def _tell_underivable(child: Membership, peer: Peer, origin: Origin) -> None:
    """What a derivation reads is no part of what its id grants."""
    descent = child.descent
    assert descent is not None
    text = descent.underivable[origin] if peer.has_proven(descent.base.id.uid) else _UNTOLD
    peer.tell_derived(child.id.uid, Underivable(0, origin.id, origin.name, text))


def strangers_on(base: Membership) -> list[tuple[Peer, IncomingStream]]:
    """Sources whose processes do not know of derived channels: derived from on receipt (receipt.py)."""
    peers = {peer.link: peer for peer in base.peers if not peer.knows_derived_channels}
    if not peers:
        return []
    streams = [stream for stream in base.incoming if stream.link in peers and not stream.is_held_back]
    return [(peers[stream.link], stream) for stream in streams]


def note_strangers(child: Membership, base: Membership) -> None:
    """Who has the id of a new derived channel alone has nothing of them."""
    for peer, stream in strangers_on(base):
        _note_stranger(child, peer, stream)


def note_stranger(base: Membership, peer: Peer, stream: IncomingStream) -> None:
    """Likewise where such a source comes, on all that are derived."""
    for child in base.derived.values():
        _note_stranger(child, peer, stream)


def _note_stranger(child: Membership, peer: Peer, stream: IncomingStream) -> None:
    for mate in mates_of(child):
        if mate.descent is None:
            mate.announcements.tell_underivable(mate.shown, str(peer), stream.name, _STRANGE)
    for other in child.peers:
        _tell_stranger(child, other, stream, _STRANGE)


def _tell_stranger(child: Membership, peer: Peer, stream: IncomingStream, text: str) -> None:
    assert child.descent is not None
    if not peer.has_proven(child.descent.base.id.uid):
        said = Underivable(0, stream.told.source_id, stream.name, text)
        peer.tell_derived(child.id.uid, said)


def forget_stranger(base: Membership, stream: IncomingStream) -> None:
    """Its source is closed, or its link is lost."""
    is_strange = any(peer.link is stream.link and not peer.knows_derived_channels for peer in base.peers)
    for child in base.derived.values():
        for known in child.underivable.values():
            known.pop(stream.told.source_id, None)
        for peer in child.peers if is_strange else ():
            _tell_stranger(child, peer, stream, "")


def hear_underivable(child: Membership, peer: Peer, said: Underivable) -> None:
    """A source elsewhere has nothing on a derived channel; without a text that is over."""
    if said.text:
        note_elsewhere(child, peer, said.source_id, said.name, said.text)
    else:
        child.underivable.get(peer.node_id, {}).pop(said.source_id, None)


def note_elsewhere(child: Membership, peer: Peer, source_id: bytes, name: str, text: str) -> None:
    """Of a source of a peer's, or of one that the peer tells of; others may have told of that already."""
    if any(source_id in known for known in child.underivable.values()):
        return
    known = child.underivable.setdefault(peer.node_id, {})
    if len(known) < _MOST_KNOWN:
        known[source_id] = Unreachable(str(peer), name, text)
        child.announcements.tell_underivable(child.shown, str(peer), name, text)


def underivable_now(membership: Membership) -> Iterator[Unreachable]:
    """For who begins to watch a channel: which sources have nothing there, or on what is derived from it."""
    for known in membership.underivable.values():
        yield from known.values()
    for mate in mates_of(membership):
        for origin, text in _underivable_by(mate):
            yield Unreachable(HERE, origin.name, _told_to(membership, text))
        if membership.descent is None and mate.descent is not None:
            for peer, stream in strangers_on(mate.descent.base):
                yield Unreachable(str(peer), stream.name, _STRANGE)
    if membership.descent is not None:
        for origin, text in membership.descent.unreceivable.items():
            yield Unreachable(origin.peer, origin.name, text)
    for child in membership.derived.values():
        for origin, text in _underivable_by(child):
            yield Unreachable(HERE, origin.name, text)


def _underivable_by(child: Membership) -> list[tuple[Origin, str]]:
    return [] if child.descent is None else list(child.descent.underivable.items())


def _told_to(mate: Membership, text: str) -> str:
    """A node of this process that has the derived channel's id alone is told no more than one elsewhere."""
    return _UNTOLD if mate.descent is None else text


def forget_underivable(child: Membership, origin: Origin) -> None:
    """A source here is closed."""
    descent = child.descent
    if descent is not None:
        descent.unreceivable.pop(origin, None)
    if descent is None or descent.underivable.pop(origin, None) is None:
        return
    for peer in child.peers:
        peer.tell_derived(child.id.uid, Underivable(0, origin.id, origin.name, ""))
    presence.stand(child)


# ---------------------------------------------------------------------------
# Sources that may have been put there


def hold_back(child: Membership, peer: Peer, stream: IncomingStream) -> None:
    """Nobody here takes a source on a derived channel until its side, which is asked, has proven the base."""
    descent = child.descent
    if descent is None or peer.has_proven(descent.base.id.uid):
        return
    stream.is_held_back = True
    if peer.conversation.protocol.channel(descent.base.id.uid) is None:
        try:
            peer.join(descent.base.id.uid)
        except (ClosedError, RefusedError):  # the link is closing, or carries too many channels
            refuse(descent.base, peer)


def admit(base: Membership, peer: Peer) -> None:
    """A peer has proven a channel: its sources are taken on what is derived from that."""
    for child, stream in _held_back(base, peer):
        stream.is_held_back = False
        matching.feed(child, stream, list(child.targets))
        child.announcements.tell(SourceOpened(stream.peer, stream.name, stream.format))


def refuse(base: Membership, peer: Peer) -> None:
    """A peer has no more than the id of what is derived: its sources are not taken, as both sides hear."""
    for child, stream in _held_back(base, peer):
        expected = f"no sources on the derived `{child.shown}` but those of who has `{base.shown}`"
        error = unexpected(ChannelError, expected, f"`{stream.name}` of a process that has not proven that")
        child.announcements.tell_unreachable(child.shown, stream.peer, stream.name, error)
        with suppress(ClosedError):
            stream.report_unreachable(str(error))


def _held_back(base: Membership, peer: Peer) -> list[tuple[Membership, IncomingStream]]:
    return [
        (child, stream)
        for child in base.derived.values()
        for stream in child.incoming
        if stream.is_held_back and stream.link is peer.link
    ]
