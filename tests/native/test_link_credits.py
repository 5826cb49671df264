"""Credit that a peer has invented, records for which it had none, and what it is told of others."""

from __future__ import annotations

import gc
import itertools
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from echo_core._c.links import Delivery, IncomingStream, Link, Mapping, OutgoingStream, Pool, SocketWire
from echo_core.errors import WireError
from tests.native.link_ends import (
    KIND_CREDIT,
    KIND_LOAN,
    NO_LIMIT,
    Peer,
    Runner,
    eventually,
    fail,
    link_over,
    numbered,
    sink,
    source,
    unbounded_queue,
)
from tests.native.test_link_frames import frame_bytes

SENT, GRANTED, SIZE = 10, 100, 1000  # events of the only source here, and the bytes of each


def credit(
    stream: int = 64,
    done: int = 0,
    limit: int = GRANTED,
    *,
    zero: int = 0,
    done_bytes: int = 0,
    limit_bytes: int = NO_LIMIT,
) -> bytes:
    """A frame that grants nothing new, but for what is given."""
    words = struct.pack("<II4Q", stream, zero, done, done_bytes, limit, limit_bytes)
    return frame_bytes(KIND_CREDIT, words)


def hear(peer: tuple[SocketWire, Peer], *frames: bytes) -> tuple[Link, OutgoingStream]:
    """A link whose source has sent ten events, and that has then read all this."""
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, granted=GRANTED)
    for number in range(SENT):
        outlet.submit(numbered(number, SIZE))
    far.socket.sendall(b"".join(frames))
    far.socket.shutdown(socket.SHUT_WR)
    link.run()
    return link, outgoing


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([frame_bytes(KIND_CREDIT, bytes(39))], "credit of 40 bytes, got 39"),
        ([frame_bytes(KIND_CREDIT, bytes(41))], "credit of 40 bytes, got 41"),
        ([frame_bytes(KIND_CREDIT, b"")], "credit of 40 bytes, got 0"),
        ([credit(zero=7)], "0 behind the stream of credit, got 7"),
        ([credit(0)], "a stream that was offered, .* in stream 0"),
        ([credit(KIND_CREDIT)], "a stream that was offered, .* in stream 20"),
        ([credit(65)], "a stream that was offered, .* in stream 65"),
        ([credit(2**32 - 1)], "a stream that was offered, .* in stream 4294967295"),
        (
            [credit(done=5), credit(done=4)],
            "as much done as before, got done 4, limit 100 events - in stream 64",
        ),
        ([credit(done=5, done_bytes=500), credit(done=6, done_bytes=499)], "as much done as before"),
        ([credit(done=SENT + 1)], "no more done than was sent, got done 11"),
        ([credit(done_bytes=SENT * SIZE + 1)], "no more done than was sent"),
        ([credit(done=2**64 - 1)], "no more done than was sent"),
        ([credit(limit=GRANTED - 1)], "as high a limit as before, got done 0, limit 99"),
        ([credit(limit=200), credit(limit=199)], "as high a limit as before"),
        ([credit(limit_bytes=NO_LIMIT - 1)], "as high a limit as before"),
        ([credit(limit=2**63)], r"a limit below 2\*\*63"),
        ([credit(limit_bytes=2**63)], r"a limit below 2\*\*63"),
        ([credit(limit=2**64 - 1, limit_bytes=2**64 - 1)], r"a limit below 2\*\*63"),
    ],
)
def test_credit_that_no_receiver_gives_ends_the_link(
    frames: list[bytes], words: str, peer: tuple[SocketWire, Peer]
) -> None:
    with pytest.raises(WireError, match=words):
        hear(peer, *frames)


def test_refused_credit_changes_nothing(peer: tuple[SocketWire, Peer]) -> None:
    """What is right in it either."""
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, granted=GRANTED)
    outlet.submit(numbered(0, SIZE))
    far.socket.sendall(credit(done=1, done_bytes=SIZE, limit=GRANTED - 1))
    with pytest.raises(WireError, match="as high a limit"):
        link.run()
    assert (outgoing.confirmed, link.confirmed) == (0, 0)


def test_highest_limit_and_all_that_was_sent_is_good_credit(peer: tuple[SocketWire, Peer]) -> None:
    """Also where it comes again."""
    good = credit(done=SENT, done_bytes=SENT * SIZE, limit=2**63 - 1, limit_bytes=2**63 - 1)
    link, outgoing = hear(peer, credit(), good, good)
    assert (outgoing.confirmed, link.confirmed) == (SENT, SENT)


