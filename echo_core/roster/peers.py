"""Another process: its link, the channels shared with it, and the sources here that it knows of.

All but `run`, `close` and `join_thread` is called with the books open.
"""

from __future__ import annotations

import threading
import time
from functools import partial

from echo_core.errors import ClosedError, EchoError, LinkError, RefusedError
from echo_core.streams.conversations import Conversation
from echo_core.streams.origins import Origin
from echo_core.streams.outgoing import OutgoingStream
from echo_core.transports.protocol.link_state import ChannelOnLink, ChannelState
from echo_core.transports.protocol.messages import Farewell, Refusal, word_of
from echo_core.transports.threads import is_failure, log
from echo_core.transports.wires.connecting import Connection
from echo_core.values.backlog import nanoseconds
from echo_core.values.statistics import LinkStatistics

_FAREWELL_S = 2.0  # for the other side to close, once it was told goodbye


class Peer:
    """A process at the other end of a link, which a handshake has opened."""

    def __init__(self, conversation: Conversation, connection: Connection) -> None:
        self.conversation = conversation
        self.connection = connection
        self.link = conversation.link
        self.node_id = connection.established.peer.node_id
        self.addresses = connection.established.peer.addresses
        self.thread: threading.Thread | None = None
        self._channels: set[ChannelOnLink] = set()  # that are shared, or will be once the peer has answered
        self._outgoing: dict[ChannelOnLink, dict[Origin, OutgoingStream]] = {}
        self._goodbye_at: float | None = None
        self._is_unread = threading.Lock()  # whoever takes it reads, and never gives it back

    def __str__(self) -> str:
        return self.conversation.name

    # -----------------------------------------------------------------------
    # Channels

    def join(self, uid: bytes) -> ChannelOnLink:
        """Asks the peer to share a channel; `has_answered` and `demand_joined` say what came of it."""
        try:
            channel = self.conversation.protocol.join(uid)
        except RefusedError:
            self.release_if_unused()
            raise
        self._channels.add(channel)
        self.conversation.send()
        return channel

    def has_answered(self, channel: ChannelOnLink) -> bool:
        is_settled = _is_joined(channel) or channel.refusal is not None or channel.state is ChannelState.GONE
        return is_settled or self.conversation.is_over

    def demand_joined(self, channel: ChannelOnLink) -> None:
        """RefusedError: the peer has said no, or has left the channel. LinkError: the link has ended."""
        if _is_joined(channel):
            return
        if channel.state is ChannelState.GONE:  # else another thread has asked anew
            self.forget(channel)
        self.release_if_unused()
        if channel.refusal is not None:
            msg = f"{self} refused the channel: {channel.refusal.text}"
            raise RefusedError(msg, code=word_of(channel.refusal.code))
        if self.conversation.is_over:
            raise self.conversation.lost()
        msg = f"{self} has left the channel"
        raise RefusedError(msg, code=word_of(Refusal.UNKNOWN_CHANNEL))

    def shares(self, uid: bytes) -> bool:
        channel = self.conversation.protocol.channel(uid)
        return channel is not None and channel.is_shared

    def add(self, channel: ChannelOnLink) -> None:
        """Both sides have joined it."""
        self._channels.add(channel)

    def forget(self, channel: ChannelOnLink) -> None:
        """It is not shared, now or any more: of its events only those that are queued go to the peer."""
        for stream in self._outgoing.pop(channel, {}).values():
            stream.end()
        self._channels.discard(channel)
        channel.owner = None

    def leave(self, uid: bytes) -> None:
        """The peer hears so behind all that its sources have sent or queued."""
        channel = self.conversation.protocol.channel(uid)
        if channel is not None:
            self.forget(channel)
            self.conversation.command(partial(self.conversation.protocol.leave, channel))
        self.release_if_unused()

    def release_if_unused(self) -> None:
        """A link that carries no channel any more is ended."""
        if not self._channels:
            self.say_goodbye("no channel is left on the link", Farewell.UNUSED)

    # -----------------------------------------------------------------------
    # Sources here

    def offer(self, uid: bytes, origin: Origin, channel_name: str) -> None:
        """A source that does not fit on the link, or into a message, is not offered; the others are."""
        conversation = self.conversation
        channel = conversation.protocol.channel(uid)
        if channel is None:
            return
        try:
            told = conversation.protocol.offer(channel, origin.format.metadata, origin.name)
            told.owner = stream = OutgoingStream(origin, conversation, told)
        except ClosedError:
            return
        except EchoError as error:
            said = "channel `%s`: source `%s` cannot be offered to %s: %s"
            log.warning(said, channel_name, origin.name, str(self), error)
            return
        self._outgoing.setdefault(channel, {})[origin] = stream
        conversation.send()

    def stream_of(self, uid: bytes, origin: Origin) -> OutgoingStream | None:
        """The way of a source's events to this peer."""
        channel = self.conversation.protocol.channel(uid)
        return None if channel is None else self._outgoing.get(channel, {}).get(origin)

    def released(self, stream: OutgoingStream) -> None:
        """The peer needs nothing more of a source that is closed."""
        of_channel = self._outgoing.get(stream.told.channel, {})
        of_channel.pop(stream.origin, None)
        if not of_channel:
            self._outgoing.pop(stream.told.channel, None)
        stream.end()

    # -----------------------------------------------------------------------
    # The link

    def tick(self) -> None:
        """Wakes a reader that missed its call, reports drops, shuts a link that is too long in ending."""
        self.link.rouse()
        self.conversation.report_drops()
        if self._goodbye_at is not None and time.monotonic() - self._goodbye_at > _FAREWELL_S:
            self.link.shut()  # a peer that was told goodbye, and does not close, is not waited for

    def run(self) -> EchoError | None:
        """Reads until the end of the link. Why it has ended; None: both sides wanted it."""
        try:
            self.link.run()
        except EchoError as failure:
            return _bare(failure)
        except BaseException as failure:
            if not is_failure(failure):  # of a process that a handler has forked, say
                raise
            log.exception("link to %s", str(self))
            return LinkError(f"{type(failure).__name__}: {failure}")
        return None

    def take_reading(self) -> bool:
        """Whether nobody reads the link, or has read it; then the caller is to `run`."""
        return self._is_unread.acquire(blocking=False)

    def end(self, error: EchoError | None) -> EchoError | None:
        """The link is over. Returns the error where it is to be reported."""
        news = self.conversation.end(error)
        for channel in [*self._outgoing, *self._channels]:
            self.forget(channel)
        self.conversation.protocol.end()
        return news

    def say_goodbye(self, reason: str, code: Farewell = Farewell.CLOSING) -> None:
        """The last frame; the other side closes then, or `tick` shuts the link."""
        self.conversation.part(reason)
        self.conversation.command(partial(self.conversation.protocol.bye, code, reason))
        self._goodbye_at = time.monotonic()

    def close(self, limit: float) -> None:
        """After `say_goodbye`: until then what is queued is written, and the other side may close first.

        Otherwise what the other side still sends could make the system discard our last words.
        """
        self.link.drain(nanoseconds(max(0.0, limit - time.monotonic())))
        self.join_thread(limit)
        self.link.shut()

    def join_thread(self, limit: float) -> None:
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(max(0.0, limit - time.monotonic()))

    def statistics(self) -> LinkStatistics:
        link = self.link
        return LinkStatistics(
            peer=str(self),
            wire=self.connection.wire.name,
            channels=sum(map(_is_joined, tuple(self._channels))),
            sent_frames=link.sent_frames,
            sent_bytes=link.sent_bytes,
            received_frames=link.received_frames,
            received_bytes=link.received_bytes,
            writes=link.writes,
            reads=link.reads,
            queued_events=link.queued_events,
            queued_bytes=link.queued_bytes,
            dropped=link.dropped,
        )


def _is_joined(channel: ChannelOnLink) -> bool:
    return channel.is_shared and channel.is_declared


def _bare(error: EchoError) -> EchoError:
    """Without the frames that it went through: the link keeps it, and they the link."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error
