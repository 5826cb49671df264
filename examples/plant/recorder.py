"""Keeps what it can of each frame: a line of a file. What it misses is written there, too."""

from __future__ import annotations

import os
from pathlib import Path

import echo_core as echo
from examples.plant.component import Component
from examples.plant.events import Frame


def main() -> None:
    """A thread of its own writes, so that a slow disk holds up no other sink."""
    place = Path(os.environ.get("PLANT_RECORD", os.devnull))
    with Component("recorder") as component, place.open("a", buffering=1) as file:

        def record(frame: Frame, info: echo.EventInfo) -> None:
            component.events += 1
            file.write(f"{info.source} {info.number} {frame.number} {frame.pixels.sum()}\n")

        with echo.channel("plant-frames", Frame).sink(Frame, record, own_thread=True) as sink:
            component.stop.wait()
            counted = sink.statistics()
            file.write(f"# {counted.events} frames, {counted.lost + counted.dropped} lost\n")


if __name__ == "__main__":
    main()
