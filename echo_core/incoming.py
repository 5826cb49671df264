"""The sources of a peer, and what this process tells it of the sinks that they have here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from echo_core._c import links
from echo_core.conversations import Conversation
from echo_core.memberships import Membership
from echo_core.remote_sources import RemoteSource
from echo_core.transports.protocol import notices


class IncomingSources:
    """Those of one peer. All of it is called with the books open."""

    def __init__(
        self,
        conversation: Conversation,
        membership_of: Callable[[bytes], Membership | None],
    ) -> None:
        self._conversation = conversation
        self._protocol = conversation.protocol
        self._membership_of = membership_of
        self._by_stream: dict[int, RemoteSource] = {}
        self._queued: set[RemoteSource] = set()  # those with sinks that may drop events

    @property
    def peer(self) -> str:
        return self._conversation.name

    @property
    def link(self) -> links.Link:
        return self._conversation.link

    # -----------------------------------------------------------------------
    # What the peer tells

    def offered(self, notice: notices.SourceOffered) -> None:
        membership = self._membership_of(notice.channel_id)
        if membership is not None:
            format_ = self._conversation.format_of(notice.metadata)
            remote = RemoteSource(self, membership, notice.stream, format_, notice.name)
            self._by_stream[notice.stream] = remote
            membership.add_remote(remote)

    def started(self, notice: notices.StreamStarted) -> None:
        if notice.stream in self._by_stream:
            self._by_stream[notice.stream].inlet.sequence = notice.sequence

    def closed(self, notice: notices.StreamClosed) -> None:
        remote = self._by_stream.get(notice.stream)
        if remote is not None:
            remote.membership.remove_remote(remote)

    # -----------------------------------------------------------------------
    # What the peer is told

    def attach(self, remote: RemoteSource) -> None:
        """How many sinks its source has here."""
        if any(sink.has_queue for sink in remote.sinks):
            self._queued.add(remote)
        else:
            self._queued.discard(remote)
        self._conversation.command(lambda: self._protocol.attach(remote.stream, len(remote.sinks)))

    def report_unreachable(self, stream: int, text: str) -> None:
        self._conversation.command(lambda: self._protocol.report_unreachable(stream, text))

    def report_drops(self) -> None:
        """What sinks here have dropped since this was last told."""
        for remote in self._queued:
            self.report_drops_of(remote)

    def report_drops_of(self, remote: RemoteSource) -> None:
        dropped = remote.newly_dropped()
        if dropped:
            self._conversation.command(partial(self._protocol.report_dropped, remote.stream, dropped))

    # -----------------------------------------------------------------------
    # Here alone

    def tell_losses(self) -> None:
        """Tells components what the sources have dropped since this was last told."""
        for remote in self._by_stream.values():
            remote.tell_losses()

    def forget(self, remote: RemoteSource) -> None:
        """Its source is closed, or the channel left."""
        self._by_stream.pop(remote.stream, None)
        self._queued.discard(remote)
        self.link.unbind(remote.stream)

    def end(self) -> None:
        """The link is over."""
        self._by_stream.clear()
        self._queued.clear()
