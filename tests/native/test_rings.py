"""Rings in shared memory: bytes in order, and who sleeps is woken."""

from __future__ import annotations

import gc
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echo_core._c.links import RingWire, ring_memory
from echo_core.errors import ClosedError, WireError
from tests.forks import forks
from tests.native.link_ends import PATIENCE_NS, ROOT, eventually, open_files
from tests.native.rings import (
    BYTES_SIGNAL,
    GOOD_SEALS,
    GOOD_SIZE,
    RING_BYTES,
    ROOM_SIGNAL,
    WRITTEN,
    Sides,
    await_sleeper,
    memory_file,
    place_of,
    put_number,
    sides,
)


def write_all(wire: RingWire, data: bytes) -> None:
    """Waits for room as often as it takes."""
    while data:
        assert wire.await_room(PATIENCE_NS)
        data = data[wire.write(data) :]


def read_all(wire: RingWire, size: int) -> bytes:
    """Waits for bytes as often as it takes."""
    data = b""
    while len(data) < size:
        part = wire.read(size - len(data), PATIENCE_NS)
        assert part
        data += part
    return data


def started(target: Callable[[], object]) -> threading.Thread:
    """A thread that runs it."""
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def child(program: str, fd: int) -> subprocess.Popen[bytes]:
    """A process with side 1 of the rings as `wire`."""
    text = f"import os\nfrom echo_core._c.links import RingWire\nwire = RingWire({fd}, 1)\n{program}"
    return subprocess.Popen([sys.executable, "-c", text], cwd=ROOT, pass_fds=[fd])


# --- bytes in order ---


def test_bytes_come_as_they_were_written(pair: Sides) -> None:
    """In both directions."""
    one, other, _ = pair
    assert one.write(b"question") == 8
    assert other.write(b"answer") == 6
    assert other.read(4) == b"ques"
    assert other.read(100) == b"tion"
    assert one.read(100) == b"answer"


def test_write_takes_what_there_is_room_for(pair: Sides) -> None:
    """And says how much."""
    one, other, _ = pair
    data = random.Random(1).randbytes(RING_BYTES + 1)
    assert one.write(data) == RING_BYTES
    assert one.write(b"x") == 0
    assert other.read(10) == data[:10]
    assert one.write(b"0123456789abc") == 10
    assert other.read(2 * RING_BYTES) == data[10:RING_BYTES] + b"0123456789"


def test_bytes_wrap_at_every_offset(pair: Sides) -> None:
    """Each message begins one byte further than the one before."""
    one, other, _ = pair
    message = bytes(range(200, 241))
    for _offset in range(RING_BYTES + 1):
        assert one.write(message) == len(message)
        assert other.read(100) == message
        rest = bytes((1 - len(message)) % RING_BYTES)
        assert one.write(rest) == len(rest)
        assert other.read(RING_BYTES) == rest


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 3 * RING_BYTES), min_size=1, max_size=20),
    st.lists(st.integers(1, 3 * RING_BYTES), min_size=1, max_size=5),
    st.sampled_from([0, 20_000]),
)
def test_stream_is_whole_for_any_sizes(seed: int, writes: list[int], reads: list[int], spin_ns: int) -> None:
    """One thread writes, another reads, each in sizes of its own."""
    one, other, memory = sides(spin_ns)
    data = random.Random(seed).randbytes(sum(writes))

    def write() -> None:
        at = 0
        for size in writes:
            write_all(one, data[at : at + size])
            at += size
        one.shut()

    thread = started(write)
    received = bytearray()
    turn = 0
    while part := other.read(reads[turn % len(reads)], PATIENCE_NS):
        received += part
        turn += 1
    thread.join()
    one.close()
    other.close()
    memory.close()
    assert received == data


@pytest.mark.parametrize("spin_ns", [0, 50_000])
def test_processes_talk(spin_ns: int) -> None:
    """A thousand questions and answers, and an end that both see."""
    fd = ring_memory(RING_BYTES)
    wire = RingWire(fd, 0, spin_ns=spin_ns)
    process = child("while data := wire.read(100): wire.write(data[::-1])", fd)
    os.close(fd)
    for number in range(1000):
        question = b"%112d" % number
        write_all(wire, question[:100])
        assert read_all(wire, 100) == question[:100][::-1]
    wire.close()
    assert process.wait(30) == 0


