"""Credit for links that rest: taken without the interpreter's lock, as if the link was read all the time."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import select
import socket
import struct
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from unittest.mock import patch

import pytest

from echo_core._c import links
from echo_core._c.links import Link, OutgoingStream, Outlet, SocketWire
from tests.native.link_ends import (
    PATIENCE_NS,
    Runner,
    eventually,
    leading_queue,
    link_over,
    numbered,
    sink,
    source,
    tcp_pair,
    unbounded_queue,
)
from tests.native.slow_handlers import Readers
from tests.native.test_link_credits import credit
from tests.native.test_link_frames import frame_bytes
from tests.native.test_resting import Beats

SIZE = 1000
FRAME = len(frame_bytes(64, numbered(0, SIZE)))
LIMIT_MS = 30_000
CONTROL, EVENTS = 9, 65

_libc = ctypes.PyDLL(None)  # its calls keep the interpreter's lock


class _Polled(ctypes.Structure):
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


@dataclass
class Source:
    """A link with a source, and the plain socket at its far end."""

    link: Link
    outlet: Outlet
    outgoing: OutgoingStream
    far: socket.socket
    messages: list[tuple[int, bytes]]

    def submit(self, count: int) -> None:
        for number in range(count):
            self.outlet.submit(numbered(number, SIZE))

    def receive(self, events: int) -> None:
        """So many that have been sent."""
        left = events * FRAME
        while left:
            left -= len(self.far.recv(left))


def source_over(one: socket.socket, far: socket.socket, *, granted: int = 0) -> Source:
    far.settimeout(30)
    messages: list[tuple[int, bytes]] = []
    link = link_over(SocketWire(one.detach()), lambda kind, payload: messages.append((kind, payload)))
    outlet, outgoing = source(link, granted=granted)
    sink(link, unbounded_queue(), EVENTS)
    return Source(link, outlet, outgoing, far, messages)


@pytest.fixture(params=["tcp", "unix"])
def sources(request: pytest.FixtureRequest, readers: Readers) -> Iterator[list[Source]]:
    """Of links that rest, once they are attended to. `readers` end after them."""
    assert readers.threads == []
    found = [source_over(*(tcp_pair() if request.param == "tcp" else socket.socketpair())) for _ in range(6)]
    yield found
    for each in found:
        with contextlib.suppress(Exception):
            each.link.shut()
        each.far.close()


@contextlib.contextmanager
def lock_kept() -> Generator[None]:
    """No thread gets the interpreter's lock but by a call that lets go of it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def send_locked(far: socket.socket, data: bytes) -> None:
    assert _libc.send(far.fileno(), data, len(data), socket.MSG_DONTWAIT) == len(data)


def has_bytes_locked(far: socket.socket) -> bool:
    """In half a minute."""
    polled = _Polled(far.fileno(), select.POLLIN, 0)
    return bool(_libc.poll(ctypes.byref(polled), 1, LIMIT_MS))


def drain_locked(far: socket.socket, size: int) -> bytes:
    room = ctypes.create_string_buffer(size)
    left = size
    while left and has_bytes_locked(far):
        left -= _libc.recv(far.fileno(), ctypes.byref(room, size - left), left, 0)
    assert left == 0
    return room.raw


def attend(readers: Readers, *resting: Link) -> None:
    """Until as many threads stand by as do in a process."""
    readers.attend(*resting)
    readers.stand_by()
    eventually(lambda: not links.wants_standby())


def test_credit_for_links_that_rest_needs_no_interpreters_lock(
    sources: list[Source], readers: Readers
) -> None:
    """However often it comes, and whatever other links have to say that needs the lock."""
    first, *others = sources
    attend(readers, *(each.link for each in sources))
    first.submit(40)
    with lock_kept():
        for other in others:
            send_locked(other.far, frame_bytes(CONTROL, b"word"))
        for limit in range(1, 41):
            send_locked(first.far, credit(limit=limit))
            assert drain_locked(first.far, FRAME) == frame_bytes(64, numbered(limit - 1, SIZE))
    eventually(lambda: all(other.messages == [(CONTROL, b"word")] for other in others))
    assert first.link.received_frames == 40


def test_credit_comes_also_while_a_reader_leaves_its_link(sources: list[Source], readers: Readers) -> None:
    """It takes the lock for that, and may not get it for long."""
    first = sources[0]
    attend(readers, first.link)
    first.submit(200)
    chance = random.Random(1)
    with Beats(first.link):
        for limit in range(1, 201):
            for _ in range(chance.randrange(20)):
                os.sched_yield()
            with lock_kept():
                send_locked(first.far, credit(limit=limit))
                drain_locked(first.far, FRAME)


def test_credit_comes_also_while_another_thread_is_started(sources: list[Source], readers: Readers) -> None:
    """Which needs the lock to begin: so the last one that stands by does not go for the lock meanwhile."""
    first, *others = sources
    attend(readers, *(each.link for each in sources))
    started, may_start = threading.Event(), threading.Event()

    def start_later() -> None:
        if links.wants_standby():
            started.set()
            assert may_start.wait(30)

    first.submit(40)
    with patch.object(readers, "stand_by", start_later):
        send_locked(others[0].far, frame_bytes(CONTROL, b"word"))
        assert started.wait(30)
        with lock_kept():
            send_locked(others[1].far, frame_bytes(CONTROL, b"word"))
            for limit in range(1, 41):
                send_locked(first.far, credit(limit=limit))
                drain_locked(first.far, FRAME)
        may_start.set()
    readers.stand_by()
    eventually(lambda: all(other.messages == [(CONTROL, b"word")] for other in others[:2]))


