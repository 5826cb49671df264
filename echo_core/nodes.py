"""Nodes: a process's place among others. It listens, links to other nodes, and knows the channels it is on.

Most components never name one: `create_channel` and `open_channel` use the process's default node. Another
one is for other transports, another address, or limits of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from echo_core._c import links
from echo_core.backlog import nanoseconds
from echo_core.bookkeeping import books
from echo_core.channel_ids import ChannelId
from echo_core.channels import Channel, demand_handler, demand_name, option
from echo_core.errors import ChannelError, ClosedError, PlaintextWarning, RefusedError
from echo_core.formats.declare import format_of
from echo_core.memberships import Membership, forget_all, here
from echo_core.neighbours import Neighbours, has_gone
from echo_core.places import ALL_TRANSPORTS, Limits, Place, Transport, checked, reachable
from echo_core.receptions import Receptions
from echo_core.sinks import FailureHook
from echo_core.statistics import NodeStatistics
from echo_core.transports.addresses import TcpAddress
from echo_core.transports.limits import MAX_TYPES
from echo_core.transports.protocol.messages import Refusal, word_of

T = TypeVar("T")

# In a child of multiprocessing. Below 0: its own children have ended. Above -5: its queues still send.
_EXIT_PRIORITY = -1


class Node:
    """A place that others can be linked to; all sources and sinks of a process can share one.

    `transports` says how it may be reached and reach others: "process" (nodes of one process), "shm", "unix",
    "tcp". `host` and `port` are where it listens; elsewhere than on the loopback interface all is sent in
    plain text, which is warned of. `advertised_host` is what others are told, where that differs. `spin_s`:
    for so long a reader of shared memory looks again and again before it sleeps. `on_failure(sink, error)` is
    called when a handler has failed.
    """

    def __init__(
        self,
        name: str = "",
        *,
        transports: Sequence[Transport] = ALL_TRANSPORTS,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str = "",
        spin_s: float = 0.0,
        limits: Limits | None = None,
        on_failure: FailureHook | None = None,
    ) -> None:
        demand_name(name)
        demand_handler(on_failure)
        self.id = secrets.token_bytes(16)
        self.name = name or f"{os.getpid()}-{self.id.hex()[:4]}"
        self.failure_hook = on_failure
        self.receptions = Receptions()
        self.is_closed = False
        self._place = Place(
            transports=checked(transports),
            listens_at=TcpAddress(host, port),
            advertised_host=advertised_host,
            spin_ns=nanoseconds(spin_s),
        )
        if self._place.is_exposed and self._place.listens_at.is_everywhere and not advertised_host:
            msg = f"Expected an advertised_host, since nobody can be reached at {host}"
            raise ChannelError(msg, hint="name the host as others know it")
        self._limits = option(Limits, limits)
        self._neighbours = Neighbours(self, self._place, self._limits)
        self._memberships: dict[bytes, Membership] = {}
        self._opening: set[bytes] = set()  # channels that a thread is joining
        if self._place.is_exposed:
            warnings.warn(
                f"Events will be sent in plain text to and from {host}: use it in networks that you trust",
                PlaintextWarning,
                stacklevel=2,
            )
        _nodes.add(self)
        _close_with_multiprocessing()

    # -----------------------------------------------------------------------
    # Channels

    @overload
    def create_channel(self, name: str, cls: type[T], /, *others: type[Any]) -> Channel[T]: ...

    @overload
    def create_channel(self, name: str, /) -> Channel[Any]: ...

    def create_channel(self, name: str, /, *types: type[Any]) -> Channel[Any]:
        """A new channel. With types, only those that fit one of them may be sent and received on it."""
        demand_name(name)
        if len(types) > MAX_TYPES:
            msg = f"Expected at most {MAX_TYPES} types, got {len(types)}"
            raise ChannelError(msg, hint="without any, a channel takes all")
        with books.changing():
            self._demand_open()
            id_ = ChannelId.new(self.id, self._neighbours.listen())
            membership = self._add(id_, name, types)
            membership.is_proven = True
            return Channel(membership, types[0] if types else None)

    def open_channel(
        self, id_: str, *, transport: Transport | None = None, timeout_s: float | None = None
    ) -> Channel[Any]:
        """The channel of that id, wherever it was created.

        `transport` says how to reach its creator, if not by the best way there is; it makes no second link.
        RefusedError: the creator said no, or has closed the channel; its `code` says why. LinkError: it
        cannot be reached. What is open here already has another handle, whether the creator is gone or not.
        """
        parsed = ChannelId.parse(id_)
        ways = self._place.transports if transport is None else checked([transport])
        limit_s = self._limits.connect_s if timeout_s is None else timeout_s
        while True:
            with books.changing():
                self._demand_open()
                if self._is_settled(parsed.uid):
                    found = self._find(parsed, ways)
                    if found is not None:
                        return found
                    self._opening.add(parsed.uid)
                    break
            books.wait_for(partial(self._is_settled, parsed.uid), limit_s, lambda: f"{parsed!r} to be opened")
        try:
            return self._join(parsed, ways, limit_s)
        finally:
            with books.changing():
                self._opening.discard(parsed.uid)

    def _is_settled(self, uid: bytes) -> bool:
        """Whether no other thread is opening the channel, or closing its last handle."""
        known = self._memberships.get(uid)
        return uid not in self._opening and (known is None or known.handles > 0)

    def _find(self, id_: ChannelId, ways: Sequence[Transport]) -> Channel[Any] | None:
        """What this process has already, unless it is to be joined again."""
        self._neighbours.listen()
        known = self._memberships.get(id_.uid) or self._join_in_process(id_, ways)
        if known is not None:
            _demand_key(known, id_)
            return None if self._is_cut_off(known) else Channel(known, None)
        if id_.node == self.id:  # nobody else could be asked
            msg = f"this process refused the channel {id_!r}: it has created the channel, and closed it"
            raise RefusedError(msg, code=word_of(Refusal.UNKNOWN_CHANNEL))
        return None

    def _is_cut_off(self, membership: Membership) -> bool:
        """Whether all others of a channel are gone, its creator too; they may be back, if by a link."""
        id_ = membership.id
        has_way = bool(reachable(id_.addresses, self._place.transports))
        return id_.node != self.id and has_way and not membership.acquaintances()

    def _add(self, id_: ChannelId, name: str, types: tuple[type[Any], ...]) -> Membership:
        membership = Membership(self, id_, name, tuple(map(format_of, types)))
        self._memberships[id_.uid] = membership
        return membership

    def _join_in_process(self, id_: ChannelId, ways: Sequence[Transport]) -> Membership | None:
        """The channel of another node of this process, which events reach without a link."""
        others = [other for other in here(id_.uid) if other.node.joins_in_process and other.is_proven]
        if "process" not in ways or not others:
            return None
        _demand_key(others[0], id_)
        membership = self._add(id_, others[0].name, ())
        membership.is_proven = True
        membership.types = others[0].types
        for other in others:
            for peer in other.peers:
                self._neighbours.meet(membership, peer.node_id, peer.addresses)
        return membership

    def _join(self, id_: ChannelId, ways: Sequence[Transport], timeout_s: float) -> Channel[Any]:
        with books.changing():
            membership = self._memberships.get(id_.uid) or self._add(id_, "", ())
            channel = Channel[Any](membership, None)
        try:
            self._neighbours.join(membership, id_.node, id_.addresses, ways, timeout_s)
        except BaseException as error:
            if not (membership.is_proven and has_gone(error)):  # else the channel goes on without its creator
                channel.close(0)
                raise
        membership.is_proven = True
        return channel

    # -----------------------------------------------------------------------
    # What peers and channels ask

    @property
    def joins_in_process(self) -> bool:
        return "process" in self._place.transports

    @property
    def pool(self) -> links.Pool | None:
        return self._neighbours.pool

    @property
    def memberships(self) -> Iterable[Membership]:
        return self._memberships.values()

    def membership_of(self, uid: bytes) -> Membership | None:
        return self._memberships.get(uid)

    def forget(self, membership: Membership) -> None:
        self._memberships.pop(membership.id.uid, None)

    # -----------------------------------------------------------------------
    # Its life

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it can be reached; empty before its first channel."""
        return tuple(map(str, self._neighbours.addresses))

    def statistics(self) -> NodeStatistics:
        return NodeStatistics(
            channels=len(self._memberships),
            links=self._neighbours.statistics(),
            links_lost=self._neighbours.links_lost,
            handshakes_failed=self._neighbours.handshakes_failed,
        )

    def close(self, linger_s: float = 1.0) -> None:
        """Closes its channels, then its links; `linger_s` bounds how long what is queued may take."""
        try:
            with books.changing():
                if self.is_closed:
                    return
                self.is_closed = True
            self._end(time.monotonic() + linger_s)
        except BaseException:
            self.is_closed = True
            self._end(time.monotonic())  # who interrupts does not want to wait
            raise

    def _end(self, limit: float) -> None:
        """A second time it does what an interrupt has left of the first."""
        for membership in list(self._memberships.values()):
            membership.close(max(0.0, limit - time.monotonic()))
        self._neighbours.close(max(0.0, limit - time.monotonic()))

    def abandon(self) -> None:
        """In a forked child: lets go of what belongs to the parent, without a word to anybody."""
        self.is_closed = True
        for membership in self._memberships.values():
            membership.abandon()
        self._neighbours.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Node({self.name!r}, {len(self._memberships)} channels, {len(self._neighbours)} links)"

    def _demand_open(self) -> None:
        if self.is_closed:
            msg = f"Expected node `{self.name}` to be open, it has been closed"
            raise ClosedError(msg, hint="after a fork, the child makes a node of its own")


