"""Links whose peer sends what it likes, or lends what it has."""

from __future__ import annotations

import os
import random
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echo_core._c.links import (
    DROP_NEWEST,
    DROP_OLDEST,
    IncomingStream,
    Link,
    Mapping,
    Outlet,
    Pool,
    SocketWire,
    Span,
)
from echo_core.errors import LinkError, WireError
from tests.native.link_ends import (
    KIND_GAP,
    KIND_LOAN,
    MAX_PAYLOAD,
    PATIENCE_NS,
    Ends,
    Peer,
    Runner,
    eventually,
    fill,
    link_over,
    sink,
    source,
    unbounded_queue,
)
from tests.native.test_link_frames import frame_bytes


def run_against(peer: tuple[SocketWire, Peer], data: bytes, **settings: Any) -> Link:
    """A link that has read this, and nothing else will come."""
    wire, far = peer
    link = link_over(wire, **settings)
    sink(link, lambda event: None)
    far.socket.sendall(data)
    far.socket.shutdown(socket.SHUT_WR)
    link.run()
    return link


def test_peer_that_closes_between_frames_ends_the_link_without_an_error(
    peer: tuple[SocketWire, Peer],
) -> None:
    link = run_against(peer, frame_bytes(64, b"event"))
    assert (link.received_frames, link.is_open) == (1, False)
    with pytest.raises(LinkError, match="peer has closed"):
        link.send(9, b"")


def test_payload_of_the_limit_is_taken_and_one_above_it_ends_the_link() -> None:
    for size, is_good in [(MAX_PAYLOAD - 1, True), (MAX_PAYLOAD, True), (MAX_PAYLOAD + 1, False)]:
        one, other = socket.socketpair()
        link = link_over(SocketWire(one.detach()))
        incoming = sink(link, lambda event: None)
        with ThreadPoolExecutor(1) as pool, other:
            running = pool.submit(link.run)
            try:
                other.sendall(frame_bytes(64, bytes(size)))
                other.shutdown(socket.SHUT_WR)
            except OSError:
                assert not is_good
            if is_good:
                running.result(30)
            else:
                with pytest.raises(WireError, match=f"at most {MAX_PAYLOAD} bytes, got {size}"):
                    running.result(30)
        assert incoming.events == is_good


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (frame_bytes(64, bytes(40))[:30], LinkError, "Received 30 of 48 bytes of a frame; peer closed"),
        (frame_bytes(64, b"")[:5], LinkError, "Received 5 of at least 8 bytes of a frame"),
        (frame_bytes(65, b""), WireError, "Expected a stream that was asked for and is under way, got 65"),
        (frame_bytes(2**32 - 1, b""), WireError, "got 4294967295"),
        (frame_bytes(0, b""), WireError, "stream 0"),
        (frame_bytes(KIND_GAP, bytes(15)), WireError, "a gap of 16 bytes, got 15"),
        (
            frame_bytes(KIND_GAP, struct.pack("<IIQ", 64, 7, 1)),
            WireError,
            "0 in front of a gap's events, got 7",
        ),
        (struct.pack("<II", 8, 66), WireError, "asked for and is under way, got 66"),
        (frame_bytes(KIND_GAP, struct.pack("<IIQ", 65, 0, 1)), WireError, "got 65"),
        (frame_bytes(KIND_GAP, struct.pack("<IIQ", 3, 0, 1)), WireError, "got 3"),
        (frame_bytes(KIND_LOAN, bytes(16)), WireError, "no memory is shared"),
    ],
)
def test_peer_that_breaks_the_rules_loses_the_link(
    data: bytes, error: type[Exception], words: str, peer: tuple[SocketWire, Peer]
) -> None:
    with pytest.raises(error, match=words):
        run_against(peer, data)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.builds(frame_bytes, st.sampled_from([1, 2, 3, 63, 64, 65, 66]), st.binary(max_size=30)),
        ),
        max_size=6,
    )
)
def test_any_bytes_end_in_silence_or_a_named_error(pieces: list[bytes]) -> None:
    one, other = socket.socketpair()
    with other:
        try:
            run_against((SocketWire(one.detach()), Peer(other)), b"".join(pieces))
        except (WireError, LinkError):
            return