def test_credit_may_be_cut_anywhere(sources: list[Source], readers: Readers) -> None:
    """The rest of it comes when the beginning was read."""
    first = sources[0]
    attend(readers, first.link)
    first.submit(47)
    for cut in range(1, 48):
        frame, before = credit(limit=cut), first.link.received_bytes
        first.far.sendall(frame[:cut])
        eventually(lambda: first.link.received_bytes == before + cut)  # noqa: B023
        first.far.sendall(frame[cut:])
        first.receive(1)


def _frames(chance: random.Random) -> list[bytes]:
    """Good credit and other frames; what breaks a rule comes now and then."""
    limit, frames = 0, list[bytes]()
    for _ in range(60):
        kind = chance.random()
        if kind < 0.7:
            limit += chance.randrange(3)
            frames.append(credit(limit=limit))
        elif kind < 0.8:
            frames.append(frame_bytes(CONTROL, chance.randbytes(chance.randrange(40))))
        elif kind < 0.98:
            frames.append(frame_bytes(EVENTS, chance.randbytes(chance.randrange(200))))
        else:
            frames.append(
                chance.choice(
                    [
                        credit(limit=limit - 1 if limit else 2**63),
                        credit(done=2**40),
                        credit(zero=1),
                        credit(stream=99),
                        bytes(8),
                        frame_bytes(20, bytes(39)),
                        frame_bytes(99, b""),
                    ]
                )
            )
    return frames


@pytest.mark.parametrize("seed", range(12))
def test_link_that_rests_makes_the_same_of_all_as_one_that_is_read(
    sources: list[Source], readers: Readers, seed: int
) -> None:
    """Both are told the same: what came of it, what is said of an error, and what was sent then."""
    resting, read = sources[:2]
    runner = Runner(read.link)
    attend(readers, resting.link)
    chance = random.Random(seed)
    for each in (resting, read):
        each.submit(100)
    with Beats(resting.link):
        for frame in _frames(chance):
            cut = chance.randrange(len(frame)) if chance.random() < 0.3 else len(frame)
            for each in (resting, read):
                with contextlib.suppress(OSError):  # it has ended
                    each.far.sendall(frame[:cut])
                    each.far.sendall(frame[cut:])
        eventually(lambda: _is_settled(resting.link, read.link))
        for each in (resting, read):
            with contextlib.suppress(OSError):
                each.far.shutdown(socket.SHUT_WR)
        told = [_all_of(each.far) for each in (resting, read)]
        eventually(lambda: len(readers.ended) + len(readers.errors) > 0)
        with contextlib.suppress(Exception):
            runner.end()
    shorter, longer = sorted(told, key=len)
    assert longer.startswith(shorter)
    assert (
        shorter == longer or readers.errors
    )  # a link that breaks a rule ends before all that was granted is written
    assert resting.messages == read.messages
    assert resting.link.received_frames == read.link.received_frames
    assert list(map(str, readers.errors)) == [str(error) for error in [runner.error] if error is not None]


def _is_settled(one: Link, other: Link) -> bool:
    """Both have read and written the same, or one has ended by an error."""
    done = [(link.received_bytes, link.sent_bytes) for link in (one, other)]
    return done[0] == done[1] or not (one.is_open and other.is_open)


def _all_of(far: socket.socket) -> bytes:
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while data := far.recv(1 << 16):
            received += data
    return bytes(received)


def test_who_waits_for_events_gets_them_beside_credit(sources: list[Source], readers: Readers) -> None:
    """A leader finds the role taken for a moment by who has taken credit, and is not forgotten."""
    first = sources[0]
    queue, _ = leading_queue(first.link)
    attend(readers, first.link)
    first.submit(300)
    with Beats(first.link):
        for limit in range(1, 301):
            first.far.sendall(credit(limit=limit) + frame_bytes(64, numbered(limit)))
            assert queue.get(PATIENCE_NS) == numbered(limit)
            first.receive(1)


def test_links_go_while_credit_comes(readers: Readers) -> None:
    """Whoever takes it holds the link until that is done, though nobody else refers to it any more."""
    keeps = source_over(*socket.socketpair())
    attend(readers, keeps.link)
    for _ in range(100):
        goes = source_over(*socket.socketpair())
        goes.submit(5)
        readers.attend(goes.link)
        flood = threading.Thread(target=_grant_on, args=(goes.far,))
        flood.start()
        goes.receive(5)
        goes.link.shut()
        flood.join()
        goes.far.close()
    assert readers.errors == []
    keeps.link.shut()
    keeps.far.close()


def _grant_on(far: socket.socket) -> None:
    with contextlib.suppress(OSError):
        for limit in range(1, 1000):
            far.sendall(credit(limit=limit))


def test_connection_that_is_reset_while_its_link_rests_is_told_as_that(readers: Readers) -> None:
    """Though the system tells of it once, to whoever looks first: that is who takes credit."""
    reset = source_over(*tcp_pair())
    attend(readers, reset.link)
    reset.far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reset.far.close()
    eventually(lambda: len(readers.errors) == 1)
    assert str(readers.errors[0]) == "Receiving failed: Connection reset by peer"
