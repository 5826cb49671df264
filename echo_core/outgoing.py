"""The sources of this process that a peer knows of: telling of them, and the routes of their events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echo_core._c import links
from echo_core.bookkeeping import books, log
from echo_core.conversations import Conversation
from echo_core.errors import ClosedError, EchoError
from echo_core.memberships import Membership
from echo_core.sources import Source
from echo_core.transports.protocol import notices


@dataclass(slots=True, eq=False)
class Outgoing:
    """One of them. Its route is kept while there are no sinks: what is queued there comes first."""

    source: Source[Any]
    uid: bytes
    stream: int
    route: links.OutgoingStream | None = None
    is_flowing: bool = False
    flushed_at: int = 0  # the source's events that are known to have arrived, if this route had them to carry


class _Register:
    """Found by stream, source and channel. A closed one stays until the peer has released its stream."""

    def __init__(self) -> None:
        self._by_stream: dict[int, Outgoing] = {}
        self._by_source: dict[Source[Any], Outgoing] = {}
        self._by_channel: dict[bytes, dict[int, Outgoing]] = {}

    def add(self, outgoing: Outgoing) -> None:
        self._by_stream[outgoing.stream] = self._by_source[outgoing.source] = outgoing
        self._by_channel.setdefault(outgoing.uid, {})[outgoing.stream] = outgoing

    def of_stream(self, stream: int) -> Outgoing | None:
        return self._by_stream.get(stream)

    def of_source(self, source: Source[Any]) -> Outgoing | None:
        return self._by_source.get(source)

    def on_channel(self, uid: bytes) -> list[Outgoing]:
        return list(self._by_channel.get(uid, {}).values())

    def all(self) -> list[Outgoing]:
        return list(self._by_stream.values())

    def remove(self, outgoing: Outgoing) -> None:
        if self._by_stream.pop(outgoing.stream, None) is None:
            return
        del self._by_source[outgoing.source]
        on_channel = self._by_channel[outgoing.uid]
        del on_channel[outgoing.stream]
        if not on_channel:
            del self._by_channel[outgoing.uid]


class OutgoingSources:
    """Those that one peer knows of. All but `flush` is called with the books open."""

    def __init__(
        self,
        conversation: Conversation,
        membership_of: Callable[[bytes], Membership | None],
        max_payload: int,
    ) -> None:
        self._conversation = conversation
        self._protocol = conversation.protocol
        self._membership_of = membership_of
        self._max_payload = max_payload
        self._register = _Register()
        self._ending: list[tuple[Source[Any], links.OutgoingStream]] = []  # closed, but something was queued
        self._unanswered: set[int] = set()  # flushes that somebody waits for

    # -----------------------------------------------------------------------
    # What the peer is told

    def offer(self, membership: Membership, source: Source[Any]) -> None:
        """A source that does not fit on the link, or into a message, is not sent; the others are."""
        uid = membership.id.uid
        try:
            stream = self._protocol.offer(uid, source.format.metadata, source.name)
        except ClosedError:
            return
        except EchoError as error:
            said = "channel `%s`: source `%s` cannot be offered to %s: %s"
            log.warning(said, membership.name, source.name, self._conversation.name, error)
            return
        self._register.add(Outgoing(source, uid, stream))
        self._conversation.send()

    def withdraw(self, source: Source[Any]) -> None:
        """The source is closed: the peer hears so behind its last event."""
        outgoing = self._register.of_source(source)
        if outgoing is None:
            return
        if outgoing.route is not None:
            outgoing.route.close()  # first: what came behind CLOSED could be taken for another source's
        self._conversation.command(lambda: self._protocol.close(outgoing.stream), behind=outgoing.route)

    def flush(self, source: Source[Any], timeout_s: float | None, *, asked_s: float | None) -> None:
        """Who leaves the channel meanwhile needs no more; LinkError: the link was lost.

        `asked_s`: the time that the component has given to all peers together.
        """
        conversation = self._conversation
        with books.changing():
            outgoing = self._register.of_source(source)
            if outgoing is None or outgoing.route is None or not outgoing.is_flowing or conversation.is_over:
                return
            sequence = source.outlet.sequence
            number = self._protocol.flush()
            self._unanswered.add(number)
            conversation.send(behind=outgoing.route)
            uid = outgoing.uid
        try:
            books.wait_for(
                lambda: (
                    number not in self._unanswered
                    or conversation.is_over
                    or not self._protocol.is_shared(uid)
                ),
                timeout_s,
                lambda: f"an answer from {conversation.name}",
                asked_s=asked_s,
            )
            with books.changing():
                if number not in self._unanswered:
                    outgoing.flushed_at = max(outgoing.flushed_at, sequence)
                elif self._protocol.is_shared(uid):
                    raise conversation.lost()
        finally:
            with books.changing():
                self._unanswered.discard(number)

    # -----------------------------------------------------------------------
    # What the peer tells

    def attached(self, notice: notices.SinksAttached) -> None:
        outgoing = self._register.of_stream(notice.stream)
        if outgoing is None:
            return
        outgoing.source.forget_unreachable(self._conversation.link)
        if notice.sinks > 0 and not outgoing.is_flowing:
            outgoing.route = self._begin(outgoing)
        elif notice.sinks == 0 and outgoing.route is not None:
            outgoing.source.pause(outgoing.route)
        outgoing.is_flowing = notice.sinks > 0
        if outgoing.route is not None:
            outgoing.source.set_remote_sinks(outgoing.route, notice.sinks)

    def released(self, notice: notices.SourceReleased) -> None:
        outgoing = self._register.of_stream(notice.stream)
        if outgoing is not None:
            self._forget(outgoing)

    def flushed(self, notice: notices.FlushAnswered) -> None:
        self._unanswered.discard(notice.number)

    def told(self, notice: notices.SinkDropped | notices.SinkUnreachable) -> None:
        """What became of a source's events at a sink there."""
        outgoing = self._register.of_stream(notice.stream)
        membership = None if outgoing is None else self._membership_of(outgoing.uid)
        if outgoing is None or membership is None:
            return
        source, peer = outgoing.source, self._conversation.name
        if isinstance(notice, notices.SinkDropped):
            source.add_dropped_at_sinks(notice.events)
            membership.lose(peer, source.name, notice.events)
        else:
            is_first = source.note_unreachable(self._conversation.link, notice.text)
            membership.refuse(peer, source.name, notice.text, is_first=is_first)

    # -----------------------------------------------------------------------
    # Routes

    def _begin(self, outgoing: Outgoing) -> links.OutgoingStream:
        """Events flow from here on. Others may submit meanwhile: the number that was told has to be right."""
        source = outgoing.source
        route = outgoing.route or links.OutgoingStream(
            self._conversation.link,
            outgoing.stream,
            f"source `{source.name}` to {self._conversation.name}",
            source.outlet,
            max_events=source.backlog.events,
            max_bytes=source.backlog.size_bytes,
            policy=source.backlog.policy,
            timeout_ns=source.backlog.timeout_ns,
            delay_ns=source.delay_ns,
            max_payload=self._max_payload,
        )
        sequence = self._tell_start(outgoing)
        while not (source.outlet.add_outgoing(route, sequence) or source.is_closed):
            sequence = self._tell_start(outgoing)
        outgoing.flushed_at = sequence
        return route

    def _tell_start(self, outgoing: Outgoing) -> int:
        """The number of the next event, which goes behind all that is queued."""
        sequence = outgoing.source.outlet.sequence
        self._protocol.start(outgoing.stream, sequence)
        self._conversation.send()
        return sequence

    def leave(self, uid: bytes) -> None:
        """One of the two has left a channel."""
        for outgoing in self._register.on_channel(uid):
            self._forget(outgoing)

    def end(self) -> None:
        """The link is over."""
        for outgoing in self._register.all():
            if self._conversation.is_lost and outgoing.route is not None:
                outgoing.source.note_lost_route(outgoing.flushed_at, self._conversation.farewell)
            self._forget(outgoing)
        for source, route in self._ending:  # what was queued is dropped now, and counted
            source.remove_route(route)
        self._ending.clear()

    def _forget(self, outgoing: Outgoing) -> None:
        """No more events go to that stream, but for those that are queued."""
        self._register.remove(outgoing)
        if outgoing.route is not None:
            self._end_route(outgoing.source, outgoing.route)

    def _end_route(self, source: Source[Any], route: links.OutgoingStream) -> None:
        route.close()
        source.remove_route(route)
        self._ending.append((source, route))
        self.settle()

    def settle(self) -> None:
        """Lets go of routes that have ended, and of which nothing is queued any more."""
        self._ending = [(source, route) for source, route in self._ending if route.queued_events]
