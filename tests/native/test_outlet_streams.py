"""Outlets whose events leave the process: encoded once for all streams, split into frames, or lent."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

import echo_core as echo
from echo_core._c.links import (
    BLOCK,
    DROP_NEWEST,
    ERROR,
    Branch,
    Delivery,
    IncomingStream,
    Link,
    Mapping,
    OutgoingStream,
    Outlet,
    Pool,
    Queue,
    SocketWire,
)
from echo_core.errors import BacklogError, EncodeError, WireError
from tests.echo_core.census import until
from tests.native.link_ends import NO_LIMIT, PATIENCE_NS, link_over
from tests.native.sinks import (
    EVENTS,
    NativeParts,
    Sink,
    Slotted,
    class_of,
    deliver,
    event_names,
    outlet_of,
    record_size,
)

STREAM = 64


@dataclass
class Ends:
    """A source's way over a link of its own, and what arrives at the other end of it."""

    outgoing: OutgoingStream
    arrivals: Queue
    incoming: IncomingStream


@pytest.fixture
def stream() -> Iterator[Callable[..., Ends]]:
    """Makes streams. Nobody reads if `is_read` is False: the backlog fills. Batches in `pool` are lent."""
    links: list[Link] = []
    threads: list[threading.Thread] = []

    def make(
        size: int, decode: Any = bytes, *, is_read: bool = True, pool: Pool | None = None, **limits: int
    ) -> Ends:
        here, there = socket.socketpair()
        holder = 0 if pool is None else pool.attach()
        mapping = None if pool is None else Mapping(pool.fileno(), holder)
        ours = link_over(SocketWire(here.detach()), pool=pool, holder=holder)
        theirs = link_over(SocketWire(there.detach()), mapping=mapping)
        links.extend((ours, theirs))
        arrivals = Queue(max_events=1 << 20, max_bytes=1 << 30, policy=DROP_NEWEST, timeout_ns=0)
        incoming = IncomingStream(record_size=size)
        incoming.deliveries = (Delivery(arrivals, decode, print, record_size=size),)
        theirs.bind(STREAM, incoming)
        if is_read:
            threads.append(threading.Thread(target=theirs.run, daemon=True))
            threads[-1].start()
        backlog = {
            "max_events": 1 << 20,
            "max_bytes": 1 << 30,
            "policy": BLOCK,
            "timeout_ns": PATIENCE_NS,
            **limits,
        }
        outgoing = OutgoingStream(ours, STREAM, "a source", **backlog)
        outgoing.grant(NO_LIMIT, NO_LIMIT)
        return Ends(outgoing, arrivals, incoming)

    yield make
    for link in links:
        link.shut()
    for thread in threads:
        thread.join(20)


@pytest.mark.parametrize("event", EVENTS, ids=event_names)
def test_an_event_is_encoded_once_for_all_streams(stream: Callable[..., Ends], event: Any) -> None:
    """And reaches the sinks in the process as well."""
    cls = class_of(event)
    codec = echo.codec(cls, tier="compiled")
    outlet, sink = outlet_of(codec, cls), Sink()
    streams = [stream(record_size(codec), codec.decode) for _ in range(3)]
    outlet.outgoing = tuple(each.outgoing for each in streams)
    outlet.direct = outlet.converting = (deliver(sink, codec),)
    outlet.submit(event)
    assert [each.arrivals.get(PATIENCE_NS) for each in streams] == [event] * 3
    assert sink.events == [event, event]
    assert (outlet.sequence, outlet.bytes) == (1, len(codec.encode(event)))


def test_records_are_split_into_frames_at_the_borders_of_records(stream: Callable[..., Ends]) -> None:
    """No frame is larger than the limit, and none holds half a record."""
    outlet = Outlet(None, bytes, record_size=24, max_payload=100)
    one = stream(24)
    outlet.outgoing = (one.outgoing,)
    records = [bytes([i]) * 24 for i in range(50)]
    outlet.submit_records(b"".join(records))
    assert [one.arrivals.get(PATIENCE_NS) for _ in records] == records
    assert (one.incoming.sequence, one.outgoing.events, outlet.sequence) == (50, 50, 50)
    assert one.outgoing.link.sent_frames == 13


