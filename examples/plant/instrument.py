"""A camera: fifty frames a second, whoever looks at them."""

from __future__ import annotations

import numpy as np

import echo_core as echo
from examples.plant.component import Component
from examples.plant.events import Frame

PERIOD_S = 0.02


def main() -> None:
    """Sends frames until it is told to stop. It must not wait for anybody: what finds no room is dropped."""
    with Component("instrument") as component:
        frames = echo.channel("plant-frames", Frame).source(
            name="camera", backlog=echo.Backlog(events=100, when_full="drop_oldest")
        )
        noise = np.random.default_rng(1)
        while not component.stop.wait(PERIOD_S):
            pixels = noise.integers(0, 4096, (128, 128), dtype=np.uint16)
            component.events += 1
            frames.submit(Frame(component.events, 0.01, pixels))


if __name__ == "__main__":
    main()
