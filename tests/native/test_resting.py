"""Links that rest: a few threads read many of them, each when something comes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from echo_core._c import links
from echo_core._c.links import Link, RingWire, ring_memory
from echo_core.errors import LinkError
from tests.native.link_ends import (
    PATIENCE_NS,
    Ends,
    eventually,
    leading_queue,
    link_over,
    number_of,
    numbered,
    repeat,
    sink,
    source,
    wires,
)
from tests.native.slow_handlers import Readers, gate
from tests.native.test_link_frames import frame_bytes

KINDS = ("tcp", "unix", "ring")
MORE_THREADS = 8


def threads() -> int:
    """Of this process, Python's or not."""
    return len(os.listdir("/proc/self/task"))


def waited_for() -> int:
    """How many descriptors this process waits for together."""
    told = 0
    for name in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(FileNotFoundError):  # the directory's own
            told += Path("/proc/self/fdinfo", name).read_text().count("tfd:")
    return told


class Crowd:
    """Many pairs of links on wires of one kind. What the one end submits the other one's sink handles."""

    def __init__(self, kind: str, count: int, handle: Callable[[int, bytes], object]) -> None:
        pairs = [wires(kind) for _ in range(count)]
        self.ones = [link_over(one) for one, _ in pairs]
        self.others = [link_over(other) for _, other in pairs]
        for number, other in enumerate(self.others):
            sink(other, partial(handle, number))
        self.outlets = [source(one)[0] for one in self.ones]

    @property
    def links(self) -> list[Link]:
        return [*self.ones, *self.others]

    def rouse(self) -> None:
        """As the door of a node does some times a second."""
        for link in self.links:
            link.rouse()

    def close(self) -> None:
        for link in self.links:
            link.shut()


class Beats:
    """A thread that rouses links again and again, faster than a door does."""

    def __init__(self, *roused: Link) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat, args=(roused,), daemon=True)
        self._thread.start()

    def _beat(self, roused: tuple[Link, ...]) -> None:
        while not self._is_over.wait(0.005):
            for link in roused:
                link.rouse()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def ring(readers: Readers) -> Iterator[tuple[Link, RingWire, socket.socket]]:
    """A link on a ring, and its other side: a wire without a bell, and the bell. `readers` end after it."""
    assert readers.threads == []
    memory = ring_memory(1 << 16)
    bell, far = socket.socketpair()
    far.settimeout(30)
    link = link_over(RingWire(memory, 0, bell=bell.detach()))
    wire = RingWire(memory, 1)
    os.close(memory)
    yield link, wire, far
    link.shut()
    wire.close()
    far.close()


def test_two_hundred_idle_links_have_a_few_threads(kind: str, readers: Readers) -> None:
    """After each has carried an event; one of them is as quick as others."""
    handled: list[int] = []
    crowd = Crowd(kind, 100, lambda number, _: handled.append(number))
    before = threads()
    readers.attend(*crowd.links)
    assert threads() <= before + 1
    for outlet in crowd.outlets:
        outlet.submit(numbered(0))
    eventually(lambda: sorted(handled) == list(range(100)))
    with Beats(*crowd.links):
        eventually(lambda: threads() <= before + MORE_THREADS)
    for number in (0, 50, 99):
        handled.clear()
        crowd.outlets[number].submit(numbered(1))
        eventually(lambda: handled == [number])  # noqa: B023
    crowd.close()


def test_busy_link_keeps_its_reader_until_it_is_idle(kind: str, readers: Readers) -> None:
    """Many events in a row go through one thread, which waits in the wire meanwhile.

    On a socket nobody else does, as the kernel would look with each event who is to be told.
    """
    readers_of: list[int] = []
    crowd = Crowd(kind, 1, lambda _, __: readers_of.append(threading.get_ident()))
    readers.attend(*crowd.links)
    bells = waited_for()

    def all_come_by_one_reader() -> bool:
        """Twenty more; a visit that is brief ends with each."""
        ended = len(readers.ended)
        for count in range(len(readers_of), len(readers_of) + 20):
            crowd.outlets[0].submit(numbered(count))
            eventually(lambda: len(readers_of) == count + 1)  # noqa: B023
        return len(readers.ended) == ended and len(set(readers_of[-20:])) == 1

    eventually(all_come_by_one_reader)
    assert not crowd.others[0].take_over()
    assert waited_for() == bells - (kind != "ring")
    if kind == "ring":  # one that was so busy on a socket keeps its thread
        with Beats(*crowd.links):
            ended = len(readers.ended)
            eventually(lambda: len(readers.ended) > ended)
    before = len(readers_of)
    crowd.outlets[0].submit(numbered(0))
    eventually(lambda: len(readers_of) == before + 1)
    crowd.close()


