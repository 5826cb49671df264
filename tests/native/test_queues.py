"""Events that wait for a thread: order, bounds, policies, waiting, and what a queue keeps alive."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

import pytest

from echo_core._c.links import BLOCK, DROP_NEWEST, DROP_OLDEST, ERROR, PACE, Queue
from echo_core.errors import BacklogError, ClosedError
from tests.native.link_ends import PATIENCE_NS, SECOND_NS
from tests.native.queues import Token, demand_interrupt, in_thread, is_readable, queue

# ---------------------------------------------------------------------------
# Order and ends


def test_events_come_out_in_the_order_they_went_in() -> None:
    """Also past the ring's growth and its wrap."""
    it = queue(100)
    for i in range(30):
        it.put(i)
    assert [it.get() for _ in range(20)] == list(range(20))
    for i in range(30, 100):
        it.put(i)
    assert [it.get() for _ in range(80)] == list(range(20, 100))


def test_an_empty_queue_gives_none_when_time_is_up() -> None:
    """Whether there was time or not."""
    assert queue().get(0) is None
    assert queue().get_nowait() is None
    begin = time.monotonic()
    assert queue().get(SECOND_NS // 50) is None
    assert time.monotonic() - begin >= 0.02


def test_what_is_there_can_be_got_after_close() -> None:
    """Then comes ClosedError, for whoever asks and however often."""
    it = queue()
    it.put("event")
    it.close()
    it.put("too late")
    assert it.is_closed
    assert it.dropped == 1
    assert it.get() == "event"
    for get in (it.get, it.get_nowait, lambda: it.get(0)):
        with pytest.raises(ClosedError, match="closed and empty"):
            get()


def test_a_queue_that_is_cleared_is_empty_and_goes_on() -> None:
    """Nothing counts as dropped."""
    it = queue(2)
    it.put("a", 10)
    it.put("b", 10)
    fd = it.fileno()
    it.clear()
    assert (it.depth_events, it.depth_bytes, it.dropped) == (0, 0, 0)
    assert not is_readable(fd)
    it.put("c")
    assert it.get(0) == "c"


def test_iteration_ends_when_the_queue_is_closed_and_empty() -> None:
    """And begins anew where it stopped."""
    it = queue()
    for i in range(4):
        it.put(i)
    assert next(iter(it)) == 0
    it.close()
    assert list(it) == [1, 2, 3]
    assert list(it) == []


def test_depths_follow_what_is_in_the_queue() -> None:
    """Events and bytes."""
    it = queue()
    it.put("a", 10)
    it.put("b", size=20)
    assert (it.depth_events, it.depth_bytes) == (2, 30)
    it.get()
    assert (it.depth_events, it.depth_bytes) == (1, 20)


@pytest.mark.parametrize(
    "wrong",
    [{"max_events": 0}, {"max_bytes": 0}, {"max_events": -1}, {"policy": -1}, {"policy": ERROR + 1}],
)
def test_limits_that_allow_nothing_are_refused(wrong: dict[str, int]) -> None:
    """A queue without room for one event is a mistake."""
    with pytest.raises(ValueError, match="Expected"):
        queue(**wrong)


def test_arguments_of_the_wrong_kind_are_refused() -> None:
    """By name and number."""
    it = queue()
    with pytest.raises(ValueError, match="size of at least 0"):
        it.put("event", -1)
    with pytest.raises(TypeError, match="at most 1 argument"):
        it.get(1, 2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        it.get("soon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="Link or None"):
        it.lead("link")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    it.lead(None)


# ---------------------------------------------------------------------------
# Policies


def test_the_newest_is_dropped_where_that_is_the_policy() -> None:
    """And counted."""
    it = queue(2, policy=DROP_NEWEST)
    for i in range(5):
        it.put(i)
    assert it.dropped == 3
    assert [it.get(), it.get()] == [0, 1]


def test_the_oldest_is_dropped_where_that_is_the_policy() -> None:
    """As many as it takes to make room for the bytes."""
    it = queue(10, max_bytes=10, policy=DROP_OLDEST)
    for i in range(5):
        it.put(i, 2)
    it.put("large", 7)
    assert it.dropped == 4
    assert [it.get(), it.get()] == [4, "large"]


def test_an_event_above_the_limit_of_bytes_is_taken_when_it_is_alone() -> None:
    """It could never be delivered otherwise."""
    it = queue(10, max_bytes=10, policy=DROP_NEWEST)
    it.put("large", 1000)
    it.put("small", 1)
    assert (it.depth_events, it.dropped) == (1, 1)


def test_a_queue_with_the_policy_error_fails_behind_what_is_there() -> None:
    """For good: there is a hole in what would come."""
    it = queue(2, policy=ERROR)
    for i in range(4):
        it.put(i)
    assert [it.get(), it.get()] == [0, 1]
    it.put("after the hole")
    for get in (it.get, it.get_nowait, lambda: next(it)):
        with pytest.raises(BacklogError, match="at most 2 events"):
            get()
    assert it.dropped == 3


def test_a_put_that_has_waited_in_vain_is_refused_and_the_next_do_not_wait() -> None:
    """Until somebody gets something: a stopped reader costs its timeout once."""
    it = queue(1, policy=BLOCK, timeout_ns=SECOND_NS // 50)
    it.put(0)
    begin = time.monotonic()
    for i in range(1000):
        with pytest.raises(BacklogError, match="full for 20 ms"):
            it.put(i)
    assert 0.02 <= time.monotonic() - begin < 10
    assert (it.get(), it.dropped) == (0, 1000)
    it.put("after")
    assert it.get(0) == "after"


def test_a_reader_that_stops_paces_nobody_for_longer_than_the_timeout() -> None:
    """Then the oldest goes, and at once, until somebody gets something again."""
    it = queue(10, policy=PACE, timeout_ns=SECOND_NS // 50)
    begin = time.monotonic()
    for i in range(1000):
        it.put(i)
    assert 0.02 <= time.monotonic() - begin < 10
    assert it.dropped == 990
    assert [it.get(0) for _ in range(10)] == list(range(990, 1000))


def test_a_reader_that_goes_on_paces_who_puts_and_loses_nothing() -> None:
    """Each event that it takes begins the time anew, though all take longer than that."""
    it = queue(4, policy=PACE, timeout_ns=30 * SECOND_NS)

    def put() -> None:
        for i in range(2000):
            it.put(i)

    future = in_thread(put)
    assert [it.get(PATIENCE_NS) for _ in range(2000)] == list(range(2000))
    future.result(20)
    assert it.dropped == 0


def test_a_thread_that_alone_empties_a_queue_does_not_wait_for_itself() -> None:
    """It iterates, and puts what is more than there is room for: an error, or the oldest goes."""
    blocking, pacing = queue(2, policy=BLOCK, timeout_ns=-1), queue(2, policy=PACE, timeout_ns=-1)
    for it in (blocking, pacing):
        it.put(0)
        assert next(it) == 0
        it.put(1)
        it.put(2)
    with pytest.raises(BacklogError, match="this thread alone takes"):
        blocking.put(3)
    pacing.put(3)
    assert (blocking.dropped, pacing.dropped) == (1, 1)
    assert [it.get(0) for it in (blocking, blocking, pacing, pacing)] == [1, 2, 2, 3]


def test_a_put_that_waits_goes_on_when_there_is_room() -> None:
    """Nothing is lost, and order is kept."""
    it = queue(2, policy=BLOCK, timeout_ns=-1)

    def put() -> None:
        for i in range(2000):
            it.put(i)

    future = in_thread(put)
    assert [it.get(PATIENCE_NS) for _ in range(2000)] == list(range(2000))
    future.result(20)
    assert it.dropped == 0


def test_closing_ends_a_put_that_waits() -> None:
    """What it wanted to put is counted as dropped."""
    it = queue(1, policy=BLOCK, timeout_ns=-1)
    it.put(0)
    begun = threading.Event()

    def put() -> None:
        begun.set()
        it.put(1)

    future = in_thread(put)
    assert begun.wait(20)
    it.close()
    future.result(20)
    assert it.dropped == 1


# ---------------------------------------------------------------------------
# Waiting


def test_whoever_waits_gets_what_is_put() -> None:
    """Without a timeout."""
    it = queue()
    future = in_thread(it.get)
    it.put("event")
    assert future.result(20) == "event"


def test_closing_ends_every_wait() -> None:
    """Of as many threads as there are."""
    it = queue()
    futures = [in_thread(it.get) for _ in range(4)]
    it.close()
    for future in futures:
        assert isinstance(future.exception(20), ClosedError)


def test_failing_ends_every_wait() -> None:
    """Nobody waits for what will never come."""
    it = queue(1, policy=ERROR)
    futures = [in_thread(it.get) for _ in range(3)]
    while not all(future.done() for future in futures):
        it.put(0)
    assert {type(future.exception(20)) for future in futures} <= {type(None), BacklogError}


def test_many_threads_share_a_queue_without_loss() -> None:
    """Each event is got once, and each putter's come in order."""
    it = queue(16, policy=BLOCK, timeout_ns=-1)
    count = 3000

    def put(who: int) -> None:
        for i in range(count):
            it.put((who, i))

    def get() -> list[tuple[int, int]]:
        return list(it)

    getters = [in_thread(get) for _ in range(3)]
    putters = [in_thread(put, who) for who in range(3)]
    for future in putters:
        future.result(60)
    it.close()
    got = [future.result(60) for future in getters]
    assert sorted(event for events in got for event in events) == [
        (who, i) for who in range(3) for i in range(count)
    ]
    for events in got:
        for who in range(3):
            own = [i for other, i in events if other == who]
            assert own == sorted(own)


def test_a_signal_interrupts_a_get() -> None:
    """Ctrl-C works while a thread waits."""
    demand_interrupt(queue().get)


def test_a_signal_interrupts_an_iteration() -> None:
    """Its exception is not taken for the end."""
    demand_interrupt(list, queue())


def test_a_signal_interrupts_a_put() -> None:
    """The event is not in the queue then."""
    it = queue(1, policy=BLOCK, timeout_ns=-1)
    it.put(0)
    demand_interrupt(it.put, 1)
    assert it.depth_events == 1


# ---------------------------------------------------------------------------
# The descriptor


def test_the_descriptor_is_readable_exactly_while_there_is_something_to_get() -> None:
    """And for ever once the queue is closed."""
    it = queue()
    it.put(0)
    fd = it.fileno()
    assert fd == it.fileno()
    assert is_readable(fd)
    it.put(1)
    it.get()
    assert is_readable(fd)
    it.get()
    assert not is_readable(fd)
    it.close()
    assert is_readable(fd)


def test_the_descriptor_is_readable_once_a_queue_has_failed() -> None:
    """Whoever polls must learn of it."""
    it = queue(1, policy=ERROR)
    fd = it.fileno()
    it.put(0)
    it.put(1)
    it.get()
    assert is_readable(fd)


def test_the_descriptor_goes_with_the_queue() -> None:
    """It is opened when it is asked for, and closed once."""
    it = queue()
    fd = it.fileno()
    del it
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


# ---------------------------------------------------------------------------
# What it keeps alive


def test_an_event_is_let_go_when_it_is_got_or_dropped() -> None:
    """By every policy."""
    for policy in (PACE, BLOCK, DROP_NEWEST, DROP_OLDEST, ERROR):
        it = queue(1, policy=policy)
        event = object()
        before = sys.getrefcount(event)
        for _ in range(20):
            with suppress(BacklogError):
                it.put(event)
        assert it.get(0) is event
        assert it.depth_events == 0
        assert sys.getrefcount(event) == before


def test_a_queue_lets_go_of_what_nobody_got() -> None:
    """When it goes itself."""
    it = queue()
    token = Token()
    it.put(token)
    gone = weakref.ref(token)
    del token
    assert gone() is not None
    del it
    assert gone() is None


def test_a_queue_in_a_cycle_is_collected() -> None:
    """An event may refer to the queue that it waits in."""
    it = queue()
    token: Any = Token()
    token.queue = it
    it.put(token)
    gone = weakref.ref(token)
    del it, token
    gc.collect()
    assert gone() is None


def test_queues_do_not_keep_their_type() -> None:
    """Each instance holds it once, while it lives."""
    before = sys.getrefcount(Queue)
    several = [queue() for _ in range(50)]
    assert sys.getrefcount(Queue) == before + 50
    del several
    assert sys.getrefcount(Queue) == before


def test_the_destructor_of_a_dropped_event_may_use_the_queue() -> None:
    """The queue is whole before it runs."""
    it = queue(2, policy=DROP_OLDEST)

    class Putting:
        def __del__(self) -> None:
            it.put("from the destructor")

    it.put(Putting())
    it.put(1)
    it.put(2)
    assert it.depth_events <= 2
    assert it.get(0) is not None