def _demand_key(membership: Membership, id_: ChannelId) -> None:
    if not secrets.compare_digest(membership.id.key, id_.key):
        msg = f"this process refused the channel {id_!r}: the key is not that of the channel"
        raise RefusedError(msg, code="wrong_key")


# ---------------------------------------------------------------------------
# The nodes of a process

_nodes: weakref.WeakSet[Node] = weakref.WeakSet()
_default: Node | None = None


def default_node() -> Node:
    """The node that `create_channel` and `open_channel` use; made when first asked for, or after a fork."""
    global _default
    with books.changing():
        if _default is None or _default.is_closed:
            _default = Node()
        return _default


@overload
def create_channel(name: str, cls: type[T], /, *others: type[Any]) -> Channel[T]: ...


@overload
def create_channel(name: str, /) -> Channel[Any]: ...


def create_channel(name: str, /, *types: type[Any]) -> Channel[Any]:
    """A new channel of the default node; see `Node.create_channel`."""
    return default_node().create_channel(name, *types)


def open_channel(
    id_: str, *, transport: Transport | None = None, timeout_s: float | None = None
) -> Channel[Any]:
    """A channel by its id, on the default node; see `Node.open_channel`."""
    return default_node().open_channel(id_, transport=transport, timeout_s=timeout_s)


