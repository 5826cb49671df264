"""Channels as commands open them: on a node of their own, without holding them, for as long as it takes."""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
import sys
import time
from collections.abc import Generator, Sequence
from typing import Any

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, ToolError
from echo_core.tools.parameters import Way

OPEN_S = 5.0  # for a channel that is there
_LOOK_S = 0.1  # between two looks for one that is not there yet


@contextlib.contextmanager
def opened(way: Way, *, wait_s: float = 0.0) -> Generator[echo.Channel[Any]]:
    """The channel, on a node called after this program. `wait_s`: for a name that nobody holds."""
    with all_opened([way], wait_s=wait_s) as (channel,):
        yield channel


@contextlib.contextmanager
def all_opened(ways: Sequence[Way], *, wait_s: float = 0.0) -> Generator[list[echo.Channel[Any]]]:
    """Several channels, likewise."""
    ids = [_id_of(way, wait_s) for way in ways]
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(echo.Node(f"echoctl-{os.getpid()}"))
        yield [stack.enter_context(_joined(node, way, id_)) for way, id_ in zip(ways, ids, strict=True)]


def _joined(node: echo.Node, way: Way, id_: str) -> echo.Channel[Any]:
    try:
        return node.open_channel(id_, timeout_s=OPEN_S)
    except echo.LinkError as error:
        if way.kind == "name" or not isinstance(error.__cause__, ConnectionRefusedError):
            raise
        msg = f"Expected a channel by the id in {way}, the process that made it has ended"
        hint = "nobody else of this host is on it; with a name a channel is found again: node.channel(name)"
        raise ToolError(msg, ending=Ending.UNREACHABLE, hint=hint) from error


@contextlib.contextmanager
def created(way: Way) -> Generator[echo.Channel[Any]]:
    """The channel of that name, which this program holds from now on if nobody does."""
    if way.kind != "name":
        msg = f"Expected the name of a channel to create, got {way}"
        raise ToolError(msg, ending=Ending.USAGE)
    with echo.Node(f"echoctl-{os.getpid()}") as node, node.channel(way.text) as channel:
        yield channel


def _id_of(way: Way, wait_s: float) -> str:
    match way.kind:
        case "name":
            return _identity_by_name(way.text, time.monotonic() + wait_s)
        case "file":
            with open(way.text, encoding="ascii", errors="replace") as file:
                if os.fstat(file.fileno()).st_mode & (stat.S_IRGRP | stat.S_IROTH):
                    logs.note(f"other users can read {way}, which holds a channel's key: `chmod 600` it")
                return file.read().strip()
        case "stdin":
            return sys.stdin.readline().strip()
        case _:
            value = os.environ.get(way.text)
            if value is None:
                msg = f"Expected a channel's id in the variable {way.text}, it is not set"
                raise ToolError(msg, ending=Ending.USAGE)
            return value.strip()


def _identity_by_name(name: str, limit: float) -> str:
    while True:
        there = {found.name: found for found in echo.channels()}
        if name in there:
            return there[name].identity
        if time.monotonic() >= limit:
            raise _absent(name, list(there))
        time.sleep(_LOOK_S)


def _absent(name: str, there: list[str]) -> ToolError:
    similar = difflib.get_close_matches(name, there, 1)
    hint = f"is `{similar[0]}` meant?" if similar else "`echoctl ls` lists those that are there"
    msg = f"Expected a channel `{name}`, nobody on this host has one"
    return ToolError(msg, ending=Ending.UNREACHABLE, hint=hint)
