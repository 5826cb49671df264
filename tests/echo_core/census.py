"""What a process holds: threads, descriptors, mappings of shared memory. For tests of leaks."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import echo_core as echo
from echo_core.roster.peers import Peer
from echo_core.streams.origins import Origin
from echo_core.streams.targets import Target

LIMIT_S = 30.0
_SETTLED_S = 0.05  # without a change; a busy machine lets a thread that has ended wait for so long
_OF_NODES = ("echo-door-", "echo-link-", "echo-meet-", "echo-sink-")


@dataclass(frozen=True)
class Census:
    """Names of threads, writers of links, what descriptors refer to, and mappings of memory files."""

    threads: tuple[str, ...]
    writers: int
    descriptors: tuple[str, ...]
    mappings: int


_NOTHING = Census((), 0, (), 0)


def census() -> Census:
    names = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith(_OF_NODES))
    with open("/proc/self/maps") as maps:
        mappings = maps.read().count("/memfd:")
    return Census(tuple(names), _writers(), _descriptors(), mappings)


def settled_census(*, collects: bool = True) -> Census:
    """Once nothing has changed for a while: a thread that has ended lets go of what it has a bit later.

    What an earlier test has left as garbage goes first; what a test itself leaves may not need collecting.
    """
    if collects:
        gc.collect()
    last, since = census(), time.monotonic()
    while time.monotonic() - since < _SETTLED_S:
        os.sched_yield()
        now = census()
        last, since = now, since if now == last else time.monotonic()
    return last


def _writers() -> int:
    """Threads that are not Python's."""
    found = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as name:
                found += name.read().strip() == "echo-writer"
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _descriptors() -> tuple[str, ...]:
    """Without eventfds: a link makes its own when a thread first waits for it, and shows as a socket too."""
    found: list[str] = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # the one that lists them
            continue
        if "[eventfd]" not in target:
            found.append("socket" if target.startswith("socket:") else target)
    return tuple(sorted(found))


def resident_bytes() -> int:
    """0 under a sanitizer, which keeps freed memory and notes of all other."""
    if any(name in os.environ.get("LD_PRELOAD", "") for name in ("libasan", "libtsan")):
        return 0
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def until(is_met: Callable[[], bool], what: str = "it", limit_s: float = LIMIT_S) -> None:
    """Waits for what no condition tells of, such as the end of a thread; looks again and again."""
    limit = time.monotonic() + limit_s
    while not is_met():
        if time.monotonic() > limit:
            pytest.fail(f"expected {what} within {limit_s} s")
        os.sched_yield()


def left_behind(before: Census) -> str:
    """What is there and was not, or was there and is not, once threads have had the time to end."""
    limit = time.monotonic() + LIMIT_S
    while not _is_back(now := census(), before) and time.monotonic() < limit:
        os.sched_yield()
    if _is_back(now, before):
        return ""
    return f"left: {_beyond(now, before)}; missing: {_beyond(before, now)}"


def _is_back(now: Census, before: Census) -> bool:
    """Without what a thread had that an earlier test has left, if that thread has ended only since."""
    left, gone = _beyond(now, before), _beyond(before, now)
    return left == _NOTHING and (gone == _NOTHING or bool(gone.threads or gone.writers))


def _beyond(one: Census, other: Census) -> Census:
    """What the one has and the other has not."""
    return Census(
        tuple((Counter(one.threads) - Counter(other.threads)).elements()),
        max(0, one.writers - other.writers),
        tuple((Counter(one.descriptors) - Counter(other.descriptors)).elements()),
        max(0, one.mappings - other.mappings),
    )


def peers_of(node: echo.Node) -> list[Peer]:
    """The other ends of a node's links, for a test that cuts one."""
    return node._neighbours._links.peers()  # pyright: ignore[reportPrivateUsage]


def origin_of(source: echo.Source[Any]) -> Origin:
    """The working part of a source, for a test that looks at what components do not see."""
    return source._origin  # pyright: ignore[reportPrivateUsage]


def targets_of(channel: echo.Channel[Any]) -> list[Target]:
    """The working parts of a channel's sinks."""
    return channel._targets  # pyright: ignore[reportPrivateUsage]


def joins_in_process(node: echo.Node) -> bool:
    """Whether the node meets others of this process without a link."""
    return node._home.joins_in_process  # pyright: ignore[reportPrivateUsage]


def target_of(sink: echo.Sink[Any]) -> Target:
    """The working part of a sink."""
    return sink._target  # pyright: ignore[reportPrivateUsage]
