"""Credit reaches a source while its process is busy, and costs it little."""

from __future__ import annotations

import threading
import time

import pytest

import echo_core as echo
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor

EVENTS = 2_000

# It takes ten events at a time, so that the rest waits at the source for credit.
RECEIVER = """
node = echo.Node(transports=[sys.argv[1]], limits=echo.Limits(window_events=10))
def handle(event):
    if event.id == int(sys.argv[3]) - 1:
        say(time.monotonic_ns())
sink = node.open_channel(sys.argv[2]).sink(Plain, handle)
hear()
"""


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_events_that_wait_for_credit_go_while_a_thread_keeps_the_interpreters_lock(
    make_node: MakeNode, transport: str
) -> None:
    """As one does that computes in C code: nothing of what grants and sends needs Python."""
    channel = make_node(transports=[transport]).create_channel("x", Plain)
    backlog = echo.Backlog(events=EVENTS, when_full="block")
    source = channel.source(Plain, backlog=backlog)
    begin = time.thread_time()
    sum(range(2_000_000))
    numbers = range(int(2_000_000 * 4.0 / (time.thread_time() - begin)))  # some seconds
    with Actor(RECEIVER, transport, channel.id, str(EVENTS)) as receiver:
        source.wait_matched(timeout_s=LIMIT_S)
        source.submit(Plain(-1, 0.0))
        source.flush(LIMIT_S)  # behind all that members tell each other when they meet, which needs Python
        for number in range(EVENTS):
            source.submit(Plain(number, 0.0))
        sum(numbers)
        ended_ns = time.monotonic_ns()
        assert int(receiver.hear()) < ended_ns
        receiver.tell("end")
        receiver.end()


def test_a_source_that_looks_for_what_comes_does_not_look_for_credit(make_node: MakeNode) -> None:
    """Which comes without being waited for: its thread would take the processor from who submits."""
    here, there = (make_node(transports=["shm"], spin_s=1.0) for _ in range(2))
    channel = here.create_channel("x", Plain)
    there.open_channel(channel.id).sink(Plain, lambda _: threading.Event().wait(0.01))
    source = channel.source()
    source.wait_matched()
    name = f"echo-link-{there.name}"
    [reader] = [thread for thread in threading.enumerate() if thread.name.startswith(name)]
    clock = time.pthread_getcpuclockid(reader.ident or 0)
    began, used = time.monotonic(), time.clock_gettime(clock)
    for number in range(30):
        source.submit(Plain(number, 0.0))
        source.flush(LIMIT_S)
    assert time.clock_gettime(clock) - used < 0.5 * (time.monotonic() - began)
