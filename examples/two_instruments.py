"""Two instruments on one channel: which of them an event is from, and whether one has missed any.

Each instrument runs in a process of its own, and its source has the same name as that of the other: what
tells them apart is the id of the source.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict

import echo_core as echo

READINGS = 100


@echo.event
class Reading:
    """What both instruments measure. Nothing in it says who did."""

    kelvin: float


def measure(channel_id: str, offset: float) -> None:
    """One instrument."""
    with echo.open_channel(channel_id) as channel, channel.source(Reading, name="thermometer") as source:
        source.wait_matched()
        for i in range(READINGS):
            source.submit(Reading(offset + i / 100))
        source.drain(timeout_s=10.0)


def compare() -> None:
    """Starts both, and keeps their readings apart."""
    sums: defaultdict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    with echo.create_channel("readings", Reading) as channel, channel.sink(Reading) as sink:
        environment = {**os.environ, "READINGS": channel.id}
        instruments = [
            subprocess.Popen([sys.executable, __file__, offset], env=environment) for offset in ("290", "300")
        ]
        for _ in range(2 * READINGS):
            reading, info = sink.get_with_info(timeout_s=10.0)
            missed = info.number - counts[info.source_id]
            assert missed == 0, f"{missed} readings of the {info.source} in {info.peer} are missing"
            counts[info.source_id] += 1
            sums[info.source_id] += reading.kelvin
        for instrument in instruments:
            instrument.wait(10.0)
    for source_id, count in counts.items():
        print(f"thermometer {source_id[:8]}: {count} readings, {sums[source_id] / count:.1f} K on average")


if __name__ == "__main__":
    measure(os.environ["READINGS"], float(sys.argv[1])) if "READINGS" in os.environ else compare()
