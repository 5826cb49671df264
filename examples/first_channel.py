"""Two processes and one channel: one creates it and sends, the other opens it by its id and receives."""

from __future__ import annotations

import subprocess
import sys

import echo_core as echo


@echo.event
class Particle:
    """Each side declares the fields that it knows; here both declare the same."""

    id: int
    temperature: echo.Float32


def send() -> None:
    """Create a channel, start the receiver with its id, and send ten events when the receiver is ready."""
    with echo.create_channel("particles", Particle) as channel:
        receiver = subprocess.Popen([sys.executable, __file__, channel.id])
        with channel.source() as source:
            source.wait_matched()
            for i in range(10):
                source.submit(Particle(i, 300.0 + i))
        print("the receiver ended with", receiver.wait(10.0))


def receive(channel_id: str) -> None:
    """Open the channel by its id, and receive ten events."""
    with echo.open_channel(channel_id) as channel:
        sink = channel.sink(Particle)
        for _ in range(10):
            print("received", sink.get(timeout_s=10.0), flush=True)


if __name__ == "__main__":
    receive(sys.argv[1]) if len(sys.argv) > 1 else send()