def test_all_that_rest_read_on_while_handlers_of_others_are_slow(kind: str, readers: Readers) -> None:
    """There are as many threads as slow handlers, and one that stands by."""
    gates = [gate(*([numbered(0)] if number % 2 else [])) for number in range(40)]
    crowd = Crowd(kind, len(gates), lambda number, event: gates[number](event))
    readers.attend(*crowd.links)
    for count in range(2):
        for outlet in crowd.outlets:
            outlet.submit(numbered(count))
    both = [numbered(0), numbered(1)]
    eventually(lambda: all(each.handled == both for each in gates[::2]))
    eventually(lambda: all(each.handled == both[:1] for each in gates[1::2]))
    for each in gates:
        each.may_go.set()
    eventually(lambda: all(each.handled == both for each in gates))
    crowd.close()


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_whenever_links_rest(kind: str, readers: Readers, seed: int) -> None:
    """Whichever carry events, are slow, or are found idle."""
    chance = random.Random(seed)
    handled: list[list[int]] = [[] for _ in range(12)]
    slow = {(chance.randrange(12), chance.randrange(100)) for _ in range(6)}
    again = threading.Event()

    def handle(number: int, event: bytes) -> None:
        if (number, number_of(event)) in slow:
            again.wait(0.02)
        handled[number].append(number_of(event))

    crowd = Crowd(kind, len(handled), handle)
    readers.attend(*crowd.links)
    sent = [0] * len(handled)
    with Beats(*crowd.links):
        for _ in range(300):
            number = chance.randrange(len(handled))
            for _ in range(chance.choice((1, 1, 2, 20))):
                crowd.outlets[number].submit(numbered(sent[number], chance.randrange(8, 3000)))
                sent[number] += 1
            if chance.random() < 0.1:
                again.wait(0.02)
    eventually(lambda: handled == [list(range(count)) for count in sent])
    crowd.close()


def test_what_a_leader_leaves_is_read_though_the_link_rests(ends: Ends, readers: Readers) -> None:
    """Control frames come by the leader's read, and are not for it."""
    queue, _ = leading_queue(ends.other)
    readers.attend(ends.one, ends.other)
    outlet, _ = source(ends.one)
    with Beats(ends.one, ends.other):
        for number in range(50):
            ends.one.send(9, b"%d" % number)
            outlet.submit(numbered(number))
            assert queue.get(PATIENCE_NS) == numbered(number)
            eventually(lambda: len(ends.messages) == number + 1)  # noqa: B023
    assert ends.messages == [(9, b"%d" % number) for number in range(50)]
    ends.close()


def test_link_that_rests_is_followed_to_its_end(ends: Ends, readers: Readers) -> None:
    """By a thread that stood by: the one side was shut, the other one finds out."""
    readers.attend(ends.one, ends.other)
    ends.one.shut()
    eventually(lambda: readers.ended == [True, True])
    assert not ends.one.is_open
    assert not ends.other.is_open
    assert not ends.one.take_over()
    assert readers.errors == []


def test_link_that_was_shut_before_it_rests_is_read_to_its_end_once(readers: Readers) -> None:
    one, _ = wires("unix")
    link = link_over(one)
    link.shut()
    link.rest(link.take_over)
    assert link.take_over()
    assert not link.take_over()
    readers.attend(link)
    readers.join()
    assert readers.ended == []


