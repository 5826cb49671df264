"""`async for` over a sink: events of two channels, in one event loop with everything else that it does.

Another process sends: this file again, with the ids of the channels.
"""

from __future__ import annotations

import asyncio
import os
import sys

import echo_core as echo


@echo.event
class Reading:
    """What both channels carry."""

    sensor: int
    value: float


async def consume(name: str, channel: echo.Channel[Reading], count: int) -> None:
    """Takes so many; the loop is asked to wait only when nothing is there."""
    with channel.sink(Reading) as sink:
        total, left = 0.0, count
        async for reading in sink:
            total += reading.value
            left -= 1
            if left == 0:
                break
    print(f"{name}: {count} readings, together {total}")


async def tick() -> None:
    """Something else that the loop does meanwhile."""
    while True:
        await asyncio.sleep(0.05)


async def main() -> None:
    """Both channels at once, with one limit of time for all."""
    with (
        echo.create_channel("indoors", Reading) as indoors,
        echo.create_channel("outdoors", Reading) as outdoors,
    ):
        ticking = asyncio.create_task(tick())
        environment = {**os.environ, "READINGS": f"{indoors.id} {outdoors.id}"}
        sender = await asyncio.create_subprocess_exec(sys.executable, __file__, env=environment)
        async with asyncio.timeout(30.0):
            await asyncio.gather(consume("indoors", indoors, 100), consume("outdoors", outdoors, 200))
            await sender.wait()
        ticking.cancel()


def send(*channel_ids: str) -> None:
    """The other process."""
    for i, channel_id in enumerate(channel_ids, 1):
        with echo.open_channel(channel_id) as channel, channel.source(Reading) as source:
            source.wait_matched()
            for number in range(100 * i):
                source.submit(Reading(number, 0.5))
            source.flush()


if __name__ == "__main__":
    send(*os.environ["READINGS"].split()) if "READINGS" in os.environ else asyncio.run(main())
