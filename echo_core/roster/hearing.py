"""What another process says on a link: control frames, and which part of the node each of them goes to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from echo_core.errors import WireError
from echo_core.roster import derivations, matching, presence, requests, vouching
from echo_core.roster.bookkeeping import books
from echo_core.roster.homes import Home
from echo_core.roster.memberships import Membership
from echo_core.roster.peers import Peer
from echo_core.streams.conversations import Conversation
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.outgoing import OutgoingStream
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.link_state import ChannelOnLink, OwnStream, PeerStream
from echo_core.transports.protocol.messages import Message
from echo_core.transports.threads import log

_WITH_FORMATS = frozenset({messages.Source.kind, messages.Declared.kind, messages.Derive.kind})


def hear(home: Home, peer: Peer, kind: int, payload: bytes) -> None:
    """Follows a control frame. The peer pays for the time, and its next frame waits if that was too much.

    An answer is paid for by who has asked: the protocol lets no more come than that.
    """
    conversation = peer.conversation
    if kind == messages.Ack.kind:
        _hear_at_once(home, peer, kind, payload)
        return
    if peer.link.is_open:  # else nobody is held back by what was read before
        conversation.rest()
    with conversation.hearing.charged():
        ready = _made_ready(peer, kind, payload) if kind in _WITH_FORMATS else None
        _hear_at_once(home, peer, kind, payload)
        del ready  # by now those have it who use it


def _hear_at_once(home: Home, peer: Peer, kind: int, payload: bytes) -> None:
    conversation = peer.conversation
    with books.changing():
        conversation.offered = None
        for message, about in conversation.protocol.receive(kind, payload):
            _follow(home, peer, message, about)
        conversation.send()


def _made_ready(peer: Peer, kind: int, payload: bytes) -> object:
    """What is made of a peer's formats, which takes long: not with the books open, which others wait for."""
    conversation = peer.conversation
    if kind == messages.Derive.kind:
        return conversation.derivation_of(conversation.protocol.derivation_in(payload))
    channel, metadata = conversation.protocol.formats_in(kind, payload)
    formats = [conversation.format_of(each) for each in metadata]
    membership: Membership | None = None if channel is None else channel.owner
    if membership is None or kind != messages.Source.kind:
        return None
    return [matching.make_ready_for(membership, format_, conversation.compiling) for format_ in formats]


def _follow(home: Home, peer: Peer, message: Message, about: Any) -> None:
    """A peer that breaks the protocol loses its link; a failure of this side does not end it."""
    try:
        if isinstance(about, ChannelOnLink):
            _follow_channel(home, peer, message, about)
        elif isinstance(about, OwnStream | PeerStream):
            _follow_stream(peer, message, about)
        else:
            _follow_link(peer, message)
    except WireError:
        raise
    except Exception:  # noqa: BLE001 - a fault of this side, for which others on the link need not pay
        log.exception("link to %s: %s", str(peer), type(message).__name__)


def _follow_channel(home: Home, peer: Peer, message: Message, channel: ChannelOnLink) -> None:
    membership: Membership | None = channel.owner  # None: the node has left the channel
    match message:
        case messages.Join() | messages.Joined():
            _share(home, peer, channel)
        case messages.Declared() if membership is not None:
            membership.learn(channel.name, tuple(map(peer.conversation.format_of, channel.types)))
        case messages.Member() if membership is not None:
            presence.hear_of(membership, peer.node_id, message)
        case messages.Derive() if membership is not None:
            derivations.hear_of(membership, peer, message)
        case messages.Adjust() if membership is not None:
            derivations.hear_values(membership, message)
        case messages.Underivable() if membership is not None:
            vouching.hear_underivable(membership, peer, message)
        case messages.Refused():
            peer.forget(channel)  # whoever asked finds the refusal there
            if (asked_for := home.memberships.get(channel.uid)) is not None:
                vouching.refuse(asked_for, peer)
        case messages.Leave():
            peer.forget(channel)
            if membership is not None:
                membership.remove_peer(peer, "", has_left=True)
            peer.release_if_unused()
        case _:
            pass