def _close_all() -> None:
    for node in list(_nodes):
        with contextlib.suppress(Exception):
            node.close()


_is_multiprocessing_told = False


def _close_with_multiprocessing() -> None:
    """Its children end without `atexit`, but for those that it spawns; it has a list of its own.

    That is emptied when a child begins, which then calls what was registered to be called after a fork. Who
    has not loaded it is no child of its, and need not load it.
    """
    global _is_multiprocessing_told
    if _is_multiprocessing_told or "multiprocessing.util" not in sys.modules:
        return
    from multiprocessing import util

    _is_multiprocessing_told = True  # a forked child inherits what is registered
    util.register_after_fork(Node, _finalize)
    _finalize(Node)


def _finalize(_: type[Node]) -> None:
    from multiprocessing import process, util

    if process.parent_process() is not None:  # others go by `atexit`, in its order
        util.Finalize(None, _close_unless_used, exitpriority=_EXIT_PRIORITY)


def _close_unless_used() -> None:
    """Threads that an exit waits for may go on to submit: multiprocessing calls this before that."""
    here = threading.current_thread()
    if all(thread.daemon or thread is here for thread in threading.enumerate()):
        _close_all()


def _abandon_all() -> None:
    global _default
    forget_all()
    for node in list(_nodes):
        node.abandon()
    _nodes.clear()
    _default = None


atexit.register(_close_all)
os.register_at_fork(after_in_child=_abandon_all)
