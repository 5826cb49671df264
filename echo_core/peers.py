"""Another process: its link, the channels shared with it, and what it says.

What is said on the link, and what is told of it, is said and told with the books open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from echo_core._c import links
from echo_core.backlog import nanoseconds
from echo_core.bookkeeping import books, log
from echo_core.conversations import Conversation
from echo_core.errors import ClosedError, EchoError, LinkError, RefusedError, WireError
from echo_core.incoming import IncomingSources
from echo_core.memberships import Membership
from echo_core.outgoing import OutgoingSources
from echo_core.statistics import LinkStatistics
from echo_core.transports.protocol import messages, notices
from echo_core.transports.protocol.joining import Declaration
from echo_core.transports.protocol.link import LinkProtocol
from echo_core.transports.protocol.messages import Farewell, Refusal, word_of
from echo_core.transports.threads import OwnThread, is_failure

_FAREWELL_S = 2.0  # for the other side to close, once it was told goodbye


class Node(Protocol):
    """What a peer needs of its node."""

    def membership_of(self, uid: bytes) -> Membership | None: ...

    def peer_ended(self, peer: Peer, reason: str, error: EchoError | None) -> None: ...

    def meet(self, membership: Membership, node_id: bytes, addresses: tuple[str, ...]) -> None: ...

    def members_of(self, membership: Membership) -> list[tuple[bytes, tuple[str, ...]]]: ...

    def release_if_unused(self, peer: Peer) -> None: ...


class Peer:
    """A process at the other end of a link, which a handshake has opened."""

    def __init__(
        self,
        node: Node,
        node_id: bytes,
        name: str,
        addresses: tuple[str, ...],
        protocol: LinkProtocol,
        make_link: Callable[[Callable[[int, bytes], None]], links.Link],
        *,
        wire_name: str,
        max_payload: int,
        on_end: Callable[[], None],
    ) -> None:
        self.node_id = node_id
        self.addresses = addresses
        self.wire_name = wire_name
        self._node = node
        self._protocol = protocol
        self._joined: set[bytes] = set()  # channels that are shared, and declared
        self._asked: set[bytes] = set()  # those that the peer is to answer for
        self._refusals: dict[bytes, EchoError] = {}  # its answers that nobody has heard yet
        self._goodbye_at: float | None = None
        self._on_end = on_end
        self.link = make_link(self._control)
        self._conversation = Conversation(name, protocol, self.link)
        self.outgoing = OutgoingSources(self._conversation, node.membership_of, max_payload)
        self._incoming = IncomingSources(self._conversation, node.membership_of)
        self._thread: threading.Thread | None = None
        self._is_unread = threading.Lock()  # whoever takes it reads, and never gives it back

    def __str__(self) -> str:
        return self._conversation.name

    def start(self) -> None:
        """Begins to read."""
        thread = OwnThread(self._read, f"echo-link-{self}")
        thread.start()
        self._thread = thread

    # -----------------------------------------------------------------------
    # Joining

    def join(self, membership: Membership) -> None:
        """Asks the peer to share a channel; `has_answered` and `demand_joined` say what came of it."""
        uid = membership.id.uid
        self._refusals.pop(uid, None)
        if not self.shares(membership):  # else the peer has joined meanwhile, and will not answer again
            self._joined.discard(uid)
        try:
            self._protocol.join(uid)
        except LinkError as error:
            is_known = self._node.membership_of(uid) is membership
            code = Refusal.BUSY if is_known else Refusal.UNKNOWN_CHANNEL
            self._refuse(uid, RefusedError(str(error), code=word_of(code)))
        if not self.has_answered(membership):
            self._asked.add(uid)
        self._conversation.send()

    def _refuse(self, uid: bytes, error: EchoError) -> None:
        self._refusals[uid] = error
        self._joined.discard(uid)
        self._asked.discard(uid)

    def has_answered(self, membership: Membership) -> bool:
        uid = membership.id.uid
        return self._conversation.is_over or uid in self._joined or uid in self._refusals

    def demand_joined(self, membership: Membership) -> None:
        uid = membership.id.uid
        if uid in self._refusals:
            self._node.release_if_unused(self)
            raise self._refusals.pop(uid)  # without a name here, as it keeps this frame
        if uid not in self._joined:
            raise self._conversation.lost()

    def give_up(self, membership: Membership) -> None:
        """It has not answered in time, or not said all."""
        membership.remove_peer(self, "")
        self.leave(membership)

    def shares(self, membership: Membership) -> bool:
        return self._protocol.is_shared(membership.id.uid)

    @property
    def is_used(self) -> bool:
        """Whether a channel is on the link, or will be."""
        return bool(self._asked or self._joined)

    @property
    def channels(self) -> int:
        return len(self._joined)

    def leave(self, membership: Membership) -> None:
        """No more of a channel: the peer hears so behind all that its sources have sent or queued."""
        uid = membership.id.uid
        self.outgoing.leave(uid)
        self._joined.discard(uid)
        self._refusals.pop(uid, None)
        self._asked.discard(uid)
        self._conversation.command(lambda: self._protocol.leave(uid))
        self._node.release_if_unused(self)

    # -----------------------------------------------------------------------
    # What the peer says

    def _control(self, kind: int, payload: bytes) -> None:
        """A control frame, in the thread that reads."""
        with books.changing():
            if kind == messages.Closed.kind:
                self._incoming.report_drops()  # which cannot be told once the stream is released
            for notice in self._protocol.receive(kind, payload):
                self._follow(notice)
            self._conversation.send()

    def _follow(self, notice: notices.Notice) -> None:
        """What the peer has broken ends the link; what this side cannot do does not."""
        try:
            self._handle(notice)
        except WireError:
            raise
        except Exception:  # noqa: BLE001 - a fault of this side, for which others on the link need not pay
            log.exception("link to %s: %s", str(self), type(notice).__name__)

    def _handle(self, notice: notices.Notice) -> None:
        match notice:
            case notices.ChannelShared():
                self._shared(notice.channel_id)
            case notices.ChannelDeclared():
                self._declared(notice)
            case notices.JoinRefused():
                self._refused(notice)
            case notices.ChannelLeft():
                self._left(notice.channel_id)
            case notices.MemberTold():
                membership = self._node.membership_of(notice.channel_id)
                if membership is not None and notice.addresses:
                    self._node.meet(membership, notice.node_id, notice.addresses)
            case notices.SourceOffered():
                self._incoming.offered(notice)
            case notices.StreamStarted():
                self._incoming.started(notice)
            case notices.StreamClosed():
                self._incoming.closed(notice)
            case notices.SinksAttached():
                self.outgoing.attached(notice)
            case notices.SinkDropped() | notices.SinkUnreachable():
                self.outgoing.told(notice)
            case notices.SourceReleased():
                self.outgoing.released(notice)
            case notices.StreamGap():
                pass  # counted by the inlet
            case notices.FlushAsked():
                self._incoming.report_drops()
                self._protocol.answer_flush(notice.number)
            case notices.FlushAnswered():
                self.outgoing.flushed(notice)
            case notices.PeerSaidBye():
                self._conversation.part(notice.text or "it has not said why")
                self.link.shut()

    def _shared(self, uid: bytes) -> None:
        membership = self._node.membership_of(uid)
        if membership is None:
            return
        for node_id, addresses in self._node.members_of(membership):
            if addresses and node_id != self.node_id:
                self._protocol.tell_member(uid, node_id, addresses)
        membership.add_peer(self)

    def _declared(self, notice: notices.ChannelDeclared) -> None:
        membership = self._node.membership_of(notice.channel_id)
        if membership is not None:
            membership.learn(notice.name, tuple(map(self._conversation.format_of, notice.types)))
            self._joined.add(notice.channel_id)
            self._refusals.pop(notice.channel_id, None)
            self._asked.discard(notice.channel_id)

    def _refused(self, notice: notices.JoinRefused) -> None:
        msg = f"{self} refused the channel: {notice.text}"
        self._refuse(notice.channel_id, RefusedError(msg, code=word_of(notice.code)))

    def _left(self, uid: bytes) -> None:
        self._joined.discard(uid)
        self._refusals.pop(uid, None)
        if uid in self._asked:
            msg = f"{self} has left the channel"
            self._refuse(uid, RefusedError(msg, code=word_of(Refusal.UNKNOWN_CHANNEL)))
        self.outgoing.leave(uid)
        membership = self._node.membership_of(uid)
        if membership is not None:
            membership.remove_peer(self, "")
        self._node.release_if_unused(self)

    # -----------------------------------------------------------------------
    # The link

    def tick(self) -> None:
        """Wakes a reader that missed its call, tells of losses, ends a link that is too long in ending."""
        self.link.rouse()
        self.outgoing.settle()
        self._incoming.tell_losses()
        self._incoming.report_drops()
        if self._goodbye_at is not None and time.monotonic() - self._goodbye_at > _FAREWELL_S:
            self.link.shut()  # a peer that was told goodbye, and does not close, is not waited for

    def _read(self) -> None:
        if not self._is_unread.acquire(blocking=False):
            return
        error = self._run()
        try:
            self.link.shut()
        except ClosedError:  # a handler has forked this process: the link is the parent's
            return
        with books.changing():
            self._end(error)

    def _run(self) -> EchoError | None:
        """Why the link has ended; None: both sides wanted it."""
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

    def _end(self, error: EchoError | None) -> None:
        news = self._conversation.end(error)
        self.outgoing.end()
        self._node.peer_ended(self, self._conversation.farewell, news)
        self._incoming.end()
        self._on_end()

    def say_goodbye(self, reason: str, code: Farewell = Farewell.CLOSING) -> None:
        """The last frame; the other side closes then, or `tick` shuts the link."""
        self._conversation.part(reason)
        self._conversation.command(lambda: self._protocol.bye(code, reason))
        self._goodbye_at = time.monotonic()

    def discard(self, reason: str) -> None:
        """Where it cannot `start`, need not, or was interrupted in it: the link is not wanted."""
        with books.changing():
            self.say_goodbye(reason)
        self.link.shut()
        self._read()  # which is over at once, if its thread has not begun; the link lets go of this object

    def close(self, limit: float) -> None:
        """After `say_goodbye`: until then what is queued is written, and the other side may close first.

        Else what it still sends could make the system throw our last words away.
        """
        self.link.drain(nanoseconds(max(0.0, limit - time.monotonic())))
        self.join_thread(limit)
        self.link.shut()

    def join_thread(self, limit: float) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, limit - time.monotonic()))

    def statistics(self) -> LinkStatistics:
        link = self.link
        return LinkStatistics(
            peer=str(self),
            wire=self.wire_name,
            channels=self.channels,
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


def _bare(error: EchoError) -> EchoError:
    """Without the frames that it went through: the link keeps it, and they the link."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def declaration_of(membership: Membership) -> Declaration:
    """What a peer may learn of a channel."""
    types = tuple(type_.metadata for type_ in membership.types)
    return Declaration(membership.id.key, membership.name, types)