def test_gap_is_counted(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    incoming = sink(link, lambda event: None)
    gap = frame_bytes(KIND_GAP, struct.pack("<IIQ", 64, 0, 1000))
    far.socket.sendall(frame_bytes(64, b"") + gap + frame_bytes(64, b""))
    far.socket.shutdown(socket.SHUT_WR)
    link.run()
    assert (incoming.events, incoming.lost, incoming.sequence) == (2, 1000, 1002)


def test_gap_that_no_source_can_have_ends_the_link(peer: tuple[SocketWire, Peer]) -> None:
    """The count would begin anew."""
    wire, far = peer
    link = link_over(wire)
    incoming = sink(link, lambda event: None)
    far.socket.sendall(frame_bytes(64, b"") + frame_bytes(KIND_GAP, struct.pack("<IIQ", 64, 0, 2**64 - 1)))
    with pytest.raises(WireError, match="gap after event 1"):
        link.run()
    assert incoming.lost == 0


def test_losses_that_no_source_can_have_end_the_link(peer: tuple[SocketWire, Peer]) -> None:
    """The stream starts again, and so does its sequence, but what was lost does not come back."""
    wire, far = peer

    def start_again(kind: int, payload: bytes) -> None:
        incoming.sequence = 0

    link = link_over(wire, start_again)
    incoming = sink(link, lambda event: None)
    most, two = (frame_bytes(KIND_GAP, struct.pack("<IIQ", 64, 0, events)) for events in (2**63 - 1, 2))
    far.socket.sendall((most + frame_bytes(9, b"")) * 2 + two)
    far.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(WireError, match="gap after 18446744073709551614 lost events, got one of 2 events"):
        link.run()
    assert incoming.lost == 2**64 - 2


def test_stream_that_was_unbound_is_skipped(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    incoming = sink(link, lambda event: None)
    link.unbind(64)
    link.unbind(65)
    gap = frame_bytes(KIND_GAP, struct.pack("<IIQ", 64, 0, 1000))
    far.socket.sendall(frame_bytes(64, b"late") + gap)
    far.socket.shutdown(socket.SHUT_WR)
    link.run()
    assert (incoming.events, incoming.sequence, link.received_frames) == (0, 0, 2)


def test_memory_does_not_grow_with_the_number_of_a_stream(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link = link_over(wire)
    for stream in (0, 63, 64 + (1 << 16)):
        with pytest.raises(WireError, match="Expected a stream from 64 to 65599"):
            link.bind(stream, IncomingStream())
    link.bind(63 + (1 << 16), IncomingStream())


def test_what_control_raises_ends_the_link(peer: tuple[SocketWire, Peer]) -> None:
    def refuse(kind: int, payload: bytes) -> None:
        msg = f"no {kind}, {payload!r}"
        raise WireError(msg)

    wire, far = peer
    link = link_over(wire, refuse)
    far.socket.sendall(frame_bytes(9, b"x") + frame_bytes(10, b"y"))
    with pytest.raises(WireError, match="no 9, b'x'"):
        link.run()
    assert far.socket.recv(1) == b""
    assert link.received_frames == 1


def test_frames_in_any_pieces_are_the_same_frames(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    received: list[bytes] = []
    sink(link, received.append)
    runner = Runner(link)
    rng = random.Random(7)
    sent = [rng.randbytes(rng.choice([3, 100, 5000, 70000, 250000, 600000])) for _ in range(60)]
    data = b"".join(frame_bytes(64, record) for record in sent)
    at = 0
    while at < len(data):
        size = rng.choice([1, 8, 1000, 65544, 300000])
        far.socket.sendall(data[at : at + size])
        at += size
    far.socket.shutdown(socket.SHUT_WR)
    runner.end()
    assert received == sent


@pytest.mark.parametrize("size", [512, 40000, 100000, 400000])
def test_views_of_received_bytes_stay_as_they_are(size: int, ends: Ends) -> None:
    views: list[memoryview] = []
    incoming = sink(ends.other, views.append, decode=memoryview, record_size=8, is_array=True)
    ends.run()
    outlet, _ = source(ends.one)
    sent = [random.Random(number).randbytes(size) for number in range(40)]
    for record in sent:
        outlet.submit(record)
    eventually(lambda: incoming.bytes == 40 * size)
    eventually(lambda: sum(view.nbytes for view in views) == 40 * size)
    assert b"".join(views) == b"".join(sent)


@pytest.mark.parametrize(
    ("before", "size", "kind_by_handler", "kind_by_queue"),
    [
        (0, 4000, bytes, bytes),
        (0, 8000, Span, bytes),
        (0, 100_000, Span, Span),
        (MAX_PAYLOAD, 8000, bytes, bytes),
        (MAX_PAYLOAD, 200_000, bytes, bytes),
        (MAX_PAYLOAD, 300_000, Span, Span),
    ],
)
def test_small_part_of_what_was_received_keeps_not_all_of_it(
    peer: tuple[SocketWire, Peer], before: int, size: int, kind_by_handler: type, kind_by_queue: type
) -> None:
    """A queue counts what is in view. The memory that a large frame came in is used for later ones, too."""
    link, it = link_over(peer[0]), unbounded_queue()
    kinds: list[type] = []
    sink(link, kinds.append, 64, decode=type, record_size=8, is_array=True)
    sink(link, it, 65, decode=type, record_size=8, is_array=True)
    large = sink(link, lambda _: None, 66)
    runner = Runner(link)
    peer[1].socket.sendall(frame_bytes(66, bytes(before)))
    eventually(lambda: large.events == 1)
    peer[1].socket.sendall(frame_bytes(64, bytes(size)))
    eventually(lambda: len(kinds) == 1)
    peer[1].socket.sendall(frame_bytes(65, bytes(size)))
    assert (kinds[0], it.get(PATIENCE_NS)) == (kind_by_handler, kind_by_queue)
    link.shut()
    runner.end()


# --- loans ---


def lending_pair(**options: Any) -> tuple[Pool, Link, Link, Peer]:
    """A link that lends, one that reads what is lent, and what that one's peer would say besides."""
    pool = Pool(block_bytes=1 << 16, blocks=8)
    holder = pool.attach()
    one, other = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    far = Peer(socket.socket(fileno=os.dup(one.fileno())))
    lender = link_over(SocketWire(one.detach()), pool=pool, holder=holder, **options)
    reader = link_over(SocketWire(other.detach()), mapping=Mapping(pool.fileno(), holder))
    return pool, lender, reader, far


def test_records_in_a_pool_are_read_in_place_and_given_back() -> None:
    pool, lender, reader, far = lending_pair()
    views: list[memoryview] = []
    sink(reader, views.append, decode=memoryview, record_size=8, is_array=True)
    runner = Runner(reader)
    outgoing = source(lender)[1]
    outlet = Outlet(None, bytes, record_size=8)
    outlet.outgoing, outlet.pool = (outgoing,), pool
    data = random.Random(1).randbytes(60000)
    outlet.submit_records(data)
    eventually(lambda: len(views) == 1)
    assert bytes(views[0]) == data
    assert lender.sent_bytes == 24
    assert pool.used == 1
    views.clear()
    eventually(lambda: pool.used == 0)
    lender.shut()
    runner.end()
    far.socket.close()


@pytest.mark.parametrize("policy", [DROP_OLDEST, DROP_NEWEST])
def test_block_whose_loan_is_dropped_is_free_again(policy: int) -> None:
    pool, lender, reader, far = lending_pair()
    plain, outgoing = source(lender, max_events=1, policy=policy)
    fill(plain, outgoing)
    outlet = Outlet(None, bytes, record_size=60000)
    outlet.outgoing, outlet.pool = (outgoing,), pool
    for _ in range(20):
        outlet.submit_records(bytes(60000))
    assert pool.used == (policy == DROP_OLDEST)
    lender.shut()
    reader.shut()
    eventually(lambda: pool.used == 0)
    far.socket.close()


def test_loan_that_was_not_made_ends_the_link() -> None:
    _, _, reader, far = lending_pair()
    sink(reader, lambda event: None)
    far.socket.sendall(frame_bytes(KIND_LOAN, struct.pack("<IIQ", 64, 3, 100)))
    with pytest.raises(WireError):
        reader.run()
    far.socket.close()
