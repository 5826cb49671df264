"""A consumer of the next version of the particles, which the simulation does not know yet.

Run by the demo; by hand: `python -m examples.demo.newer CHANNEL_ID TRANSPORT SNAPSHOTS_ID`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import echo_core as echo
from examples.demo import stages
from examples.demo.stages import Figures, Stage, say


@echo.event
class Particle:
    """Version 3: another order, a field renamed and widened, another widened, one that no sender has."""

    sent_ns: int
    id: int
    position: echo.Array[echo.Float64, 3]
    temp: float = echo.field(default=0.0, unit="K", aliases=("temperature",))
    charge: echo.Int32 = 0


class Consumer:
    """Handlers run on the thread that reads the link: in order, and one at a time."""

    def __init__(self) -> None:
        self.stage = ""
        self.figures = Figures()

    def take(self, particle: Particle) -> None:
        self.figures.add(particle.sent_ns)
        if self.stage in stages.QUIET:
            say("newer", particle)

    def take_many(self, particles: np.ndarray[Any, Any]) -> None:
        """A structured array of version 3, however the sender lays out its own."""
        self.figures.add(time.perf_counter_ns(), len(particles))
        self.hottest = float(particles["temp"].max())

    def begin(self, stage: Stage) -> None:
        if self.stage in {stages.PACED, stages.FLAT_OUT}:
            say("newer", self.figures.of(self.stage))
        if self.stage == stages.SNAPSHOTS:
            say("newer", f"{self.figures.rate}; the hottest had {self.hottest:.1f} K")
        self.stage = stage.name
        self.figures.clear()


def main(channel_id: str, transport: Any, snapshots_id: str) -> None:
    """Two channels, one link to the simulation."""
    with (
        echo.Node("newer", transports=[transport]) as node,
        node.open_channel(channel_id) as channel,
        node.open_channel(snapshots_id) as snapshots,
    ):
        say("newer", echo.compare(channel.types[0], echo.format_of(Particle)))
        consumer = Consumer()
        snapshots.sink(Particle, consumer.take_many, batch=True)
        channel.sink(Particle, consumer.take)
        channel.sink(Stage, consumer.begin)
        stages.wait_until_closed(channel, "Stage")


if __name__ == "__main__":
    stages.run(main)
