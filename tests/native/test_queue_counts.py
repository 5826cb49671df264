"""What finds no room in a queue is counted once, by the queue and by the delivery whose event it was."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from echo_core._links import BLOCK, DROP_NEWEST, DROP_OLDEST, ERROR, Delivery, Queue
from echo_core.errors import BacklogError, ClosedError
from tests.native.link_ends import PATIENCE_NS, fail
from tests.native.queues import demand_interrupt, in_thread, queue


def test_deliveries_that_wait_together_count_their_own_events() -> None:
    it = queue(1, policy=BLOCK, timeout_ns=100_000_000)
    it.put("full")
    deliveries = [Delivery(it, bytes, fail) for _ in range(4)]
    begun = threading.Barrier(4)

    def hand(delivery: Delivery) -> None:
        begun.wait(20)
        delivery.hand_event("event")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(hand, delivery) for delivery in deliveries]:
            done.result(20)
    assert it.dropped == 4
    assert [delivery.dropped for delivery in deliveries] == [1] * 4


@pytest.mark.parametrize("policy", [DROP_OLDEST, DROP_NEWEST])
def test_delivery_counts_what_its_events_drop(policy: int) -> None:
    it = queue(1, policy=policy)
    delivery = Delivery(it, bytes, fail)
    it.put("full")
    for _ in range(3):
        delivery.hand_event("event")
    assert (it.dropped, delivery.dropped) == (3, 3)


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
        delivery.hand(array)
    assert it.depth_events <= 8
    got = rest_of(it)
    assert got == expected
    assert it.dropped == delivery.dropped == sum(map(len, sent)) - sum(map(len, got))


@pytest.mark.parametrize("policy", [BLOCK, DROP_OLDEST, DROP_NEWEST, ERROR])
def test_array_of_more_events_than_are_allowed_is_taken_when_it_is_alone(policy: int) -> None:
    """It could never be delivered otherwise."""
    it = queue(3, policy=policy)
    delivery = arrays_to(it)
    delivery.hand(b"1234567")
    assert (it.depth_events, it.dropped) == (7, 0)
    delivery.hand(b"89")
    assert (it.depth_events, it.dropped) == ((2, 7) if policy == DROP_OLDEST else (7, 2))
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
