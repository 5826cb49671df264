"""What another process says on a link: control frames, and which part of the node each of them goes to."""

from __future__ import annotations

from typing import Any

from echo_core.errors import WireError
from echo_core.roster.bookkeeping import books
from echo_core.roster.memberships import Home, Membership
from echo_core.roster.peers import Peer
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.outgoing import OutgoingStream
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.link_state import ChannelOnLink, OwnStream, PeerStream
from echo_core.transports.protocol.messages import Message
from echo_core.transports.threads import log

Told = tuple[Membership, bytes, tuple[str, ...]]  # another member of a channel, and its addresses


def hear(home: Home, peer: Peer, kind: int, payload: bytes) -> list[Told]:
    """Follows a control frame; returns the members that it told of, which the node is to link to."""
    with books.changing():
        if kind == messages.Closed.kind:
            peer.conversation.report_drops()  # which cannot be reported once the stream is released
        told: list[Told] = []
        for message, about in peer.conversation.protocol.receive(kind, payload):
            told += _follow(home, peer, message, about)
        peer.conversation.send()
        return told


def _follow(home: Home, peer: Peer, message: Message, about: Any) -> list[Told]:
    """A peer that breaks the protocol loses its link; a failure of this side does not end it."""
    try:
        if isinstance(about, ChannelOnLink):
            return _follow_channel(home, peer, message, about)
        if isinstance(about, OwnStream | PeerStream):
            _follow_stream(peer, message, about)
        else:
            _follow_link(peer, message)
    except WireError:
        raise
    except Exception:  # noqa: BLE001 - a fault of this side, for which others on the link need not pay
        log.exception("link to %s: %s", str(peer), type(message).__name__)
    return []


def _follow_channel(home: Home, peer: Peer, message: Message, channel: ChannelOnLink) -> list[Told]:
    membership: Membership | None = channel.owner  # None: the node has left the channel
    match message:
        case messages.Join() | messages.Joined():
            _share(home, peer, channel)
        case messages.Declared() if membership is not None:
            membership.learn(channel.name, tuple(map(peer.conversation.format_of, channel.types)))
        case messages.Member() if membership is not None and message.addresses:
            return [(membership, message.node_id, message.addresses)]
        case messages.Refused():
            peer.forget(channel)  # whoever asked finds the refusal there
        case messages.Leave():
            peer.forget(channel)
            if membership is not None:
                membership.remove_peer(peer, "")
            peer.release_if_unused()
        case _:
            pass
    return []


def _share(home: Home, peer: Peer, channel: ChannelOnLink) -> None:
    membership = channel.owner = home.memberships.get(channel.uid)
    if membership is None:
        return
    peer.add(channel)
    for node_id, addresses in membership.acquaintances():
        if addresses and node_id != peer.node_id:
            peer.conversation.protocol.tell_member(channel, node_id, addresses)
    membership.add_peer(peer)


def _follow_stream(peer: Peer, message: Message, value: OwnStream | PeerStream) -> None:
    """A GAP is counted by the stream's C half. A stream that has ended here has no owner."""
    membership: Membership | None = value.channel.owner
    stream = value.owner
    match message, stream:
        case messages.Source(), _ if membership is not None and isinstance(value, PeerStream):
            value.owner = IncomingStream(peer.conversation, value)
            membership.add_incoming(value.owner)
        case messages.Started(), IncomingStream():
            stream.sequence = message.sequence
        case messages.Closed(), IncomingStream() if membership is not None:
            membership.remove_incoming(stream)
        case messages.Attach(), OutgoingStream():
            stream.attached(message.sinks)
        case messages.Dropped(), OutgoingStream() if membership is not None:
            membership.dropped_elsewhere(peer, stream.origin, message.events)
        case messages.Unreachable(), OutgoingStream() if membership is not None:
            membership.refused_elsewhere(peer, stream.origin, message.text)
        case messages.Released(), OutgoingStream():
            peer.released(stream)
        case _:
            pass


def _follow_link(peer: Peer, message: Message) -> None:
    conversation = peer.conversation
    match message:
        case messages.Flush():
            conversation.report_drops()
            conversation.protocol.answer_flush(message.number)
        case messages.Flushed():
            conversation.unanswered.discard(message.number)
        case messages.Bye():
            conversation.part(message.text or "it has not said why")
            peer.link.shut()
        case _:
            pass
