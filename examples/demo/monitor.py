"""A consumer that knows no class at all: it takes whatever flows, and learns what it is from the channel.

Run by the demo; by hand: `python -m examples.demo.monitor CHANNEL_ID TRANSPORT`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import echo_core as echo
from examples.demo import stages
from examples.demo.stages import say


class Monitor:
    """Counts events by the name of their type; each is of a class that was made for its format."""

    def __init__(self) -> None:
        self.stage = ""
        self.counts: Counter[str] = Counter()
        self.last: Any = None

    def take(self, event: Any) -> None:
        name = type(event).__name__
        if name == "Stage":
            self.begin(event.name)
            return
        self.counts[name] += 1
        self.last = event
        if self.stage in stages.QUIET:
            say("monitor", event)

    def begin(self, stage: str) -> None:
        if self.stage in {stages.PACED, stages.FLAT_OUT}:
            seen = ", ".join(f"{count:,} of `{name}`" for name, count in self.counts.items())
            say("monitor", f"{seen}; the last: {self.last}")
        self.stage = stage
        self.counts.clear()


def main(channel_id: str, transport: Any) -> None:
    """Declares nothing, and describes what the channel was declared with."""
    with echo.Node("monitor", transports=[transport]) as node, node.open_channel(channel_id) as channel:
        say("monitor", f"channel `{channel.name}` carries {', '.join(map(repr, channel.types))}")
        say("monitor", channel.types[0].describe())
        channel.sink(None, Monitor().take)
        stages.wait_until_closed(channel, "Stage")


if __name__ == "__main__":
    stages.run(main)
