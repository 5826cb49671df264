"""Another process: its link, what the protocol on it says, and what that means for sources and sinks.

Everything but `close` and the reading itself happens with the books open, which also keeps the protocol's
frames in their order.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from echo_core import _links
from echo_core.backlog import nanoseconds
from echo_core.bookkeeping import books, log
from echo_core.errors import ClosedError, EchoError, LinkError, RefusedError, WireError
from echo_core.formats.format import Format
from echo_core.memberships import Membership
from echo_core.outgoing import Outgoing, OutgoingSources
from echo_core.remote_sources import RemoteSource
from echo_core.sources import Source
from echo_core.statistics import LinkStatistics
from echo_core.transports import messages, notices
from echo_core.transports.joining import Declaration
from echo_core.transports.messages import Farewell, Refusal, word_of
from echo_core.transports.protocol import LinkProtocol

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
        make_link: Callable[[Callable[[int, bytes], None]], _links.Link],
        *,
        wire_name: str,
        max_payload: int,
    ) -> None:
        self.node_id = node_id
        self.addresses = addresses
        self.wire_name = wire_name
        self._node = node
        self._name = name
        self._protocol = protocol
        self._max_payload = max_payload
        self._outgoing = OutgoingSources()
        self._incoming: dict[int, RemoteSource] = {}
        self._queued: set[RemoteSource] = set()  # those with sinks that may drop events
        self._ending: list[tuple[Source[Any], _links.Route]] = []  # closed, but something was queued
        self._formats: dict[bytes, Format] = {}  # by metadata; the protocol bounds how many there can be
        self._joined: dict[bytes, EchoError | None] = {}  # None: shared, and declared
        self._asked: set[bytes] = set()  # channels that the peer is to answer for
        self._flushed: set[int] = set()
        self._farewell = ""
        self._goodbye_at: float | None = None
        self._on_end: Callable[[], None] = _nothing
        self.is_ended = False
        self.link = make_link(self._control)
        self._thread = threading.Thread(target=self._read, name=f"echo-link-{name}", daemon=True)

    def __str__(self) -> str:
        return self._name

    def start(self, on_end: Callable[[], None] | None = None) -> None:
        """Begins to read; `on_end` is called when the link is over."""
        self._on_end = on_end or _nothing
        self._thread.start()

    # -----------------------------------------------------------------------
    # Joining

    def join(self, membership: Membership) -> None:
        """Asks the peer to share a channel; `has_answered` and `demand_joined` say what came of it."""
        uid = membership.id.uid
        if not self.shares(membership) or self._joined.get(uid) is not None:
            self._joined.pop(uid, None)  # else the peer has joined meanwhile, and will not answer again
        try:
            self._protocol.join(uid)
        except LinkError as error:
            is_known = self._node.membership_of(uid) is membership
            code = Refusal.BUSY if is_known else Refusal.UNKNOWN_CHANNEL
            self._joined[uid] = RefusedError(str(error), code=word_of(code))
        if uid not in self._joined:
            self._asked.add(uid)
        self._send_frames()

    def _answer(self, uid: bytes, error: EchoError | None) -> None:
        self._joined[uid] = error
        self._asked.discard(uid)

    def has_answered(self, membership: Membership) -> bool:
        return self.is_ended or membership.id.uid in self._joined

    def demand_joined(self, membership: Membership) -> None:
        uid = membership.id.uid
        if uid not in self._joined:
            raise self._lost()
        error = self._joined[uid]
        if error is not None:
            del self._joined[uid]
            self._node.release_if_unused(self)
            raise error

    def give_up(self, membership: Membership) -> None:
        """It has not answered in time, or not said all."""
        membership.remove_peer(self, "")
        self.leave(membership)

    def _lost(self) -> LinkError:
        msg = f"Expected {self} to answer, its link has ended: {self._farewell or 'no reason given'}"
        return LinkError(msg)

    def shares(self, membership: Membership) -> bool:
        return self._protocol.is_shared(membership.id.uid)

    @property
    def is_used(self) -> bool:
        """Whether a channel is on the link, or will be."""
        return bool(self._asked) or any(error is None for error in self._joined.values())

    @property
    def channels(self) -> int:
        return sum(error is None for error in self._joined.values())

    def leave(self, membership: Membership) -> None:
        """No more of a channel: the peer hears so behind all that its sources have sent or queued."""
        uid = membership.id.uid
        for outgoing in self._outgoing.on_channel(uid):
            self._forget(outgoing)
        self._joined.pop(uid, None)
        self._asked.discard(uid)
        self._command(lambda: self._protocol.leave(uid))
        self._node.release_if_unused(self)

    # -----------------------------------------------------------------------
    # Sources of this process

    def offer(self, membership: Membership, source: Source[Any]) -> None:
        """A source that does not fit on the link, or into a message, is not sent; the others are."""
        uid = membership.id.uid
        try:
            stream = self._protocol.offer(uid, source.format.metadata, source.name)
        except ClosedError:
            return
        except EchoError as error:
            said = "channel `%s`: source `%s` cannot be offered to %s: %s"
            log.warning(said, membership.name, source.name, str(self), error)
            return
        self._outgoing.add(Outgoing(source, uid, stream))
        self._send_frames()

    def withdraw(self, source: Source[Any]) -> None:
        """The source is closed: the peer hears so behind its last event."""
        outgoing = self._outgoing.of_source(source)
        if outgoing is None:
            return
        if outgoing.route is not None:
            outgoing.route.close()  # first: what came behind CLOSED could be taken for another source's
        self._command(lambda: self._protocol.close(outgoing.stream), behind=outgoing.route)

    def _attached(self, notice: notices.SinksAttached) -> None:
        outgoing = self._outgoing.of_stream(notice.stream)
        if outgoing is None:
            return
        outgoing.source.forget_unreachable(self)
        if notice.sinks > 0 and not outgoing.is_flowing:
            outgoing.route = self._begin(outgoing)
        elif notice.sinks == 0 and outgoing.route is not None:
            outgoing.source.pause(outgoing.route)
        outgoing.is_flowing = notice.sinks > 0
        if outgoing.route is not None:
            outgoing.source.set_remote_sinks(outgoing.route, notice.sinks)

    def _begin(self, outgoing: Outgoing) -> _links.Route:
        """Events flow from here on. Others may submit meanwhile: the number that was told has to be right."""
        source = outgoing.source
        route = outgoing.route or _links.Route(
            self.link,
            outgoing.stream,
            max_events=source.backlog.events,
            max_bytes=source.backlog.size_bytes,
            policy=source.backlog.policy,
            timeout_ns=source.backlog.timeout_ns,
            delay_ns=source.delay_ns,
            max_payload=self._max_payload,
        )
        sequence = self._tell_start(outgoing)
        while not (source.outlet.add_route(route, sequence) or source.is_closed):
            sequence = self._tell_start(outgoing)
        outgoing.flushed_at = sequence
        return route

    def _tell_start(self, outgoing: Outgoing) -> int:
        """The number of the next event, which goes behind all that is queued."""
        sequence = outgoing.source.outlet.sequence
        self._protocol.start(outgoing.stream, sequence)
        self._send_frames()
        return sequence

    def _released(self, stream: int) -> None:
        outgoing = self._outgoing.of_stream(stream)
        if outgoing is not None:
            self._outgoing.remove(outgoing)

    def _forget(self, outgoing: Outgoing) -> None:
        """No more events go to that stream, but for those that are queued."""
        self._outgoing.remove(outgoing)
        if outgoing.route is not None:
            self._end_route(outgoing.source, outgoing.route)

    def _end_route(self, source: Source[Any], route: _links.Route) -> None:
        route.close()
        source.remove_route(route)
        self._ending = [(held, its) for held, its in self._ending if its.queued_events]
        self._ending.append((source, route))

    def flush(self, source: Source[Any], timeout_s: float | None) -> None:
        """Who leaves the channel meanwhile needs no more; LinkError: the link was lost."""
        with books.changing():
            outgoing = self._outgoing.of_source(source)
            if outgoing is None or outgoing.route is None or not outgoing.is_flowing or self.is_ended:
                return
            sequence = source.outlet.sequence
            number = self._protocol.flush()
            self._send_frames(behind=outgoing.route)
            uid = outgoing.uid
        books.wait_for(
            lambda: self.is_ended or number in self._flushed or not self._protocol.is_shared(uid),
            timeout_s,
            lambda: f"an answer from {self}",
        )
        with books.changing():
            if number in self._flushed:
                self._flushed.remove(number)
                outgoing.flushed_at = max(outgoing.flushed_at, sequence)
            elif self._protocol.is_shared(uid):
                raise self._lost()

    # -----------------------------------------------------------------------
    # Sources of the peer

    def attach(self, remote: RemoteSource) -> None:
        """Tells the peer how many sinks its source has here."""
        if any(sink.has_queue for sink in remote.sinks):
            self._queued.add(remote)
        else:
            self._queued.discard(remote)
        self._command(lambda: self._protocol.attach(remote.stream, len(remote.sinks)))

    def forget(self, remote: RemoteSource) -> None:
        """Its source is closed, or the channel left."""
        self._incoming.pop(remote.stream, None)
        self._queued.discard(remote)
        self.link.unbind(remote.stream)

    def report_unreachable(self, stream: int, text: str) -> None:
        self._command(lambda: self._protocol.report_unreachable(stream, text))

    def tell_losses(self) -> None:
        """Tells components here what sources of the peer have dropped since this was last told."""
        for remote in self._incoming.values():
            remote.tell_losses()

    def report_drops(self) -> None:
        """Tells the peer's sources what sinks here have dropped since this was last told."""
        for remote in self._queued:
            self.report_drops_of(remote)

    def report_drops_of(self, remote: RemoteSource) -> None:
        dropped = remote.newly_dropped()
        if dropped:
            self._command(partial(self._protocol.report_dropped, remote.stream, dropped))

    def _offered(self, notice: notices.SourceOffered) -> None:
        membership = self._node.membership_of(notice.channel_id)
        if membership is not None:
            format_ = self._format(notice.metadata)
            remote = RemoteSource(self, membership, notice.stream, format_, notice.name)
            self._incoming[notice.stream] = remote
            membership.add_remote(remote)

    def _started(self, notice: notices.StreamStarted) -> None:
        if notice.stream in self._incoming:
            self._incoming[notice.stream].inlet.sequence = notice.sequence

    def _closed(self, notice: notices.StreamClosed) -> None:
        remote = self._incoming.get(notice.stream)
        if remote is not None:
            remote.membership.remove_remote(remote)

    def _format(self, metadata: bytes) -> Format:
        """One object for all channels and sources."""
        if metadata not in self._formats:
            self._formats[metadata] = Format.from_metadata(metadata)
        return self._formats[metadata]

    # -----------------------------------------------------------------------
    # What the peer says

    def _control(self, kind: int, payload: bytes) -> None:
        """A control frame, in the thread that reads."""
        with books.changing():
            if kind == messages.Closed.kind:
                self.report_drops()  # which cannot be told once the stream is released
            for notice in self._protocol.receive(kind, payload):
                self._follow(notice)
            self._send_frames()

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
                self._offered(notice)
            case notices.StreamStarted():
                self._started(notice)
            case notices.StreamClosed():
                self._closed(notice)
            case notices.SinksAttached():
                self._attached(notice)
            case notices.SinkDropped() | notices.SinkUnreachable():
                self._sink_told(notice)
            case notices.SourceReleased():
                self._released(notice.stream)
            case notices.StreamGap():
                pass  # counted by the inlet
            case notices.FlushAsked():
                self.report_drops()
                self._protocol.answer_flush(notice.number)
            case notices.FlushAnswered():
                self._flushed.add(notice.number)
            case notices.PeerSaidBye():
                self._farewell = notice.text
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
            membership.learn(notice.name, tuple(map(self._format, notice.types)))
            self._answer(notice.channel_id, None)

    def _refused(self, notice: notices.JoinRefused) -> None:
        msg = f"{self} refused the channel: {notice.text}"
        self._answer(notice.channel_id, RefusedError(msg, code=word_of(notice.code)))

    def _left(self, uid: bytes) -> None:
        self._joined.pop(uid, None)
        if uid in self._asked:
            msg = f"{self} has left the channel"
            self._answer(uid, RefusedError(msg, code=word_of(Refusal.UNKNOWN_CHANNEL)))
        for outgoing in self._outgoing.on_channel(uid):
            self._forget(outgoing)
        membership = self._node.membership_of(uid)
        if membership is not None:
            membership.remove_peer(self, "")
        self._node.release_if_unused(self)

    def _sink_told(self, notice: notices.SinkDropped | notices.SinkUnreachable) -> None:
        outgoing = self._outgoing.of_stream(notice.stream)
        membership = None if outgoing is None else self._node.membership_of(outgoing.uid)
        if outgoing is None or membership is None:
            return
        if isinstance(notice, notices.SinkDropped):
            outgoing.source.add_dropped_at_sinks(notice.events)
            membership.lose(str(self), outgoing.source.name, notice.events)
        else:
            is_first = outgoing.source.note_unreachable(self, notice.text)
            membership.refuse(str(self), outgoing.source.name, notice.text, is_first=is_first)

    # -----------------------------------------------------------------------
    # The link

    def _command(self, command: Callable[[], None], *, behind: _links.Route | None = None) -> None:
        """What the protocol refuses because the other side has left or said goodbye already is no news."""
        try:
            command()
        except ClosedError:
            return
        self._send_frames(behind=behind)

    def _send_frames(self, *, behind: _links.Route | None = None) -> None:
        send = self.link.send if behind is None else behind.send
        for kind, payload in self._protocol.take_frames():
            try:
                send(kind, payload)
            except (ClosedError, LinkError):  # the thread that reads will find out why
                return

    def _read(self) -> None:
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
        except SystemExit:  # a handler's: no more is said of it than of any other thread's
            self._farewell = self._farewell or "a handler has ended the thread that reads"
        except Exception as failure:  # noqa: BLE001 - the link is over, and must be seen to be
            log.exception("link to %s", str(self))
            return LinkError(f"{type(failure).__name__}: {failure}")
        return None

    def _end(self, error: EchoError | None) -> None:
        self.is_ended = True
        is_lost = not self._farewell
        if self._farewell:  # one of the two has said goodbye: what happens to the link then is no news
            error = None
        self._farewell = str(error) if error else self._farewell or "it has gone without a farewell"
        for outgoing in self._outgoing.all():
            if is_lost and outgoing.route is not None:
                outgoing.source.note_lost_route(outgoing.flushed_at, self._farewell)
            self._forget(outgoing)
        for source, route in self._ending:  # what was queued is dropped now, and counted
            source.remove_route(route)
        self._ending.clear()
        self._node.peer_ended(self, self._farewell, error)
        self._incoming.clear()
        self._queued.clear()
        on_end, self._on_end = self._on_end, _nothing
        on_end()

    def say_goodbye(self, reason: str, code: Farewell = Farewell.CLOSING) -> None:
        """The last frame; the other side closes then, or `end_if_overdue` does."""
        self._farewell = self._farewell or reason
        self._command(lambda: self._protocol.bye(code, reason))
        self._goodbye_at = time.monotonic()

    def discard(self, reason: str) -> None:
        """Instead of `start`: the link is not wanted."""
        self.say_goodbye(reason)
        self.link.shut()
        with contextlib.suppress(EchoError):
            self.link.run()  # which is over at once, and lets go of this object

    def end_if_overdue(self) -> None:
        """A peer that was told goodbye, and does not close, is not waited for."""
        if self._goodbye_at is not None and time.monotonic() - self._goodbye_at > _FAREWELL_S:
            self.link.shut()

    def close(self, limit: float) -> None:
        """After `say_goodbye`: until then what is queued is written, and the other side may close first.

        Else what it still sends could make the system throw our last words away.
        """
        self.link.drain(nanoseconds(max(0.0, limit - time.monotonic())))
        self.join_thread(limit)
        self.link.shut()

    def join_thread(self, limit: float) -> None:
        if self._thread.ident is not None and self._thread is not threading.current_thread():
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
            queued_bytes=link.queued_bytes,
        )


def _nothing() -> None:
    pass


def _bare(error: EchoError) -> EchoError:
    """Without the frames that it went through: the link keeps it, and they the link."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def declaration_of(membership: Membership) -> Declaration:
    """What a peer may learn of a channel."""
    types = tuple(type_.metadata for type_ in membership.types)
    return Declaration(membership.id.key, membership.name, types)
