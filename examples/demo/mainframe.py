"""A sender on another machine: its records are laid out as a big-endian s390x lays them out.

Run by the demo; by hand: `python -m examples.demo.mainframe CHANNEL_ID TRANSPORT`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import echo_core as echo
from examples.demo import stages
from examples.demo.stages import Stage, say


@echo.event
class Particle:
    """Version 2 as somebody else has declared it: another order, an int of 32 bits, a field of its own."""

    id: echo.Int32
    temperature: echo.Float32
    position: echo.Array[echo.Float32, 3]
    region: echo.Chars[8]
    sent_ns: int


def main(channel_id: str, transport: Any) -> None:
    """Waits for its stage in a loop, sends, and leaves."""
    with echo.Node("mainframe", transports=[transport]) as node, node.open_channel(channel_id) as channel:
        source = channel.source(Particle, abi="s390x", name="mainframe")
        announced = channel.sink(Stage)
        stages.when_closed(channel, "Stage", announced.close)
        if all(stage.name != stages.MAINFRAME for stage in announced):
            return  # the simulation has gone
        source.wait_matched(3)
        particle = Particle(70_000, 451.0, np.arange(3), "Z-77", time.perf_counter_ns())
        say("mainframe", f"sends {particle}\nas {echo.encoder(Particle, abi='s390x')(particle).hex(' ', 4)}")
        source.submit(particle)
        source.flush()


if __name__ == "__main__":
    stages.run(main)
