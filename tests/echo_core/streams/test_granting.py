"""Credit reaches a source while its process is busy, and costs it little."""

from __future__ import annotations

import threading
import time

import pytest

import echo_core as echo
from tests.echo_core.census import until
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

# Its handler takes longer than a look would.
SLOW_RECEIVER = """
node = echo.Node(transports=["shm"], spin_s=1.0)
sink = node.open_channel(sys.argv[1]).sink(Plain, lambda event: threading.Event().wait(0.01))
hear()
"""


def are_at_rest() -> bool:
    """Whether no thread here reads a link."""
    return not any(thread.name.startswith("echo-link-") for thread in threading.enumerate())


@pytest.mark.parametrize("rests", [False, True])
@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_events_that_wait_for_credit_go_while_a_thread_keeps_the_interpreters_lock(
    make_node: MakeNode, transport: str, *, rests: bool
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
        if rests:
            until(are_at_rest)
        for number in range(EVENTS):
            source.submit(Plain(number, 0.0))
        sum(numbers)
        ended_ns = time.monotonic_ns()
        assert int(receiver.hear()) < ended_ns
        receiver.tell("end")
        receiver.end()


def test_a_source_that_looks_for_what_comes_does_not_look_for_credit(make_node: MakeNode) -> None:
    """Which comes without being waited for: its threads would take the processor from who submits."""
    channel = make_node(transports=["shm"], spin_s=1.0).create_channel("x", Plain)
    source = channel.source()
    with Actor(SLOW_RECEIVER, channel.id) as receiver:
        source.wait_matched(timeout_s=LIMIT_S)
        source.submit(Plain(-1, 0.0))
        source.flush(LIMIT_S)
        began, used = time.monotonic(), used_by_others_s()
        for number in range(30):
            source.submit(Plain(number, 0.0))
            source.flush(LIMIT_S)
        assert used_by_others_s() - used < 0.5 * (time.monotonic() - began)
        receiver.tell("end")
        receiver.end()


def used_by_others_s() -> float:
    """Processor time of all threads here but the calling one."""
    return time.process_time() - time.thread_time()
