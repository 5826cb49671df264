"""Ending by SIGTERM: a process stops submitting, drains, closes, and nothing that it has sent is lost.

The other process is this file again: it publishes until it is told to end, and then says how much it
has sent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import echo_core as echo


@echo.event
class Tick:
    """What is published."""

    number: int


def publish() -> None:
    """The process that is to end."""
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: ending.set())
    channel = echo.open_channel(os.environ["TICKS"])
    source = channel.source(Tick)
    source.wait_matched()
    sent = 0
    while not ending.is_set():
        source.submit(Tick(sent))
        sent += 1
    node = echo.default_node()
    node.drain(timeout_s=10)  # TimedOutError says which process has not got how many events
    node.close()
    print(sent)


def main() -> None:
    """Takes until the publisher has gone, and compares."""
    taken: list[int] = []
    with echo.create_channel("ticks", Tick) as channel:
        channel.sink(Tick, lambda tick: taken.append(tick.number))
        publisher = subprocess.Popen(
            [sys.executable, __file__, "publish"],
            env={**os.environ, "TICKS": channel.id},  # an id is a secret, which arguments are not
            stdout=subprocess.PIPE,
            text=True,
        )
        channel.sink(Tick).get()  # by now it publishes
        publisher.terminate()
        sent, _ = publisher.communicate(timeout=60)
    assert taken == list(range(int(sent)))
    print("ended by a signal, and none of what it has sent is missing")


if __name__ == "__main__":
    publish() if sys.argv[1:] else main()