@pytest.mark.parametrize(("taken", "frames"), [(47, 50), (48, 25), (95, 17), (1000, 13)])
def test_records_are_split_into_frames_that_the_peer_takes(
    taken: int, frames: int, stream: Callable[..., Ends]
) -> None:
    """Each stream's frames are as its own peer wants them."""
    outlet = Outlet(None, bytes, record_size=24, max_payload=100)
    one, other = stream(24, max_payload=taken), stream(24)
    outlet.outgoing = (one.outgoing, other.outgoing)
    records = [bytes([i]) * 24 for i in range(50)]
    outlet.submit_records(b"".join(records))
    for each in (one, other):
        assert [each.arrivals.get(PATIENCE_NS) for _ in records] == records
    assert (one.outgoing.link.sent_frames, other.outgoing.link.sent_frames) == (frames, 13)
    assert (one.outgoing.dropped, one.incoming.lost) == (0, 0)


def test_records_that_the_peer_does_not_take_are_refused_at_once(stream: Callable[..., Ends]) -> None:
    """One error for all of them, and one gap; others get them."""
    outlet = Outlet(None, bytes, record_size=24)
    one, other = stream(24, max_payload=23), stream(24)
    outlet.outgoing = (one.outgoing, other.outgoing)
    with pytest.raises(EncodeError, match="at most 23 bytes, which is what the peer takes at once, got 24"):
        outlet.submit_records(bytes(24 * 50))
    assert [other.arrivals.get(PATIENCE_NS) for _ in range(50)] == [bytes(24)] * 50
    until(lambda: one.incoming.lost == 50)
    assert (one.outgoing.dropped, one.outgoing.link.sent_frames) == (50, 1)


def test_what_a_receiver_has_selected_and_does_not_take_is_dropped(stream: Callable[..., Ends]) -> None:
    """And counted, also behind it; a full backlog is raised all the same, and so is what nobody selected."""
    size = 4096
    outlet, derived, behind = (Outlet(None, bytes, record_size=size) for _ in range(3))
    derived.outgoing = (stream(size, max_payload=size - 1).outgoing,)
    behind.outgoing = (stream(size, max_payload=size - 1).outgoing,)
    outlet.branches = (Branch(None, derived, convert=bytes, derived_size=size),)
    derived.branches = (Branch(None, behind),)
    outlet.submit_records(bytes(size * 50))
    outlet.submit(bytes(size))
    assert (derived.outgoing[0].dropped, behind.outgoing[0].dropped) == (51, 51)
    full = stream(size, is_read=False, policy=ERROR, max_events=1)
    derived.outgoing = (*derived.outgoing, full.outgoing)
    with pytest.raises(BacklogError):  # noqa: PT012 - how much the system takes before is its own affair
        for _ in range(1000):
            outlet.submit(bytes(size))
    outlet.branches = (Branch(None, behind),)
    with pytest.raises(EncodeError, match=f"at most {size - 1} bytes"):
        outlet.submit(bytes(size))


def test_a_record_above_the_limit_of_a_frame_goes_by_itself(stream: Callable[..., Ends]) -> None:
    """It cannot be split."""
    outlet = Outlet(None, bytes, record_size=24, max_payload=8)
    one = stream(24)
    outlet.outgoing = (one.outgoing,)
    outlet.submit_records(bytes(72))
    assert [one.arrivals.get(PATIENCE_NS) for _ in range(3)] == [bytes(24)] * 3


