"""Two processes and one channel: this one creates it and sends, another opens it by its id and receives.

The id travels in the environment: it is a secret, and what stands on a command line can be read by everybody.
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
    """Creates a channel, starts the receiver with its id, and sends ten events when that one is ready."""
    with echo.create_channel("particles", Particle) as channel:
        environment = {**os.environ, "PARTICLES": channel.id}
        receiver = subprocess.Popen([sys.executable, __file__], env=environment)
        with channel.source() as source:
            source.wait_matched()
            for i in range(10):
                source.submit(Particle(i, 300.0 + i))
        print("the receiver ended with", receiver.wait(10.0))


def receive(channel_id: str) -> None:
    """Opens the channel wherever it was created, and takes ten events from it."""
    with echo.open_channel(channel_id) as channel:
        sink = channel.sink(Particle)
        for _ in range(10):
            print("received", sink.get(timeout_s=10.0), flush=True)


if __name__ == "__main__":
    receive(os.environ["PARTICLES"]) if "PARTICLES" in os.environ else send()
