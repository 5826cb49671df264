"""Latest values: a sink that comes later gets the last setting first, and then each new one.

Two nodes of one process, joined by TCP.
"""

from __future__ import annotations

import echo_core as echo


@echo.event
class Setting:
    """What is true until it is replaced."""

    name: str
    value: float


def main() -> None:
    """The display is started long after the controller."""
    with echo.Node(transports=["tcp"]) as controller, echo.Node(transports=["tcp"]) as display:
        channel = controller.create_channel("settings", Setting)
        source = channel.source(keep=1)
        source.submit(Setting("temperature", 290.0))
        source.submit(Setting("temperature", 300.0))

        sink = display.open_channel(channel.id).sink(Setting)
        print(f"at first: {sink.get(10.0).value}")
        source.submit(Setting("temperature", 310.0))
        print(f"then: {sink.get(10.0).value}")


if __name__ == "__main__":
    main()
