"""A thread that reads the link for its queue keeps to the bounds of all, and waits for room in none."""

from __future__ import annotations

import mmap
import socket
import struct
from collections.abc import Iterator

import pytest

from echo_core._c.links import BLOCK, Link, Mapping, Pool, Queue, SocketWire
from tests.native.link_ends import KIND_LOAN, PATIENCE_NS, SECOND_NS, Peer, Runner, link_over, sink
from tests.native.pools import BLOCK_BYTES, BLOCKS, HOLDERS_AT
from tests.native.queues import queue
from tests.native.test_link_frames import frame_bytes

SHORT_NS = SECOND_NS // 50


def followed(
    link: Link, stream: int, max_events: int, max_bytes: int = 1 << 20, timeout_ns: int = -1, size: int = 0
) -> Queue:
    """A queue that blocks where it is full; who waits for it reads the link."""
    it = queue(max_events, max_bytes, BLOCK, timeout_ns)
    sink(link, it, stream, record_size=size)
    link.follow(it)
    it.lead(link)
    return it


@pytest.fixture
def link(peer: tuple[SocketWire, Peer]) -> Iterator[Link]:
    """Nobody runs it, unless a test does."""
    link = link_over(peer[0])
    yield link
    link.shut()


def test_getter_does_not_wait_for_room_in_another_queue(link: Link, peer: tuple[SocketWire, Peer]) -> None:
    """Only this thread would make any."""
    it, full = followed(link, 64, 8), followed(link, 65, 3, timeout_ns=SECOND_NS)
    peer[1].socket.sendall(frame_bytes(65, b"o") * 10 + frame_bytes(64, b"i"))
    assert it.get(SHORT_NS) is None
    assert (full.depth_events, full.dropped) == (3, 0)
    assert [full.get(PATIENCE_NS) for _ in range(10)] == [b"o"] * 10
    assert it.get(PATIENCE_NS) == b"i"
    assert full.dropped == 0


def test_what_a_getter_leaves_is_handed_out_by_the_link_s_thread(
    link: Link, peer: tuple[SocketWire, Peer]
) -> None:
    """Which waits as long as the policy says, and so does who wants what is behind it."""
    it, full = followed(link, 64, 8), followed(link, 65, 3, timeout_ns=SECOND_NS // 10)
    peer[1].socket.sendall(frame_bytes(65, b"o") * 10 + frame_bytes(64, b"i"))
    assert it.get(SHORT_NS) is None
    runner = Runner(link)
    assert it.get(PATIENCE_NS) == b"i"
    assert (full.depth_events, full.dropped) == (3, 7)
    link.shut()
    runner.end()


def test_getter_drops_what_nobody_waits_for_any_more(link: Link, peer: tuple[SocketWire, Peer]) -> None:
    """The wait in vain is not repeated, in whichever thread."""
    it, stopped = followed(link, 64, 8), followed(link, 65, 1, timeout_ns=1)
    stopped.put("first")
    stopped.put("waits in vain")
    peer[1].socket.sendall(frame_bytes(65, b"o") * 10 + frame_bytes(64, b"i"))
    assert it.get(PATIENCE_NS) == b"i"
    assert (stopped.depth_events, stopped.dropped) == (1, 11)


@pytest.mark.parametrize("size", [0, 8])
def test_getter_takes_no_more_at_once_than_its_own_queue_may_hold(
    link: Link, peer: tuple[SocketWire, Peer], size: int
) -> None:
    """Whether events or bytes are the bound."""
    few, small = followed(link, 64, 3, size=size), followed(link, 65, 1000, 24, size=size)
    for stream, it in ((64, few), (65, small)):
        peer[1].socket.sendall(b"".join(frame_bytes(stream, bytes([n]) * 8) for n in range(200)))
        for n in range(200):
            assert it.get(PATIENCE_NS) == bytes([n]) * 8
            assert it.depth_events <= 2
        assert it.dropped == 0


def test_frame_of_more_events_than_a_queue_may_hold_is_left_to_the_link_s_thread(
    link: Link, peer: tuple[SocketWire, Peer]
) -> None:
    """It waits between them."""
    it = followed(link, 64, 10, size=1)
    peer[1].socket.sendall(frame_bytes(64, bytes(1000)))
    assert it.get(SHORT_NS) is None
    runner = Runner(link)
    for _ in range(1000):
        assert it.get(PATIENCE_NS) == b"\0"
        assert it.depth_events <= 10
    link.shut()
    runner.end()


def test_array_of_more_events_than_a_queue_may_hold_comes_alone(
    link: Link, peer: tuple[SocketWire, Peer]
) -> None:
    """One item, to a queue that is empty."""
    it = queue(10, 1 << 20, BLOCK, -1)
    sink(link, it, record_size=1, is_array=True)
    it.lead(link)
    peer[1].socket.sendall(frame_bytes(64, bytes(100)) * 3)
    for _ in range(3):
        assert it.get(PATIENCE_NS) == bytes(100)
        assert it.depth_events == 0


def test_loans_to_a_getter_are_bounded_by_what_they_lend() -> None:
    """Not by their frames, of 24 bytes; blocks may overlap in the loans of a peer that lies."""
    pool = Pool(block_bytes=BLOCK_BYTES, blocks=BLOCKS)
    holder = pool.attach()
    memory = mmap.mmap(pool.fileno(), HOLDERS_AT + 64 * BLOCKS)
    for block in range(BLOCKS):
        struct.pack_into("=Q", memory, HOLDERS_AT + 64 * block, 1 << holder)
    near, far = socket.socketpair()
    link = link_over(SocketWire(near.detach()), mapping=Mapping(pool.fileno(), holder))
    it = followed(link, 64, 100, BLOCK_BYTES)
    sizes = [BLOCK_BYTES * (BLOCKS - block) for block in range(BLOCKS)]
    for block, size in enumerate(sizes):
        far.sendall(frame_bytes(KIND_LOAN, struct.pack("=IIQ", 64, block, size)))
    for size in sizes:
        assert len(it.get(PATIENCE_NS)) == size
        assert it.depth_bytes == 0
    link.shut()
    far.close()
    memory.close()
