"""Sinks that stop taking events: a source waits for them once, goes on, and says so in the log."""

from __future__ import annotations

import logging
import re
import signal
import threading
import time
from typing import Any

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor

LONGEST_S = 2.0  # of a submit; on a quiet machine 0.1

READER = """
channel = echo.Node("reader", transports=[sys.argv[1]]).open_channel(sys.argv[2])
sink = channel.sink(Plain, *([] if sys.argv[3] == "never" else [lambda event: None]))
sink.wait_matched()
say("there")
hear()
"""


@pytest.fixture(params=["shm", "unix", "tcp"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Producer:
    """Submits as fast as it can, to a backlog that is full soon, and knows how long that took at worst."""

    def __init__(self, make_node: MakeNode, transport: str, caplog: pytest.LogCaptureFixture) -> None:
        self.channel = make_node(transports=[transport]).create_channel("test", Plain)
        self.source = self.channel.source(Plain, backlog=echo.Backlog(events=1000))
        self.longest_s = 0.0
        self._caplog = caplog

    def submit_until_logged(self, words: str) -> None:
        until(lambda: self._submit() and bool(self.logged(words)), f"the log to say `{words}`")

    def _submit(self) -> bool:
        for number in range(1000):
            began = time.monotonic()
            self.source.submit(Plain(number, 0.5))
            self.longest_s = max(self.longest_s, time.monotonic() - began)
        return True

    def logged(self, words: str) -> list[int]:
        """The first number in each warning of that kind about the only stream here."""
        told = [record.getMessage() for record in self._caplog.records if record.levelno == logging.WARNING]
        line = re.compile(rf"channel `test`: source `Plain` to reader \(.*\):? {words}")
        return [int(found[1]) for found in map(line.fullmatch, told) if found]

    @property
    def dropped(self) -> int:
        return self.source.statistics().dropped


DROPS = r"has begun to drop events: (\d+) by now"
STANDS_STILL = r"has stood still for \d+\.\d s: (\d+) events wait"
GOES_ON = r"goes on after \d+\.\d s: (\d+) events were dropped"
UNCONFIRMED = r"(\d+) events were sent and not confirmed when the link was lost"
HAS_ENDED = r"has ended: (\d+) events were dropped"


@pytest.fixture
def producer(make_node: MakeNode, transport: str, caplog: pytest.LogCaptureFixture) -> Producer:
    return Producer(make_node, transport, caplog)


def test_a_sink_that_never_gets_is_told_of_and_summed_up_when_it_ends(
    producer: Producer, transport: str
) -> None:
    with Actor(READER, transport, producer.channel.id, "never") as reader:
        assert reader.hear() == "there"
        producer.source.wait_matched()
        producer.submit_until_logged(STANDS_STILL)
        producer.submit_until_logged(DROPS)
        there = min(echo.Limits().window_events, echo.Backlog().events)
        assert producer.logged(STANDS_STILL) == [1000 + there]
        reader.kill()
    until(lambda: bool(producer.logged(HAS_ENDED)), "the end to be logged")
    assert producer.logged(HAS_ENDED) == [producer.dropped]
    assert len(producer.logged(DROPS)) == 1
    assert producer.longest_s < LONGEST_S


def test_a_process_that_is_stopped_is_told_of_and_so_is_its_recovery(
    producer: Producer, transport: str
) -> None:
    """Each once, with what was dropped between."""
    with Actor(READER, transport, producer.channel.id, "always") as reader:
        assert reader.hear() == "there"
        producer.source.wait_matched()
        reader.signal(signal.SIGSTOP)
        producer.submit_until_logged(STANDS_STILL)
        producer.submit_until_logged(DROPS)
        dropped = producer.dropped
        assert 0 < producer.logged(DROPS)[0] <= dropped
        assert producer.logged(GOES_ON) == []
        reader.signal(signal.SIGCONT)
        until(lambda: bool(producer.logged(GOES_ON)), "the recovery to be logged")
        producer.source.flush(LIMIT_S)
        assert producer.logged(GOES_ON) == [dropped]
        assert [len(producer.logged(words)) for words in (DROPS, STANDS_STILL)] == [1, 1]
        assert producer.longest_s < LONGEST_S


@pytest.mark.parametrize("taking", ["never", "stopped"])
def test_few_events_that_nobody_takes_are_told_of_too(
    producer: Producer, transport: str, taking: str
) -> None:
    """They have left their source, which hears no more of them, and waits for nothing."""
    with Actor(READER, transport, producer.channel.id, "never" if taking == "never" else "always") as reader:
        assert reader.hear() == "there"
        producer.source.wait_matched()
        if taking == "stopped":
            reader.signal(signal.SIGSTOP)
        for number in range(7):
            producer.source.submit(Plain(number, 0.5))
        until(lambda: bool(producer.logged(STANDS_STILL)), "the standstill to be logged")
        assert producer.logged(STANDS_STILL) == [7]
        if taking == "stopped":
            reader.signal(signal.SIGCONT)
            until(lambda: bool(producer.logged(GOES_ON)), "the recovery to be logged")
            assert producer.logged(GOES_ON) == [0]
            assert producer.source.statistics().confirmed == 7
        else:
            reader.kill()
            until(lambda: bool(producer.logged(UNCONFIRMED)), "the loss to be logged")
            assert producer.logged(UNCONFIRMED) == [7]


SLOW = """
node = echo.Node(transports=[sys.argv[1]], limits=echo.Limits(window_events=4))
sink = node.open_channel(sys.argv[2]).sink(Plain, backlog=echo.Backlog(events=4))
sink.wait_matched()
say("there")
taken = []
while len(taken) < 40:
    taken.append(sink.get(LIMIT_S).id)
    threading.Event().wait(0.15)
say(taken == list(range(40)), sink.statistics().lost)
hear()
"""


def test_a_sink_that_takes_an_event_every_150_ms_loses_none(make_node: MakeNode, transport: str) -> None:
    """Longer than the patience with one that has stopped: its source has seen by then how long it takes."""
    channel = make_node(transports=[transport]).create_channel("test", Plain)
    source = channel.source(backlog=echo.Backlog(events=8))
    with Actor(SLOW, transport, channel.id) as slow:
        assert slow.hear() == "there"
        source.wait_matched()
        for number in range(40):
            source.submit(Plain(number, 0.5))
            if number == 9:
                until(lambda: source.statistics().confirmed >= 3, "its pace to show")
        source.flush(LIMIT_S)
        assert slow.hear() == "True 0"
        assert source.statistics().dropped == 0


def test_a_slow_thread_of_the_same_process_loses_nothing_once_it_is_known(make_node: MakeNode) -> None:
    """How long it takes shows when its source has waited in vain for the first time."""
    channel = make_node().create_channel("test", Plain)
    sink = channel.sink(Plain, backlog=echo.Backlog(events=4))
    taken: list[int] = []

    def take() -> None:
        for event in sink:
            taken.append(event.id)
            threading.Event().wait(0.15)

    taker = threading.Thread(target=take)
    taker.start()
    source = channel.source()
    for number in range(6):
        source.submit(Plain(number, 0.5))
    known = len(taken)
    until(lambda: len(taken) > known, "it to take one more")
    dropped = sink.statistics().dropped
    for number in range(20):
        source.submit(Plain(number, 0.5))
    assert sink.statistics().dropped == dropped > 0
    sink.close()
    taker.join(LIMIT_S)


def test_a_sink_that_drops_what_its_own_process_submits_is_told_of(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """And when it is closed, of how many it were."""
    channel = make_node().create_channel("test", Plain)
    sink = channel.sink(Plain, backlog=echo.Backlog(events=10, when_full="drop_oldest"))
    source = channel.source()
    for number in range(100):
        source.submit(Plain(number, 0.5))
    until(lambda: "a sink of `Plain` has begun to drop events: " in caplog.text)
    for number in range(100):
        source.submit(Plain(number, 0.5))
    sink.close()
    found = re.search("channel `test`: a sink of `Plain` has ended: (\\d+) events were dropped", caplog.text)
    assert found is not None
    assert (
        100 <= int(found[1]) <= sink.statistics().dropped == 190
    )  # a sum of the first ones may have been said
    assert caplog.text.count("has begun") == 1


def test_a_handler_that_takes_its_time_paces_its_source_and_loses_nothing(
    make_node: MakeNode, transport: Any
) -> None:
    """None of its events takes long enough for another thread to read on, all together take seconds."""
    channel = make_node(transports=[transport]).create_channel("test", Plain)
    taken: list[int] = []

    def take(event: Plain) -> None:
        taken.append(event.id)
        until = time.perf_counter() + 0.00004
        while time.perf_counter() < until:
            pass

    reader = make_node(transports=[transport], limits=echo.Limits(window_events=10_000))
    sink = reader.open_channel(channel.id).sink(Plain, take)
    source = channel.source(backlog=echo.Backlog(events=500))
    source.wait_matched()
    for i in range(40_000):
        source.submit(Plain(i, 0.0))
    source.drain(60.0)
    assert taken == list(range(40_000))
    assert (sink.statistics().lost, source.statistics().dropped) == (0, 0)


HURRIED = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
source = channel.source(Plain, backlog=echo.Backlog(events=100, timeout_s=0.5))
source.wait_matched()
say("begins")
for number in range(2000):
    source.submit(Plain(number, 0.5))
    if number == 200:
        say("waits for its sink")
source.drain(LIMIT_S)
say(source.statistics().dropped)
hear()
"""

UNHURRIED = """
node = echo.Node(transports=[sys.argv[1]], limits=echo.Limits(window_events=10))
channel = node.create_channel("test", Plain)
taken = []
def take(event):
    taken.append(event.id)
    time.sleep(0.001)
channel.sink(Plain, take)
say(channel.id)
hear()
say(taken == list(range(2000)))
hear()
"""


def test_time_in_which_a_source_is_stopped_itself_is_not_held_against_its_sink(transport: str) -> None:
    """As where all of a machine is busy, or suspended: both are late, and nothing is lost."""
    with Actor(UNHURRIED, transport) as taker, Actor(HURRIED, transport, taker.hear()) as hasty:
        assert hasty.hear() == "begins"
        assert hasty.hear() == "waits for its sink"
        for _ in range(2):
            hasty.signal(signal.SIGSTOP)
            taker.signal(signal.SIGSTOP)
            stopped = time.monotonic()
            until(lambda: time.monotonic() > stopped + 1.0, "the source's patience to be over")  # noqa: B023
            hasty.signal(signal.SIGCONT)
            taker.signal(signal.SIGCONT)
        assert hasty.hear() == "0"
        taker.tell("all is sent")
        assert taker.hear() == "True"