@pytest.mark.parametrize("is_busy", [False, True])
def test_peer_that_is_gone_is_noticed_by_its_bell(
    ring: tuple[Link, RingWire, socket.socket], readers: Readers, *, is_busy: bool
) -> None:
    """As when it was killed: the memory says nothing of it. What it has written comes first."""
    link, wire, far = ring
    events: list[bytes] = []
    sink(link, events.append)
    readers.attend(link)
    if is_busy:
        for count in range(20):
            wire.write(frame_bytes(64, bytes(8)))
            far.send(b"!")
            eventually(lambda: len(events) == count + 1)  # noqa: B023
    wire.write(frame_bytes(64, b"the last"))
    far.close()
    eventually(lambda: len(readers.ended) + len(readers.errors) > 0 and not link.is_open)
    assert events[-1:] == [b"the last"]
    assert readers.errors == [] or isinstance(readers.errors[0], LinkError)


def test_peer_that_does_not_ring_is_heard_all_the_same(
    ring: tuple[Link, RingWire, socket.socket], readers: Readers
) -> None:
    """It was stopped before it could, or lies: who looks from time to time finds what it wrote."""
    link, wire, _ = ring
    events: list[bytes] = []
    sink(link, events.append)
    readers.attend(link)
    for count in range(3):
        wire.write(frame_bytes(64, bytes(8)))
        link.rouse()
        eventually(lambda: len(events) == count + 1)  # noqa: B023


def test_link_whose_reader_did_not_come_is_read_all_the_same(ends: Ends, readers: Readers) -> None:
    """A thread was told of it, and ended before it read: who looks from time to time has another one told."""
    came: list[int] = []
    events: list[bytes] = []
    sink(ends.other, events.append)

    def read() -> None:
        came.append(threading.get_ident())
        if len(came) > 1:
            ends.other.take_over()

    ends.other.rest(read)
    readers.stand_by()
    source(ends.one)[0].submit(numbered(0))
    eventually(lambda: len(came) == 1)
    with Beats(ends.other):
        eventually(lambda: events == [numbered(0)])
    assert ends.other.overlooked >= 1
    ends.close()


def test_peer_that_rings_for_nothing_costs_little(
    ring: tuple[Link, RingWire, socket.socket], readers: Readers
) -> None:
    """However often it rings: the link is read when something comes, and its bell may be full."""
    link, wire, far = ring
    events: list[bytes] = []
    sink(link, events.append)
    readers.attend(link)
    far.setblocking(False)
    with Beats(link):
        for count in range(50):
            with contextlib.suppress(BlockingIOError):
                repeat(far.send, b"?" * 100)
            wire.write(frame_bytes(64, bytes(8)))
            eventually(lambda: len(events) == count + 1)  # noqa: B023
    assert len(readers.threads) < 10


def cpu_ns(*threads: threading.Thread) -> int:
    """What they have used so far."""
    clocks = [time.pthread_getcpuclockid(thread.ident) for thread in threads if thread.ident is not None]
    return sum(map(time.clock_gettime_ns, clocks))


def test_ring_without_a_bell_has_a_reader_all_the_time(readers: Readers) -> None:
    """Which waits in it: beside a thread that is at work without the GIL it uses no time."""
    memory = ring_memory(1 << 16)
    one, other = (link_over(RingWire(memory, side)) for side in (0, 1))
    os.close(memory)
    events: list[bytes] = []
    sink(other, events.append)
    readers.attend(other)
    eventually(lambda: len(readers.threads) == 2)
    readers.stand_by()
    eventually(lambda: not links.wants_standby())
    begin_ns, own_begin_ns = cpu_ns(*readers.threads), time.thread_time_ns()
    hashlib.blake2b(bytes(1 << 26))
    assert cpu_ns(*readers.threads) - begin_ns < (time.thread_time_ns() - own_begin_ns) / 4
    outlet, _ = source(one)
    with Beats(other):
        for count in range(20):
            outlet.submit(numbered(count))
            eventually(lambda: len(events) == count + 1)  # noqa: B023
    assert readers.ended == []
    one.shut()
    eventually(lambda: readers.ended == [True])
