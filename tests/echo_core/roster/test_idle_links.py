"""Links on which nothing happens: what many of them cost a process, and that each is as good as any other."""

from __future__ import annotations

import os
import threading

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain, plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import Actor
from tests.native.link_ends import eventually, numbered
from tests.native.slow_handlers import Readers
from tests.native.test_resting import Crowd

MORE_THREADS = 8  # of this process, for whatever number of idle links

# Many nodes, each with a link of its own. Sinks of all but the first are on a channel that is silent.
_CROWD = """
transport, count, there, back, silent = sys.argv[1:]
nodes = [echo.Node(transports=[transport]) for _ in range(int(count))]
channels = [node.open_channel(silent, timeout_s=LIMIT_S) for node in nodes[1:]]
sinks = [channel.sink(Plain, lambda event: None) for channel in channels]
source = nodes[0].open_channel(back, timeout_s=LIMIT_S).source(Plain)
sink = nodes[0].open_channel(there, timeout_s=LIMIT_S).sink(Plain, source.submit)
source.wait_matched(1, LIMIT_S)
say("ready")
hear()
"""


def threads() -> int:
    """Of this process, Python's or not."""
    return len(os.listdir("/proc/self/task"))


@pytest.mark.parametrize(
    ("transport", "count"),
    [("shm", 40), ("tcp", 40), *(pytest.param(way, 200, marks=pytest.mark.slow) for way in ("shm", "tcp"))],
)
def test_idle_links_share_a_few_threads(make_node: MakeNode, transport: str, count: int) -> None:
    """Also once each has carried an event, and one of them many."""
    node = make_node(transports=[transport], limits=echo.Limits(links=2 * count))
    there, back, silent = (node.create_channel(name, Plain) for name in ("there", "back", "silent"))
    answers, is_done = list[int](), threading.Event()

    def answer(event: Plain) -> None:
        answers.append(event.id)
        if event.id == 0:
            is_done.set()
        else:
            source.submit(plain(event.id - 1))

    source, quiet = there.source(Plain), silent.source(Plain)
    before = threads()
    with Actor(_CROWD, transport, str(count), str(there.id), str(back.id), str(silent.id)) as crowd:
        sink = back.sink(Plain, answer)
        assert crowd.hear() == "ready"
        quiet.wait_matched(count - 1)
        source.wait_matched()
        quiet.submit(plain(1))
        source.submit(plain(1000))
        assert is_done.wait(30.0)
        until(lambda: threads() <= before + MORE_THREADS, "threads to end")
        assert len(node.statistics().links) == count
        is_done.clear()
        source.submit(plain(5))
        assert is_done.wait(30.0)
        assert answers == [*range(1000, -1, -1), *range(5, -1, -1)]
        sink.close()


def test_links_of_others_are_read_beside_those_of_nodes(make_node: MakeNode) -> None:
    """Whichever thread stands by calls what the owner of a link has given."""
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("test", Plain)
    received: list[Plain] = []
    _sink = there.open_channel(channel.id).sink(Plain, received.append)
    source = channel.source()
    source.wait_matched(1)
    handled: list[int] = []
    readers = Readers()
    crowd = Crowd("ring", 20, lambda number, _: handled.append(number))
    readers.attend(*crowd.links)
    for number, outlet in enumerate(crowd.outlets):
        outlet.submit(numbered(0))
        source.submit(plain(number))
    eventually(lambda: sorted(handled) == list(range(20)))
    until(lambda: [event.id for event in received] == list(range(20)), "all events")
    assert readers.ended == [False] * len(readers.ended)
    crowd.close()
    eventually(lambda: readers.ended.count(True) == len(crowd.links))
    here.close()
    there.close()
    readers.join()
