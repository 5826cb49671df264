"""A consumer of the first version of the particles: it has not been touched since.

Run by the demo; by hand: `python -m examples.demo.older CHANNEL_ID TRANSPORT`.
"""

from __future__ import annotations

from typing import Any

import echo_core as echo
from examples.demo import stages
from examples.demo.stages import Figures, Stage, say


@echo.event
class Particle:
    """Version 1: no position yet."""

    id: int
    sent_ns: int
    temperature: echo.Float32


class Consumer:
    """Handlers run on the thread that reads the link: in order, and one at a time."""

    def __init__(self) -> None:
        self.stage = ""
        self.figures = Figures()

    def take(self, particle: Particle) -> None:
        self.figures.add(particle.sent_ns)
        if self.stage in stages.QUIET:
            say("older", particle)

    def begin(self, stage: Stage) -> None:
        if self.stage in {stages.PACED, stages.FLAT_OUT}:
            say("older", self.figures.of(self.stage))
        self.stage = stage.name
        self.figures.clear()


def main(channel_id: str, transport: Any) -> None:
    """Opens the channel, says what becomes of the fields, and consumes until the simulation is over."""
    with echo.Node("older", transports=[transport]) as node, node.open_channel(channel_id) as channel:
        say("older", echo.compare(channel.types[0], echo.format_of(Particle)))
        consumer = Consumer()
        channel.sink(Particle, consumer.take)
        channel.sink(Stage, consumer.begin)
        stages.wait_until_closed(channel, "Stage")


if __name__ == "__main__":
    stages.run(main)