def test_a_full_backlog_keeps_an_event_from_nobody_else(stream: Callable[..., Ends]) -> None:
    """Its error is raised when all others have been served."""
    size = 512 * 1024
    full = stream(size, is_read=False, policy=ERROR, max_events=1)
    free = stream(size)
    sink = Sink()
    outlet = Outlet(bytes, bytes, record_size=size)
    outlet.outgoing = (full.outgoing, free.outgoing)
    outlet.direct = outlet.converting = (Delivery(sink, bytes, sink.on_error),)
    event, submitted = bytes(size), 0
    with pytest.raises(BacklogError):  # noqa: PT012 - how much the system takes before is its own affair
        while submitted < 1000:
            submitted += 1
            outlet.submit(event)
    assert outlet.sequence == submitted
    assert [free.arrivals.get(PATIENCE_NS) for _ in range(submitted)] == [event] * submitted
    assert len(sink.events) == 2 * submitted


def test_what_a_handler_submits_follows_its_event_on_every_stream(stream: Callable[..., Ends]) -> None:
    """Order is kept although it is submitted in the middle."""
    outlet = Outlet(int, lambda n: bytes([n]), record_size=1)
    one = stream(1)

    def count_down(n: int) -> None:
        if n > 0:
            outlet.submit(n - 1)

    outlet.outgoing = (one.outgoing,)
    outlet.direct = (Delivery(count_down, bytes, print),)
    outlet.submit(100)
    assert [one.arrivals.get(PATIENCE_NS) for _ in range(101)] == [bytes([n]) for n in range(100, -1, -1)]


def test_a_lost_link_is_nothing_to_the_source(stream: Callable[..., Ends]) -> None:
    """Its departure is told elsewhere; here the stream counts what it drops."""
    outlet = Outlet(None, bytes, record_size=1)
    lost, alive = stream(1), stream(1)
    outlet.outgoing = (lost.outgoing, alive.outgoing)
    lost.outgoing.link.shut()
    outlet.submit_records(b"abc")
    assert [alive.arrivals.get(PATIENCE_NS) for _ in range(3)] == [b"a", b"b", b"c"]
    assert lost.outgoing.dropped == 3


def test_a_large_batch_is_written_to_the_pool_once_for_all_streams(stream: Callable[..., Ends]) -> None:
    """Readers have it in place; a link that shares no pool gets its bytes, and so does a small batch."""
    pool = Pool(block_bytes=1 << 16, blocks=4)
    outlet = Outlet(None, bytes, record_size=8)
    outlet.pool = pool
    lent = [stream(8, memoryview, pool=pool) for _ in range(2)]
    sent = stream(8, memoryview)
    for each in (*lent, sent):
        batches = Delivery(each.arrivals, memoryview, print, record_size=8, is_array=True)
        each.incoming.deliveries = (batches,)
    outlet.outgoing = tuple(each.outgoing for each in (*lent, sent))
    for size, used in ((32 * 1024, 1), (32 * 1024 - 8, 0)):
        data = bytes(range(256)) * 128
        outlet.submit_records(data[:size])
        views = [each.arrivals.get(PATIENCE_NS) for each in lent]
        assert pool.used == used
        assert views == [data[:size]] * 2
        del views
        rest = size
        while rest:
            view = sent.arrivals.get(PATIENCE_NS)
            assert view == data[size - rest : size - rest + len(view)]
            rest -= len(view)
    assert pool.used == 0


@echo.event
class Letter:
    """A text that has to be looked at, in a record that is worth lending."""

    id: int
    text: echo.Chars[40_000]
    is_read: bool = False


@dataclass(slots=True)
class LetterSlots:
    """The same as a dataclass, whose objects are made of the record."""

    id: int
    text: echo.Chars[40_000]
    is_read: bool = False


