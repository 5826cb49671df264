"""A reader that sleeps in shared memory, or a link that rests, and is not woken as it should be."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Collection
from pathlib import Path

from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode

# As native/core/wires/ring.c has it: two directions, each with the signal that says how its reader waits.
SIGNALS = (256 + 256, 256 + 512 + 256)
WAITING = 1 | 2  # in a sleep, or at rest


def rings() -> dict[tuple[str, str], int]:
    """Where each ring is mapped here, by its memory file and that place."""
    found: dict[tuple[str, str], int] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        match = re.match(r"([0-9a-f]+)-[0-9a-f]+ rw-s 00000000 \S+ (\d+) +/memfd:echo_core ring", line)
        if match:
            found[match[2], match[1]] = int(match[1], 16)
    return found


def signals(but: Collection[str]) -> list[ctypes.c_uint32]:
    """Of all rings that are mapped here, but those in some memory files."""
    return [
        ctypes.c_uint32.from_address(begin + place)
        for (file, _), begin in rings().items()
        if file not in but
        for place in SIGNALS
    ]


def test_reader_that_the_peer_has_forgotten_gets_its_events(make_node: MakeNode) -> None:
    """The peer finds no mark that somebody waits, as one that is killed before it wakes; the node looks."""
    earlier = {file for file, _ in rings()}  # of tests whose threads have not ended yet

    def are_waiting() -> bool:
        """Both readers; each ring is mapped twice, since both nodes are in this process."""
        found = signals(earlier)
        return len(found) == 4 and all(signal.value & WAITING for signal in found)

    here, there = make_node(transports=["shm"]), make_node(transports=["shm"])
    channel = here.create_channel("test", Plain)
    received: list[Plain] = []
    _sink = there.open_channel(channel.id).sink(Plain, received.append)
    source = channel.source()
    source.wait_matched(1, 30.0)
    until(are_waiting)
    for signal in signals(earlier):
        signal.value &= ~WAITING
    source.submit(Plain(1, 0.0))
    until(lambda: received == [Plain(1, 0.0)])