# --- waiting ---


def test_reader_that_sleeps_is_woken(pair: Sides) -> None:
    """By a byte."""
    one, other, memory = pair
    received: list[bytes] = []
    thread = started(lambda: received.append(other.read(10)))
    await_sleeper(memory, 0, BYTES_SIGNAL)
    one.write(b"x")
    thread.join()
    assert received == [b"x"]


def test_writer_that_sleeps_is_woken(pair: Sides) -> None:
    """By room for one byte."""
    one, other, memory = pair
    one.write(bytes(RING_BYTES))
    found: list[bool] = []
    thread = started(lambda: found.append(one.await_room()))
    await_sleeper(memory, 0, ROOM_SIGNAL)
    other.read(1)
    thread.join()
    assert found == [True]
    assert one.write(b"xy") == 1


def test_time_is_up(pair: Sides) -> None:
    """For each kind of wait, at once or later."""
    one, other, _ = pair
    one.write(bytes(RING_BYTES))
    for timeout_ns in (0, 1, 1_000_000):
        with pytest.raises(BlockingIOError):
            one.read(1, timeout_ns)
        assert not one.await_bytes(timeout_ns)
        assert not one.await_room(timeout_ns)
    assert other.await_bytes(0)
    assert other.await_room(0)


def test_nudge_ends_a_wait(pair: Sides) -> None:
    """One that is under way, and without one the next."""
    one, _, memory = pair
    found: list[bool] = []
    thread = started(lambda: found.append(one.await_bytes()))
    await_sleeper(memory, 1, BYTES_SIGNAL)
    one.nudge()
    thread.join()
    assert found == [False]
    one.nudge()
    assert not one.await_bytes()


def test_nudge_does_not_end_a_read(pair: Sides) -> None:
    """Nor a wait for room: a leader reads while the other thread leaves its wait."""
    one, other, memory = pair
    received: list[bytes] = []
    thread = started(lambda: received.append(one.read(10)))
    await_sleeper(memory, 1, BYTES_SIGNAL)
    one.nudge()
    other.write(b"x")
    thread.join()
    assert received == [b"x"]


def test_who_was_forgotten_is_roused(pair: Sides) -> None:
    """By a peer that was killed, or lies, between the count of its bytes and the call that wakes."""
    one, _, memory = pair
    received: list[bytes] = []
    thread = started(lambda: received.append(one.read(10)))
    await_sleeper(memory, 1, BYTES_SIGNAL)
    put_number(memory, place_of(1, WRITTEN), 3)
    one.rouse()
    thread.join()
    assert received == [bytes(3)]


def test_signal_of_the_system_ends_a_wait() -> None:
    """Its handler runs, and what it raises comes out."""
    one, other, memory = sides()

    def interrupt() -> None:
        await_sleeper(memory, 1, BYTES_SIGNAL)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def refuse(*_: object) -> None:
        raise KeyError

    before = signal.signal(signal.SIGUSR1, refuse)
    thread = started(interrupt)
    with pytest.raises(KeyError):
        one.read(1)
    thread.join()
    signal.signal(signal.SIGUSR1, before)
    one.close()
    other.close()
    memory.close()


# --- the end ---


def test_what_was_written_before_the_end_is_read(pair: Sides) -> None:
    """Then there is nothing, again and again; and nothing more is taken."""
    one, other, _ = pair
    one.write(b"last")
    other.write(b"words")
    one.shut()
    one.shut()
    for wire, words in ((one, b"words"), (other, b"last")):
        assert wire.await_bytes(PATIENCE_NS)
        assert wire.read(100) == words
        assert wire.await_bytes(PATIENCE_NS)
        assert wire.read(100) == wire.read(100) == b""
        assert wire.await_room(PATIENCE_NS)
        with pytest.raises(BrokenPipeError):
            wire.write(b"x")


