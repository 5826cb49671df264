"""Queues that are fed by a link, which whoever waits for an event reads by itself."""

from __future__ import annotations

import gc
import socket
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from echo_core._c.links import (
    BLOCK,
    Delivery,
    IncomingStream,
    Link,
    OutgoingStream,
    Outlet,
    Queue,
    SocketWire,
)
from echo_core.errors import ClosedError
from tests.native.link_ends import NO_LIMIT, PATIENCE_NS, SECOND_NS, link_over
from tests.native.queues import Token, demand_interrupt, in_thread, queue


@dataclass
class Feed:
    """A link in this process, and the queue that its events go to."""

    queue: Queue
    outgoing: OutgoingStream
    sender: Link
    receiver: Link

    def submit(self, *numbers: int) -> None:
        outlet = Outlet(None, bytes, record_size=1)
        outlet.outgoing = (self.outgoing,)
        for number in numbers:
            outlet.submit_records(bytes([number]))


def small_link(end: socket.socket) -> Link:
    return link_over(SocketWire(end.detach()), max_payload=4096, control_bytes=4096, delay_ns=1000)


@pytest.fixture
def feed() -> Iterator[Callable[[Queue], Feed]]:
    """Nobody runs the receiver: only who leads reads."""
    links: list[Link] = []

    def make(it: Queue) -> Feed:
        links.extend(small_link(end) for end in socket.socketpair())
        sender, receiver = links
        incoming = IncomingStream(record_size=1)
        incoming.deliveries = (Delivery(it, bytes, print, record_size=1),)
        receiver.bind(64, incoming)
        receiver.follow(it)
        it.lead(receiver)
        limits = {"max_events": 1 << 20, "max_bytes": 1 << 20, "policy": BLOCK, "timeout_ns": PATIENCE_NS}
        outgoing = OutgoingStream(sender, 64, "a source", **limits)
        outgoing.grant(NO_LIMIT, NO_LIMIT)
        return Feed(it, outgoing, sender, receiver)

    yield make
    for link in links:
        link.shut()


def test_whoever_waits_reads_the_link(feed: Callable[[Queue], Feed]) -> None:
    """No other thread takes part."""
    it = feed(queue())
    it.submit(1, 2, 3)
    assert [it.queue.get(PATIENCE_NS) for _ in range(3)] == [b"\1", b"\2", b"\3"]
    assert it.queue.get(SECOND_NS // 50) is None
    it.submit(4)
    assert next(it.queue) == b"\4"


def test_no_event_is_left_behind_by_a_sender_that_goes_to_sleep(feed: Callable[[Queue], Feed]) -> None:
    """Each of many is written, whenever it comes."""
    it = feed(queue())
    for i in range(20_000):
        it.submit(i % 256)
        assert it.queue.get(PATIENCE_NS) == bytes([i % 256])


def test_get_nowait_does_not_read_the_link(feed: Callable[[Queue], Feed]) -> None:
    """But a get without patience does, once."""
    it = feed(queue())
    it.submit(1)
    assert it.sender.drain(PATIENCE_NS)
    assert it.queue.get_nowait() is None
    assert it.queue.get(0) == b"\1"
    assert it.queue.get(0) is None


def test_a_thread_that_reads_for_itself_does_not_wait_for_itself(feed: Callable[[Queue], Feed]) -> None:
    """What one read brings is taken, however small the queue is."""
    it = feed(queue(1, policy=BLOCK, timeout_ns=-1))
    it.submit(*range(200))
    assert it.sender.drain(PATIENCE_NS)
    assert [it.queue.get(PATIENCE_NS) for _ in range(200)] == [bytes([i]) for i in range(200)]
    assert it.queue.dropped == 0


def test_closing_ends_a_wait_that_reads_the_link(feed: Callable[[Queue], Feed]) -> None:
    """Soon, and with what every wait ends with."""
    it = feed(queue())
    future = in_thread(it.queue.get)
    it.queue.close()
    assert isinstance(future.exception(20), ClosedError)


def test_a_queue_waits_for_others_when_its_link_has_ended(feed: Callable[[Queue], Feed]) -> None:
    """Somebody else may still put something, or close it."""
    it = feed(queue())
    it.sender.shut()
    it.receiver.shut()
    assert it.queue.get(SECOND_NS // 50) is None
    it.queue.put("event")
    assert it.queue.get(PATIENCE_NS) == "event"


def test_a_signal_interrupts_a_get_that_reads_the_link(feed: Callable[[Queue], Feed]) -> None:
    """Ctrl-C works for a leader too."""
    demand_interrupt(feed(queue()).queue.get)


def test_a_queue_and_the_link_that_it_reads_are_collected_together() -> None:
    """Each refers to the other."""
    ends = socket.socketpair()
    link, it, token = small_link(ends[0]), queue(), Token()
    link.follow(it)
    it.lead(link)
    it.put(token)
    gone = weakref.ref(token)
    ends[1].close()
    del link, it, token
    gc.collect()
    assert gone() is None
