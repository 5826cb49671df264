"""The process's default node, and the functions by which components use it without naming it."""

from __future__ import annotations

import os
from typing import Any, TypeVar, overload

from echo_core.handles.channels import Channel
from echo_core.handles.nodes import Node
from echo_core.roster.bookkeeping import books
from echo_core.roster.places import Transport

T = TypeVar("T")

_default: Node | None = None


def default_node() -> Node:
    """The node that `create_channel` and `open_channel` use; made when first asked for, or after a fork.

    >>> echo.default_node() is echo.default_node()
    True
    """
    global _default
    with books.changing():
        if _default is None or _default.is_closed:
            _default = Node()
        return _default


@overload
def create_channel(
    name: str, cls: type[T], /, *others: type[Any], identity: str | None = None
) -> Channel[T]: ...


@overload
def create_channel(name: str, /, *, identity: str | None = None) -> Channel[Any]: ...


def create_channel(name: str, /, *types: type[Any], identity: str | None = None) -> Channel[Any]:
    """A new channel of the default node, or with an identity the one that there was before.

    Arguments:
        name: what logs and statistics call it.
        types: event classes; with any, only what fits one of them may be sent and received.
        identity: the text of `Channel.identity`, which outlives the creator.

    Raises what `Node.create_channel` does.

    >>> @echo.event
    ... class Point:
    ...     x: float
    >>> with echo.create_channel("points", Point) as channel:
    ...     sink = channel.sink(Point)
    ...     channel.source().submit(Point(1.5))
    ...     sink.get(timeout_s=10).x
    1.5
    """
    return default_node().create_channel(name, *types, identity=identity)


@overload
def channel(name: str, cls: type[T], /, *others: type[Any], timeout_s: float | None = None) -> Channel[T]: ...


@overload
def channel(name: str, /, *, timeout_s: float | None = None) -> Channel[Any]: ...


def channel(name: str, /, *types: type[Any], timeout_s: float | None = None) -> Channel[Any]:
    """The channel of that name, for all processes of this user on this host: opened, or else created.

    Arguments:
        name: what these processes call it.
        types: event classes; with any, only what fits one of them may be sent and received.
        timeout_s: how long opening it may take; by default `Limits.connect_s`.

    Raises what `Node.channel` does.

    >>> with echo.channel("points") as channel, echo.channel("points") as same:
    ...     same.identity == channel.identity
    True
    """
    return default_node().channel(name, *types, timeout_s=timeout_s)


def open_channel(
    id_: str, *, transport: Transport | None = None, timeout_s: float | None = None, wait: bool = False
) -> Channel[Any]:
    """The channel of that id, on the default node; tries again until time is up.

    Arguments:
        id_: the text of `Channel.id`, of any member.
        transport: how to reach a member, if not in the best way there is.
        timeout_s: how long that may take; by default `Limits.connect_s`, or for ever with `wait`.
        wait: also wait where nobody knows the channel yet: its creator is still to come.

    Raises what `Node.open_channel` does.

    >>> with echo.create_channel("points") as channel, echo.open_channel(channel.id) as same:
    ...     same.id == channel.id
    True
    """
    return default_node().open_channel(id_, transport=transport, timeout_s=timeout_s, wait=wait)


async def open_channel_async(
    id_: str, *, transport: Transport | None = None, timeout_s: float | None = None, wait: bool = False
) -> Channel[Any]:
    """As `open_channel`, for a task of an event loop, which goes on meanwhile.

    Arguments:
        id_, transport, timeout_s, wait: as there. What was opened for a task that is cancelled is closed
            again.

    Raises what `Node.open_channel` does.

    >>> import asyncio
    >>> async def opened(id_: str) -> str:
    ...     with await echo.open_channel_async(id_, timeout_s=10) as channel:
    ...         return channel.name
    >>> with echo.create_channel("points") as channel:
    ...     asyncio.run(opened(channel.id))
    'points'
    """
    return await default_node().open_channel_async(id_, transport=transport, timeout_s=timeout_s, wait=wait)


@overload
async def channel_async(
    name: str, cls: type[T], /, *others: type[Any], timeout_s: float | None = None
) -> Channel[T]: ...


@overload
async def channel_async(name: str, /, *, timeout_s: float | None = None) -> Channel[Any]: ...


async def channel_async(name: str, /, *types: type[Any], timeout_s: float | None = None) -> Channel[Any]:
    """As `channel`, for a task of an event loop, which goes on meanwhile.

    Arguments:
        name, types, timeout_s: as there. What was opened for a task that is cancelled is closed again.

    Raises what `Node.channel` does.

    >>> import asyncio
    >>> async def opened() -> str:
    ...     with await echo.channel_async("points") as channel:
    ...         return channel.name
    >>> asyncio.run(opened())
    'points'
    """
    return await default_node().channel_async(name, *types, timeout_s=timeout_s)


def _forget() -> None:
    """In a forked child: the node is the parent's."""
    global _default
    _default = None


os.register_at_fork(after_in_child=_forget)