def _share(home: Home, peer: Peer, channel: ChannelOnLink) -> None:
    membership = channel.owner = home.memberships.get(channel.uid)
    if membership is None:
        return
    peer.add(channel)
    membership.add_peer(peer)


def _follow_stream(peer: Peer, message: Message, value: OwnStream | PeerStream) -> None:
    """GAP and CREDIT are the C half's of a stream. A stream that has ended here has no owner."""
    membership: Membership | None = value.channel.owner
    stream = value.owner
    match message, stream:
        case messages.Source(), _ if membership is not None and isinstance(value, PeerStream):
            value.owner = peer.conversation.offered = IncomingStream(peer.conversation, value)
            membership.add_incoming(peer, value.owner)
        case messages.Started(), IncomingStream():
            stream.start(message.sequence, message.kept)
            if membership is not None:
                membership.note_start(stream)
        case messages.Judged(), IncomingStream():
            stream.judge(message)
        case messages.Parameter(), IncomingStream() if membership is not None:
            requests.hear_parameter(membership, stream, message)
        case messages.Requested(), IncomingStream():
            stream.hear_answer(message)
        case messages.Request(), OutgoingStream():
            requests.hear_request(peer, stream, message)
        case messages.Closed(), IncomingStream() if membership is not None:
            _follow_closed(peer, membership, stream)
        case messages.Closed(), _ if isinstance(value, PeerStream):  # nobody here had heard of it
            peer.conversation.command(partial(peer.conversation.protocol.release, value))
        case messages.Attach(), OutgoingStream():
            stream.attached(message.sinks, message.first, message.limit_events, message.limit_bytes)
        case messages.Dropped(), OutgoingStream() if membership is not None:
            membership.dropped_elsewhere(peer, stream.origin, message.events)
        case messages.Unreachable(), OutgoingStream() if membership is not None:
            membership.refused_elsewhere(peer, stream.origin, message.text)
        case (messages.Ack() | messages.Missed() | messages.Handled(), OutgoingStream()):
            stream.hear_answer(message)
        case messages.Released(), OutgoingStream():
            peer.released(stream)
        case _:
            pass


def _follow_closed(peer: Peer, membership: Membership, stream: IncomingStream) -> None:
    """Once handlers are done with what came before; what queues have then is confirmed as it is taken."""
    conversation = peer.conversation

    def follow() -> None:
        if stream.told.owner is stream and not conversation.farewell:  # else it has ended in another way
            membership.remove_incoming(stream)
            stream.close()

    if not stream.told.is_open:  # its channel was left
        membership.remove_incoming(stream)
        stream.end()
    elif not _is_called_behind(conversation, follow, stream):
        follow()


def _follow_link(peer: Peer, message: Message) -> None:
    conversation = peer.conversation
    match message:
        case messages.Flush():
            _answer_flush(conversation, message.number)
        case messages.Flushed():
            conversation.unanswered.discard(message.number)
        case messages.Bye():
            conversation.part(message.text or "it has not said why")
            peer.link.conclude()  # sinks that are slow get what came before
        case _:
            pass


def _answer_flush(conversation: Conversation, number: int) -> None:
    """Once all that came before is handed over, also by threads that are at slow sinks."""

    def answer() -> None:
        conversation.report_drops()
        conversation.confirm()
        conversation.command(partial(conversation.protocol.answer_flush, number))

    if not _is_called_behind(conversation, answer):
        answer()


def _is_called_behind(
    conversation: Conversation, called: Callable[[], None], stream: IncomingStream | None = None
) -> bool:
    """Whether threads are at slow sinks that have yet to finish; where a stream is named, with its events.

    The last of them has it called, with the books open.
    """
    at_it = 0

    def count_down() -> None:
        nonlocal at_it
        with books.changing():
            at_it -= 1
            if at_it == 0:
                called()

    at_it = conversation.link.call_behind(count_down, stream)
    return at_it > 0
