"""Links: what goes in comes out, and when it is written."""

from __future__ import annotations

import _thread
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from echo_core._c.links import (
    Link,
    SocketWire,
)
from echo_core.transports.limits import MAX_CONTROL_BYTES
from tests.native.link_ends import (
    PATIENCE_NS,
    SECOND_NS,
    Ends,
    Peer,
    eventually,
    fill,
    link_over,
    number_of,
    numbered,
    sink,
    source,
)


def test_records_of_all_sizes_come_whole_and_in_order(ends: Ends) -> None:
    rng = random.Random(4)
    sizes = [rng.choice([0, 1, 7, 8, 96, 4000, 65528, 65529, 70000, 300000]) for _ in range(300)]
    sent = [rng.randbytes(size) for size in sizes]
    received: list[bytes] = []
    incoming = sink(ends.other, received.append)
    ends.run()
    outlet, outgoing = source(ends.one)
    for record in sent:
        outlet.submit(record)
    assert ends.one.drain(PATIENCE_NS)
    eventually(lambda: incoming.events == len(sent))
    assert received == sent
    assert (outgoing.events, outgoing.dropped, outgoing.queued_events) == (len(sent), 0, 0)
    assert incoming.bytes == sum(sizes)
    assert ends.one.sent_bytes == ends.other.received_bytes
    assert ends.one.sent_frames == ends.other.received_frames == len(sent)


def test_events_cross_both_ways_at_once(ends: Ends) -> None:
    totals = [sink(ends.one, lambda event: None), sink(ends.other, lambda event: None)]
    ends.run()

    def submit_all(link: Link) -> None:
        outlet, _ = source(link)
        for number in range(3000):
            outlet.submit(numbered(number))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(submit_all, [ends.one, ends.other]))
    eventually(lambda: [total.events for total in totals] == [3000, 3000])


def test_threads_that_submit_at_once_keep_each_sources_order(ends: Ends) -> None:
    received: dict[int, list[bytes]] = {stream: [] for stream in range(64, 68)}
    streams = [sink(ends.other, events.append, stream) for stream, events in received.items()]
    ends.run()

    def submit_all(stream: int) -> None:
        outlet, _ = source(ends.one, stream)
        for number in range(2000):
            outlet.submit(numbered(number, 8 + 500 * (number % 5)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit_all, received))
    eventually(lambda: sum(incoming.events for incoming in streams) == 8000)
    assert all([number_of(event) for event in events] == list(range(2000)) for events in received.values())


def test_control_frames_stand_between_the_events_where_they_were_sent(ends: Ends) -> None:
    seen: list[object] = []
    sink(ends.other, lambda event: seen.append(number_of(event)))
    ends.run()
    outlet, outgoing = source(ends.one)
    for number in range(100):
        outlet.submit(numbered(number))
        if number == 50:
            ends.one.send(9, b"link")
            outgoing.send(10, b"stream")
    ends.one.send(11, b"")
    eventually(lambda: len(ends.messages) == 3)
    assert ends.messages == [(9, b"link"), (10, b"stream"), (11, b"")]
    assert seen == list(range(100))


def test_control_frame_of_the_largest_size_comes_whole(ends: Ends) -> None:
    payload = random.Random(1).randbytes(MAX_CONTROL_BYTES)
    ends.run()
    ends.one.send(9, b"before")
    ends.one.send(10, payload)
    ends.one.send(11, b"after")
    eventually(lambda: len(ends.messages) == 3)
    assert ends.messages[1] == (10, payload)


def test_handler_may_submit_to_the_link_it_was_called_from(ends: Ends) -> None:
    answers: list[int] = []
    back, _ = source(ends.other, 65)
    sink(ends.other, back.submit)
    sink(ends.one, lambda event: answers.append(number_of(event)), 65)
    ends.run()
    outlet, _ = source(ends.one)
    for number in range(1000):
        outlet.submit(numbered(number, 96))
    eventually(lambda: len(answers) == 1000)
    assert answers == list(range(1000))


# --- who writes, and when ---


def test_event_on_an_idle_link_is_written_by_the_thread_that_submits(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, _ = source(link)
    before = set(os.listdir("/proc/self/task"))
    outlet.submit(b"x" * 96)
    assert link.queued_bytes == 0
    assert set(os.listdir("/proc/self/task")) <= before  # one of an earlier test may end meanwhile
    assert next(far.frames()) == (64, b"x" * 96)


def test_events_that_gathered_are_written_without_anybodys_doing(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    delay_ns = SECOND_NS // 20
    outlet, _ = source(link, delay_ns=delay_ns)
    begin = time.monotonic_ns()
    for number in range(10):
        outlet.submit(numbered(number))
    early = link.writes
    delays = (time.monotonic_ns() - begin) // delay_ns  # 0, unless the machine had other work meanwhile
    assert early <= delays
    frames = far.frames()
    assert [number_of(next(frames)[1]) for _ in range(10)] == list(range(10))
    eventually(lambda: link.writes > early)  # counted after the bytes have come
    assert link.writes <= 1 + delays


def test_event_without_time_takes_those_with_time_along(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire, delay_ns=0)
    patient, _ = source(link, 64, delay_ns=3600 * SECOND_NS)
    hasty, _ = source(link, 65)
    patient.submit(b"first")
    hasty.submit(b"second")
    frames = far.frames()
    assert [next(frames), next(frames)] == [(64, b"first"), (65, b"second")]


def test_drain_notices_a_signal_that_interrupts_no_system_call(peer: tuple[SocketWire, Peer]) -> None:
    """As one that comes while the thread has slept enough, and no processor is free for it."""
    wire, _ = peer
    link = link_over(wire)
    outlet, outgoing = source(link)
    fill(outlet, outgoing)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - on a busy machine it may come before the wait
        threading.Timer(0.05, _thread.interrupt_main).start()
        link.drain(2 * PATIENCE_NS)
    assert link.is_open  # or it is noticed when the link has ended


def test_drain_says_whether_all_was_written(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link)
    assert link.drain(0)
    fill(outlet, outgoing)
    assert not link.drain(0)
    assert not link.drain(1_000_000)
    assert link.queued_bytes > 0
    reader = threading.Thread(target=far.frames_until, args=(9,))
    reader.start()
    assert link.drain(PATIENCE_NS)
    assert link.queued_bytes == 0
    link.send(9, b"")
    reader.join(30)
    assert not reader.is_alive()
