"""What another process says on a link: control frames, and which part of the node each of them goes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from echo_core.errors import WireError
from echo_core.roster.bookkeeping import books, log
from echo_core.roster.memberships import Home, Membership
from echo_core.roster.peers import Peer
from echo_core.streams.incoming import IncomingStream, incoming_stream
from echo_core.streams.outgoing import outgoing_stream
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.messages import Message
from echo_core.transports.protocol.streams import ChannelOnLink, OwnStream, PeerStream

Told = tuple[Membership, bytes, tuple[str, ...]]  # another member of a channel, and its addresses


def hear(home: Home, peer: Peer, kind: int, payload: bytes) -> list[Told]:
    """Follows a control frame; returns the members that it told of, which the node is to link to."""
    with books.changing():
        if kind == messages.Closed.kind:
            peer.conversation.report_drops()  # which cannot be reported once the stream is released
        told: list[Told] = []
        for message, about in peer.conversation.receive(kind, payload):
            told += _follow(home, peer, message, about)
        peer.conversation.send()
        return told


def _follow(home: Home, peer: Peer, message: Message, about: Any) -> list[Told]:
    """A peer that breaks the protocol loses its link; a failure of this side does not end it."""
    try:
        if isinstance(message, messages.Member):
            return _member(message, about)
        if isinstance(message, messages.Join | messages.Joined):
            _shared(home, peer, about)
        else:
            _FOLLOWED[type(message)](peer, message, about)
    except WireError:
        raise
    except Exception:  # noqa: BLE001 - a fault of this side, for which others on the link need not pay
        log.exception("link to %s: %s", str(peer), type(message).__name__)
    return []


# --- channels ---


def _membership(channel: ChannelOnLink) -> Membership | None:
    owner: Any = channel.owner
    assert owner is None or isinstance(owner, Membership)
    return owner


def _shared(home: Home, peer: Peer, channel: ChannelOnLink) -> None:
    membership = channel.owner = home.memberships.get(channel.channel_id)
    if membership is None:
        return
    peer.add(channel)
    for node_id, addresses in membership.acquaintances():
        if addresses and node_id != peer.node_id:
            peer.conversation.protocol.tell_member(channel, node_id, addresses)
    membership.add_peer(peer)


def _declared(peer: Peer, _: messages.Declared, channel: ChannelOnLink) -> None:
    membership = _membership(channel)
    if membership is not None:
        membership.learn(channel.name, tuple(map(peer.conversation.format_of, channel.types)))


def _refused(peer: Peer, _: messages.Refused, channel: ChannelOnLink) -> None:
    peer.forget(channel)  # whoever asked finds the refusal there


def _left(peer: Peer, _: messages.Leave, channel: ChannelOnLink) -> None:
    membership = _membership(channel)
    peer.forget(channel)
    if membership is not None:
        membership.remove_peer(peer, "")
    peer.release_if_unused()


def _member(message: messages.Member, channel: ChannelOnLink) -> list[Told]:
    membership = _membership(channel)
    is_there = membership is not None and message.addresses
    return [(membership, message.node_id, message.addresses)] if membership is not None and is_there else []


# --- the peer's sources ---


def _offered(peer: Peer, _: messages.Source, value: PeerStream) -> None:
    membership = _membership(value.channel)
    if membership is not None:
        value.owner = stream = IncomingStream(peer.conversation, value)
        membership.add_incoming(stream)


def _started(_: Peer, message: messages.Started, value: PeerStream) -> None:
    stream = incoming_stream(value)
    if stream is not None:
        stream.sequence = message.sequence


def _closed(_: Peer, __: messages.Closed, value: PeerStream) -> None:
    stream, membership = incoming_stream(value), _membership(value.channel)
    if stream is not None and membership is not None:
        membership.remove_incoming(stream)


# --- sources here ---


def _attached(_: Peer, message: messages.Attach, value: OwnStream) -> None:
    stream = outgoing_stream(value)
    if stream is not None:
        stream.attached(message.sinks)


def _dropped(peer: Peer, message: messages.Dropped, value: OwnStream) -> None:
    stream, membership = outgoing_stream(value), _membership(value.channel)
    if stream is not None and membership is not None:
        membership.dropped_elsewhere(peer, stream.origin, message.events)


def _unreachable(peer: Peer, message: messages.Unreachable, value: OwnStream) -> None:
    stream, membership = outgoing_stream(value), _membership(value.channel)
    if stream is not None and membership is not None:
        membership.refused_elsewhere(peer, stream.origin, message.text)


def _released(peer: Peer, _: messages.Released, value: OwnStream) -> None:
    stream = outgoing_stream(value)
    if stream is not None:
        peer.released(stream)


# --- the link ---


def _gap(_: Peer, __: messages.Gap, ___: PeerStream) -> None:
    """Counted by the stream's C half."""


def _flush(peer: Peer, message: messages.Flush, _: None) -> None:
    peer.conversation.report_drops()
    peer.conversation.protocol.answer_flush(message.number)


def _flushed(peer: Peer, message: messages.Flushed, _: None) -> None:
    peer.conversation.unanswered.discard(message.number)


def _bye(peer: Peer, message: messages.Bye, _: None) -> None:
    peer.conversation.part(message.text or "it has not said why")
    peer.link.shut()


_FOLLOWED: dict[type[Message], Callable[[Peer, Any, Any], None]] = {
    messages.Declared: _declared,
    messages.Refused: _refused,
    messages.Leave: _left,
    messages.Source: _offered,
    messages.Started: _started,
    messages.Closed: _closed,
    messages.Attach: _attached,
    messages.Dropped: _dropped,
    messages.Unreachable: _unreachable,
    messages.Released: _released,
    messages.Gap: _gap,
    messages.Flush: _flush,
    messages.Flushed: _flushed,
    messages.Bye: _bye,
}