@pytest.mark.parametrize("cls", [Letter, LetterSlots])
@pytest.mark.parametrize("is_lent", [True, False])
def test_an_event_that_is_lent_is_checked_as_others_are(cls: type[Any], is_lent: bool) -> None:
    """A foreign true is ours, and text that is none ends the link; an event that was made stays as it is."""
    pool = Pool(block_bytes=1 << 16, blocks=4) if is_lent else None
    codec = echo.codec(cls, tier="compiled")
    size = record_size(codec)
    here, there = socket.socketpair()
    ours = link_over(SocketWire(here.detach()), pool=pool, holder=pool.attach() if pool else 0)
    theirs = link_over(SocketWire(there.detach()), mapping=Mapping(pool.fileno(), 0) if pool else None)
    events: list[Any] = []
    incoming = IncomingStream(record_size=size)
    incoming.deliveries = (Delivery(events.append, codec.decode, print, record_size=size),)
    theirs.bind(STREAM, incoming)
    outgoing = OutgoingStream(
        ours, STREAM, "a source", max_events=9, max_bytes=1 << 20, policy=BLOCK, timeout_ns=PATIENCE_NS
    )
    outgoing.grant(NO_LIMIT, NO_LIMIT)
    outlet = Outlet(None, bytes, record_size=size)
    outlet.outgoing, outlet.pool = (outgoing,), pool
    record = bytearray(codec.encode(cls(1, "é" * 1000, is_read=True)))
    record[-8:] = record[-8:].replace(b"\x01", b"\x07")
    outlet.submit_records(record)
    record[8:10] = b"\xff\xff"
    outlet.submit_records(record)
    with pytest.raises(WireError, match="UTF-8"):
        theirs.run()
    ours.shut()
    assert [(event.id, event.text, event.is_read) for event in events] == [(1, "é" * 1000, True)]
    assert pool is None or pool.used == 0


def test_a_batch_that_is_in_the_pool_already_is_not_copied(stream: Callable[..., Ends]) -> None:
    """It was written where it is read, and needs no frames of its size."""
    pool = Pool(block_bytes=1 << 16, blocks=4)
    outlet = Outlet(None, bytes, record_size=8, max_payload=1024)
    outlet.pool = pool
    one = stream(8, memoryview, pool=pool)
    one.incoming.deliveries = (Delivery(one.arrivals, memoryview, print, record_size=8, is_array=True),)
    outlet.outgoing = (one.outgoing,)
    block: Any = pool.loan(64 * 1024)
    array = np.frombuffer(block, np.uint8)
    array[:] = 7
    outlet.submit_records(array)
    view = one.arrivals.get(PATIENCE_NS)
    assert pool.used == 1
    assert view == bytes([7]) * 65536
    del array, view, block
    assert pool.used == 0


def test_where_no_block_is_free_the_bytes_are_sent(stream: Callable[..., Ends]) -> None:
    """A pool is a short cut, not a limit."""
    pool = Pool(block_bytes=1 << 16, blocks=1)
    held = pool.loan(1)
    outlet = Outlet(None, bytes, record_size=1 << 16)
    outlet.pool = pool
    one = stream(1 << 16, pool=pool)
    outlet.outgoing = (one.outgoing,)
    outlet.submit_records(bytes(1 << 16))
    assert one.arrivals.get(PATIENCE_NS) == bytes(1 << 16)
    assert held is not None


def test_events_lent_by_another_process_are_made_from_a_copy(stream: Callable[..., Ends]) -> None:
    """Nothing is verified where a peer may still write."""
    pool = Pool(block_bytes=1 << 16, blocks=2)
    codec = echo.codec(Slotted, tier="compiled")
    outlet = outlet_of(codec, Slotted)
    outlet.pool = pool
    one = stream(record_size(codec), codec.decode, pool=pool)
    outlet.outgoing = (one.outgoing,)
    events = [Slotted(i, i / 2, "t") for i in range(2000)]
    outlet.submit_records(codec.encode_many(events))
    assert [one.arrivals.get(PATIENCE_NS) for _ in events] == events


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_large_event_is_written_to_the_pool_once_for_all_streams(
    stream: Callable[..., Ends], tier: Literal["interpreted", "compiled"]
) -> None:
    """Like a batch; what it keeps is a copy, so the block is free again."""
    pool = Pool(block_bytes=1 << 16, blocks=2)
    codec = echo.codec(NativeParts, tier=tier)
    outlet = outlet_of(codec, NativeParts)
    outlet.pool = pool
    lent = [stream(0, codec.decode, pool=pool) for _ in range(2)]
    sent = stream(0, codec.decode)
    outlet.outgoing = tuple(each.outgoing for each in (sent, *lent))
    events = [NativeParts(i, "n" * 40_000, ["t"] * i) for i in range(10)]
    for event in events:
        outlet.submit(event)
        assert [each.arrivals.get(PATIENCE_NS) for each in (sent, *lent)] == [event] * 3
    until(lambda: pool.used == 0)  # the last one's thread may not be done with it
    assert [each.outgoing.link.sent_bytes for each in lent] == [24 * len(events)] * 2
    assert sent.outgoing.link.sent_bytes > 40_000 * len(events)


