"""Channels are cheap: one for each of a thousand sensors, all over one link.

Two nodes of one process act as two processes.
"""

from __future__ import annotations

import time
from collections import Counter

import echo_core as echo

COUNT = 1000


@echo.event
class Reading:
    """The event type of every channel."""

    sensor: int
    value: float


def main() -> None:
    """Create and open a thousand channels, send one event on each, and look at the links."""
    with echo.Node(transports=["unix"]) as plant, echo.Node(transports=["unix"]) as control_room:
        begin = time.perf_counter()
        channels = [plant.create_channel(f"sensor {i}", Reading) for i in range(COUNT)]
        opened = [control_room.open_channel(channel.id) for channel in channels]
        print(f"{COUNT} channels created and opened in {time.perf_counter() - begin:.2f} s")

        seen: Counter[int] = Counter()
        for channel in opened:
            channel.sink(Reading, lambda reading: seen.update([reading.sensor]))
        sources = [channel.source() for channel in channels]
        for source in sources:
            source.wait_matched()
        for number, source in enumerate(sources):
            source.submit(Reading(number, 0.5))
        sources[-1].flush()  # enough for all: they share a link, which keeps the order

        (link,) = plant.statistics().links
        print(
            f"{len(seen)} of them delivered an event, over {link.wire}: {link.channels} channels on one link"
        )


if __name__ == "__main__":
    main()
