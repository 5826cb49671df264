"""One established link as a state machine without I/O: messages in, notices out; commands in, frames out.

Whoever drives it gives each control frame to `receive`, calls the commands, and sends what `take_frames`
returns, in that order, before it lets go of the lock that it holds meanwhile. The frame of a command that is
marked "behind events" goes the way of the source's events, so that it cannot overtake them.

Who numbers what: the side that sends JOIN chooses a channel's alias, which both then use in both directions
(the initiator's are even, the responder's odd, and none is used twice); the side of a source chooses its
stream (used again once the peer has released it); each side numbers its formats, from 0 on, and its flushes.
"""

from __future__ import annotations

from collections.abc import Callable

from echo_core.errors import ClosedError, LinkError, WireError
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Role
from echo_core.transports.protocol import messages, notices
from echo_core.transports.protocol.joining import Declaration, Joining
from echo_core.transports.protocol.link_state import (
    UNANSWERED,
    ChannelState,
    LinkState,
    OwnStream,
    PeerStream,
    SharedChannel,
    refuse,
)
from echo_core.transports.protocol.messages import Message
from echo_core.transports.protocol.notices import Notice


class LinkProtocol:
    """One side of an established link. An error out of `receive` ends the link."""

    def __init__(
        self, *, role: Role, secret: bytes, declaration_of: Callable[[bytes], Declaration | None]
    ) -> None:
        """`secret` is the handshake's; `declaration_of` is asked by channel id, None where there is none."""
        self._state = LinkState(role)
        self._joining = Joining(self._state, secret, declaration_of)
        self._flushes: set[int] = set()
        self._next_flush = 0
        self._has_said_bye = False
        self._has_heard_bye = False

    # --- commands ---

    def take_frames(self) -> list[tuple[int, bytes]]:
        """What is to be sent, as (kind, payload), in order; each is returned once."""
        frames, self._state.frames = self._state.frames, []
        return frames

    def is_shared(self, channel_id: bytes) -> bool:
        """Whether both sides have joined the channel."""
        channel = self._state.channels.of_id(channel_id)
        return channel is not None and channel.state is ChannelState.SHARED

    def join(self, channel_id: bytes) -> None:
        """Ends in ChannelShared or JoinRefused, if the channel is not shared already."""
        self._require_open()
        self._joining.join(channel_id)

    def leave(self, channel_id: bytes) -> None:
        """No notice of this channel or its streams comes after this; routes must be closed before."""
        self._require_open()
        self._joining.leave(channel_id)

    def tell_member(self, channel_id: bytes, node_id: bytes, addresses: tuple[str, ...]) -> None:
        """Tells of another member of a shared channel; without addresses: that it is gone."""
        self._state.send(messages.Member(self._shared(channel_id).alias, node_id, addresses))

    def offer(self, channel_id: bytes, metadata: bytes, name: str) -> int:
        """Tells of a source on a shared channel; the stream that its events are to be sent as."""
        channel = self._shared(channel_id)
        number = self._state.format_number(metadata)
        stream = self._state.own_streams.free_number()
        self._state.send(messages.Source(stream, channel.alias, number, name))
        self._state.own_streams.add(stream, channel)
        return stream

    def start(self, stream: int, sequence: int) -> None:
        """Answers SinksAttached, before the first event. Behind events."""
        self._require_own(stream)
        self._state.send(messages.Started(stream, sequence))

    def close(self, stream: int) -> None:
        """The node's own source is closed. Behind events."""
        own = self._require_own(stream)
        own.is_closed = True
        self._state.send(messages.Closed(stream))

    def attach(self, stream: int, sinks: int) -> None:
        """So many sinks take the peer's stream, from now on."""
        peer = self._require_peers(stream)
        peer.was_attached = peer.was_attached or sinks > 0
        self._state.send(messages.Attach(stream, sinks))

    def report_dropped(self, stream: int, events: int) -> None:
        """So many more events of the peer's stream were dropped at a sink."""
        self._require_peers(stream)
        self._state.send(messages.Dropped(stream, events))

    def report_unreachable(self, stream: int, text: str) -> None:
        """A sink's type cannot be reached from the stream's; a report that is too long is cut."""
        self._require_peers(stream)
        self._state.send(messages.Unreachable(stream, cut(text, limits.MAX_REPORT_BYTES)))

    def flush(self) -> int:
        """Ends in FlushAnswered with this number. Behind events."""
        self._require_open()
        if len(self._flushes) >= limits.MAX_FLUSHES:
            msg = f"At most {limits.MAX_FLUSHES} flushes can be under way on a link"
            raise LinkError(msg)
        number = self._next_flush
        self._next_flush += 1
        self._flushes.add(number)
        self._state.send(messages.Flush(number))
        return number

    def answer_flush(self, number: int) -> None:
        """Answers FlushAsked."""
        self._require_open()
        self._state.send(messages.Flushed(number))

    def bye(self, code: int, text: str) -> None:
        """The last frame; what still comes is ignored."""
        if not self._has_said_bye:
            self._state.send(messages.Bye(code, cut(text, limits.MAX_REASON_BYTES)))
            self._has_said_bye = True

    # --- messages ---

    def receive(self, kind: int, payload: bytes) -> list[Notice]:
        """What a control frame of the peer's means; WireError where it may not come."""
        if self._has_heard_bye:
            msg = "Expected nothing behind BYE"
            raise WireError(msg)
        message = messages.decode(kind, payload)
        if self._has_said_bye and not isinstance(message, messages.Bye):
            return []
        self._state.notices = []
        self._accept(message)
        return self._state.notices

    def _accept(self, message: Message) -> None:
        match message:
            case messages.Join():
                self._joining.accept_join(message)
            case messages.Joined():
                self._joining.accept_joined(message)
            case messages.Refused():
                self._joining.accept_refused(message)
            case messages.Declared():
                self._joining.accept_declared(message)
            case messages.Leave():
                self._joining.accept_leave(message)
            case messages.Member():
                self._joining.accept_member(message)
            case messages.Format():
                self._accept_format(message)
            case messages.Source():
                self._accept_source(message)
            case messages.Attach():
                if self._is_own(message.stream):
                    self._state.tell(notices.SinksAttached(message.stream, message.sinks))
            case messages.Dropped():
                if self._is_own(message.stream, may_be_closed=True):
                    self._state.tell(notices.SinkDropped(message.stream, message.events))
            case messages.Unreachable():
                if self._is_own(message.stream):
                    self._state.tell(notices.SinkUnreachable(message.stream, message.text))
            case messages.Released():
                self._accept_released(message)
            case messages.Started():
                self._accept_started(message)
            case messages.Gap():
                self._accept_gap(message)
            case messages.Closed():
                self._accept_closed(message)
            case messages.Flush():
                self._state.tell(notices.FlushAsked(message.number))
            case messages.Flushed():
                self._accept_flushed(message)
            case messages.Bye():
                self._has_heard_bye = True
                self._state.tell(notices.PeerSaidBye(message.code, message.text))
            case messages.Loan():
                refuse("no LOAN where no memory is shared", message.stream)

    # --- what is on a channel ---

    def _accept_format(self, format_: messages.Format) -> None:
        if not any(channel.state not in UNANSWERED for channel in self._state.channels):
            refuse("a FORMAT only where a channel is shared", format_.number)
        if format_.number != len(self._state.peer_formats):
            refuse(f"format {len(self._state.peer_formats)}", format_.number)
        self._state.peer_formats.add(format_.metadata)

    def _accept_source(self, source: messages.Source) -> None:
        channel = self._joining.channel_of(source)
        metadata = self._state.peer_formats.metadata_of(source.format)
        self._state.peer_streams.add(source.stream, channel)
        if channel.state is ChannelState.SHARED:
            self._state.tell(notices.SourceOffered(channel.channel_id, source.stream, metadata, source.name))

    def _accept_released(self, released: messages.Released) -> None:
        own = self._state.own_streams.get(released.stream)
        if own is None or not own.is_closed:
            refuse("RELEASED for a stream that is closed", released.stream)
        self._state.own_streams.remove(released.stream)
        if own.channel.state is ChannelState.SHARED:
            self._state.tell(notices.SourceReleased(released.stream))

    def _accept_started(self, started: messages.Started) -> None:
        stream = self._flowing(started.stream)
        if started.sequence < stream.sequence:
            refuse(f"a sequence of {stream.sequence} or more", started.sequence)
        stream.sequence = started.sequence
        if stream.channel.state is ChannelState.SHARED:
            self._state.tell(notices.StreamStarted(started.stream, started.sequence))

    def _accept_gap(self, gap: messages.Gap) -> None:
        stream = self._flowing(gap.stream)
        if stream.channel.state is ChannelState.SHARED:
            self._state.tell(notices.StreamGap(gap.stream, gap.events))

    def _accept_closed(self, closed: messages.Closed) -> None:
        channel = self._peers(closed.stream).channel
        self._state.peer_streams.remove(closed.stream)
        if channel.state is ChannelState.SHARED:
            self._state.send(messages.Released(closed.stream))
            self._state.tell(notices.StreamClosed(closed.stream))

    def _accept_flushed(self, flushed: messages.Flushed) -> None:
        if flushed.number not in self._flushes:
            refuse("FLUSHED for a flush that is under way", flushed.number)
        self._flushes.remove(flushed.number)
        self._state.tell(notices.FlushAnswered(flushed.number))

    # --- what is where ---

    def _peers(self, stream: int) -> PeerStream:
        found = self._state.peer_streams.get(stream)
        if found is None:
            refuse("a stream that was offered", stream)
        return found

    def _flowing(self, stream: int) -> PeerStream:
        found = self._peers(stream)
        if not found.was_attached:
            refuse("a stream that was attached to", stream)
        return found

    def _is_own(self, stream: int, *, may_be_closed: bool = False) -> bool:
        """Whether the peer's message about the node's own source still matters."""
        own = self._state.own_streams.get(stream)
        if own is None:
            refuse("a stream that was offered to the sender", stream)
        is_of_use = may_be_closed or not own.is_closed
        return is_of_use and own.channel.state is ChannelState.SHARED

    def _require_open(self) -> None:
        if self._has_said_bye or self._has_heard_bye:
            msg = "The link is closing"
            raise ClosedError(msg)

    def _shared(self, channel_id: bytes) -> SharedChannel:
        self._require_open()
        channel = self._state.channels.of_id(channel_id)
        if channel is None or channel.state is not ChannelState.SHARED:
            msg = f"Channel {channel_id.hex()} is not shared on this link"
            raise ClosedError(msg)
        return channel

    def _require_own(self, stream: int) -> OwnStream:
        self._require_open()
        own = self._state.own_streams.get(stream)
        if own is None or own.is_closed or own.channel.state is not ChannelState.SHARED:
            msg = f"Stream {stream} of this node is closed"
            raise ClosedError(msg)
        return own

    def _require_peers(self, stream: int) -> PeerStream:
        self._require_open()
        peer = self._state.peer_streams.get(stream)
        if peer is None or peer.channel.state is not ChannelState.SHARED:
            msg = f"Stream {stream} of the peer is closed"
            raise ClosedError(msg)
        return peer


def cut(text: str, limit: int) -> str:
    """As much of a text as fits into so many bytes of UTF-8."""
    return text.encode(errors="replace")[:limit].decode(errors="ignore")
