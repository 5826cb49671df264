"""What finds no room in a queue is counted once, by the queue and by the delivery whose event it was."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from echo_core._links import BLOCK, DROP_NEWEST, DROP_OLDEST, Delivery
from tests.native.link_ends import fail
from tests.native.queues import demand_interrupt, queue


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
