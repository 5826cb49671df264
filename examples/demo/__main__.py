"""Five processes on one channel, in ten seconds: `make demo`, or `python -m examples.demo --transport tcp`.

This process is the simulation. It starts an older and a newer consumer, one that knows no class, and a sender
on a simulated big-endian machine; each is a file beside this one, and declares `Particle` as it knows it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import echo_core as echo
from examples.demo import stages
from examples.demo.stages import Stage, say

ROOT = Path(__file__).parents[2]
SNAPSHOT = 100_000  # particles
START_S = 30.0  # on a machine that is busy, five Pythons take a while


@echo.event
class Particle:
    """Version 2, the simulation's own."""

    id: int
    sent_ns: int
    temperature: echo.Float32
    position: echo.Array[echo.Float32, 3]


@contextmanager
def started(*components: tuple[str, ...]) -> Generator[None]:
    """Other processes; they end when the simulation does, and are ended if it fails.

    Ids are secrets: they go by the environment, since everybody can read command lines.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"examples.demo.{name}"],
            cwd=ROOT,
            env={**os.environ, stages.ARGUMENTS: " ".join(arguments)},
        )
        for name, *arguments in components
    ]
    try:
        yield
        for process in processes:
            process.wait(10.0)
    finally:
        for process in processes:
            process.terminate()
            process.wait()


class Simulation:
    """What is published, stage by stage."""

    def __init__(self, channel: echo.Channel[Particle], snapshots: echo.Channel[Particle]) -> None:
        self.mainframe_has_gone = threading.Event()
        stages.when_closed(channel, "mainframe", self.mainframe_has_gone.set)
        self.particles = channel.source(Particle, backlog=echo.Backlog(events=10_000))
        self.snapshots = snapshots.source()
        self.stages = channel.source(Stage)

    def wait_for_consumers(self) -> None:
        self.stages.wait_matched(4, START_S)
        self.particles.wait_matched(3, START_S)
        self.snapshots.wait_matched(1, START_S)

    def begin(self, stage: str) -> None:
        """Ends the stage before: when all of it has been handled, everyone says what they saw."""
        self.particles.flush(30.0)
        self.snapshots.flush(30.0)
        self._announce(stages.BETWEEN)
        print(f"\n--- {stage}\n", flush=True)
        self._announce(stage)

    def _announce(self, stage: str) -> None:
        self.stages.submit(Stage(stage))
        self.stages.flush(30.0)

    def publish(self, seconds: float, pause_s: float) -> None:
        """Particles, one by one."""
        position = np.zeros(3, np.float32)
        submit, now_ns, number = self.particles.submit, time.perf_counter_ns, 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            number += 1
            submit(Particle(number, now_ns(), 300.0, position))
            if pause_s:
                time.sleep(pause_s)

    def publish_snapshots(self, seconds: float) -> None:
        """Many at once: written in place, in memory that the others read where there is such memory."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            particles = self.snapshots.loan(SNAPSHOT)
            particles["id"] = np.arange(SNAPSHOT)
            particles["temperature"] = np.linspace(0, 500, SNAPSHOT)
            self.snapshots.submit_array(particles)

    def run(self) -> None:
        self.begin(stages.PACED)
        self.publish(2.5, pause_s=0.001)
        self.begin(stages.FLAT_OUT)
        self.publish(1.5, pause_s=0.0)
        self.begin(stages.MAINFRAME)
        if not self.mainframe_has_gone.wait(10.0):
            say("simulation", "the mainframe has not come")
        self.begin(stages.SNAPSHOTS)
        self.publish_snapshots(1.0)
        self.begin(stages.END)


def conclude(node: echo.Node, simulation: Simulation) -> None:
    """What the simulation's own books say, and where to go from here."""
    for link in node.statistics().links:
        say(
            "simulation",
            f"to {link.peer}: {link.wire}, {link.sent_frames:,} frames, {link.sent_bytes / 1e6:,.0f} MB, "
            f"{link.channels} channels",
        )
    sent = simulation.particles.statistics()
    say("simulation", f"{sent.events:,} particles one by one, {sent.dropped + sent.dropped_at_sinks} dropped")
    print(
        "\nNext: the tutorial in README.md, the guide in docs/channels.md, examples/first_channel.py and its"
        "\nneighbours; `python examples/tour.py` shows layouts, tokens and evolution by themselves."
    )


def main() -> None:
    """Creates the channels, starts the others, publishes, and waits for all to end."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="A demo of ten seconds.")
    parser.add_argument("--transport", choices=["shm", "unix", "tcp"], default="shm")
    transport = parser.parse_args().transport
    with echo.Node("simulation", transports=[transport]) as node:
        channel = node.create_channel("particles", Particle, Stage)
        snapshots = node.create_channel("snapshots", Particle)
        print(f"--- five processes, one channel, by {transport}\n")
        say("simulation", f"who has this can join: {channel.id}")
        simulation = Simulation(channel, snapshots)
        with started(
            ("older", channel.id, transport),
            ("newer", channel.id, transport, snapshots.id),
            ("monitor", channel.id, transport),
            ("mainframe", channel.id, transport),
        ):
            simulation.wait_for_consumers()
            simulation.run()
            conclude(node, simulation)
            node.close()


if __name__ == "__main__":
    stages.run(main)
