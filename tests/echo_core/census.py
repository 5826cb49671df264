"""What a process holds: threads of the library, descriptors, mappings of shared memory. For tests of leaks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

LIMIT_S = 10.0


@dataclass(frozen=True)
class Census:
    """Names of threads, what descriptors refer to, and how many mappings of memory files there are."""

    threads: tuple[str, ...]
    tasks: int
    descriptors: tuple[str, ...]
    mappings: int


def census() -> Census:
    names = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("echo-"))
    with open("/proc/self/maps") as maps:
        mappings = sum("/memfd:" in line for line in maps)
    return Census(tuple(names), len(os.listdir("/proc/self/task")), _descriptors(), mappings)


def _descriptors() -> tuple[str, ...]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}").split(":")[0])
        except FileNotFoundError:  # the one that lists them
            continue
    return tuple(sorted(found))


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def until(is_met: Callable[[], bool], what: str = "it", limit_s: float = LIMIT_S) -> None:
    """Waits for what no condition tells of, such as the end of a thread; looks again and again."""
    limit = time.monotonic() + limit_s
    while not is_met():
        if time.monotonic() > limit:
            pytest.fail(f"expected {what} within {limit_s} s")
        os.sched_yield()


def demand_as_before(before: Census) -> None:
    """Fails where something is left, once threads have had the time to end."""
    limit = time.monotonic() + LIMIT_S
    while (now := census()) != before and time.monotonic() < limit:
        os.sched_yield()
    if now != before:
        pytest.fail(f"expected what was there before, {before}, got {now}", pytrace=False)
