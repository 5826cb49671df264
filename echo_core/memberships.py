"""A channel as one node has it: its sources and sinks here, and the processes that are on it too.

Everything here happens with the books open. Nodes of one process that are on the same channel connect their
sources and sinks directly, unless one of them does without that.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from echo_core._c import links
from echo_core.backlog import nanoseconds
from echo_core.bookkeeping import books, log
from echo_core.channel_ids import ChannelId
from echo_core.errors import ClosedError, IncompatibleError
from echo_core.formats.compare import Report, compare
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.notices import (
    EventsLost,
    Notice,
    PeerJoined,
    PeerLeft,
    SourceClosed,
    SourceOpened,
    Unreachable,
)
from echo_core.receptions import Receptions, Wanted
from echo_core.remote_sources import RemoteSource
from echo_core.statistics import ChannelStatistics
from echo_core.totals import Totals

if TYPE_CHECKING:
    from echo_core.sinks import FailureHook, Sink
    from echo_core.sources import Source

_HERE = "this process"


class Offers(Protocol):
    """What a channel needs to tell another process of its sources here."""

    def offer(self, membership: Membership, source: Source[Any]) -> None: ...

    def withdraw(self, source: Source[Any]) -> None: ...

    def flush(self, source: Source[Any], timeout_s: float | None, *, asked_s: float | None) -> None: ...


class Peer(Protocol):
    """What a channel needs of a process that is on it too."""

    @property
    def node_id(self) -> bytes: ...

    @property
    def addresses(self) -> tuple[str, ...]: ...

    @property
    def link(self) -> links.Link: ...

    @property
    def outgoing(self) -> Offers: ...

    def __str__(self) -> str: ...

    def leave(self, membership: Membership) -> None: ...


class Node(Protocol):
    """What a channel needs of its node."""

    @property
    def id(self) -> bytes: ...

    @property
    def addresses(self) -> tuple[str, ...]: ...

    @property
    def receptions(self) -> Receptions: ...

    @property
    def failure_hook(self) -> FailureHook | None: ...

    @property
    def pool(self) -> links.Pool | None: ...

    @property
    def joins_in_process(self) -> bool: ...

    def forget(self, membership: Membership) -> None: ...


_memberships_by_uid: dict[bytes, list[Membership]] = {}


def here(uid: bytes) -> list[Membership]:
    """The nodes of this process that are on a channel."""
    return _memberships_by_uid.get(uid, [])


def end(sinks: Sequence[Sink[Any]], sources: Sequence[Source[Any]], limit: float) -> None:
    """Closes them: sinks at once, sources when what is queued has left; also when that is interrupted."""
    for sink in sinks:
        sink.is_leaving = True
    try:
        _end_in_time(sinks, sources, limit)  # a loop here would jump back in no `try` of CPython 3.13
    finally:
        for sink in sinks:
            sink.close(0.0)
        for source in sources:
            source.close(0.0)


def _end_in_time(sinks: Sequence[Sink[Any]], sources: Sequence[Source[Any]], limit: float) -> None:
    for sink in [sink for sink in sinks if sink.stop()]:
        sink.join(max(0.0, limit - time.monotonic()))
    for source in sources:
        source.close(max(0.0, limit - time.monotonic()))


def forget_all() -> None:
    """In a forked child: the parent's nodes are not here."""
    _memberships_by_uid.clear()


