"""One established link as a state machine without I/O: messages in, notices out; commands in, frames out.

Whoever drives it gives each control frame to `receive`, calls the commands, and sends what `take_frames`
returns, in that order, before it lets go of the lock that it holds meanwhile. The frame of a command that is
marked "behind events" goes the way of the source's events, so that it cannot overtake them.

Who numbers what: the side that sends JOIN chooses a channel's alias, which both then use in both directions
(the initiator's are even, the responder's odd, and none is used twice); the side of a source chooses its
stream (used again once the peer has released it); each side numbers its formats, from 0 on, and its flushes.

A channel's state, which each side keeps for itself:

    state      own JOIN    own LEAVE     JOINED      REFUSED   LEAVE                JOIN
    none       -> JOINING                                                           -> SHARED, says JOINED
    JOINING                -> ABANDONED  -> SHARED   -> none                        see below
    ABANDONED                            -> LEAVING  -> none                        see below
    SHARED                 -> LEAVING                          -> none, says LEAVE
    LEAVING                                                    -> none

What has no entry is a WireError. Where both send JOIN for one channel, the initiator's counts: it ignores the
other's, and the responder forgets its own. Between its own LEAVE and the peer's, a side ignores what still
comes for the channel and its streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from echo_core.errors import ClosedError, LinkError, WireError
from echo_core.transports import limits, messages, notices
from echo_core.transports.link_state import (
    UNANSWERED,
    ChannelState,
    ChannelTable,
    FormatTable,
    OwnStream,
    OwnStreams,
    PeerStream,
    PeerStreams,
    SharedChannel,
)
from echo_core.transports.messages import Message, Refusal
from echo_core.transports.notices import Notice
from echo_core.transports.proofs import Purpose, Role, check_key, is_proven, prove

OnChannel = (
    messages.Joined
    | messages.Refused
    | messages.Declared
    | messages.Leave
    | messages.Member
    | messages.Source
)
_JOINED_ONCE = frozenset({ChannelState.SHARED, ChannelState.LEAVING})

# In which states of its channel a message may come.
_LEGAL: dict[type[OnChannel], frozenset[ChannelState]] = {
    messages.Joined: UNANSWERED,
    messages.Refused: UNANSWERED,
    messages.Declared: _JOINED_ONCE,
    messages.Leave: _JOINED_ONCE,
    messages.Member: _JOINED_ONCE,
    messages.Source: _JOINED_ONCE,
}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a node knows of a channel: its key, and for the peer its name and the metadata of its types."""

    key: bytes
    name: str = ""
    types: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        """What could not be told to a peer is refused here."""
        check_key(self.key)
        messages.encode(messages.Declared(0, self.name, tuple(range(len(self.types)))))
        for metadata in self.types:
            messages.encode(messages.Format(0, metadata))