def test_credit_for_a_stream_that_is_gone_is_late_but_no_lie(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    source(link)  # nobody keeps it
    far.socket.sendall(credit(done=5))
    far.socket.shutdown(socket.SHUT_WR)
    link.run()
    assert (link.received_frames, link.confirmed) == (1, 0)


# --- what was not granted ---


def receiver(link: Link, *, events: int = NO_LIMIT, size_bytes: int = NO_LIMIT) -> IncomingStream:
    """Its queue keeps all, so nothing more is granted."""
    incoming = sink(link, unbounded_queue(), window=(events, size_bytes))
    incoming.grant()
    return incoming


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize(
    ("bounds", "taken"), [({"events": 4}, 4), ({"size_bytes": 250}, 3), ({"events": 4, "size_bytes": 1}, 1)]
)
def test_record_beyond_the_credit_ends_the_link(
    bounds: dict[str, int], taken: int, peer: tuple[SocketWire, Peer], *, is_apart: bool
) -> None:
    """The last one that may come begins below both limits, and may end above them."""
    wire, far = peer
    link = link_over(wire)
    incoming = receiver(link, **bounds)
    runner = Runner(link)
    frame = frame_bytes(64, bytes(100))
    if is_apart:
        far.socket.sendall(frame * taken)
        eventually(lambda: incoming.events == taken)
    far.socket.sendall(frame * (1 if is_apart else taken + 1))
    with pytest.raises(WireError, match="as was granted, got more - in stream 64"):
        runner.end()
    assert incoming.events == (taken if is_apart else 0)


def test_nothing_may_come_before_anything_was_granted(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    sink(link, unbounded_queue(), window=(4, 1000))
    far.socket.sendall(frame_bytes(64, b""))
    with pytest.raises(WireError, match="Expected at most 0 events and 0 bytes, as was granted"):
        link.run()


def test_loan_beyond_the_credit_ends_the_link_and_is_given_back() -> None:
    """It counts as its records do, though its frame is small."""
    pool = Pool(block_bytes=1 << 16, blocks=8)
    holder = pool.attach()
    one, other = socket.socketpair()
    link = link_over(SocketWire(other.detach()), mapping=Mapping(pool.fileno(), holder))
    incoming = receiver(link, size_bytes=60_000)
    runner = Runner(link)
    with one:
        for count in (1, 2, 3):
            one.sendall(frame_bytes(KIND_LOAN, lent_to(holder, pool)))
            eventually(partial(has_received, incoming, min(count, 2)))
        with pytest.raises(WireError, match="60000 bytes, as was granted"):
            runner.end()
    assert incoming.bytes == 100_000  # the second one began below the limit
    eventually(lambda: pool.used == 0)


def has_received(incoming: IncomingStream, events: int) -> bool:
    return incoming.events == events


def lent_to(holder: int, pool: Pool) -> bytes:
    """What a frame says of 50,000 bytes."""
    block = pool.place(bytes(50_000))
    assert block is not None
    payload = block.lend(holder, 64)
    assert payload is not None
    return payload


# --- while records are handed over ---


def test_what_one_sink_has_and_the_next_one_is_handed_is_not_done(peer: tuple[SocketWire, Peer]) -> None:
    """Nor is more granted for it, though it is larger than the window."""
    wire, far = peer
    link, queue = link_over(wire), unbounded_queue()
    is_there, may_go = threading.Event(), threading.Event()

    def handle(event: bytes) -> None:
        is_there.set()
        assert may_go.wait(30)

    incoming = IncomingStream(window_events=4, window_bytes=100)
    incoming.deliveries = (Delivery(queue, bytes, fail), Delivery(handle, bytes, fail))
    link.bind(64, incoming)
    assert incoming.grant() == (4, 100)
    runner = Runner(link)
    far.socket.sendall(frame_bytes(64, bytes(10)) + frame_bytes(64, bytes(1000)))
    eventually(is_there.is_set)
    incoming.confirm()
    assert incoming.grant() == (4, 100)
    may_go.set()
    eventually(lambda: queue.depth_events == 2 and incoming.deliveries[1].events == 2)
    assert queue.get() == bytes(10)
    assert queue.get() == bytes(1000)
    eventually(lambda: incoming.grant() == (6, 1110))
    far.socket.shutdown(socket.SHUT_WR)
    runner.end()
    for kind, payload in far.frames():
        if kind == KIND_CREDIT:
            assert all(count <= most for count, most in zip(told(payload), (2, 1010, 6, 1110), strict=True))


def told(payload: bytes) -> tuple[int, ...]:
    """Events and bytes that are done, and their limits."""
    return struct.unpack_from("<4Q", payload, 8)


def test_who_is_granted_more_is_still_told_what_is_done(peer: tuple[SocketWire, Peer]) -> None:
    """A grant says nothing of that."""
    wire, far = peer
    link = link_over(wire)
    incoming = sink(link, lambda event: None, window=(100, 10_000))
    assert incoming.grant() == (100, 10_000)
    runner = Runner(link)
    far.socket.sendall(frame_bytes(64, bytes(10)))
    eventually(lambda: incoming.grant() == (101, 10_010))
    incoming.confirm()
    far.socket.shutdown(socket.SHUT_WR)
    runner.end()
    assert [told(payload) for kind, payload in far.frames() if kind == KIND_CREDIT] == [(1, 10, 101, 10_010)]


def test_a_stream_that_is_bound_anew_grants_by_where_it_is_bound_now(peer: tuple[SocketWire, Peer]) -> None:
    """Whatever becomes of where it was bound before: another link, or another number of the same one."""
    wire, far = peer
    one, other = socket.socketpair()
    before, link = link_over(SocketWire(one.detach())), link_over(wire)
    incoming = sink(before, lambda event: None, window=(100, 10_000))
    link.bind(65, incoming)
    link.bind(64, incoming)
    before.unbind(64)
    del before
    other.close()
    link.unbind(65)
    runner = Runner(link)
    incoming.grant()
    far.socket.sendall(frame_bytes(64, bytes(10)))
    eventually(lambda: incoming.grant() == (101, 10_010))
    incoming.confirm()
    far.socket.shutdown(socket.SHUT_WR)
    runner.end()
    assert [told(payload) for kind, payload in far.frames() if kind == KIND_CREDIT] == [(1, 10, 101, 10_010)]


def test_a_delivery_that_another_stream_has_now_counts_there(peer: tuple[SocketWire, Peer]) -> None:
    """Whatever becomes of the stream that had it before."""
    wire, far = peer
    link, queue = link_over(wire), unbounded_queue()
    before = IncomingStream()
    delivery = Delivery(queue, bytes, fail)
    before.deliveries = (delivery,)
    incoming = IncomingStream(window_events=10)
    incoming.deliveries = (delivery,)
    link.bind(64, incoming)
    far.socket.sendall(b"".join(frame_bytes(64, bytes(10)) for _ in range(5)))
    far.socket.shutdown(socket.SHUT_WR)
    incoming.grant()
    link.run()
    before.deliveries = ()
    del before
    assert incoming.grant()[0] == 10
    for _ in range(5):
        queue.get()
    assert incoming.grant()[0] == 15


# --- large records that wait for it ---


LARGE = 100_000  # bytes: above what is staged


def test_a_large_record_without_credit_is_copied_after_a_while_and_the_next_at_once(
    peer: tuple[SocketWire, Peer],
) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, granted=1)
    outlet.submit(numbered(0, LARGE))
    began = time.monotonic()
    outlet.submit(numbered(1, LARGE))
    assert time.monotonic() - began > 0.009
    outlet.submit(numbered(2, LARGE))
    assert (outgoing.queued_events, outgoing.dropped) == (2, 0)
    outgoing.grant(3, NO_LIMIT)
    link.send(9, b"")
    assert far.frames_until(9) == [(64, numbered(number, LARGE)) for number in range(3)]


def test_large_records_go_from_where_they_lie_as_soon_as_there_is_credit(
    peer: tuple[SocketWire, Peer],
) -> None:
    """A copied one waits in the backlog when its submit has returned. Some do, where credit comes late."""
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, granted=1)
    rounds, each = 5, 40
    events, copied = rounds * each, [0] * rounds

    def grant_one_by_one() -> None:
        for granted in range(2, events + 2):
            eventually(lambda: outgoing.sent >= granted - 1)  # noqa: B023
            outgoing.grant(granted, NO_LIMIT)

    with ThreadPoolExecutor(2) as pool:
        reading, granting = pool.submit(far.frames_until, 9), pool.submit(grant_one_by_one)
        for number in range(events):
            outlet.submit(numbered(number, LARGE))
            copied[number // each] += outgoing.queued_events > 0
            eventually(lambda: outgoing.queued_events == 0)  # else the next one is copied at once
        granting.result(60)
        link.send(9, b"")
        assert reading.result(60) == [(64, numbered(number, LARGE)) for number in range(events)]
    assert min(copied) < each // 2


def test_a_stream_whose_last_events_go_with_the_credit_may_end_with_them(
    peer: tuple[SocketWire, Peer],
) -> None:
    """Nobody refers to it any more: it is gone when they are, and is not looked at behind that."""
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, granted=1)
    for number in range(5):
        outlet.submit(numbered(number, 200))
    outlet.outgoing = ()
    del outgoing, outlet
    gc.collect()
    runner = Runner(link)
    far.socket.sendall(credit(limit=100))
    frames = list(itertools.islice(far.frames(), 5))
    link.shut()
    runner.end()
    assert [payload for _, payload in frames] == [numbered(number, 200) for number in range(5)]
