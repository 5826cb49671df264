"""Links that are read by whoever waits for their events."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from echo_core._c.links import (
    Queue,
    SocketWire,
)
from echo_core.errors import ChannelError, ClosedError, WireError
from tests.native.link_ends import (
    PATIENCE_NS,
    Ends,
    Peer,
    Runner,
    eventually,
    leading_queue,
    link_over,
    number_of,
    numbered,
    sink,
    source,
    unbounded_queue,
)
from tests.native.queues import demand_interrupt
from tests.native.test_link_frames import frame_bytes


def test_thread_that_waits_reads_the_link_itself(ends: Ends) -> None:
    queue, threads = leading_queue(ends.other)
    ends.run()
    outlet, _ = source(ends.one)
    for number in range(10_000):  # some are read by the other thread, where this one comes too late
        outlet.submit(numbered(number))
        assert number_of(queue.get(PATIENCE_NS)) == number
        if number >= 99 and threads.count(threading.get_ident()) >= 50:
            break
    assert threads.count(threading.get_ident()) >= 50


def test_events_are_read_while_nobody_leads(ends: Ends) -> None:
    queue, _ = leading_queue(ends.other)
    elsewhere: list[bytes] = []
    sink(ends.other, elsewhere.append, 65)
    ends.run()
    outlet, _ = source(ends.one)
    other_outlet, _ = source(ends.one, 65)
    for number in range(5):
        outlet.submit(numbered(number))
        assert number_of(queue.get(PATIENCE_NS)) == number
        other_outlet.submit(numbered(number))
        eventually(lambda: len(elsewhere) == number + 1)  # noqa: B023


def test_getter_that_leads_gives_up_in_time(ends: Ends) -> None:
    queue, _ = leading_queue(ends.other)
    ends.run()
    assert queue.get(1_000_000) is None
    assert queue.get(60_000_000) is None
    source(ends.one)[0].submit(b"event")
    assert queue.get(PATIENCE_NS) == b"event"


def test_getter_that_leads_notices_that_its_queue_was_closed(ends: Ends) -> None:
    queue, _ = leading_queue(ends.other)
    ends.run()
    with ThreadPoolExecutor(1) as pool:
        getting = pool.submit(queue.get)
        with pytest.raises(TimeoutError):
            getting.result(0.02)
        queue.close()
        with pytest.raises(ClosedError):
            getting.result(30)


def test_interrupt_ends_a_get_that_leads(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    queue, _ = leading_queue(link)
    runner = Runner(link)
    demand_interrupt(queue.get)
    far.socket.sendall(frame_bytes(64, b"event"))
    assert queue.get(PATIENCE_NS) == b"event"
    assert link.is_open
    link.shut()
    runner.end()


def test_two_getters_share_a_link(ends: Ends) -> None:
    queues = [unbounded_queue(), unbounded_queue()]
    for stream, queue in zip((64, 65), queues, strict=True):
        sink(ends.other, queue, stream)
        ends.other.follow(queue)
        queue.lead(ends.other)
    ends.run()

    def get_all(queue: Queue) -> list[int]:
        return [number_of(queue.get(PATIENCE_NS)) for _ in range(500)]

    with ThreadPoolExecutor(2) as pool:
        getting = [pool.submit(get_all, queue) for queue in queues]
        outlets = [source(ends.one, stream)[0] for stream in (64, 65)]
        for number in range(500):
            for outlet in outlets:
                outlet.submit(numbered(number))
        assert [got.result(60) for got in getting] == [list(range(500))] * 2


def test_error_that_a_leader_meets_is_raised_by_run(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    queue, _ = leading_queue(link)
    far.socket.sendall(frame_bytes(64, b"good"))
    assert queue.get(PATIENCE_NS) == b"good"
    far.socket.sendall(frame_bytes(65, b"bad"))
    assert queue.get(50_000_000) is None
    with pytest.raises(WireError, match="got 65"):
        link.run()


def test_queue_that_follows_no_more_is_left_alone(ends: Ends) -> None:
    queue, _ = leading_queue(ends.other)
    ends.other.unfollow(queue)
    ends.other.unfollow(queue)
    queue.lead(None)
    ends.run()
    source(ends.one)[0].submit(b"event")
    assert queue.get(PATIENCE_NS) == b"event"


# --- handlers that get ---


def asking(it: Queue, answers: list[object]) -> Callable[[bytes], None]:
    """A handler that gets what there is, and one more."""

    def ask(_: bytes) -> None:
        try:
            answers.extend(it.get(timeout_ns) for timeout_ns in (PATIENCE_NS, 0, PATIENCE_NS))
        except ChannelError as error:
            answers.append(error)

    return ask


def demand_refusal(answers: list[object], got: list[object]) -> None:
    """After what could be had."""
    assert answers[:-1] == got
    assert isinstance(answers[-1], ChannelError)
    assert re.search("got the one that reads the link .+ own_thread=True", str(answers[-1]))


def test_handler_that_would_wait_for_its_own_link_is_told_so(peer: tuple[SocketWire, Peer]) -> None:
    """What is queued it may have, and ask whether there is more."""
    link = link_over(peer[0])
    it, _ = leading_queue(link)
    answers: list[object] = []
    sink(link, asking(it, answers), 65)
    it.put(b"queued")
    peer[1].socket.sendall(frame_bytes(65, b"ask") + frame_bytes(64, b"behind it"))
    runner = Runner(link)
    eventually(lambda: len(answers) == 3)
    demand_refusal(answers, [b"queued", None])
    assert it.get(PATIENCE_NS) == b"behind it"
    link.shut()
    runner.end()


def test_thread_that_leads_leaves_handlers_to_the_link_s_own(ends: Ends) -> None:
    """One that is slow would hold up a get, which has a time of its own."""
    queue, threads = leading_queue(ends.other)
    at_work: list[int] = []
    sink(ends.other, lambda _: at_work.append(threading.get_ident()), 65)
    ends.run()
    outlet, _ = source(ends.one)
    handled, _ = source(ends.one, 65)
    number = 0
    while number < 200 or (threading.get_ident() not in threads and number < 100_000):
        handled.submit(numbered(number))
        outlet.submit(numbered(number))
        assert number_of(queue.get(PATIENCE_NS)) == number
        number += 1
    eventually(lambda: len(at_work) == number)
    assert threading.get_ident() not in at_work
    assert threading.get_ident() in threads  # on a busy machine late: somebody else reads first
