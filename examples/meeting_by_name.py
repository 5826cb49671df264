"""Two programs that meet by the name of a channel, in whatever order they start.

Neither is told anything of the other. Whoever asks for the name first creates the channel, for all processes
of this user on this host. `python examples/meeting_by_name.py` starts the receiver first, then the sender.
"""

from __future__ import annotations

import os
import subprocess
import sys

import echo_core as echo

NAME = f"example {os.getppid()}"  # so that two who run it do not meet; of a system's own it is fixed


@echo.event
class Frame:
    """Both programs declare what they know of it."""

    number: int
    exposure_s: float


def receive(name: str) -> None:
    """Takes ten frames, from whoever sends them."""
    with echo.channel(name, Frame) as frames, frames.sink(Frame) as sink:
        for _ in range(10):
            print("received", sink.get(timeout_s=10.0))


def send(name: str) -> None:
    """Sends ten frames, once somebody takes them."""
    with echo.channel(name, Frame) as frames, frames.source() as source:
        source.wait_matched()
        for number in range(10):
            source.submit(Frame(number, 0.02))
        source.flush()


def main() -> None:
    """Starts both; a name is no secret, and may stand on a command line."""
    programs = [subprocess.Popen([sys.executable, __file__, role, NAME]) for role in ("receive", "send")]
    print("they ended with", [program.wait(30.0) for program in programs])


if __name__ == "__main__":
    {"receive": receive, "send": send}[sys.argv[1]](sys.argv[2]) if len(sys.argv) > 1 else main()