class Membership:
    """One channel of one node, for all components here that have opened it."""

    __slots__ = (
        "handles",
        "has_warned",
        "id",
        "is_closing",
        "is_proven",
        "name",
        "node",
        "peers",
        "remote_sources",
        "sinks",
        "sources",
        "totals",
        "types",
        "watchers",
    )

    def __init__(self, node: Node, id_: ChannelId, name: str, types: tuple[Format, ...]) -> None:
        self.node = node
        self.id = id_
        self.name = name
        self.types = types
        self.handles = 0
        self.has_warned = False
        self.is_closing = False
        self.is_proven = False  # whether its key is known to be the channel's
        self.sources: list[Source[Any]] = []
        self.sinks: list[Sink[Any]] = []
        self.peers: list[Peer] = []
        self.remote_sources: list[RemoteSource] = []
        self.watchers: list[Callable[[Notice], object]] = []
        self.totals = Totals()
        _memberships_by_uid.setdefault(id_.uid, []).append(self)

    # -----------------------------------------------------------------------
    # What sources and sinks need of it

    @property
    def receptions(self) -> Receptions:
        return self.node.receptions

    @property
    def failure_hook(self) -> FailureHook | None:
        return self.node.failure_hook

    @property
    def pool(self) -> links.Pool | None:
        return self.node.pool

    def add_source(self, source: Source[Any]) -> None:
        self.sources.append(source)
        for other in self._together():
            for sink in other.sinks:
                other.connect(source, sink)
        for peer in self.peers:
            self._offer(peer, source)
        for other in self._together():
            other.tell(SourceOpened(_HERE, source.name, source.format))

    def add_sink(self, sink: Sink[Any]) -> None:
        self.sinks.append(sink)
        for other in self._together():
            for source in other.sources:
                self.connect(source, sink)
        for remote in self.remote_sources:
            self.feed(remote, [sink])

    def connect(self, source: Source[Any], sink: Sink[Any]) -> None:
        """A source and a sink of this process."""
        delivery = sink.accept(source, source.cls)
        refusal = sink.refusal_of(source)
        if delivery is not None:
            source.add_local(sink, delivery, is_direct=sink.takes(source.cls))
        elif refusal is not None:
            source.note_unreachable(sink, str(refusal))
            self._tell_unreachable(_HERE, source.name, refusal)

    def feed(self, remote: RemoteSource, sinks: list[Sink[Any]]) -> None:
        """A source elsewhere and sinks of this node."""
        for refusal in remote.feed(sinks):
            self._tell_unreachable(remote.peer, remote.name, refusal)

    def remove_sink(self, sink: Sink[Any]) -> None:
        """Once; what can be done twice comes first, as an interrupt may have it begin again."""
        if not self._has(sink, self.sinks):
            return
        for other in self._together():
            for source in other.sources:
                source.remove_local(sink)
                other._tell_drops_of(source)
        for remote in self.remote_sources:
            remote.remove(sink)
        self.sinks.remove(sink)
        self.totals.keep_sink(sink)

    def remove_source(self, source: Source[Any], linger_s: float) -> None:
        """As `remove_sink`; then waits, for `linger_s` at most, until what is queued has left."""
        with books.changing():
            if not self._has(source, self.sources):
                return
            source.end_local()
            self._tell_drops_of(source)
            ways = {route.link for route in source.routes}
            for peer in self.peers:
                peer.outgoing.withdraw(source)
            for other in self._together():
                for sink in other.sinks:
                    sink.forget_refusal(source)
                other.tell(SourceClosed(_HERE, source.name, source.format))
            self.sources.remove(source)
            self.totals.keep_source(source)
        limit = time.monotonic() + linger_s
        for link in ways:
            with contextlib.suppress(ClosedError):  # it is the process's that has forked this one
                link.drain(nanoseconds(max(0.0, limit - time.monotonic())))

    def _has(self, end: object, ends: Sequence[object]) -> bool:
        """Nothing in a forked child: what is in the lists there is the parent's."""
        return end in ends and self in here(self.id.uid)

    def flush(self, source: Source[Any], timeout_s: float | None) -> None:
        with books.changing():
            self._tell_drops_of(source)
        limit = None if timeout_s is None else time.monotonic() + timeout_s
        for peer in list(self.peers):
            left_s = None if limit is None else max(0.0, limit - time.monotonic())
            peer.outgoing.flush(source, left_s, asked_s=timeout_s)

    # -----------------------------------------------------------------------
    # What its node tells it

    def add_peer(self, peer: Peer) -> None:
        self.peers.append(peer)
        for source in self.sources:
            self._offer(peer, source)
        self.tell(PeerJoined(str(peer)))

    def _offer(self, peer: Peer, source: Source[Any]) -> None:
        if not self.is_together_with(peer.node_id):
            peer.outgoing.offer(self, source)

    def remove_peer(self, peer: Peer, reason: str) -> None:
        """A process has left the channel, or its link is lost."""
        if peer not in self.peers:
            return
        self.peers.remove(peer)
        for source in self.sources:
            source.forget_unreachable(peer.link)
        for remote in [remote for remote in self.remote_sources if remote.link is peer.link]:
            self.remove_remote(remote)
        self.tell(PeerLeft(str(peer), reason))

    def add_remote(self, remote: RemoteSource) -> None:
        self.remote_sources.append(remote)
        self.feed(remote, list(self.sinks))
        self.tell(SourceOpened(remote.peer, remote.name, remote.format))

    def remove_remote(self, remote: RemoteSource) -> None:
        self.remote_sources.remove(remote)
        remote.tell_losses()
        remote.end()
        for sink in self.sinks:
            sink.forget_refusal(remote)
        self.tell(SourceClosed(remote.peer, remote.name, remote.format))

    def learn(self, name: str, types: tuple[Format, ...]) -> None:
        """What another process has said of the channel."""
        self.name = self.name or name
        self.types = self.types or types

    def refuse(self, peer: str, source: str, text: str, *, is_first: bool) -> None:
        """A sink elsewhere cannot take a source's events; a peer may say so as often as it likes."""
        level = logging.WARNING if is_first else logging.DEBUG
        told = "channel `%s`: a sink of %s cannot take events of `%s`\n%s"
        log.log(level, told, self.name, peer, source, text)
        self.tell(Unreachable(peer, source, text))

    def fail(self, peer: str, source: str, error: Exception) -> None:
        """A sink here cannot take a source's events, though their types may fit."""
        level = logging.DEBUG if self.has_warned else logging.WARNING
        self.has_warned = True
        told = "channel `%s`: a sink cannot take events of `%s` from %s: %s"
        log.log(level, told, self.name, source, peer, error)
        self.tell(Unreachable(peer, source, str(error)))

    def lose(self, peer: str, source: str, events: int) -> None:
        self.tell(EventsLost(peer, source, events))

    def tick(self) -> None:
        """Tells what sinks of this process have dropped, as others tell of theirs."""
        for source in self.sources:
            self._tell_drops_of(source)
        self.totals.settle()

    def _tell_drops_of(self, source: Source[Any]) -> None:
        newly = source.newly_dropped_here()
        if newly:
            self.lose(_HERE, source.name, newly)

    def add_watcher(self, watcher: Callable[[Notice], object]) -> None:
        """Who is there already is told like whoever comes later, and before that: both go the same way."""
        books.tell_later(*(partial(watcher, notice) for notice in self._present()))
        self.watchers.append(watcher)

    def _present(self) -> Iterator[Notice]:
        """A process stands before its sources."""
        for other in self._together():
            for source in other.sources:
                yield SourceOpened(_HERE, source.name, source.format)
        for peer in self.peers:
            yield PeerJoined(str(peer))
        for remote in self.remote_sources:
            yield SourceOpened(remote.peer, remote.name, remote.format)

    def tell(self, notice: Notice) -> None:
        for watcher in self.watchers:
            books.tell_later(partial(watcher, notice))

    def _tell_unreachable(self, peer: str, source: str, report: Report) -> None:
        level = logging.DEBUG if self.has_warned else logging.WARNING  # a peer may offer any number
        self.has_warned = True
        log.log(level, "channel `%s`: a sink cannot take events of %s\n%s", self.name, peer, report)
        if self.watchers:  # the text of a long report takes its time
            self.tell(Unreachable(peer, source, str(report), report))

    def acquaintances(self) -> list[tuple[bytes, tuple[str, ...]]]:
        """The other nodes on the channel that this one knows of, and where they can be reached."""
        others = [(other.node.id, other.node.addresses) for other in self._together() if other is not self]
        return others + [(peer.node_id, peer.addresses) for peer in self.peers]

    # -----------------------------------------------------------------------
    # Opening and closing

    def demand_known_type(self, format_: Format, *, is_sink: bool, lossy: bool = False) -> None:
        """IncompatibleError where a type fits none of those that the channel was declared with."""
        reports = [
            compare(type_, format_, lossy=lossy) if is_sink else compare(format_, type_)
            for type_ in self.types
        ]
        if reports and not any(report.is_accepted for report in reports):
            declared = ", ".join(f"`{type_.name}`" for type_ in self.types)
            nearest = min(reports, key=lambda report: len(report.refused))
            msg = f"Expected a type that fits channel `{self.name}` of {declared}"
            raise IncompatibleError(msg, path=nearest.refused[0].path, hint=str(nearest))  # lines, so last

    def concern_each_other(self, sender: Format, wanted: Wanted) -> bool:
        """Whether a sink ought to take a source's events: not where each fits another of the types."""
        if len(self.types) < 2 or wanted.cls is None:
            return True
        receiver = format_of(wanted.cls)
        return any(
            compare(sender, type_).is_accepted and compare(type_, receiver, lossy=wanted.is_lossy).is_accepted
            for type_ in self.types
        )

    def demand_open(self) -> None:
        if self.is_closing or self not in here(self.id.uid):
            msg = f"Expected channel `{self.name}` to be open, it has been closed"
            raise ClosedError(msg)

    def close(self, linger_s: float) -> None:
        """Everything here ends: sinks at once, sources when what is queued has left or time is up."""
        try:
            with books.changing():
                self.is_closing = True
            end(list(self.sinks), list(self.sources), time.monotonic() + linger_s)
        except BaseException:  # an interrupt, which may have come before `end` could see to it
            end(list(self.sinks), list(self.sources), time.monotonic())
            raise
        finally:
            self._end()

    def _end(self) -> None:
        with books.changing():
            if self not in here(self.id.uid):
                return
            for peer in list(self.peers):
                try:
                    self.remove_peer(peer, "")
                finally:
                    peer.leave(self)  # which ends a link that no channel needs any longer
            self.node.forget(self)
            self._unregister()  # last: an interrupt before it lets this begin again

    def abandon(self) -> None:
        """In a forked child: what is the parent's is closed here, and nobody is told."""
        self.is_closing = True
        for sink in self.sinks:
            sink.abandon()
        for source in self.sources:
            source.abandon()

    def _unregister(self) -> None:
        together = _memberships_by_uid[self.id.uid]
        together.remove(self)
        if not together:
            del _memberships_by_uid[self.id.uid]

    def is_together_with(self, node_id: bytes) -> bool:
        """Whether events reach a node without a link; over one they would come a second time."""
        return any(other.node.id == node_id for other in self._together())

    def _together(self) -> list[Membership]:
        """This node's, and those of other nodes in the process that it meets directly."""
        if not self.node.joins_in_process:
            return [self]
        return [other for other in here(self.id.uid) if other is self or other.node.joins_in_process]

    def statistics(self) -> ChannelStatistics:
        with books.changing():
            return self.totals.statistics(
                self.sources, self.sinks, peers=len(self.peers), remote_sources=len(self.remote_sources)
            )
