"""Makes a result of each frame."""

from __future__ import annotations

import echo_core as echo
from examples.plant.component import Component
from examples.plant.events import Frame, Result


def main() -> None:
    """A handler does the work; it runs where frames are received, and may take its time."""
    with Component("processor") as component:
        results = echo.channel("plant-results", Result).source(keep=1)  # who comes later gets it at once

        def process(frame: Frame) -> None:
            component.events += 1
            results.submit(Result(frame.number, float(frame.pixels.mean()), int(frame.pixels.max())))

        with echo.channel("plant-frames", Frame).sink(Frame, process):
            component.stop.wait()


if __name__ == "__main__":
    main()
