"""Nodes: a process's place among others. It listens, links to other nodes, and knows the channels it is on.

Most components never name one: `create_channel` and `open_channel` use the process's default node. Another
one is for other transports, another address, or limits of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from echo_core.dispatch.asynchronous import in_thread
from echo_core.errors import ChannelError, PlaintextWarning, unexpected
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.handles import exits
from echo_core.handles.channels import Channel
from echo_core.handles.closing import Closing
from echo_core.handles.options import demand_handler, demand_name, option
from echo_core.handles.sinks import Sink
from echo_core.roster.belonging import demand_source_type
from echo_core.roster.bookkeeping import books
from echo_core.roster.flushing import flushing
from echo_core.roster.homes import Home
from echo_core.roster.ids import ChannelId
from echo_core.roster.names import identity_of
from echo_core.roster.neighbours import Neighbours
from echo_core.roster.opening import Opening, never
from echo_core.roster.places import ALL_TRANSPORTS, Limits, Place, Transport, checked
from echo_core.transports.addresses import TcpAddress
from echo_core.transports.limits import MAX_TYPES
from echo_core.values.backlog import nanoseconds
from echo_core.values.statistics import NodeStatistics
from echo_core.values.waits import DEFAULT_WAIT_S, Waits

T = TypeVar("T")


class Node(Closing):
    """A process's place among others: it listens, links to other nodes and has channels.

    Arguments:
        name: what others see of it in logs and notices.
        transports: how it may be reached and reach others: "process" (nodes of one process), "shm", "unix",
            "tcp".
        host, port: where it listens. Beyond the loopback interface everything is sent in plain text, and
            `PlaintextWarning` says so.
        advertised_host: the host that others are told, if it is another.
        spin_s: how long a reader of shared memory polls before it sleeps.
        limits: what others may cost it.
        on_failure: called with the sink and the error when a handler has failed.

    Raises:
        ChannelError: an argument is wrong.

        with echo.Node(transports=["tcp"], host="127.0.0.1") as node:
            channel = node.create_channel("particles", Particle)
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
        on_failure: Callable[[Sink[Any], BaseException], object] | None = None,
    ) -> None:
        demand_name(name)
        demand_handler(on_failure)
        place = Place(
            transports=checked(transports),
            listens_at=TcpAddress(host, port),
            advertised_host=advertised_host,
            spin_ns=nanoseconds(spin_s),
        )
        if place.is_exposed and place.listens_at.is_everywhere and not advertised_host:
            msg = f"Expected an advertised_host, since nobody can be reached at {host}"
            raise ChannelError(msg, hint="name the host as others know it")
        home = Home(name, place, option(Limits, limits), on_failure)
        home.name = name or f"{os.getpid()}-{home.id.hex()[:4]}"
        self._home = home
        self._neighbours = Neighbours(home)
        self._opening = Opening(home, self._neighbours)
        if place.is_exposed:
            warnings.warn(
                f"Events will be sent in plain text to and from {host}: use it in networks that you trust",
                PlaintextWarning,
                stacklevel=2,
            )
        exits.add(self)

    @property
    def id(self) -> bytes:
        """Tells this node from all others."""
        return self._home.id

    @property
    def name(self) -> str:
        """What others are told of it, in logs and notices."""
        return self._home.name

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called, or this process is a fork of the one that made the node."""
        return self._home.is_closed

    # -----------------------------------------------------------------------
    # Channels

    @overload
    def create_channel(
        self, name: str, cls: type[T], /, *others: type[Any], identity: str | None = None
    ) -> Channel[T]: ...

    @overload
    def create_channel(self, name: str, /, *, identity: str | None = None) -> Channel[Any]: ...

    def create_channel(self, name: str, /, *types: type[Any], identity: str | None = None) -> Channel[Any]:
        """A new channel, or with an identity the one that there was before.

        Arguments:
            name: what logs and statistics call it.
            types: event classes; with any, only what fits one of them may be sent and received.
            identity: the text of `Channel.identity`. Ids of the channel lead here then; others that are still
                on it link to this node by themselves.

        Raises:
            ChannelError: the name, the identity or the number of types is wrong.
            FormatError: a class cannot be laid out.
            RefusedError: somebody else on this host holds the channel of that identity; `code` is "held".
            ClosedError: the node is closed.
            LinkError: it cannot listen.

            channel = node.create_channel("particles", Particle)
        """
        formats = _declared(name, types)
        if identity is None:
            membership = self._opening.create(name, formats)
        else:
            membership = self._opening.create_again(name, formats, ChannelId.parse(identity))
        return Channel(membership, types[0] if types else None, self._opening)

    @overload
    def channel(
        self, name: str, cls: type[T], /, *others: type[Any], timeout_s: float | None = None
    ) -> Channel[T]: ...

    @overload
    def channel(self, name: str, /, *, timeout_s: float | None = None) -> Channel[Any]: ...

    def channel(self, name: str, /, *types: type[Any], timeout_s: float | None = None) -> Channel[Any]:
        """The channel of that name, for all processes of this user on this host: opened, or else created.

        Arguments:
            name: what these processes call it.
            types: event classes; with any, only what fits one of them may be sent and received.
            timeout_s: how long opening it may take; by default `Limits.connect_s`.

        Raises:
            ChannelError: the name is wrong, or where names are kept is not this user's alone.
            IncompatibleError: what is there was created with types that none of these fits.
            LinkError, TimedOutError: who holds it cannot be reached, or does not answer.
            ClosedError: the node is closed.

            channel = node.channel("particles", Particle)
        """
        formats = _declared(name, types)
        if not (name and self._home.place.is_local):
            raise unexpected(
                ChannelError, "a name, on a node with the transport `shm` or `unix`", f"{name!r}"
            )
        limit_s = self._home.limits.connect_s if timeout_s is None else timeout_s
        limit = time.monotonic() + limit_s
        identity = identity_of(name, limit_s)
        left_s = max(0.0, limit - time.monotonic())
        membership = self._opening.create_or_open(name, formats, identity, left_s)
        channel = Channel(membership, types[0] if types else None, self._opening)
        try:
            for format_ in formats:
                demand_source_type(name, membership.types, format_)
        except BaseException:
            channel.close(0.0)
            raise
        return channel

    def open_channel(
        self,
        id_: str,
        *,
        transport: Transport | None = None,
        timeout_s: float | None = None,
        wait: bool = False,
    ) -> Channel[Any]:
        """The channel of that id, by whichever of its members can be reached; tries again until time is up.

        Arguments:
            id_: the text of `Channel.id`, of any member.
            transport: how to reach a member, if not in the best way there is; an existing link is used all
                the same.
            timeout_s: how long that may take; by default `Limits.connect_s`, or for ever with `wait`.
            wait: also wait where nobody knows the channel yet: its creator is still to come.

        A channel that is open in this process gets another handle, whether its creator is gone or not.

        Raises:
            ChannelError: the id is damaged.
            RefusedError: a member refused, or has closed the channel; `code` says why.
            LinkError: no member can be reached; the message says what was tried, and for how long.
            TimedOutError: one does not answer.
            ClosedError: the node is closed.

            channel = node.open_channel(id_, timeout_s=2)
        """
        return self._open(id_, transport, timeout_s, wait=wait, is_given_up=never)

    def _open(
        self,
        id_: str,
        transport: Transport | None,
        timeout_s: float | None,
        *,
        wait: bool,
        is_given_up: Callable[[], bool],
    ) -> Channel[Any]:
        parsed = ChannelId.parse(id_)
        ways = self._home.place.transports if transport is None else checked([transport])
        limit_s = self._home.limits.connect_s if timeout_s is None and not wait else timeout_s
        membership = self._opening.open(parsed, ways, limit_s, wait=wait, is_given_up=is_given_up)
        return Channel(membership, None, self._opening)

    async def open_channel_async(
        self,
        id_: str,
        *,
        transport: Transport | None = None,
        timeout_s: float | None = None,
        wait: bool = False,
    ) -> Channel[Any]:
        """As `open_channel`, for a task of an event loop, which goes on meanwhile.

        For a task that has been cancelled nothing is tried again, and what was opened is closed.

            channel = await node.open_channel_async(id_, timeout_s=2)
        """
        gone = threading.Event()
        opening = partial(self._open, id_, transport, timeout_s, wait=wait, is_given_up=gone.is_set)
        try:
            return await in_thread(opening, undo=Channel[Any].close)
        except asyncio.CancelledError:
            with books.changing():  # wakes a thread that rests between two attempts
                gone.set()
            raise

    @overload
    async def channel_async(
        self, name: str, cls: type[T], /, *others: type[Any], timeout_s: float | None = None
    ) -> Channel[T]: ...

    @overload
    async def channel_async(self, name: str, /, *, timeout_s: float | None = None) -> Channel[Any]: ...

    async def channel_async(
        self, name: str, /, *types: type[Any], timeout_s: float | None = None
    ) -> Channel[Any]:
        """As `channel`, for a task of an event loop, which goes on meanwhile.

        For a task that has been cancelled, what was opened is closed.

            channel = await node.channel_async("particles", Particle)
        """
        return await in_thread(
            partial(self.channel, name, *types, timeout_s=timeout_s), undo=Channel[Any].close
        )

    # -----------------------------------------------------------------------
    # Its life

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it can be reached; empty before its first channel."""
        return self._home.addresses

    def statistics(self) -> NodeStatistics:
        """The node's links, with what they have counted, and what was refused or lost."""
        with books.changing():
            attendances = [membership.attendance for membership in self._home.memberships.values()]
            members = sum(attendance.members for attendance in attendances)
            missing = sum(attendance.missing for attendance in attendances)
        return NodeStatistics(
            channels=len(attendances),
            members=members,
            missing=missing,
            links=self._neighbours.statistics(),
            links_lost=self._neighbours.links_lost,
            handshakes_failed=self._neighbours.handshakes_failed,
        )

    def drain(self, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """Blocks until all that sources of this node have submitted has arrived in every other process.

        As `Channel.drain`, for all channels at once; where a process ends, before `close`.

            node.drain(timeout_s=2)
        """
        books.wait_for_all(self._draining(), timeout_s)

    async def drain_async(self, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """As `drain`, for a task of an event loop, which goes on meanwhile.

        await node.drain_async(timeout_s=2)
        """
        await books.await_all(self._draining(), timeout_s)

    def _draining(self) -> Waits:
        with books.changing():
            memberships = list(self._home.memberships.values())
            origins = [origin for each in memberships for origin in each.origins]
            streams = [stream for each in memberships for stream in each.streams_of(each.origins)]
        yield from flushing(origins, streams)

    def close(self, linger_s: float = 1.0) -> None:
        """Closes its channels, then its links. What is queued gets `linger_s` to be sent.

        A call that was interrupted is completed by the next one.
        """
        try:
            with books.changing():
                if self._home.is_closed:
                    return
                self._home.is_closed = True
            self._end(time.monotonic() + linger_s)
        except BaseException:
            self._home.is_closed = True
            self._end(time.monotonic())  # who interrupts does not want to wait
            raise

    def _end(self, limit: float) -> None:
        """A second time it does what an interrupt has left of the first."""
        for membership in list(self._home.memberships.values()):
            membership.close(max(0.0, limit - time.monotonic()))
        self._neighbours.close(max(0.0, limit - time.monotonic()))

    def _abandon(self) -> None:
        """In a forked child: lets go of what belongs to the parent, without a word to anybody."""
        self._home.is_closed = True
        for membership in self._home.memberships.values():
            membership.abandon()
        self._neighbours.abandon()

    def __repr__(self) -> str:
        return f"Node({self.name!r}, {len(self._home.memberships)} channels, {len(self._neighbours)} links)"


def _declared(name: str, types: Sequence[type[Any]]) -> tuple[Format, ...]:
    """What a channel is declared with; ChannelError for a name or a number of types that others refuse."""
    demand_name(name)
    if len(types) > MAX_TYPES:
        hint = "without any, a channel takes all"
        raise unexpected(ChannelError, f"at most {MAX_TYPES} types", len(types), hint=hint)
    return tuple(map(format_of, types))
