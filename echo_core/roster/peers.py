"""Another process: its link, the channels shared with it, and the sources here that it knows of.

All but `read`, `close` and `wait_until_over` is called with the books open.
"""

from __future__ import annotations

import threading
import time
from functools import partial

from echo_core.errors import ClosedError, EchoError, LinkError, RefusedError, bare
from echo_core.roster import requests
from echo_core.streams.conversations import Conversation
from echo_core.streams.flow import LOOK_S
from echo_core.streams.origins import Origin
from echo_core.streams.outgoing import OutgoingStream
from echo_core.transports import limits
from echo_core.transports.handshake.words import Identity
from echo_core.transports.protocol.link_state import ChannelOnLink, ChannelState
from echo_core.transports.protocol.messages import (
    Adjust,
    Derive,
    Farewell,
    Judged,
    Member,
    Parameter,
    Refusal,
    Requested,
    Underivable,
    word_of,
)
from echo_core.transports.threads import is_failure, log
from echo_core.transports.wires.connecting import Connection
from echo_core.values.backlog import nanoseconds
from echo_core.values.statistics import LinkStatistics

_SELDOM_S = 0.95  # between two looks at streams without a backlog
_FAREWELL_S = 2.0  # for the other side to close, once it was told goodbye


class Peer:
    """A process at the other end of a link, which a handshake has opened."""

    def __init__(self, conversation: Conversation, connection: Connection) -> None:
        self.conversation = conversation
        self.connection = connection
        self.link = conversation.link
        self.member = _member_of(connection.established.peer)
        self.node_id = self.member.node_id
        self.host_id = self.member.host_id
        self.knows_derived_channels = connection.established.peer.knows_derived_channels
        self.is_back = False  # its node was linked before, and lost
        self.uid = connection.established.uid  # of the channel that the handshake was about
        self.role = connection.established.role
        self.made_at = time.monotonic()
        self.failure: EchoError | None = None  # why the link has ended, unless both sides wanted it
        self.is_over = threading.Event()  # its end was followed
        self._channels: set[ChannelOnLink] = set()  # that are shared, or will be once the peer has answered
        self._outgoing: dict[ChannelOnLink, dict[Origin, OutgoingStream]] = {}
        self._unused_since = self.made_at  # where it has no channel
        self.unconfirmed: dict[Origin, int] = {}  # events that were under way when the link was lost
        self._sent_frames, self._sent_at = 0, time.monotonic()  # when the link was last seen to send
        self._goodbye_at: float | None = None
        self._dropped = 0  # on the link, at the last tick
        self._look_until = self._look_next = 0.0  # at how its streams flow
        self._looked_at = 0  # how many frames had been sent when all that they carried was confirmed
        self._last_reader: threading.Thread | None = None  # that follows the end of the link

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

    def has_proven(self, uid: bytes) -> bool:
        """Whether the peer has shown that it knows the key of a channel: a node id alone says nothing."""
        return uid == self.uid or self.shares(uid)

    def is_asking_for(self, uid: bytes) -> bool:
        """Whether a JOIN of this side waits for its answer."""
        channel = self.conversation.protocol.channel(uid)
        return channel is not None and channel.state is ChannelState.JOINING

    def add(self, channel: ChannelOnLink) -> None:
        """Both sides have joined it."""
        self._channels.add(channel)

    def forget(self, channel: ChannelOnLink) -> None:
        """It is not shared, now or any more: of its events only those that may go still go to the peer."""
        for origin, stream in self._outgoing.pop(channel, {}).items():
            unconfirmed = stream.end()
            requests.forget(origin, stream)
            if unconfirmed:
                self.unconfirmed[origin] = unconfirmed
        self.conversation.end_closing(channel)
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

    def tell_member(self, uid: bytes, member: Member) -> None:
        """Tells of this node or another one on a channel."""
        channel = self.conversation.protocol.channel(uid)
        if channel is not None:
            self.conversation.command(partial(self.conversation.protocol.tell_member, channel, member))

    def tell_derived(self, uid: bytes, said: Derive | Adjust | Underivable) -> None:
        """Tells of a channel that is derived from one, unless the peer knows of no such thing."""
        channel = self.conversation.protocol.channel(uid)
        if channel is not None and self.knows_derived_channels:
            self.conversation.command(partial(self.conversation.protocol.tell_derived, channel, said))

    def tell_judged(self, uid: bytes, origin: Origin, judged: Judged) -> None:
        """Likewise by what a derived source is judged: at once, as its events may wait for a slow sink."""
        stream = self.stream_of(uid, origin)
        if stream is not None and self.knows_derived_channels:
            stream.told_filtered = judged.filtered
            self.conversation.command(partial(self.conversation.protocol.tell_of_stream, stream.told, judged))

    def tell_of_source(self, uid: bytes, origin: Origin, said: Parameter | Requested) -> None:
        """Likewise of the parameters of a source, and that a request was followed."""
        stream = self.stream_of(uid, origin)
        if stream is not None and self.knows_derived_channels:
            self.conversation.command(partial(self.conversation.protocol.tell_of_stream, stream.told, said))

    def tell_filtered(self, uid: bytes, origin: Origin, judged: Judged) -> None:
        """Likewise how much is filtered, where that is news, and nothing waits to be sent."""
        stream = self.stream_of(uid, origin)
        if stream is not None and stream.told_filtered != judged.filtered and not self.link.queued_bytes:
            self.tell_judged(uid, origin, judged)

    # -----------------------------------------------------------------------
    # Sources here

    def offer(self, uid: bytes, origin: Origin, channel_name: str) -> None:
        """A source that does not fit on the link, or into a message, is not offered; the others are."""
        conversation = self.conversation
        channel = conversation.protocol.channel(uid)
        if channel is None:
            return
        try:
            told = conversation.protocol.offer(
                channel, origin.format.metadata, origin.name, origin.id, origin.keep, times=origin.has_times
            )
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

    @property
    def unused_s(self) -> float:
        """For how long no channel is on the link; 0 where there is one."""
        return 0.0 if self._channels else time.monotonic() - self._unused_since

    def make_way(self) -> None:
        """The link is not used, and others wait for its place."""
        self.say_goodbye("no channel was joined on the link", Farewell.UNUSED)
        self.link.shut()

    def tick(self) -> None:
        """Wakes a reader that missed its call, reports drops, pings, logs streams that stand still, shuts a
        link that is too long in ending.

        Nor is there a link for ever on which nobody joins a channel, though its handshake was right.
        """
        self.link.rouse()
        self.conversation.report_drops()
        self.conversation.bound_kept()
        self.conversation.confirm()  # a source that hears nothing for long takes its sinks for stuck
        self._ping()
        self._look_at_streams(time.monotonic())
        if self._channels:
            self._unused_since = time.monotonic()
        elif self._goodbye_at is None and self.unused_s > limits.HANDSHAKE_TIMEOUT_S:
            self.say_goodbye("no channel was joined on the link", Farewell.UNUSED)
        if self._goodbye_at is not None and time.monotonic() - self._goodbye_at > _FAREWELL_S:
            self.link.shut()  # a peer that was told goodbye, and does not close, is not waited for

    def _ping(self) -> None:
        """Sends something on a link that has been quiet, as the other host may be gone."""
        now, sent_frames = time.monotonic(), self.link.sent_frames
        if sent_frames != self._sent_frames:
            self._sent_frames, self._sent_at = sent_frames, now
        elif now - self._sent_at >= self.connection.ping_s:
            self._sent_at = now
            self.conversation.command(self.conversation.protocol.ping)

    def _look_at_streams(self, now: float) -> None:
        """Seldom, where none has a backlog, nor had one in a while; not at all where all is confirmed."""
        dropped, sent = self.link.dropped, self.link.sent_frames
        if self.link.queued_events or dropped != self._dropped:
            self._dropped, self._look_until = dropped, now + LOOK_S
        elif now >= self._look_until:
            if sent == self._looked_at or now < self._look_next:
                return
            self._look_next = now + _SELDOM_S
        are_done = [stream.look(now) for streams in self._outgoing.values() for stream in streams.values()]
        self._looked_at = sent if all(are_done) else -1

    def read(self) -> bool:
        """True: to the end of the link, which `failure` explains. False: another thread reads, or will."""
        try:
            if not self.link.take_over():
                return False
        except EchoError as failure:
            self.failure = bare(failure)
        except BaseException as failure:
            if not is_failure(failure):  # of a process that a handler has forked, say
                raise
            log.exception("link to %s", str(self))
            self.failure = LinkError(f"{type(failure).__name__}: {failure}")
        self._last_reader = threading.current_thread()
        return True

    def end(self) -> EchoError | None:
        """The link is over. Returns the error where it is to be reported."""
        news = self.conversation.end(self.failure)
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
        self.wait_until_over(limit)
        self.link.shut()

    def wait_until_over(self, limit: float) -> None:
        """For the end of the link, unless this is the thread that reads it."""
        if self._last_reader is not threading.current_thread() and not self.link.is_read_here():
            self.is_over.wait(max(0.0, limit - time.monotonic()))

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
            confirmed=link.confirmed,
            unconfirmed=link.unconfirmed,
        )


def _member_of(identity: Identity) -> Member:
    """What a handshake tells of a node, before it has said anything of itself on a channel."""
    host_id, addresses = identity.host_id, identity.addresses
    return Member(0, identity.node_id, 0, 0, host_id, identity.name, addresses)


def _is_joined(channel: ChannelOnLink) -> bool:
    return channel.is_shared and channel.is_declared
