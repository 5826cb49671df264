"""What comes for a sink whose handler is slow is put aside, and handed over by the thread that is at it."""

from __future__ import annotations

import socket
import weakref

from echo_core._c.links import Link, SocketWire
from echo_core.errors import WireError
from tests.native.link_ends import (
    Peer,
    eventually,
    sink,
)
from tests.native.slow_handlers import Readers, frames, gate, numbers
from tests.native.test_link_frames import frame_bytes


def test_what_comes_while_a_handler_is_slow_follows_in_order(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    """Also what comes by other streams of the link to the same sink."""
    slow, elsewhere = gate(b"0"), gate()
    both = object()
    for stream in (64, 65):
        sink(link, slow, stream, sink=both)
    sink(link, elsewhere, 66)
    readers.read(link)
    peer[1].socket.sendall(frame_bytes(64, b"0"))
    for number in range(1, 100):
        peer[1].socket.sendall(frame_bytes(64 + number % 2, b"%d" % number))
    peer[1].socket.sendall(frame_bytes(66, b"behind"))
    eventually(lambda: elsewhere.handled == [b"behind"])
    assert slow.handled == [b"0"]
    slow.may_go.set()
    eventually(lambda: len(slow.handled) == 100)
    assert slow.handled == numbers(100)
    link.shut()


def test_a_link_ends_while_a_handler_is_slow_and_its_sink_gets_the_rest(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    slow = gate(b"0")
    sink(link, slow)
    readers.read(link)
    peer[1].socket.sendall(frames(numbers(10)))
    eventually(slow.is_there.is_set)
    peer[1].socket.sendall(frames(numbers(20, 10)))
    peer[1].socket.shutdown(socket.SHUT_WR)
    eventually(lambda: readers.ended == [True])
    assert slow.handled == [b"0"]
    link.shut()
    slow.may_go.set()
    eventually(lambda: readers.ended == [True, False])
    assert slow.handled == numbers(20)


def test_what_is_put_aside_is_dropped_and_counted_where_a_sink_is_closed(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    slow, elsewhere = gate(b"0"), gate()
    incoming = sink(link, slow)
    sink(link, elsewhere, 65)
    [delivery] = incoming.deliveries
    readers.read(link)
    peer[1].socket.sendall(frame_bytes(64, b"0"))
    eventually(slow.is_there.is_set)
    peer[1].socket.sendall(
        b"".join(frame_bytes(64, number) for number in numbers(10, 1)) + frame_bytes(65, b"")
    )
    eventually(lambda: elsewhere.handled == [b""])
    assert delivery.is_busy
    delivery.close()
    assert (delivery.dropped, delivery.events) == (9, 10)
    slow.may_go.set()
    eventually(lambda: not delivery.is_busy)
    link.shut()
    readers.join()
    assert slow.handled == [b"0"]
    assert (delivery.dropped, delivery.events) == (9, 10)


def test_a_link_that_is_shut_drops_what_is_put_aside(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    slow, elsewhere = gate(b"0"), gate()
    [delivery] = sink(link, slow).deliveries
    sink(link, elsewhere, 65)
    readers.read(link)
    peer[1].socket.sendall(frames(numbers(10)) + frame_bytes(65, b""))
    eventually(lambda: elsewhere.handled == [b""])
    link.shut()
    slow.may_go.set()
    readers.join()
    assert slow.handled == [b"0"]
    assert delivery.dropped == 9
    assert sorted(readers.ended) == [False, True]


def test_a_bad_record_that_is_put_aside_ends_the_link(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    def decode(record: bytes) -> bytes:
        if record == b"5":
            msg = "not as agreed"
            raise WireError(msg)
        return bytes(record)

    slow, elsewhere = gate(b"0"), gate()
    sink(link, slow, decode=decode)
    sink(link, elsewhere, 65)
    readers.read(link)
    peer[1].socket.sendall(frame_bytes(64, b"0"))
    eventually(slow.is_there.is_set)
    peer[1].socket.sendall(
        b"".join(frame_bytes(64, number) for number in numbers(10, 1)) + frame_bytes(65, b"")
    )
    eventually(lambda: elsewhere.handled == [b""])
    slow.may_go.set()
    readers.join()
    assert [str(error) for error in readers.errors] == ["not as agreed"]
    assert slow.handled == numbers(5)


def test_what_is_called_behind_comes_behind_what_was_put_aside(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    slow, elsewhere = gate(b"0"), gate()
    sink(link, slow)
    sink(link, elsewhere, 65)
    readers.read(link)
    assert link.call_behind(lambda: None) == 0
    peer[1].socket.sendall(frames(numbers(10)) + frame_bytes(65, b""))
    eventually(lambda: elsewhere.handled == [b""])
    assert link.call_behind(lambda: slow.handled.append(b"flushed")) == 1
    peer[1].socket.sendall(frame_bytes(64, b"10") + frame_bytes(65, b""))
    eventually(lambda: len(elsewhere.handled) == 2)
    slow.may_go.set()
    eventually(lambda: len(slow.handled) == 12)
    assert slow.handled == [*numbers(10), b"flushed", b"10"]
    link.shut()


def test_nothing_is_called_behind_what_was_dropped(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    """It would say that all was handled. The link has ended, so nobody waits for it, and it is let go of."""

    class Answer:
        def __call__(self) -> None:
            slow.handled.append(b"flushed")

    def decode(record: bytes) -> bytes:
        if record == b"1":
            msg = "not as agreed"
            raise WireError(msg)
        return bytes(record)

    slow, elsewhere, answer = gate(b"0"), gate(), Answer()
    sink(link, slow, decode=decode)
    sink(link, elsewhere, 65)
    readers.read(link)
    peer[1].socket.sendall(frames(numbers(3)) + frame_bytes(65, b""))
    eventually(lambda: elsewhere.handled == [b""])
    is_left = weakref.ref(answer)
    assert link.call_behind(answer) == 1
    del answer
    slow.may_go.set()
    readers.join()
    assert slow.handled == [b"0"]
    assert is_left() is None
    assert [str(error) for error in readers.errors] == ["not as agreed"]
