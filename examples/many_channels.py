"""A channel is cheap: one for each sensor, all over one link.

Two nodes of one process stand for two processes.
"""

from __future__ import annotations

import time
from collections import Counter

import echo_core as echo

COUNT = 1000


@echo.event
class Reading:
    """What every channel carries."""

    sensor: int
    value: float


def main() -> None:
    """Creates and opens a thousand, sends one event on each, and looks at the links."""
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
        sources[-1].flush()  # all share a link, on which order is kept

        (link,) = plant.statistics().links
        print(f"{len(seen)} of them heard from, over {link.wire}: {link.channels} channels on one link")


if __name__ == "__main__":
    main()
