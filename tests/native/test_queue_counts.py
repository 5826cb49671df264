"""What finds no room in a queue is counted once, by the queue and by the delivery whose event it was."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import pytest

from echo_core._c.links import BLOCK, DROP_NEWEST, DROP_OLDEST, ERROR, PACE, Delivery, Queue
from echo_core.errors import BacklogError, ClosedError
from tests.native.link_ends import PATIENCE_NS, fail
from tests.native.queues import Token, demand_interrupt, in_thread, queue


def test_deliveries_that_wait_together_count_their_own_events() -> None:
    it = queue(1, policy=BLOCK, timeout_ns=100_000_000)
    it.put("full")
    deliveries = [Delivery(it, bytes, fail) for _ in range(4)]
    begun = threading.Barrier(4)

    def hand(delivery: Delivery) -> None:
        begun.wait(20)
        with pytest.raises(BacklogError):
            delivery.hand_event("event")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(hand, delivery) for delivery in deliveries]:
            done.result(20)
    assert it.dropped == 4
    assert [delivery.dropped for delivery in deliveries] == [1] * 4


@pytest.mark.parametrize(("policy", "expected"), [(DROP_OLDEST, [100, 50, 0]), (DROP_NEWEST, [0, 50, 100])])
def test_delivery_counts_its_own_events_not_those_that_take_their_place(
    policy: int, expected: list[int]
) -> None:
    it = queue(100, policy=policy)
    deliveries = [Delivery(it, bytes, fail) for _ in range(3)]
    for delivery in deliveries:
        for _ in range(100 if delivery is not deliveries[1] else 50):
            delivery.hand_event("event")
    assert it.dropped == 150
    assert [delivery.dropped for delivery in deliveries] == expected
    it.put("nobody's")
    assert it.dropped == 151
    assert deliveries[2].dropped == expected[2] + (policy == DROP_OLDEST)


def test_delivery_counts_its_arrays_when_they_are_dropped() -> None:
    it = queue(5, policy=DROP_OLDEST)
    first, second = arrays_to(it), arrays_to(it)
    first.hand(b"aaa")
    second.hand(b"bb")
    second.hand(b"c")
    assert (it.dropped, first.dropped, second.dropped) == (3, 3, 0)


@pytest.mark.parametrize("policy", [PACE, BLOCK, DROP_OLDEST, DROP_NEWEST, ERROR])
def test_queue_that_is_closed_keeps_no_delivery(policy: int) -> None:
    """They keep it; without a collection, all are gone with the last of them."""
    it, token = queue(100, policy=policy), Token()
    delivery = Delivery(it, bytes, fail)
    before = sys.getrefcount(delivery)
    for _ in range(10):
        delivery.hand_event(token)
    it.get()
    assert sys.getrefcount(delivery) == before + 9
    it.close()
    assert sys.getrefcount(delivery) == before
    gone = weakref.ref(token)
    del it, delivery, token
    assert gone() is None


def test_queue_that_is_left_open_is_collected_with_its_deliveries() -> None:
    it, token = queue(100, policy=DROP_OLDEST), Token()
    Delivery(it, bytes, fail).hand_event(token)
    gone = weakref.ref(token)
    del it, token
    gc.collect()
    assert gone() is None


def test_event_whose_put_is_interrupted_is_counted_as_dropped() -> None:
    it = queue(1, policy=BLOCK, timeout_ns=-1)
    delivery = Delivery(it, bytes, fail)
    it.put("full")
    demand_interrupt(delivery.hand_event, "event")
    assert (it.depth_events, it.dropped, delivery.dropped) == (1, 1, 1)


# ---------------------------------------------------------------------------
# Items of several events: what a sink of arrays is given at once


def arrays_to(it: Queue) -> Delivery:
    """Records of a byte each, which become one item however many they are."""
    return Delivery(it, bytes, fail, record_size=1, is_array=True)


def rest_of(it: Queue) -> list[bytes]:
    """What is there, until there is no more."""
    it.close()
    got: list[bytes] = []
    with suppress(BacklogError, ClosedError):
        while True:
            got.append(it.get(0))
    return got


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (PACE, [b"bbb", b"cccc", b"d"]),
        (BLOCK, [b"aaaa", b"bbb", b"d"]),
        (DROP_OLDEST, [b"bbb", b"cccc", b"d"]),
        (DROP_NEWEST, [b"aaaa", b"bbb", b"d"]),
        (ERROR, [b"aaaa", b"bbb"]),
    ],
)
def test_events_of_arrays_are_bounded_and_counted_by_number(policy: int, expected: list[bytes]) -> None:
    """By every policy; what had room is got, and all else is counted. A wait in vain is not repeated."""
    it = queue(8, policy=policy, timeout_ns=1_000_000)
    delivery = arrays_to(it)
    sent = [b"aaaa", b"bbb", b"cccc", b"d"]
    for array in sent:
        with pytest.raises(BacklogError) if policy == BLOCK and array == b"cccc" else nullcontext():
            delivery.hand(array)
    assert it.depth_events <= 8
    got = rest_of(it)
    assert got == expected
    assert it.dropped == delivery.dropped == sum(map(len, sent)) - sum(map(len, got))


@pytest.mark.parametrize("policy", [PACE, BLOCK, DROP_OLDEST, DROP_NEWEST, ERROR])
def test_array_of_more_events_than_are_allowed_is_taken_when_it_is_alone(policy: int) -> None:
    """It could never be delivered otherwise."""
    it = queue(3, policy=policy)
    delivery = arrays_to(it)
    delivery.hand(b"1234567")
    assert (it.depth_events, it.dropped) == (7, 0)
    with pytest.raises(BacklogError) if policy == BLOCK else nullcontext():
        delivery.hand(b"89")
    assert (it.depth_events, it.dropped) == ((2, 7) if policy in {DROP_OLDEST, PACE} else (7, 2))
    assert delivery.dropped == it.dropped


def test_put_of_an_array_waits_until_there_is_room_for_all_of_it() -> None:
    it = queue(4, policy=BLOCK, timeout_ns=-1)
    delivery = arrays_to(it)
    delivery.hand(b"a")
    delivery.hand(b"bbb")
    future = in_thread(delivery.hand, b"cccc")
    got = [it.get(PATIENCE_NS) for _ in range(3)]
    future.result(20)
    assert got == [b"a", b"bbb", b"cccc"]
    assert (it.depth_events, it.dropped) == (0, 0)


def test_array_whose_put_is_interrupted_is_counted_with_all_its_events() -> None:
    it = queue(1, policy=BLOCK, timeout_ns=-1)
    it.put("full")
    delivery = arrays_to(it)
    demand_interrupt(delivery.hand, b"abc")
    assert (it.depth_events, it.dropped, delivery.dropped) == (1, 3, 3)


def test_item_without_events_is_refused() -> None:
    it = queue()
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="at least 1 event"):
            it.put("nothing", 0, wrong)
    assert (it.depth_events, it.dropped) == (0, 0)
