"""Where an event is from: its number, whichever way it takes, and what a handler and a queue make of it."""

from __future__ import annotations

import gc
import socket
import struct
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core._c.links import DROP_OLDEST, Delivery, IncomingStream, Link, Queue, SocketWire
from tests.native.link_ends import KIND_GAP, Peer, Runner, eventually, fail, link_over
from tests.native.queues import queue
from tests.native.sinks import Native, NativeParts, class_of, outlet_of, record_size
from tests.native.slow_handlers import Readers, gate
from tests.native.test_link_frames import frame_bytes

EVENTS = [Native(i, i / 2, f"e{i}") for i in range(10)]
STORIES = [NativeParts(i, "n" * i, ["t"] * i) for i in range(10)]


class Handler:
    """Of two parameters."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []

    def __call__(self, event: Any, info: Any) -> None:
        self.pairs.append((event, info))


def described(target: Any, decode: Any = bytes, **options: Any) -> Delivery:
    """Says of an event its number alone."""
    return Delivery(target, decode, fail, describe=int, **options)


def numbers_of(target: Handler | Queue) -> list[Any]:
    """Of all that has come."""
    if isinstance(target, Handler):
        return [info for _, info in target.pairs]
    pairs: list[Any] = []
    while (pair := target.get_nowait_with_info()) is not None:
        pairs.append(pair)
    return [info for _, info in pairs]


@pytest.fixture(params=[Handler, partial(queue, 100)], ids=["handler", "queue"])
def target(request: pytest.FixtureRequest) -> Handler | Queue:
    made: Handler | Queue = request.param()
    return made


# ---------------------------------------------------------------------------
# From this process


@pytest.mark.parametrize("events", [EVENTS, STORIES], ids=["fixed", "varying"])
@pytest.mark.parametrize("way", ["direct", "converting"])
def test_events_of_this_process_are_numbered(events: list[Any], way: str, target: Handler | Queue) -> None:
    """Also those that nobody took count."""
    codec = echo.codec(class_of(events[0]))
    outlet = outlet_of(codec, class_of(events[0]))
    outlet.submit(events[0])
    setattr(outlet, way, (described(target, codec.decode, record_size=record_size(codec)),))
    for event in events[1:]:
        outlet.submit(event)
    assert numbers_of(target) == list(range(1, 10))


def test_what_a_handler_submits_does_not_change_the_number_of_its_event() -> None:
    codec = echo.codec(Native)
    outlet = outlet_of(codec, Native)
    first, second = Handler(), Handler()

    def submit_another(event: Native, info: int) -> None:
        if event.id == 0:
            outlet.submit(EVENTS[1])
        first(event, info)

    outlet.direct = tuple(
        described(it, codec.decode, record_size=record_size(codec)) for it in (submit_another, second)
    )
    outlet.submit(EVENTS[0])
    assert sorted(numbers_of(first)) == sorted(numbers_of(second)) == [0, 1]
    assert all(event.id == number for event, number in first.pairs + second.pairs)


def test_records_side_by_side_are_numbered_one_by_one(target: Handler | Queue) -> None:
    codec = echo.codec(Native)
    outlet = outlet_of(codec, Native)
    outlet.converting = (described(target, codec.decode, record_size=record_size(codec)),)
    outlet.submit_records(codec.encode_many(EVENTS))
    outlet.submit_records(codec.encode_many(EVENTS))
    assert numbers_of(target) == list(range(20))


def test_an_array_has_the_number_of_its_first_record(target: Handler | Queue) -> None:
    codec = echo.codec(Native)
    outlet = outlet_of(codec, Native)
    dtype = echo.format_of(Native).dtype
    outlet.converting = (
        described(target, np.frombuffer, record_size=dtype.itemsize, is_array=True, dtype=dtype),
    )
    for count in (3, 1, 5):
        outlet.submit_records(codec.encode_many(EVENTS[:count]))
    assert numbers_of(target) == [0, 3, 4]


# ---------------------------------------------------------------------------
# From other processes


def gap(events: int) -> bytes:
    payload = struct.pack("<IIQ", 64, 0, events)
    return struct.pack("<II", len(payload), KIND_GAP) + payload


def bind(link: Link, target: Any, sequence: int, **options: Any) -> IncomingStream:
    incoming = IncomingStream(sequence=sequence, record_size=options.get("record_size", 0))
    incoming.deliveries = (described(target, **options),)
    link.bind(64, incoming)
    return incoming


@pytest.mark.parametrize("size", [0, 8], ids=["varying", "fixed"])
def test_numbers_go_on_behind_a_gap(
    peer: tuple[SocketWire, Peer], target: Handler | Queue, size: int
) -> None:
    """And begin where the stream does; what comes at once, in one frame or many, is numbered one by one."""
    link = link_over(peer[0])
    incoming = bind(link, target, 1000, record_size=size)
    one = frame_bytes(64, b"8 bytes!")
    several = frame_bytes(64, b"8 bytes!" * 3) if size else one * 3
    peer[1].socket.sendall(one + one + gap(5) + several + gap(2) + one)
    peer[1].socket.shutdown(socket.SHUT_WR)
    Runner(link).end()
    assert incoming.sequence == 1013
    assert numbers_of(target) == [1000, 1001, 1007, 1008, 1009, 1012]


def test_what_was_put_aside_for_a_slow_handler_keeps_its_numbers(
    peer: tuple[SocketWire, Peer],
    readers: Readers,
) -> None:
    link = link_over(peer[0])
    slow, beside = gate(b"0"), gate()
    infos: list[int] = []

    def handle(event: bytes, info: int) -> None:
        infos.append(info)
        slow(event)

    incoming = IncomingStream(sequence=7)
    incoming.deliveries = (described(handle), Delivery(beside, bytes, fail))
    link.bind(64, incoming)
    readers.read(link)
    for number in range(20):
        peer[1].socket.sendall(frame_bytes(64, b"%d" % number) + gap(1))
    eventually(lambda: len(beside.handled) == 20)
    slow.may_go.set()
    eventually(lambda: len(slow.handled) == 20)
    assert infos == list(range(7, 47, 2))
    link.shut()


# ---------------------------------------------------------------------------
# What handlers and queues make of it


def test_a_handler_that_does_not_ask_gets_the_event_alone() -> None:
    handled: list[object] = []
    Delivery(handled.append, bytes, fail).hand(b"event")
    assert handled == [b"event"]


def test_what_describing_raises_is_the_events_failure() -> None:
    errors: list[BaseException] = []

    def describe(number: int) -> None:
        raise LookupError(number)

    handler = Handler()
    delivery = Delivery(handler, bytes, errors.append, describe=describe)
    delivery.hand(b"event")
    assert (delivery.failures, handler.pairs) == (1, [])
    assert [type(error) for error in errors] == [LookupError]


def test_a_queue_gives_pairs_only_to_who_asks() -> None:
    it = queue(9)
    delivery = described(it)
    for _ in range(5):
        delivery.hand(b"event")
    assert it.get() == b"event"
    assert it.get_with_info() == (b"event", 0)
    assert it.get_nowait() == b"event"
    assert it.get_nowait_with_info() == (b"event", 0)
    assert next(iter(it)) == b"event"
    assert it.get_with_info(0) is None
    assert it.get_nowait_with_info() is None
    it.close()
    for get in (it.get_with_info, it.get_nowait_with_info):
        with pytest.raises(echo.ClosedError, match="closed and empty"):
            get()


def test_iteration_gives_pairs_where_the_queue_was_made_so() -> None:
    it = Queue(max_events=9, max_bytes=99, policy=DROP_OLDEST, timeout_ns=0, with_info=True)
    described(it).hand(b"event")
    it.put("nobody's")
    it.close()
    assert list(it) == [(b"event", 0), ("nobody's", None)]


def test_who_is_not_known_is_none() -> None:
    it = queue(9)
    it.put("event")
    Delivery(it, bytes, fail).hand(b"other")
    assert it.get_with_info() == ("event", None)
    assert it.get_with_info() == (b"other", None)


def test_what_is_left_in_a_closed_queue_is_still_described() -> None:
    """The deliveries are forgotten by then."""
    it = Queue(max_events=9, max_bytes=99, policy=DROP_OLDEST, timeout_ns=0)
    described(it).hand(b"event")
    it.close()
    assert it.get_with_info() == (b"event", 0)


def test_what_describes_is_let_go_with_the_events() -> None:
    """Of those that were got, dropped for want of room, cleared, or left in the queue."""

    class Describe:
        def __call__(self, number: int) -> int:
            return number

    describe = Describe()
    gone = weakref.ref(describe)
    it = Queue(max_events=2, max_bytes=99, policy=DROP_OLDEST, timeout_ns=0)
    other = queue(9)
    for target_queue in (it, other):
        delivery = Delivery(target_queue, bytes, fail, describe=describe)
        for _ in range(5):
            delivery.hand(b"event")
    del delivery, describe
    it.get()
    it.get_with_info()
    other.clear()
    gc.collect()
    assert gone() is None


def test_a_circle_through_what_describes_is_collected() -> None:
    class Describe:
        queue: Queue

        def __call__(self, number: int) -> int:
            return number

    describe = Describe()
    describe.queue = queue(9)
    Delivery(describe.queue, bytes, fail, describe=describe).hand(b"event")
    gone = weakref.ref(describe)
    del describe
    gc.collect()
    assert gone() is None
