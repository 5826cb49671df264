"""A receiver says what it needs, while it runs; the source judges, computes and sends nothing else.

This process has the source. The one that it starts opens the channel, derives the hot particles from it, and
moves the threshold once it has seen some. Then it wants tracks, too, and asks for finer ones.
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
    track: list[float] = echo.field(default_factory=list[float])


def send() -> None:
    """Submits particles, hotter and hotter, until nobody takes any. Tracks take their time."""
    with echo.create_channel("particles", Particle) as channel:
        environment = {**os.environ, "PARTICLES": channel.id}
        receiver = subprocess.Popen([sys.executable, __file__], env=environment)
        with channel.source(name="detector") as source:
            points = source.parameter("points", 4, low=2, high=64)
            source.wait_matched()
            submitted = tracks = 0
            while receiver.poll() is None:
                particle = Particle(submitted, 300.0 + submitted % 100)
                if "track" in source.wanted.fields:
                    particle.track = [i / points.value for i in range(points.value)]
                    tracks += 1
                source.submit(particle)
                submitted += 1
        print("submitted more than a thousand:", submitted > 1000)
        print("computed a track for each:", tracks == submitted)


def receive(channel_id: str) -> None:
    """Takes what is hotter than a limit, then than another one; then tracks of the hottest."""
    with (
        echo.open_channel(channel_id) as channel,
        channel.derive(
            where="temperature >= limit", select=["id", "temperature"], name="Particle", limit=398.0
        ) as hot,
    ):
        sink = hot.sink(Particle)
        for _ in range(4):
            print("received", sink.get(timeout_s=10.0), flush=True)
        numbers = hot.set(limit=399.0)
        event, info = sink.get_with_info(timeout_s=10.0)
        while info.number < numbers[info.source_id]:
            event, info = sink.get_with_info(timeout_s=10.0)
        print("the first by the new limit:", event.temperature, flush=True)
        try:
            channel.request(pionts=8)
        except echo.ChannelError as error:
            print(str(error).partition(", unknown")[0], flush=True)
        channel.request(points=8, timeout_s=10.0)
        with channel.derive(where="temperature >= 399") as tracked:
            taken = tracked.sink(Particle)
            while len(taken.get(timeout_s=10.0).track) != 8:
                pass
            print("a track has 8 points now", flush=True)


if __name__ == "__main__":
    receive(os.environ["PARTICLES"]) if "PARTICLES" in os.environ else send()
