"""Three versions of one event on a live channel; two nodes of one process stand for two machines.

`evolving_a_type.py` shows the same without a channel, step by step.
"""

from __future__ import annotations

import echo_core as echo


@echo.event
class Reading1:
    """As it was first sent."""

    sensor: echo.Int32
    temp: echo.Float32


@echo.event(aliases=("Reading1",))
class Reading2:
    """What is sent today: a field was added in the middle."""

    sensor: echo.Int32
    site: echo.Chars[8]
    temp: echo.Float32


@echo.event(aliases=("Reading2", "Reading1"))
class Reading3:
    """What somebody expects already: one field renamed and widened, one that nobody sends yet."""

    sensor: echo.Int32
    temperature: float = echo.field(default=0.0, unit="degC", aliases=("temp",))
    valid: bool = True


@echo.event(aliases=("Reading1",))
class Report:
    """Called as a reading was, but nothing that one could become."""

    title: str


def main() -> None:
    """One source, a sink of every version, and one that cannot be served."""
    with echo.Node(transports=["tcp"]) as laboratory, echo.Node(transports=["tcp"]) as office:
        channel = laboratory.create_channel("readings")
        opened = office.open_channel(channel.id)
        sinks = [opened.sink(cls) for cls in (Reading1, Reading2, Reading3)]

        source = channel.source(Reading2)
        source.wait_matched(3)
        source.submit(Reading2(7, "roof", 21.5))
        for sink in sinks:
            print(sink.get(10.0))

        mainframe = channel.source(Reading1, abi="s390x")  # an old sender, on a big-endian machine
        mainframe.wait_matched(2)  # version 2 demands a site
        mainframe.submit(Reading1(8, 19.0))
        print(sinks[0].get(10.0))
        print(sinks[2].get(10.0))

        try:
            opened.sink(Report).wait_matched()
        except echo.IncompatibleError as error:
            print(error)


if __name__ == "__main__":
    main()