def test_a_loan_of_one_record_is_held_to_what_a_frame_may_bring() -> None:
    """It is as one that has come in a frame: a peer that lends more breaks its word."""
    here, there = socket.socketpair()
    pool = Pool(block_bytes=1 << 16, blocks=8)
    holder = pool.attach()
    ours = link_over(SocketWire(here.detach()), pool=pool, holder=holder)
    theirs = link_over(
        SocketWire(there.detach()), mapping=Mapping(pool.fileno(), holder), max_payload=100_000
    )
    arrivals = Queue(max_events=9, max_bytes=1 << 30, policy=DROP_NEWEST, timeout_ns=0)
    incoming = IncomingStream(record_size=0)
    incoming.deliveries = (Delivery(arrivals, bytes, print),)
    theirs.bind(STREAM, incoming)
    outlet = Outlet(bytes, bytes)
    outlet.pool = pool
    settings = {"max_events": 9, "max_bytes": 1 << 30, "policy": BLOCK, "timeout_ns": PATIENCE_NS}
    for most in (100_000, 1 << 30):
        outlet.outgoing = (OutgoingStream(ours, STREAM, "a source", max_payload=most, **settings),)
        outlet.outgoing[0].grant(NO_LIMIT, NO_LIMIT)
        if most == 100_000:
            with pytest.raises(EncodeError, match="at most 100000 bytes"):
                outlet.submit(bytes(100_001))
        outlet.submit(bytes(100_000 + (most > 100_000)))
    with pytest.raises(WireError, match="at most 100000 bytes, got 100001 - in a loan"):
        theirs.run()
    assert (len(arrivals.get(0)), arrivals.get(0)) == (100_000, None)
    ours.shut()


class Garbage:
    """What runs code when the collector finds it."""

    def __init__(self, code: Callable[[], object]) -> None:
        self.code = code
        self.cycle = self

    def __del__(self) -> None:
        self.code()


@pytest.mark.parametrize("allocations", range(1, 9))
def test_what_the_collector_changes_while_a_stream_is_added_stays_changed(
    allocations: int, stream: Callable[..., Ends]
) -> None:
    """A stream that a finalizer removes does not come back, and the new one is not lost."""
    outlet = Outlet(None, bytes, record_size=1)
    one, other = stream(1).outgoing, stream(1).outgoing
    outlet.outgoing = before = (
        *[one] * 30,
        other,
    )  # more than Python keeps empty tuples for; held, as it is replaced

    def remove() -> None:
        outlet.outgoing = tuple(outgoing for outgoing in outlet.outgoing if outgoing is not one)

    last, thresholds = stream(1).outgoing, gc.get_threshold()
    gc.collect()
    gc.disable()
    Garbage(remove)
    gc.set_threshold(
        gc.get_count()[0] + allocations
    )  # until 3.11 a new tuple may have the collector run at once
    try:
        gc.enable()
        assert outlet.begin(last, 0) == (0, 0)
    finally:
        gc.set_threshold(*thresholds)
        gc.collect()
    assert outlet.outgoing == (other, last)
    assert before.count(one) == 30
