"""A channel is recorded; the recorder is killed, another one goes on with its log, and what it has is played.

The source notices nothing of that. What nobody was there to record is a gap, which the log tells.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import echo_core as echo


@echo.event
class Particle:
    """What flows."""

    id: int
    temperature: echo.Float32


def submit(source: echo.Source[Particle], ends: threading.Event) -> None:
    """A thousand events a second, whoever takes them."""
    for number in itertools.count():
        if ends.wait(0.001):
            break
        source.submit(Particle(number, 300.0))


def begin_recorder(channel: echo.Channel[Particle], path: Path) -> subprocess.Popen[str]:
    """A process of its own, once it records."""
    recorder = subprocess.Popen(
        [sys.executable, __file__],
        env={**os.environ, "PARTICLES": channel.id, "LOG": str(path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert recorder.stdout is not None
    assert recorder.stdout.readline() == "recording\n"
    return recorder


def record(channel_id: str, path: str) -> None:
    """The recorder, until its input ends. What a synced log has confirmed outlives it."""
    with echo.open_channel(channel_id) as channel, channel.record(path, level="synced"):
        print("recording", flush=True)
        sys.stdin.read()


def main() -> None:
    """Records, kills, goes on, and plays what was recorded, ten times as fast."""
    with tempfile.TemporaryDirectory() as folder, echo.create_channel("particles", Particle) as channel:
        path, ends = Path(folder) / "run.echolog", threading.Event()
        with channel.source() as source:
            thread = threading.Thread(target=submit, args=(source, ends))
            thread.start()
            killed = begin_recorder(channel, path)
            time.sleep(0.5)
            killed.kill()
            killed.communicate()
            last = begin_recorder(channel, path)
            time.sleep(0.5)
            last.communicate()
            ends.set()
            thread.join()
        with echo.create_channel("again", Particle) as again:
            numbers: list[int] = []
            again.sink(Particle, lambda particle: numbers.append(particle.id))
            with echo.play(path, into=again, speed=10.0) as player:
                player.wait()
                counted = player.statistics()
        print(
            f"{counted.events} events from {numbers[0]} to {numbers[-1]}; {counted.missing} were not recorded"
        )
        assert numbers[-1] + 1 - numbers[0] == counted.events + counted.missing


if __name__ == "__main__":
    record(os.environ["PARTICLES"], os.environ["LOG"]) if "PARTICLES" in os.environ else main()
