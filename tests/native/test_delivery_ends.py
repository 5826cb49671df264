"""A delivery that is closed hands on nothing more, and counts what is left of what was under way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from echo_core._c.links import BLOCK, Delivery, Link, Mapping, Pool, SocketWire
from tests.forks import forks
from tests.native.link_ends import KIND_LOAN, PATIENCE_NS, Peer, Runner, eventually, fail, link_over, sink
from tests.native.pools import BLOCK_BYTES, bytes_in, lent, loan_of
from tests.native.queues import in_thread, queue
from tests.native.test_link_frames import frame_bytes


class Closing:
    """A handler that closes what gives it events, at the third of them."""

    def __init__(self, **options: Any) -> None:
        self.events: list[bytes] = []
        self.delivery = Delivery(self, bytes, fail, **options)

    def __call__(self, event: bytes) -> None:
        self.events.append(event)
        if len(self.events) == 3:
            self.delivery.close()


def counts(delivery: Delivery) -> tuple[int, int, int, int]:
    return delivery.events, delivery.bytes, delivery.skipped, delivery.dropped


def test_nothing_follows_the_event_whose_handler_closes() -> None:
    closing = Closing(record_size=2)
    closing.delivery.hand(b"aabbccddee")
    assert closing.events == [b"aa", b"bb", b"cc"]
    assert counts(closing.delivery) == (5, 10, 2, 2)
    assert closing.delivery.compiled == closing.delivery.events - 5


def test_array_whose_delivery_is_closed_while_it_is_made_is_dropped() -> None:
    """Large ones are made without the GIL."""
    arrays: list[bytes] = []

    def decode(buffer: Any) -> bytes:
        if len(buffer) == 6:
            delivery.close()
        return bytes(buffer)

    delivery = Delivery(arrays.append, decode, fail, record_size=2, is_array=True)
    delivery.hand(b"aabb")
    delivery.hand(b"aabbcc")
    assert arrays == [b"aabb"]
    assert counts(delivery) == (5, 10, 3, 3)


def test_closed_delivery_takes_nothing() -> None:
    """Nor does it count: its sink is gone."""
    events: list[bytes] = []
    deliveries = [Delivery(events.append, bytes, fail, record_size=1, is_array=it) for it in (False, True)]
    for delivery in deliveries:
        delivery.close()
        delivery.close()
        delivery.hand(b"a")
        delivery.hand(b"abc")
        delivery.hand_event("event")
        assert counts(delivery) == (0, 0, 0, 0)
    assert events == []


def test_all_batches_that_are_under_way_end() -> None:
    """Of handlers that submit in turn, and of several threads."""
    is_inside, may_go_on = threading.Barrier(2), threading.Event()
    calls: list[bytes] = []

    def handle(event: bytes) -> None:
        calls.append(event)
        if event == b"a":
            delivery.hand(b"xyz")
        else:
            is_inside.wait(30)
            assert may_go_on.wait(30)

    delivery = Delivery(handle, bytes, fail, record_size=1)
    nested = in_thread(delivery.hand, b"abcd")
    is_inside.wait(30)
    other = in_thread(delivery.hand, b"xy")
    is_inside.wait(30)
    delivery.close()
    assert counts(delivery) == (9, 9, 6, 6)
    may_go_on.set()
    nested.result(30)
    other.result(30)
    assert sorted(calls) == [b"a", b"x", b"x"]
    assert counts(delivery) == (9, 9, 6, 6)


def test_batches_that_have_ended_are_not_counted() -> None:
    """Whatever the order in which threads leave."""
    doors = {event: threading.Event() for event in (b"a", b"c")}
    inside = threading.Barrier(2)

    def handle(event: bytes) -> None:
        if event in doors:
            inside.wait(30)
            assert doors[event].wait(30)

    delivery = Delivery(handle, bytes, fail, record_size=1)
    futures: dict[bytes, Any] = {}
    for batch in (b"ab", b"cd"):
        futures[batch] = in_thread(delivery.hand, batch)
        inside.wait(30)
    doors[b"a"].set()
    futures[b"ab"].result(30)
    delivery.close()
    doors[b"c"].set()
    futures[b"cd"].result(30)
    assert counts(delivery) == (4, 4, 1, 1)


@forks
def test_forked_child_counts_nothing_of_its_parents_threads() -> None:
    """Their batches are on stacks that are not there."""
    is_inside, may_go_on = threading.Event(), threading.Event()

    def handle(_: bytes) -> None:
        is_inside.set()
        assert may_go_on.wait(30)

    delivery = Delivery(handle, bytes, fail, record_size=1)
    future = in_thread(delivery.hand, b"abc")
    assert is_inside.wait(30)
    child = os.fork()
    if child == 0:
        delivery.close()
        os._exit(delivery.skipped)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    delivery.close()
    may_go_on.set()
    future.result(30)
    assert counts(delivery) == (3, 3, 2, 2)


@forks
@pytest.mark.parametrize("forks_in_handler", [False, True])
def test_forked_child_sees_no_handler_of_its_parents_threads_at_work(*, forks_in_handler: bool) -> None:
    """It sees its own, and these end; also where a handler has forked it, and returns there."""
    is_inside, may_go_on, at_work = threading.Event(), threading.Event(), list[bool]()

    def handle(event: bytes) -> None:
        if event == b"child":
            at_work.append(delivery.look() >= 0)
        elif forks_in_handler:
            children.append(os.fork())
            if children == [0]:
                delivery.look()
        else:
            is_inside.set()
            assert may_go_on.wait(30)

    children = list[int]()
    delivery = Delivery(handle, bytes, fail)
    future = None
    if forks_in_handler:
        delivery.hand(b"parent")
    else:
        future = in_thread(delivery.hand, b"parent")
        assert is_inside.wait(30)
        children.append(os.fork())
    if children == [0]:
        delivery.look()
        at_work.append(delivery.look() == -2)
        delivery.hand(b"child")
        at_work.append(delivery.look() == -1)
        os._exit(at_work != [True, True, True])
    may_go_on.set()
    if future is not None:
        future.result(30)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


@pytest.mark.parametrize("size", [0, 1])
def test_frames_behind_the_one_whose_handler_closes_are_counted(
    peer: tuple[SocketWire, Peer], size: int
) -> None:
    """Whether their records vary in size or not."""
    link = link_over(peer[0])
    closing = Closing(record_size=size)
    sink(link, closing, record_size=size).deliveries = (closing.delivery,)
    peer[1].socket.sendall(b"".join(frame_bytes(64, bytes([n])) for n in range(10)))
    runner = Runner(link)
    eventually(lambda: closing.delivery.skipped > 0)
    assert counts(closing.delivery) == (10, 10, 7, 7)
    assert len(closing.events) == 3
    link.shut()
    runner.end()


def shut_at_third(link: Link, events: list[bytes]) -> Callable[[bytes], None]:
    def handle(event: bytes) -> None:
        events.append(event)
        if len(events) == 3:
            link.shut()

    return handle


@pytest.mark.parametrize("frames", [frame_bytes(64, b"abcdefgh"), frame_bytes(64, b"ab") * 4])
def test_nothing_follows_the_event_whose_handler_shuts_the_link(
    peer: tuple[SocketWire, Peer], frames: bytes
) -> None:
    """Not even what has come in one frame with it."""
    link = link_over(peer[0])
    events: list[bytes] = []
    incoming = sink(link, shut_at_third(link, events), record_size=1)
    peer[1].socket.sendall(frames)
    Runner(link).end()
    assert len(events) == 3
    assert counts(incoming.deliveries[0]) == (8, 8, 5, 5)


def test_nothing_follows_of_a_loan(peer: tuple[SocketWire, Peer], pool: Pool) -> None:
    """Which may be millions of events."""
    holder = pool.attach()
    block = loan_of(pool)
    bytes_in(block)[:] = 0
    link = link_over(peer[0], mapping=Mapping(pool.fileno(), holder))
    events: list[bytes] = []
    incoming = sink(link, shut_at_third(link, events), record_size=1)
    peer[1].socket.sendall(frame_bytes(KIND_LOAN, lent(block, holder)))
    Runner(link).end()
    assert counts(incoming.deliveries[0]) == (BLOCK_BYTES, BLOCK_BYTES, BLOCK_BYTES - 3, BLOCK_BYTES - 3)


def test_close_ends_a_batch_that_waits_for_room() -> None:
    """The event that waits is the queue's to count."""
    it = queue(2, policy=BLOCK, timeout_ns=PATIENCE_NS)
    delivery = Delivery(it, bytes, fail, record_size=1)
    future = in_thread(delivery.hand, bytes(10))
    eventually(lambda: delivery.events == 3)
    delivery.close()
    assert counts(delivery) == (10, 10, 7, 7)
    it.close()
    future.result(30)
    assert (it.depth_events, it.dropped) == (2, 1)
    assert delivery.events == 10
