"""What the peer may say when, and what it does: one table for all messages.

Whoever leaves a channel or closes a stream still gets what the peer had sent by then. Such a message is
checked as any other, but the node does not hear it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from echo_core.errors import WireError, unexpected
from echo_core.transports import limits
from echo_core.transports.protocol import joining, messages
from echo_core.transports.protocol.joining import Input, states_of
from echo_core.transports.protocol.link_state import (
    About,
    ChannelOnLink,
    ChannelState,
    Heard,
    LinkState,
    OwnStream,
    PeerStream,
    StreamState,
)
from echo_core.transports.protocol.messages import Message

State = ChannelState | StreamState


def receive(link: LinkState, message: Message) -> list[Heard]:
    """What the node hears of a message; WireError where it may not come."""
    place = _PLACES[type(message)]
    about = None if place.subject is None else _find(link, message, place.subject, place.states)
    return place.apply(link, message, about)


def formats_in(link: LinkState, message: Message) -> tuple[ChannelOnLink | None, list[bytes]]:
    """The channel and the formats that a message is about, before it is received: perhaps it may not come."""
    match message:
        case messages.Source():
            numbers = [message.format]
        case messages.Declared():
            numbers = list(message.types)
        case _:
            return None, []
    known = link.peer_formats
    return link.channels.get(message.alias), [known[number] for number in numbers if number < len(known)]


@dataclass(frozen=True, slots=True)
class Subject:
    """What messages are about, and how it is found."""

    noun: str
    number: str  # the field that names it
    find: Callable[[LinkState, Any], About | None]


class Place(NamedTuple):
    """Where a message may stand: in which states of its subject; and what it does there."""

    subject: Subject | None  # None: the link
    states: frozenset[State]
    apply: Callable[[LinkState, Any, Any], list[Heard]]


def _find(link: LinkState, message: Message, subject: Subject, states: frozenset[State]) -> About:
    about = subject.find(link, message)
    if about is None or about.state not in states:
        state = "unknown" if about is None else about.state.name.lower()
        what = f"{subject.noun} {getattr(message, subject.number)}, which is {state}"
        msg = f"Expected no {message.word} for {what}"
        raise WireError(msg)
    return about


# --- what each message does ---


def _hear(_: LinkState, message: Message, about: About | None) -> list[Heard]:
    """Nothing but what the node hears, unless it has left the channel."""
    channel = about if about is None or isinstance(about, ChannelOnLink) else about.channel
    return [Heard(message, about)] if channel is None or channel.is_shared else []


def _hear_unless_closed(_: LinkState, message: Message, stream: OwnStream) -> list[Heard]:
    return [Heard(message, stream)] if stream.is_open else []


def _declared(link: LinkState, declared: messages.Declared, channel: ChannelOnLink) -> list[Heard]:
    if channel.is_declared:
        raise unexpected(WireError, "DECLARED once", declared.alias)
    channel.is_declared = True
    channel.name = declared.name
    channel.types = tuple([link.peer_formats.metadata_of(number) for number in declared.types])
    return _hear(link, declared, channel)


def _member(link: LinkState, member: messages.Member, channel: ChannelOnLink) -> list[Heard]:
    if member.version > limits.MAX_VERSION:
        raise unexpected(WireError, f"at most version {limits.MAX_VERSION} of a member", member.version)
    if messages.Standing.LEFT in messages.Standing(member.standing):
        channel.members.discard(member.node_id)
    else:
        channel.members.add(member.node_id)
    if len(channel.members) > limits.MAX_MEMBERS:
        raise unexpected(WireError, f"at most {limits.MAX_MEMBERS} members", member.alias)
    return _hear(link, member, channel)


def _adjust(link: LinkState, adjust: messages.Adjust, channel: ChannelOnLink) -> list[Heard]:
    if not 1 <= adjust.epoch <= limits.MAX_EPOCH:  # what counts at first, 0, is never told
        raise unexpected(WireError, f"an epoch from 1 to {limits.MAX_EPOCH}", adjust.epoch)
    return _hear(link, adjust, channel)


def _format(link: LinkState, format_: messages.Format, _: None) -> list[Heard]:
    if states_of(Input.JOINED).issuperset(channel.state for channel in link.channels.values()):
        raise unexpected(WireError, "a FORMAT only where a channel is shared", format_.number)
    if format_.number != len(link.peer_formats):
        raise unexpected(WireError, f"format {len(link.peer_formats)}", format_.number)
    link.peer_formats.add(format_.metadata)
    return []


def _source(link: LinkState, source: messages.Source, channel: ChannelOnLink) -> list[Heard]:
    metadata = link.peer_formats.metadata_of(source.format)
    kept = source.keep * max(source.keys, 1)
    if kept > limits.MAX_KEPT_EVENTS:
        raise unexpected(WireError, f"a source that keeps at most {limits.MAX_KEPT_EVENTS} events", kept)
    said = source.name, source.source_id, source.keep, source.times, source.keys, source.per
    stream = PeerStream(source.stream, channel, metadata, *said)
    link.peer_streams.add(stream)
    return _hear(link, source, stream)


def _released(link: LinkState, released: messages.Released, stream: OwnStream) -> list[Heard]:
    heard = _hear(link, released, stream)
    link.own_streams.remove(stream)
    return heard


def _started(link: LinkState, started: messages.Started, stream: PeerStream) -> list[Heard]:
    if started.kept > stream.keep and not stream.keys:
        raise unexpected(WireError, f"at most {stream.keep} events that were kept", started.kept)
    if stream.starts == 0:
        raise unexpected(WireError, "STARTED once for each ATTACH with the first sinks", started.stream)
    stream.starts -= 1
    sequence = started.sequence + started.kept
    if sequence > limits.MAX_NUMBER:
        raise unexpected(WireError, "a sequence below 2**63, with what was kept", sequence)
    if sequence < stream.sequence:
        raise unexpected(WireError, f"a sequence of {stream.sequence} or more", sequence)
    stream.sequence = sequence
    return _hear(link, started, stream)


def _closed(link: LinkState, closed: messages.Closed, stream: PeerStream) -> list[Heard]:
    """Whoever hears it releases the stream; nobody has to where the node has left the channel."""
    stream.is_closed = True
    heard = _hear(link, closed, stream)
    if not heard:
        link.peer_streams.remove(stream)
    return heard


def _ack(link: LinkState, ack: messages.Ack, stream: OwnStream) -> list[Heard]:
    if ack.level not in set(messages.Level):
        raise unexpected(WireError, "ACK as received or handled, 1 or 2", ack.level)
    if not stream.acked < (ack.number, ack.level) <= (stream.asked, messages.Level.HANDLED):
        after = "level {1} of question {0}".format(*stream.acked)
        raise unexpected(
            WireError, f"ACK behind {after}, up to {stream.asked}", f"level {ack.level} of {ack.number}"
        )
    stream.acked = ack.number, ack.level
    return _hear(link, ack, stream)


def _missed(link: LinkState, missed: messages.Missed, stream: OwnStream) -> list[Heard]:
    if missed.why not in set(messages.Missing) or missed.first > missed.last:
        expected = "MISSED from one event to a later one, for a reason from 1 to 3"
        raise unexpected(WireError, expected, f"{missed.first} to {missed.last}, {missed.why}")
    return _hear(link, missed, stream)


def _flush(link: LinkState, flush: messages.Flush, _: None) -> list[Heard]:
    if flush.number in link.peer_flushes:
        raise unexpected(WireError, "a FLUSH that is not under way", flush.number)
    if len(link.peer_flushes) >= limits.MAX_FLUSHES:
        raise unexpected(WireError, f"at most {limits.MAX_FLUSHES} flushes under way", flush.number)
    link.peer_flushes.add(flush.number)
    return [Heard(flush, None)]


def _flushed(link: LinkState, flushed: messages.Flushed, _: None) -> list[Heard]:
    if flushed.number not in link.flushes:
        raise unexpected(WireError, "FLUSHED for a flush that is under way", flushed.number)
    link.flushes.remove(flushed.number)
    return [Heard(flushed, None)]


def _bye(link: LinkState, bye: messages.Bye, _: None) -> list[Heard]:
    link.has_heard_bye = True
    return [Heard(bye, None)]


def _ping(_: LinkState, __: messages.Ping, ___: None) -> list[Heard]:
    return []


def _loan(link: LinkState, loan: messages.Loan, _: None) -> list[Heard]:
    """Where memory is shared, C reads them."""
    raise unexpected(WireError, "no LOAN where no memory is shared", loan.stream)


# --- what each message is about ---

_JOINING = Subject("channel", "alias", lambda link, join: link.channels.of_id(join.uid))
_CHANNEL = Subject("channel", "alias", lambda link, message: link.channels.of_alias(message.alias))
_OWN = Subject("the receiver's stream", "stream", lambda link, message: link.own_streams.get(message.stream))
_PEERS = Subject("the sender's stream", "stream", lambda link, message: link.peer_streams.get(message.stream))

# --- the table ---

_JOINED = frozenset({ChannelState.SHARED, ChannelState.LEAVING})
_OFFERED = frozenset(StreamState)
_CLOSED = frozenset({StreamState.CLOSED})
_ATTACHED = frozenset({StreamState.ATTACHED})
_GIVEN = frozenset({StreamState.UNATTACHED, StreamState.ATTACHED})
_ANY: frozenset[State] = frozenset()

_PLACES: dict[type[Message], Place] = {
    messages.Join: Place(
        _JOINING, states_of(Input.JOIN, Input.JOIN_DECLINED, Input.JOIN_OVERRULED), joining.accept_join
    ),
    messages.Joined: Place(_CHANNEL, states_of(Input.JOINED, Input.JOINED_IN_VAIN), joining.accept_joined),
    messages.Refused: Place(_CHANNEL, states_of(Input.REFUSED), joining.accept_refused),
    messages.Leave: Place(_CHANNEL, states_of(Input.LEAVE), joining.accept_leave),
    messages.Declared: Place(_CHANNEL, _JOINED, _declared),
    messages.Member: Place(_CHANNEL, _JOINED, _member),
    messages.Source: Place(_CHANNEL, _JOINED, _source),
    messages.Derive: Place(_CHANNEL, _JOINED, _hear),
    messages.Adjust: Place(_CHANNEL, _JOINED, _adjust),
    messages.Underivable: Place(_CHANNEL, _JOINED, _hear),
    messages.Judged: Place(_PEERS, _GIVEN, _hear),
    messages.Parameter: Place(_PEERS, _GIVEN, _hear),
    messages.Requested: Place(_PEERS, _GIVEN, _hear),
    messages.Request: Place(_OWN, _OFFERED, _hear_unless_closed),
    messages.Attach: Place(_OWN, _OFFERED, _hear_unless_closed),
    messages.Credit: Place(_OWN, _OFFERED, _hear),
    messages.Dropped: Place(_OWN, _OFFERED, _hear),
    messages.Unreachable: Place(_OWN, _OFFERED, _hear_unless_closed),
    messages.Released: Place(_OWN, _CLOSED, _released),
    messages.Started: Place(_PEERS, _ATTACHED, _started),
    messages.Gap: Place(_PEERS, _ATTACHED, _hear),
    messages.Ask: Place(_PEERS, _ATTACHED, _hear),
    messages.Ack: Place(_OWN, _OFFERED, _ack),
    messages.Missed: Place(_OWN, _OFFERED, _missed),
    messages.Handled: Place(_OWN, _OFFERED, _hear),
    messages.Closed: Place(_PEERS, _GIVEN, _closed),
    messages.Format: Place(None, _ANY, _format),
    messages.Flush: Place(None, _ANY, _flush),
    messages.Flushed: Place(None, _ANY, _flushed),
    messages.Bye: Place(None, _ANY, _bye),
    messages.Ping: Place(None, _ANY, _ping),
    messages.Loan: Place(None, _ANY, _loan),
}
