"""A consumer that is too slow: what waits is bounded, and what then happens is said beforehand.

Two nodes of one process, joined by TCP.
"""

from __future__ import annotations

import threading

import echo_core as echo

SENT = 1000


@echo.event
class Frame:
    """What is sent faster than it is used."""

    number: int


def drop(backlog: echo.Backlog) -> None:
    """The consumer keeps ten, and both sides know how many it did not get."""
    with echo.Node(transports=["tcp"]) as camera, echo.Node(transports=["tcp"]) as screen:
        channel = camera.create_channel("frames", Frame)
        opened = screen.open_channel(channel.id)
        sink = opened.sink(Frame, backlog=backlog)
        source = channel.source()
        source.wait_matched()
        told = threading.Event()
        channel.watch(lambda notice: told.set() if isinstance(notice, echo.EventsLost) else None)

        for number in range(SENT):
            source.submit(Frame(number))
        source.flush()
        sink.close()
        print(f"{backlog.when_full}: {[frame.number for frame in sink]}, {sink.statistics().dropped} dropped")
        told.wait(10.0)
        print(f"the sender has heard of {source.statistics().dropped_at_sinks}")


def block() -> None:
    """Nothing is lost: the sender goes as fast as the consumer does, for it waits when the way is full."""
    backlog = echo.Backlog(events=100, when_full="block", timeout_s=10.0)
    with echo.Node(transports=["tcp"]) as camera, echo.Node(transports=["tcp"]) as screen:
        channel = camera.create_channel("frames", Frame)
        sink = screen.open_channel(channel.id).sink(Frame, backlog=backlog)
        source = channel.source(backlog=backlog)
        source.wait_matched()

        def send() -> None:
            for number in range(SENT):
                source.submit(Frame(number))

        sender = threading.Thread(target=send)
        sender.start()
        numbers = [sink.get(10.0).number for _ in range(SENT)]
        sender.join()
        print(f"block: {len(numbers)} frames, in order: {numbers == sorted(numbers)}")


if __name__ == "__main__":
    drop(echo.Backlog(events=10, when_full="drop_oldest"))
    drop(echo.Backlog(events=10, when_full="drop_newest"))
    block()
