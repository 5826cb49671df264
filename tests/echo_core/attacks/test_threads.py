"""Several threads at once: on one source, on channels that come and go, on two nodes that start together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode

LIMIT_S = 30.0


def at_once(*tasks: Callable[[], object]) -> None:
    """Runs each in a thread, all from one moment on; the first error is raised."""
    start = threading.Barrier(len(tasks))
    errors: list[BaseException] = []

    def run(task: Callable[[], object]) -> None:
        try:
            start.wait(LIMIT_S)
            task()
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * LIMIT_S)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_four_threads_submit_while_sinks_come_and_go(make_node: MakeNode, transport: str) -> None:
    """A sink that stays gets all; each of the others a run of what each thread sent."""
    here = make_node(transports=[transport]).create_channel("test", Plain)
    there = make_node(transports=[transport]).open_channel(here.id)
    source = here.source()
    stays: list[Plain] = []
    there.sink(Plain, stays.append)
    source.wait_matched()
    each, rounds = 2000, 20
    runs: list[list[Plain]] = []

    def submit(thread: int) -> None:
        for i in range(each):
            source.submit(Plain(i, float(thread)))

    def come_and_go() -> None:
        for _ in range(rounds):
            taken: list[Plain] = []
            runs.append(taken)
            there.sink(Plain, taken.append).close()

    at_once(*[lambda thread=i: submit(thread) for i in range(4)], come_and_go)
    source.flush(LIMIT_S)
    for thread in range(4):
        assert [event.id for event in stays if event.x == thread] == list(range(each))
        for taken in runs:
            ids = [event.id for event in taken if event.x == thread]
            assert ids == list(range(ids[0], ids[0] + len(ids))) if ids else True
    statistics = source.statistics()
    assert (statistics.events, statistics.dropped) == (4 * each, 0)


def test_threads_open_and_close_the_same_channel(make_node: MakeNode, transport: str) -> None:
    here = make_node(transports=[transport]).create_channel("test", Plain)
    other = make_node(transports=[transport])
    here.sink(Plain, lambda event: None)

    def open_and_close() -> None:
        for _ in range(25):
            with other.open_channel(here.id) as channel, channel.source(Plain) as source:
                source.wait_matched()

    at_once(*[open_and_close] * 4)
    until(lambda: here.statistics().peers == 0)
    assert here.statistics().remote_sources == 0
    until(lambda: not other.statistics().links)


def test_threads_open_and_close_channels_of_their_own(make_node: MakeNode, transport: str) -> None:
    node, other = make_node(transports=[transport]), make_node(transports=[transport])

    def open_and_close() -> None:
        for i in range(25):
            with node.create_channel(f"{i}", Plain) as here, other.open_channel(here.id) as there:
                sink = there.sink(Plain)
                source = here.source()
                source.wait_matched()
                source.submit(Plain(i, 0.5))
                assert sink.get(LIMIT_S) == Plain(i, 0.5)

    at_once(*[open_and_close] * 4)
    assert len(node.statistics().links) <= 1


def demand_one_link(nodes: list[echo.Node]) -> None:
    """One, with both channels on it."""
    until(lambda: [channels_on_links(node) for node in nodes] == [2, 2], "both sides to have heard of it")
    assert [len(node.statistics().links) for node in nodes] == [1, 1]


def channels_on_links(node: echo.Node) -> int:
    return sum(link.channels for link in node.statistics().links)


def meet(make_node: MakeNode, transport: str) -> None:
    """Both open a channel of the other's, at one moment."""
    nodes = [echo.Node(transports=[transport]), echo.Node(transports=[transport])]  # type: ignore[list-item]
    channels = [node.create_channel("test", Plain) for node in nodes]
    opened: dict[int, echo.Channel[Plain]] = {}

    def open_other(i: int) -> None:
        opened[i] = nodes[i].open_channel(channels[1 - i].id)

    try:
        at_once(lambda: open_other(0), lambda: open_other(1))
        demand_one_link(nodes)
        for i in (0, 1):
            sink = channels[1 - i].sink(Plain)
            source = opened[i].source(Plain)
            source.wait_matched()
            source.submit(Plain(i, 0.5))
            assert sink.get(LIMIT_S) == Plain(i, 0.5)
        assert [node.statistics().links_lost for node in nodes] == [0, 0]
    finally:
        for node in nodes:
            node.close(0.0)


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_two_nodes_that_start_together_end_up_with_one_link(make_node: MakeNode, transport: str) -> None:
    for _ in range(10):
        meet(make_node, transport)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_a_hundred_pairs_that_start_together_end_up_with_one_link(
    make_node: MakeNode, transport: str
) -> None:
    for _ in range(100):
        meet(make_node, transport)


def test_channels_can_be_opened_while_others_close_the_last_ones(make_node: MakeNode) -> None:
    """Each closing may end the link that another thread is about to use."""
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    ids = [here.create_channel("test", Plain).id for _ in range(4)]

    def open_and_close(id_: str) -> None:
        for _ in range(40):
            there.open_channel(id_).close()

    at_once(*(partial(open_and_close, id_) for id_ in ids))
    assert here.statistics().links_lost == there.statistics().links_lost == 0
