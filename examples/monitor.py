"""A monitor that knows no class: who comes and goes on a channel, what flows, how much.

By itself it shows a channel of its own. To watch another, until Ctrl-C, it takes a name, for `echo.channel`:
`python examples/monitor.py NAME`.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import Any

import echo_core as echo


@echo.event
class Reading:
    """For the monitor's own channel; it does not use the class."""

    sensor: int
    value: echo.Float32


@echo.event
class Alarm:
    """Another type on the same channel."""

    text: str
    sensors: list[int]


class Monitor:
    """Handlers for a channel's events and for what is told of it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def take(self, event: Any) -> None:
        """An event is of a class made for its sender's format: fields, repr and equality are as ever."""
        name = type(event).__name__
        self.counts[name] += 1
        if self.counts[name] == 1:
            print(f"the first `{name}`: {event}")

    def notice(self, notice: echo.Notice) -> None:
        match notice:
            case echo.SourceOpened(peer, name, format_):
                print(f"{peer} sends `{name}`:\n{format_.describe()}")
            case echo.SourceClosed(peer, name):
                print(f"{peer} sends no more `{name}`")
            case echo.EventsLost(peer, source, events):
                print(f"{events} events of `{source}` were lost at {peer}")
            case _:
                print(notice)

    def attach(self, channel: echo.Channel[Any]) -> None:
        channel.watch(self.notice)
        channel.sink(None, self.take)


def show_one() -> None:
    """A channel with events of two types, and the monitor on another node."""
    monitor = Monitor()
    with echo.Node("plant") as plant, echo.Node("control room") as control_room:
        channel = plant.create_channel("plant")
        monitor.attach(control_room.open_channel(channel.id))
        with channel.source(Reading) as readings, channel.source(Alarm) as alarms:
            for i in range(100):
                readings.submit(Reading(i, i / 2))
            alarms.submit(Alarm("too hot", [7, 9]))
    print(dict(monitor.counts))


def watch(name: str) -> None:
    """Until Ctrl-C."""
    monitor = Monitor()
    with echo.channel(name) as channel:
        monitor.attach(channel)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(dict(monitor.counts))


if __name__ == "__main__":
    watch(sys.argv[1]) if len(sys.argv) > 1 else show_one()
