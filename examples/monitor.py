"""A monitor without event classes: shows peers and sources of a channel, its event types and counts.

Without arguments it monitors a channel of its own. To monitor another until Ctrl-C:
`python examples/monitor.py CHANNEL_ID`.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import Any

import echo_core as echo


@echo.event
class Reading:
    """Sent on the example's own channel; the monitor does not use this class."""

    sensor: int
    value: echo.Float32


@echo.event
class Alarm:
    """Another type on the same channel."""

    text: str
    sensors: list[int]


class Monitor:
    """Handlers for the events and the notices of a channel."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def take(self, event: Any) -> None:
        """The event's class is generated from its format, with fields, repr and equality."""
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
    """Send events of two types on a channel that another node monitors."""
    monitor = Monitor()
    with echo.Node("plant") as plant, echo.Node("control room") as control_room:
        channel = plant.create_channel("plant")
        monitor.attach(control_room.open_channel(channel.id))
        with channel.source(Reading) as readings, channel.source(Alarm) as alarms:
            for i in range(100):
                readings.submit(Reading(i, i / 2))
            alarms.submit(Alarm("too hot", [7, 9]))
    print(dict(monitor.counts))


def watch(channel_id: str) -> None:
    """Monitor a channel until Ctrl-C."""
    monitor = Monitor()
    with echo.open_channel(channel_id) as channel:
        monitor.attach(channel)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(dict(monitor.counts))


if __name__ == "__main__":
    watch(sys.argv[1]) if len(sys.argv) > 1 else show_one()