def test_what_is_written_after_the_end_does_not_delay_it(
    pair: Sides,
) -> None:
    """Though the peer puts it into the memory."""
    one, _, memory = pair
    one.shut()
    assert one.read(1) == b""
    put_number(memory, place_of(1, WRITTEN), 100)
    assert one.read(1) == b""


@pytest.mark.parametrize("shutter", [0, 1])
def test_end_wakes_all_that_wait(pair: Sides, shutter: int) -> None:
    """Readers and writers of both sides, whichever side it comes from."""
    memory = pair[2]
    pair[0].write(bytes(RING_BYTES))
    pair[1].write(bytes(RING_BYTES))
    threads = [started(wire.await_room) for wire in pair[:2]]
    for side in (0, 1):
        await_sleeper(memory, side, ROOM_SIGNAL)
    (pair[0], pair[1])[shutter].shut()
    for thread in threads:
        thread.join()
    one, other, memory = sides()
    threads = [started(lambda wire=wire: wire.read(1)) for wire in (one, other)]  # type: ignore[misc]
    for side in (0, 1):
        await_sleeper(memory, side, BYTES_SIGNAL)
    (one, other)[shutter].shut()
    for thread in threads:
        thread.join()


def test_close_waits_for_nobody_and_frees_behind_the_last() -> None:
    """A thread that reads when its wire is closed returns."""
    one, other, memory = sides()
    received: list[bytes] = []
    thread = started(lambda: received.append(one.read(1)))
    await_sleeper(memory, 1, BYTES_SIGNAL)
    one.close()
    with pytest.raises(ClosedError, match="closed"):
        one.read(1)
    thread.join()
    assert received == [b""]
    one.close()
    other.close()
    memory.close()


@pytest.mark.parametrize("program", ["while True: wire.write(b'event')", "while True: wire.read(5)"])
def test_killed_peer_holds_nobody(program: str) -> None:
    """Whatever it was about; the survivor, who learns of it elsewhere, ends its wait by shut."""
    for _ in range(5):
        fd = ring_memory(RING_BYTES)
        wire = RingWire(fd, 0)
        memory = mmap.mmap(fd, os.fstat(fd).st_size)
        process = child(f"wire.write(b'event')\n{program}", fd)
        os.close(fd)
        assert read_all(wire, 5) == b"event"
        thread = started(lambda wire=wire: [None for _ in iter(lambda: wire.read(77), b"")])  # type: ignore[misc]
        write_all(wire, bytes(RING_BYTES // 2))
        process.kill()
        process.wait()
        await_sleeper(memory, 1, BYTES_SIGNAL)
        wire.shut()
        thread.join()
        with pytest.raises(BrokenPipeError):
            wire.write(b"x")
        wire.close()
        memory.close()


@forks
def test_forked_child_lets_go_unnoticed(pair: Sides) -> None:
    """Closing in the child does not end the parent's wire, and the child cannot use it."""
    one, other, _ = pair
    process = os.fork()
    if process == 0:
        try:
            one.write(b"x")
        except ClosedError:
            one.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(process, 0)[1] == 0
    assert one.write(b"here") == 4
    assert other.read(9, PATIENCE_NS) == b"here"


# --- nothing is left behind ---


def mapped_rings() -> int:
    """How many parts of this process's memory are rings."""
    return Path("/proc/self/maps").read_text().count("echo_core ring")


def open_rings() -> int:
    """How many descriptors are of memory."""
    return sum("/memfd:" in target for target in open_files())


def test_memory_is_given_back() -> None:
    """Descriptors and mappings, whether a wire is closed or just dropped, or could not be made."""
    gc.collect()
    descriptors, mapped = open_rings(), mapped_rings()  # what an earlier test has left may go meanwhile
    for turn in range(20):
        before = mapped_rings()
        one, other, memory = sides()
        assert mapped_rings() > before
        memory.close()
        if turn % 2:
            one.close()
            other.close()
        del one, other
        fd = memory_file(GOOD_SIZE - 1, GOOD_SEALS)
        with pytest.raises(WireError):
            RingWire(fd, 0)
        os.close(fd)
    gc.collect()
    eventually(lambda: open_rings() <= descriptors and mapped_rings() <= mapped)
