"""A receiver says what it needs, while it runs; the source judges, and sends nothing else.

This process has the source. The one that it starts opens the channel, derives the hot particles from it, and
moves the threshold once it has seen some.
"""

from __future__ import annotations

import os
import subprocess
import sys

import echo_core as echo


@echo.event
class Particle:
    """Both sides declare what they know; here that is the same."""

    id: int
    temperature: echo.Float32


def send() -> None:
    """Submits particles, hotter and hotter, until nobody takes any."""
    with echo.create_channel("particles", Particle) as channel:
        environment = {**os.environ, "PARTICLES": channel.id}
        receiver = subprocess.Popen([sys.executable, __file__], env=environment)
        with channel.source() as source:
            source.wait_matched()
            submitted = 0
            while receiver.poll() is None:
                source.submit(Particle(submitted, 300.0 + submitted % 100))
                submitted += 1
        print("submitted more than a thousand:", submitted > 1000)


def receive(channel_id: str) -> None:
    """Takes what is hotter than a limit, and then what is hotter than another one."""
    with (
        echo.open_channel(channel_id) as channel,
        channel.derive(where="temperature >= limit", limit=398.0) as hot,
    ):
        sink = hot.sink(Particle)
        for _ in range(4):
            print("received", sink.get(timeout_s=10.0), flush=True)
        numbers = hot.set(limit=399.0)
        event, info = sink.get_with_info(timeout_s=10.0)
        while info.number < numbers[info.source_id]:
            event, info = sink.get_with_info(timeout_s=10.0)
        print("the first by the new limit:", event.temperature, flush=True)


if __name__ == "__main__":
    receive(os.environ["PARTICLES"]) if "PARTICLES" in os.environ else send()
