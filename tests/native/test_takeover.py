"""A handler that is slow holds up its own sink alone: another thread reads on."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from echo_core._c import links
from echo_core._c.links import Delivery, IncomingStream, Link, SocketWire
from echo_core.errors import ChannelError
from tests.native.link_ends import (
    PATIENCE_NS,
    ROOT,
    Ends,
    Peer,
    eventually,
    fail,
    leading_queue,
    sink,
    source,
)
from tests.native.slow_handlers import LIMIT_S, Readers, frames, gate, numbers
from tests.native.test_link_frames import frame_bytes

STREAMS = range(64, 70)


def two_sinks(link: Link, one: Callable[[bytes], object], other: Callable[[bytes], object]) -> None:
    """Of one stream."""
    incoming = IncomingStream()
    incoming.deliveries = (Delivery(one, bytes, fail), Delivery(other, bytes, fail))
    link.bind(64, incoming)


def test_slow_handler_holds_up_no_other_sink(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    slow, beside, elsewhere = gate(b"1"), gate(), gate()
    two_sinks(link, slow, beside)
    sink(link, elsewhere, 65)
    readers.read(link)
    batch = frames(numbers(5))
    begin = time.monotonic()
    peer[1].socket.sendall(batch + frame_bytes(65, b"stop"))
    eventually(lambda: elsewhere.handled == [b"stop"])
    took_s = time.monotonic() - begin
    assert beside.handled == numbers(5)
    assert slow.handled == numbers(2)
    slow.may_go.set()
    eventually(lambda: slow.handled == numbers(5))
    assert len(set(slow.threads)) == 1
    assert took_s < 1
    link.shut()


def test_a_handler_that_was_overtaken_may_wait_for_its_own_link_no_more_than_before(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    """Else it was a matter of milliseconds what becomes of it."""
    waiting, _ = leading_queue(link)
    is_read_on, answers = gate(), list[object]()

    def handle(event: bytes) -> None:
        eventually(lambda: is_read_on.handled == [b""])
        try:
            answers.extend(waiting.get(timeout_ns) for timeout_ns in (0, PATIENCE_NS))
        except ChannelError as error:
            answers.append(error)

    sink(link, handle, 65)
    sink(link, is_read_on, 66)
    readers.read(link)
    peer[1].socket.sendall(frame_bytes(65, b"") + frame_bytes(66, b""))
    eventually(lambda: len(answers) == 2)
    assert answers[0] is None
    assert "own_thread=True" in str(answers[1])
    peer[1].socket.sendall(frame_bytes(64, b"event"))
    assert waiting.get(PATIENCE_NS) == b"event"
    link.shut()


def test_several_slow_handlers_each_have_a_thread(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    gates = [gate(b"0", b"1") for _ in STREAMS]
    for stream, slow in zip(STREAMS, gates, strict=True):
        sink(link, slow, stream)
    fast = gate()
    sink(link, fast, 70)
    readers.read(link)
    for number in (b"0", b"1"):
        for stream in STREAMS:
            peer[1].socket.sendall(frame_bytes(stream, number))
        peer[1].socket.sendall(frame_bytes(70, number))
    eventually(lambda: len(fast.handled) == 2)
    assert all(slow.handled == [b"0"] for slow in gates)
    assert len({slow.threads[0] for slow in gates}) == len(gates)
    for slow in gates:
        slow.may_go.set()
    eventually(lambda: all(slow.handled == [b"0", b"1"] for slow in gates))
    link.shut()


@pytest.mark.parametrize("seed", range(4))
def test_no_event_is_lost_or_overtakes_another_of_its_sink(ends: Ends, readers: Readers, seed: int) -> None:
    """Whichever handlers are slow, and whenever."""
    chance = random.Random(seed)
    handled: dict[int, list[int]] = {stream: [] for stream in STREAMS}
    again = threading.Event()

    def handler(stream: int) -> Callable[[bytes], None]:
        slow = {chance.randrange(300) for _ in range(chance.randrange(4))}

        def handle(event: bytes) -> None:
            number = int.from_bytes(event[:8], "little")
            if number in slow:
                again.wait(chance.uniform(0.005, 0.04))
            handled[stream].append(number)

        return handle

    incoming = [sink(ends.other, handler(stream), stream) for stream in STREAMS]
    readers.read(ends.one)
    readers.read(ends.other)
    outlets = {stream: source(ends.one, stream)[0] for stream in STREAMS}
    for number in range(300):
        for stream in chance.sample(list(STREAMS), len(STREAMS)):
            outlets[stream].submit(number.to_bytes(8, "little") * chance.randrange(1, 200))
    eventually(lambda: all(len(numbers) == 300 for numbers in handled.values()))
    assert handled == {stream: list(range(300)) for stream in STREAMS}
    assert [stream.deliveries[0].events for stream in incoming] == [300] * len(STREAMS)
    ends.one.shut()
    ends.other.shut()


def test_a_child_that_a_slow_handler_forks_gets_nothing_of_the_parent_s() -> None:
    program = (
        "import os, socket, threading\n"
        "from echo_core._c import links\n"
        "from tests.native.link_ends import *\n"
        "from tests.native.test_link_frames import frame_bytes\n"
        "from tests.native.slow_handlers import Readers\n"
        "one, other = socket.socketpair()\n"
        "link = link_over(SocketWire(one.detach()))\n"
        "events, pids, is_read_on, at_end = [], [], threading.Event(), threading.Event()\n"
        "def handle(event):\n"
        "    events.append(event)\n"
        "    if event == b'a':\n"
        "        is_read_on.wait(30)\n"
        "        pids.append(os.fork())\n"
        "    if event == b'c': at_end.set()\n"
        "def elsewhere(event): is_read_on.set()\n"
        "sink(link, handle); sink(link, elsewhere, 65)\n"
        "readers = Readers()\n"
        "def read():\n"
        "    readers._read(link.run)\n"
        "    if not pids[0]:\n"
        "        os.write(1, b'child ' + b','.join(events) + b' %d ' % links.wants_standby())\n"
        "        os._exit(0)\n"
        "reader = threading.Thread(target=read)\n"
        "reader.start()\n"
        "readers.stand_by()\n"
        "other.sendall(b''.join(frame_bytes(64, e) for e in (b'a', b'b', b'c')) + frame_bytes(65, b''))\n"
        "at_end.wait(30)\n"
        "os.waitpid(pids[0], 0)\n"
        "os.write(1, b'parent ' + b','.join(events))\n"
        "os._exit(0)\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            program,
        ],  # a fork beside threads, from Python 3.12 on
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("child a 0 parent a,b,c", "")


def test_what_goes_with_a_batch_may_be_slow_too(
    link: Link, peer: tuple[SocketWire, Peer], readers: Readers
) -> None:
    """No handler is left to overtake, where the last reference to a sink is given back behind it."""
    goes, may_go, elsewhere = threading.Event(), threading.Event(), gate()

    class Last:
        def __call__(self, event: bytes) -> None:
            incoming.deliveries = ()

        def __del__(self) -> None:
            goes.set()
            assert may_go.wait(LIMIT_S)

    incoming = sink(link, Last())
    sink(link, elsewhere, 65)
    readers.read(link)
    peer[1].socket.sendall(frame_bytes(64, b"") + frame_bytes(65, b"behind"))
    eventually(goes.is_set)
    eventually(lambda: readers.ended == [False])
    may_go.set()
    eventually(lambda: elsewhere.handled == [b"behind"])
    link.shut()


def test_those_that_stand_by_sleep_while_nothing_is_read(link: Link, readers: Readers) -> None:
    """And end with the last link."""
    readers.read(link)
    readers.stand_by()
    [_, *standing] = readers.threads
    eventually(lambda: not links.wants_standby())
    eventually(lambda: _all_sleep(standing))
    link.shut()
    for thread in standing:
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def _all_sleep(threads: list[threading.Thread]) -> bool:
    """For half a second."""
    before = list(map(_switches, threads))
    return not threading.Event().wait(0.5) and list(map(_switches, threads)) == before


def _switches(thread: threading.Thread) -> int:
    """How often it has gone to sleep."""
    with open(f"/proc/self/task/{thread.native_id}/status") as status:
        [line] = [line for line in status if line.startswith("voluntary_ctxt_switches")]
    return int(line.split()[1])


def test_a_few_stand_by(link: Link, readers: Readers) -> None:
    """Another one does, too, until the end of the last link."""
    ended: list[object] = []
    readers.read(link)
    readers.stand_by()
    eventually(lambda: not links.wants_standby())
    spare = threading.Thread(target=lambda: ended.append(links.stand_by()))
    spare.start()
    assert link.take_over() is False
    assert ended == []
    link.shut()
    spare.join(LIMIT_S)
    assert ended == [None]
