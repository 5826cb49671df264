"""One established link as a state machine without I/O: messages come in, commands make frames go out.

Whoever drives it gives each control frame to `receive`, calls the commands, and sends what `take_frames`
returns, in that order, before it lets go of the lock that it holds meanwhile. The frame of a command that is
marked "behind events" goes the way of the source's events, so that it cannot overtake them.

Who numbers what: the side that sends JOIN chooses a channel's alias, which both then use in both directions
(the initiator's are even, the responder's odd, and none is used twice); the side of a source chooses its
stream (used again once the peer has released it); each side numbers its formats, from 0 on, and its flushes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from echo_core.errors import ClosedError, LinkError, WireError
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Role
from echo_core.transports.protocol import joining, messages, receiving
from echo_core.transports.protocol.link_state import (
    About,
    ChannelOnLink,
    ChannelState,
    Declaration,
    Heard,
    LinkState,
    OwnStream,
    PeerStream,
)
from echo_core.transports.protocol.messages import Refusal
from echo_core.values.keep import Keep


def _anything(_: bytes) -> None:
    """Nothing is said against any channel."""


class LinkProtocol:
    """One side of an established link. An error out of `receive` ends the link.

    A command for what the peer has closed or left, or on a link that is closing, is a ClosedError.
    """

    def __init__(
        self,
        *,
        role: Role,
        secret: bytes,
        declaration_of: Callable[[bytes], Declaration | None],
        admit: Callable[[bytes], Refusal | None] = _anything,
    ) -> None:
        """`secret` is the handshake's; `declaration_of` is asked by channel id, None where there is none.

        `admit` is asked whether a channel may be shared here whose key the peer has proven.
        """
        self._state = LinkState(role, secret, declaration_of, admit)
        self._next_flush = 0

    def take_frames(self) -> list[tuple[int, bytes]]:
        """What is to be sent, as (kind, payload), in order; each is returned once."""
        frames, self._state.frames = self._state.frames, []
        return frames

    def receive(self, kind: int, payload: bytes) -> list[Heard]:
        """What the node has to hear of a control frame; WireError where the peer may not say it."""
        if self._state.has_heard_bye:
            msg = "Expected nothing behind BYE"
            raise WireError(msg)
        message = messages.decode(kind, payload)
        if self._state.has_said_bye and not isinstance(message, messages.Bye):
            return []
        return receiving.receive(self._state, message)

    def formats_in(self, kind: int, payload: bytes) -> tuple[ChannelOnLink | None, list[bytes]]:
        """The channel and the formats that a control frame is about, for who prepares to receive it.

        Nothing is changed: it may be called by the thread that reads, whatever others command meanwhile.
        """
        return receiving.formats_in(self._state, messages.decode(kind, payload))

    @staticmethod
    def derivation_in(payload: bytes) -> bytes:
        """Likewise the derivation in a DERIVE."""
        derive = messages.decode(messages.Derive.kind, payload)
        assert isinstance(derive, messages.Derive)
        return derive.derivation

    # --- channels ---

    def channel(self, uid: bytes) -> ChannelOnLink | None:
        """What is on the link under that id, in whatever state."""
        channel = self._state.channels.of_id(uid)
        return None if channel.state is ChannelState.GONE else channel

    def join(self, uid: bytes) -> ChannelOnLink:
        """Ends in Join or Joined, or in Refused, if the channel is not shared already.

        RefusedError: the node does not know the channel, or the link carries too many.
        """
        self._require_open()
        return joining.join(self._state, uid)

    def leave(self, channel: ChannelOnLink) -> None:
        """Nothing of this channel or its streams is heard after this; routes must be closed before."""
        self._require_open()
        joining.leave(self._state, channel)

    def tell_member(self, channel: ChannelOnLink, member: messages.Member) -> None:
        """Tells of a member of a shared channel, whatever alias stands in what is told."""
        self._require_shared(channel)
        self._state.send(replace(member, alias=channel.alias))

    def tell_derived(
        self, channel: ChannelOnLink, said: messages.Derive | messages.Adjust | messages.Underivable
    ) -> None:
        """Likewise of a channel that is derived from it, or of what cannot be derived for it."""
        self._require_shared(channel)
        self._state.send(replace(said, alias=channel.alias))

    # --- own streams ---

    def offer(
        self,
        channel: ChannelOnLink,
        metadata: bytes,
        name: str,
        source_id: bytes,
        keep: Keep | None = None,
        *,
        times: bool = False,
    ) -> OwnStream:
        """Tells of a source on a shared channel, which keeps so many; its events come as this stream.

        `times`: behind the time at which they were submitted.
        """
        self._require_shared(channel)
        number = self._state.format_number(metadata)
        stream = OwnStream(self._state.own_streams.free_number(), channel)
        last, keys, per = (keep.last, keep.max_keys, keep.per) if keep is not None else (0, 0, None)
        said = (source_id, name, times, keys if per else 0, per or "")
        self._state.send(messages.Source(stream.number, channel.alias, number, last, *said))
        self._state.own_streams.add(stream)
        return stream

    def start(self, stream: OwnStream, sequence: int, kept: int = 0) -> None:
        """Answers the first Attach with sinks, before the first event, and the kept ones. Behind events.

        An outlet says it itself, in C, as nothing may come between it and the events (Outlet.begin).
        """
        self._require_stream(stream)
        self._state.send(messages.Started(stream.number, kept, sequence))

    def tell_of_stream(
        self, stream: OwnStream, said: messages.Judged | messages.Parameter | messages.Requested
    ) -> None:
        """Something of an own source, whatever number stands in what is told."""
        self._require_stream(stream)
        self._state.send(replace(said, stream=stream.number))

    def ask(self, stream: OwnStream, number: int, first: int) -> None:
        """Ends in Ack with this number, the highest by now. Behind events."""
        self._require_stream(stream)
        stream.asked = number
        self._state.send(messages.Ask(stream.number, number, first))

    def close(self, stream: OwnStream) -> None:
        """The node's own source is closed. Behind events."""
        self._require_stream(stream)
        stream.is_closed = True
        self._state.send(messages.Closed(stream.number))

    # --- the peer's streams ---

    def attach(self, stream: PeerStream, sinks: int, granted: tuple[int, int], first: int = 0) -> None:
        """So many sinks take the peer's stream from now on, and so many events and bytes of it in all.

        `first`: the number from which on they want what is kept.
        """
        self._require_stream(stream)
        stream.was_attached = stream.was_attached or sinks > 0
        stream.starts += sinks > 0 and not stream.sinks
        stream.sinks = sinks
        self._state.send(messages.Attach(stream.number, sinks, first, *granted))

    def report_dropped(self, stream: PeerStream, events: int) -> None:
        """So many more events of the peer's stream were dropped at a sink."""
        self._require_stream(stream)
        self._state.send(messages.Dropped(stream.number, events))

    def report_unreachable(self, stream: PeerStream, text: str) -> None:
        """A sink's type cannot be reached from the stream's; a report that is too long is cut."""
        self._require_stream(stream)
        self._state.send(messages.Unreachable(stream.number, cut(text, limits.MAX_REPORT_BYTES)))

    def request(self, stream: PeerStream, said: messages.Request) -> None:
        """Ends in Requested with its number, whatever stream stands in what is told."""
        self._require_stream(stream)
        self._state.send(replace(said, stream=stream.number))

    def release(self, stream: PeerStream) -> None:
        """Answers Closed, once nothing is left to be said of the peer's stream: its number is free again."""
        self._require_stream(stream)
        self._state.peer_streams.remove(stream)
        self._state.send(messages.Released(stream.number))

    # --- the link ---

    def flush(self) -> int:
        """Ends in Flushed with this number. Behind events."""
        self._require_open()
        if len(self._state.flushes) >= limits.MAX_FLUSHES:
            msg = f"At most {limits.MAX_FLUSHES} flushes can be under way on a link"
            raise LinkError(msg)
        number = self._next_flush
        self._next_flush += 1
        self._state.flushes.add(number)
        self._state.send(messages.Flush(number))
        return number

    def answer_flush(self, number: int) -> None:
        """Answers Flush, once all that came before it is handed over."""
        self._require_open()
        self._state.peer_flushes.discard(number)
        self._state.send(messages.Flushed(number))

    def ping(self) -> None:
        """Something to send, which the other side ignores."""
        self._require_open()
        self._state.send(messages.Ping())

    def bye(self, code: int, text: str) -> None:
        """The last frame; what still comes is ignored."""
        if not self._state.has_said_bye:
            self._state.send(messages.Bye(code, cut(text, limits.MAX_REASON_BYTES)))
            self._state.has_said_bye = True

    def end(self) -> None:
        """The link is over, with whatever was on it: nothing here waits for the garbage collector."""
        for channel in list(self._state.channels.values()):
            all_of_it: list[About] = [channel, *channel.own_streams, *channel.peer_streams]
            for about in all_of_it:
                about.owner = None
            channel.state = ChannelState.GONE
            self._state.forget(channel)
        self._state.admit = _anything  # what was asked refers to the link

    # --- what a command needs ---

    def _require_open(self) -> None:
        if self._state.has_said_bye or self._state.has_heard_bye:
            msg = "The link is closing"
            raise ClosedError(msg)

    def _require_shared(self, channel: ChannelOnLink) -> None:
        self._require_open()
        if not channel.is_shared:
            msg = f"Channel {channel.uid.hex()} is not shared on this link"
            raise ClosedError(msg)

    def _require_stream(self, stream: OwnStream | PeerStream) -> None:
        self._require_open()
        if not stream.is_open:
            whose = "this node" if isinstance(stream, OwnStream) else "the peer"
            msg = f"Stream {stream.number} of {whose} is closed"
            raise ClosedError(msg)


def cut(text: str, limit: int) -> str:
    """As much of a text as fits into so many bytes of UTF-8."""
    return text.encode(errors="replace")[:limit].decode(errors="ignore")