class LinkProtocol:
    """One side of an established link. An error out of `receive` ends the link."""

    def __init__(
        self, *, role: Role, secret: bytes, declaration_of: Callable[[bytes], Declaration | None]
    ) -> None:
        """`secret` is the handshake's; `declaration_of` is asked by channel id, None where there is none."""
        self._role = role
        self._secret = secret
        self._declaration_of = declaration_of
        self._channels = ChannelTable(role)
        self._own_streams = OwnStreams()
        self._peer_streams = PeerStreams()
        self._own_formats = FormatTable(LinkError)
        self._peer_formats = FormatTable(WireError)
        self._flushes: set[int] = set()
        self._next_flush = 0
        self._frames: list[tuple[int, bytes]] = []
        self._notices: list[Notice] = []
        self._has_said_bye = False
        self._has_heard_bye = False

    # --- commands ---

    def take_frames(self) -> list[tuple[int, bytes]]:
        """What is to be sent, as (kind, payload), in order; each is returned once."""
        frames, self._frames = self._frames, []
        return frames

    def is_shared(self, channel_id: bytes) -> bool:
        """Whether both sides have joined the channel."""
        channel = self._channels.of_id(channel_id)
        return channel is not None and channel.state is ChannelState.SHARED

    def join(self, channel_id: bytes) -> None:
        """Ends in ChannelShared or JoinRefused, if the channel is not shared already."""
        self._require_open()
        channel = self._channels.of_id(channel_id)
        if channel is None:
            self._send_join(channel_id)
        elif channel.state not in {ChannelState.JOINING, ChannelState.SHARED}:
            channel.is_wanted_again = True

    def leave(self, channel_id: bytes) -> None:
        """No notice of this channel or its streams comes after this; routes must be closed before."""
        self._require_open()
        channel = self._channels.of_id(channel_id)
        if channel is None:
            return
        channel.is_wanted_again = False
        if channel.state is ChannelState.JOINING:
            channel.state = ChannelState.ABANDONED
            self._send(messages.Leave(channel.alias))
        elif channel.state is ChannelState.SHARED:
            channel.state = ChannelState.LEAVING
            self._send(messages.Leave(channel.alias))

    def tell_member(self, channel_id: bytes, node_id: bytes, addresses: tuple[str, ...]) -> None:
        """Tells of another member of a shared channel; without addresses: that it is gone."""
        self._send(messages.Member(self._shared(channel_id).alias, node_id, addresses))

    def offer(self, channel_id: bytes, metadata: bytes, name: str) -> int:
        """Tells of a source on a shared channel; the stream that its events are to be sent as."""
        channel = self._shared(channel_id)
        number = self._format_number(metadata)
        stream = self._own_streams.free_number()
        self._send(messages.Source(stream, channel.alias, number, name))
        self._own_streams.add(stream, channel)
        return stream

    def start(self, stream: int, sequence: int) -> None:
        """Answers SinksAttached, before the first event. Behind events."""
        self._require_own(stream)
        self._send(messages.Started(stream, sequence))

    def close(self, stream: int) -> None:
        """The node's own source is closed. Behind events."""
        own = self._require_own(stream)
        own.is_closed = True
        self._send(messages.Closed(stream))

    def attach(self, stream: int, sinks: int) -> None:
        """So many sinks take the peer's stream, from now on."""
        peer = self._require_peers(stream)
        peer.was_attached = peer.was_attached or sinks > 0
        self._send(messages.Attach(stream, sinks))

    def report_dropped(self, stream: int, events: int) -> None:
        """So many more events of the peer's stream were dropped at a sink."""
        self._require_peers(stream)
        self._send(messages.Dropped(stream, events))

    def report_unreachable(self, stream: int, text: str) -> None:
        """A sink's type cannot be reached from the stream's; a report that is too long is cut."""
        self._require_peers(stream)
        self._send(messages.Unreachable(stream, cut(text, limits.MAX_REPORT_BYTES)))

    def flush(self) -> int:
        """Ends in FlushAnswered with this number. Behind events."""
        self._require_open()
        if len(self._flushes) >= limits.MAX_FLUSHES:
            msg = f"At most {limits.MAX_FLUSHES} flushes can be under way on a link"
            raise LinkError(msg)
        number = self._next_flush
        self._next_flush += 1
        self._flushes.add(number)
        self._send(messages.Flush(number))
        return number

    def answer_flush(self, number: int) -> None:
        """Answers FlushAsked."""
        self._require_open()
        self._send(messages.Flushed(number))

    def bye(self, code: int, text: str) -> None:
        """The last frame; what still comes is ignored."""
        if not self._has_said_bye:
            self._send(messages.Bye(code, cut(text, limits.MAX_REASON_BYTES)))
            self._has_said_bye = True

    # --- messages ---

    def receive(self, kind: int, payload: bytes) -> list[Notice]:
        """What a control frame of the peer's means; WireError where it may not come."""
        if self._has_heard_bye:
            msg = "Expected nothing behind BYE"
            raise WireError(msg)
        message = messages.decode(kind, payload)
        if self._has_said_bye:
            return []
        self._notices = []
        self._accept(message)
        return self._notices

    def _accept(self, message: Message) -> None:
        match message:
            case messages.Join():
                self._accept_join(message)
            case messages.Joined():
                self._accept_joined(message)
            case messages.Refused():
                self._accept_refused(message)
            case messages.Declared():
                self._accept_declared(message)
            case messages.Leave():
                self._accept_leave(message)
            case messages.Member():
                self._accept_member(message)
            case messages.Format():
                self._accept_format(message)
            case messages.Source():
                self._accept_source(message)
            case messages.Attach():
                if self._is_own(message.stream):
                    self._notices.append(notices.SinksAttached(message.stream, message.sinks))
            case messages.Dropped():
                if self._is_own(message.stream):
                    self._notices.append(notices.SinkDropped(message.stream, message.events))
            case messages.Unreachable():
                if self._is_own(message.stream):
                    self._notices.append(notices.SinkUnreachable(message.stream, message.text))
            case messages.Released():
                self._accept_released(message)
            case messages.Started():
                self._accept_started(message)
            case messages.Gap():
                self._accept_gap(message)
            case messages.Closed():
                self._accept_closed(message)
            case messages.Flush():
                self._notices.append(notices.FlushAsked(message.number))
            case messages.Flushed():
                self._accept_flushed(message)
            case messages.Bye():
                self._has_heard_bye = True
                self._notices.append(notices.PeerSaidBye(message.code, message.text))
            case messages.Loan():
                _refuse("no LOAN where no memory is shared", message.stream)

    # --- joining and leaving ---

    def _accept_join(self, join: messages.Join) -> None:
        self._channels.use_peer_alias(join.alias)
        present = self._channels.of_id(join.channel_id)
        if present is not None and present.state not in UNANSWERED:
            _refuse("a JOIN of a channel that is not joined", join.alias)
        if present is None:
            self._answer_join(join, is_own_void=False)
        elif self._role is Role.RESPONDER:
            self._channels.remove(present)
            is_wanted = present.state is ChannelState.JOINING or present.is_wanted_again
            self._answer_join(join, is_own_void=is_wanted)

    def _answer_join(self, join: messages.Join, *, is_own_void: bool) -> None:
        declaration = self._declaration_of(join.channel_id)
        refusal = self._refusal_of(join, declaration)
        if declaration is None or refusal is not None:
            code, text = refusal or (Refusal.UNKNOWN_CHANNEL, "")
            self._send(messages.Refused(join.alias, code, text))
            if is_own_void:
                self._notices.append(notices.JoinRefused(join.channel_id, code, text))
            return
        channel = self._channels.add_peers(join.channel_id, join.alias)
        proof = self._proof(Purpose.JOINED, declaration.key, channel)
        self._send(messages.Joined(join.alias, proof))
        self._share(channel, declaration)

    def _refusal_of(self, join: messages.Join, declaration: Declaration | None) -> tuple[Refusal, str] | None:
        if declaration is None:
            return Refusal.UNKNOWN_CHANNEL, "this node does not know the channel"
        if not is_proven(join.proof, Purpose.JOIN, declaration.key, *self._said(join.channel_id, join.alias)):
            return Refusal.WRONG_KEY, "the key is not that of the channel"
        if len(self._channels) >= limits.MAX_CHANNELS:
            return Refusal.BUSY, f"a link carries at most {limits.MAX_CHANNELS} channels"
        return None

    def _accept_joined(self, joined: messages.Joined) -> None:
        channel = self._channel(joined)
        if channel.state is ChannelState.ABANDONED:
            channel.state = ChannelState.LEAVING
            return
        declaration = self._declaration_of(channel.channel_id)
        if declaration is None:
            channel.state = ChannelState.LEAVING
            self._send(messages.Leave(channel.alias))
            return
        said = self._said(channel.channel_id, channel.alias)
        if not is_proven(joined.proof, Purpose.JOINED, declaration.key, *said):
            _refuse("a proof of the channel's key in JOINED", joined.alias)
        channel.state = ChannelState.SHARED
        self._share(channel, declaration)

    def _share(self, channel: SharedChannel, declaration: Declaration) -> None:
        numbers = tuple([self._format_number(metadata) for metadata in declaration.types])
        self._send(messages.Declared(channel.alias, declaration.name, numbers))
        self._notices.append(notices.ChannelShared(channel.channel_id))

    def _accept_refused(self, refused: messages.Refused) -> None:
        channel = self._channel(refused)
        if channel.state is ChannelState.JOINING:
            self._notices.append(notices.JoinRefused(channel.channel_id, refused.code, refused.text))
        self._forget(channel)

    def _accept_leave(self, leave: messages.Leave) -> None:
        channel = self._channels.of_alias(leave.alias)
        if channel is None and self._channels.was_peer_alias(leave.alias):
            return  # it was refused, or did not count, while the LEAVE was under way
        channel = self._channel(leave)
        if channel.state is ChannelState.SHARED:
            self._send(messages.Leave(channel.alias))
            self._notices += [notices.StreamClosed(stream) for stream in sorted(channel.peer_streams)]
            self._notices.append(notices.ChannelLeft(channel.channel_id))
        self._forget(channel)

    def _forget(self, channel: SharedChannel) -> None:
        for stream in list(channel.own_streams):
            self._own_streams.remove(stream)
        for stream in list(channel.peer_streams):
            self._peer_streams.remove(stream)
        self._channels.remove(channel)
        if channel.is_wanted_again:
            self._send_join(channel.channel_id)

    def _send_join(self, channel_id: bytes) -> None:
        declaration = self._declaration_of(channel_id)
        if declaration is None:
            msg = f"Expected the id of a channel that this node knows, got {channel_id.hex()}"
            raise LinkError(msg)
        channel = self._channels.add_own(channel_id)
        proof = self._proof(Purpose.JOIN, declaration.key, channel)
        self._send(messages.Join(channel.alias, channel_id, proof))

    def _proof(self, purpose: Purpose, key: bytes, channel: SharedChannel) -> bytes:
        return prove(purpose, key, *self._said(channel.channel_id, channel.alias))

    def _said(self, channel_id: bytes, alias: int) -> tuple[bytes, ...]:
        return self._secret, channel_id, alias.to_bytes(4, "little")

    # --- what is on a channel ---

    def _accept_declared(self, declared: messages.Declared) -> None:
        channel = self._channel(declared)
        if channel.is_declared:
            _refuse("DECLARED once", declared.alias)
        channel.is_declared = True
        types = tuple([self._peer_formats.metadata_of(number) for number in declared.types])
        if channel.state is ChannelState.SHARED:
            self._notices.append(notices.ChannelDeclared(channel.channel_id, declared.name, types))

    def _accept_member(self, member: messages.Member) -> None:
        channel = self._channel(member)
        if member.addresses:
            channel.members.add(member.node_id)
        else:
            channel.members.discard(member.node_id)
        if len(channel.members) > limits.MAX_MEMBERS:
            _refuse(f"at most {limits.MAX_MEMBERS} members", member.alias)
        if channel.state is ChannelState.SHARED:
            self._notices.append(notices.MemberTold(channel.channel_id, member.node_id, member.addresses))

    def _accept_format(self, format_: messages.Format) -> None:
        if not any(channel.state not in UNANSWERED for channel in self._channels):
            _refuse("a FORMAT only where a channel is shared", format_.number)
        if format_.number != len(self._peer_formats):
            _refuse(f"format {len(self._peer_formats)}", format_.number)
        self._peer_formats.add(format_.metadata)

    def _accept_source(self, source: messages.Source) -> None:
        channel = self._channel(source)
        metadata = self._peer_formats.metadata_of(source.format)
        self._peer_streams.add(source.stream, channel)
        if channel.state is ChannelState.SHARED:
            self._notices.append(
                notices.SourceOffered(channel.channel_id, source.stream, metadata, source.name)
            )

    def _accept_released(self, released: messages.Released) -> None:
        own = self._own_streams.get(released.stream)
        if own is None or not own.is_closed:
            _refuse("RELEASED for a stream that is closed", released.stream)
        self._own_streams.remove(released.stream)

    def _accept_started(self, started: messages.Started) -> None:
        stream = self._flowing(started.stream)
        if started.sequence < stream.sequence:
            _refuse(f"a sequence of {stream.sequence} or more", started.sequence)
        stream.sequence = started.sequence
        if stream.channel.state is ChannelState.SHARED:
            self._notices.append(notices.StreamStarted(started.stream, started.sequence))

    def _accept_gap(self, gap: messages.Gap) -> None:
        stream = self._flowing(gap.stream)
        if stream.channel.state is ChannelState.SHARED:
            self._notices.append(notices.StreamGap(gap.stream, gap.events))

    def _accept_closed(self, closed: messages.Closed) -> None:
        channel = self._peers(closed.stream).channel
        self._peer_streams.remove(closed.stream)
        if channel.state is ChannelState.SHARED:
            self._send(messages.Released(closed.stream))
            self._notices.append(notices.StreamClosed(closed.stream))

    def _accept_flushed(self, flushed: messages.Flushed) -> None:
        if flushed.number not in self._flushes:
            _refuse("FLUSHED for a flush that is under way", flushed.number)
        self._flushes.remove(flushed.number)
        self._notices.append(notices.FlushAnswered(flushed.number))

    # --- what is where ---

    def _channel(self, message: OnChannel) -> SharedChannel:
        channel = self._channels.of_alias(message.alias)
        if channel is None or channel.state not in _LEGAL[type(message)]:
            state = channel.state.name.lower() if channel else "unknown"
            msg = f"Expected no {message.kind.name} for channel {message.alias}, which is {state}"
            raise WireError(msg)
        return channel

    def _peers(self, stream: int) -> PeerStream:
        found = self._peer_streams.get(stream)
        if found is None:
            _refuse("a stream that was offered", stream)
        return found

    def _flowing(self, stream: int) -> PeerStream:
        found = self._peers(stream)
        if not found.was_attached:
            _refuse("a stream that was attached to", stream)
        return found

    def _is_own(self, stream: int) -> bool:
        """Whether the peer's message about the node's own source still matters."""
        own = self._own_streams.get(stream)
        if own is None:
            _refuse("a stream that was offered to the sender", stream)
        return not own.is_closed and own.channel.state is ChannelState.SHARED

    def _require_open(self) -> None:
        if self._has_said_bye or self._has_heard_bye:
            msg = "The link is closing"
            raise ClosedError(msg)

    def _shared(self, channel_id: bytes) -> SharedChannel:
        self._require_open()
        channel = self._channels.of_id(channel_id)
        if channel is None or channel.state is not ChannelState.SHARED:
            msg = f"Channel {channel_id.hex()} is not shared on this link"
            raise ClosedError(msg)
        return channel

    def _require_own(self, stream: int) -> OwnStream:
        self._require_open()
        own = self._own_streams.get(stream)
        if own is None or own.is_closed or own.channel.state is not ChannelState.SHARED:
            msg = f"Stream {stream} of this node is closed"
            raise ClosedError(msg)
        return own

    def _require_peers(self, stream: int) -> PeerStream:
        self._require_open()
        peer = self._peer_streams.get(stream)
        if peer is None or peer.channel.state is not ChannelState.SHARED:
            msg = f"Stream {stream} of the peer is closed"
            raise ClosedError(msg)
        return peer

    def _format_number(self, metadata: bytes) -> int:
        number = self._own_formats.number_of(metadata)
        if number is None:
            number = self._own_formats.add(metadata)
            self._send(messages.Format(number, metadata))
        return number

    def _send(self, message: Message) -> None:
        self._frames.append((message.kind, messages.encode(message)))


def cut(text: str, limit: int) -> str:
    """As much of a text as fits into so many bytes of UTF-8."""
    return text.encode(errors="replace")[:limit].decode(errors="ignore")


def _refuse(expected: str, got: int) -> NoReturn:
    msg = f"Expected {expected}, got {got}"
    raise WireError(msg)
