"""Rings in shared memory: bytes in order, who sleeps is woken, and nothing that a peer does leads astray."""

from __future__ import annotations

import errno
import fcntl
import gc
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echo_core._links import RingWire, ring_memory
from echo_core.errors import ClosedError, WireError

RING_BYTES = 4096
SECOND_NS = 1_000_000_000
PATIENCE_NS = 30 * SECOND_NS
ROOT = Path(__file__).parents[2]

# Where native/link_ring.c has what a peer could change.
SHUT = 128
DIRECTIONS = 256
DIRECTION_BYTES = 512
WRITTEN, TAKEN, BYTES_SIGNAL, ROOM_SIGNAL = range(0, DIRECTION_BYTES, 128)


def ends(spin_ns: int = 0) -> tuple[RingWire, RingWire, mmap.mmap]:
    """Both sides of new rings, and the memory as a hostile peer would have it."""
    fd = ring_memory(RING_BYTES)
    try:
        size = os.fstat(fd).st_size
        return RingWire(fd, 0, spin_ns=spin_ns), RingWire(fd, 1, spin_ns=spin_ns), mmap.mmap(fd, size)
    finally:
        os.close(fd)


@pytest.fixture
def pair() -> Iterator[tuple[RingWire, RingWire, mmap.mmap]]:
    """Sides that are closed in the end."""
    one, other, memory = ends()
    yield one, other, memory
    one.close()
    other.close()
    memory.close()


def place_of(side: int, field: int) -> int:
    """Where a field of the direction that `side` writes stands."""
    return DIRECTIONS + side * DIRECTION_BYTES + field


def number_at(memory: mmap.mmap, place: int, size: int = 8) -> int:
    """A number in the memory."""
    return int.from_bytes(memory[place : place + size], sys.byteorder)


def put_number(memory: mmap.mmap, place: int, number: int, size: int = 8) -> None:
    """As a hostile peer would."""
    memory[place : place + size] = (number % (1 << 8 * size)).to_bytes(size, sys.byteorder)


def await_sleeper(memory: mmap.mmap, side: int, field: int) -> None:
    """Returns when somebody sleeps, or is about to."""
    while number_at(memory, place_of(side, field), 4) & 1 == 0:
        os.sched_yield()


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
    text = f"import os\nfrom echo_core._links import RingWire\nwire = RingWire({fd}, 1)\n{program}"
    return subprocess.Popen([sys.executable, "-c", text], cwd=ROOT, pass_fds=[fd])


# --- bytes in order ---


def test_bytes_come_as_they_were_written(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
    """In both directions."""
    one, other, _ = pair
    assert one.write(b"question") == 8
    assert other.write(b"answer") == 6
    assert other.read(4) == b"ques"
    assert other.read(100) == b"tion"
    assert one.read(100) == b"answer"


def test_write_takes_what_there_is_room_for(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
    """And says how much."""
    one, other, _ = pair
    data = random.Random(1).randbytes(RING_BYTES + 1)
    assert one.write(data) == RING_BYTES
    assert one.write(b"x") == 0
    assert other.read(10) == data[:10]
    assert one.write(b"0123456789abc") == 10
    assert other.read(2 * RING_BYTES) == data[10:RING_BYTES] + b"0123456789"


def test_bytes_wrap_at_every_offset(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
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
    one, other, memory = ends(spin_ns)
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


def test_reader_that_sleeps_is_woken(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
    """By a byte."""
    one, other, memory = pair
    received: list[bytes] = []
    thread = started(lambda: received.append(other.read(10)))
    await_sleeper(memory, 0, BYTES_SIGNAL)
    one.write(b"x")
    thread.join()
    assert received == [b"x"]


def test_writer_that_sleeps_is_woken(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
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


def test_time_is_up(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
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


def test_nudge_ends_a_wait(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
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


def test_nudge_does_not_end_a_read(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
    """Nor a wait for room: a leader reads while the other thread leaves its wait."""
    one, other, memory = pair
    received: list[bytes] = []
    thread = started(lambda: received.append(one.read(10)))
    await_sleeper(memory, 1, BYTES_SIGNAL)
    one.nudge()
    other.write(b"x")
    thread.join()
    assert received == [b"x"]


def test_who_was_forgotten_is_roused(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
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
    one, other, memory = ends()

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


def test_what_was_written_before_the_end_is_read(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
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
    pair: tuple[RingWire, RingWire, mmap.mmap],
) -> None:
    """Though the peer puts it into the memory."""
    one, _, memory = pair
    one.shut()
    assert one.read(1) == b""
    put_number(memory, place_of(1, WRITTEN), 100)
    assert one.read(1) == b""


@pytest.mark.parametrize("shutter", [0, 1])
def test_end_wakes_all_that_wait(pair: tuple[RingWire, RingWire, mmap.mmap], shutter: int) -> None:
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
    one, other, memory = ends()
    threads = [started(lambda wire=wire: wire.read(1)) for wire in (one, other)]  # type: ignore[misc]
    for side in (0, 1):
        await_sleeper(memory, side, BYTES_SIGNAL)
    (one, other)[shutter].shut()
    for thread in threads:
        thread.join()


def test_close_waits_for_nobody_and_frees_behind_the_last() -> None:
    """A thread that reads when its wire is closed returns."""
    one, other, memory = ends()
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


def test_forked_child_lets_go_unnoticed(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
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


# --- what a peer may do ---


IMPOSSIBLE = pytest.mark.parametrize("change", [1 << 63, RING_BYTES + 1, -1, -5, 1 << 32])


@IMPOSSIBLE
def test_reader_refuses_a_count_that_cannot_be(
    pair: tuple[RingWire, RingWire, mmap.mmap], change: int
) -> None:
    """More bytes than the ring holds, or fewer than there were."""
    one, other, memory = pair
    one.write(b"12345")
    assert other.read(1) == b"1"
    put_number(memory, place_of(0, WRITTEN), 5 + change)
    with pytest.raises(OSError, match=os.strerror(errno.EPROTO)):
        other.read(1, PATIENCE_NS)


@IMPOSSIBLE
def test_writer_refuses_a_count_that_cannot_be(
    pair: tuple[RingWire, RingWire, mmap.mmap], change: int
) -> None:
    """More bytes taken than were written, or fewer than there were."""
    one, other, memory = pair
    one.write(b"12345")
    assert other.read(5) == b"12345"
    assert one.write(bytes(2 * RING_BYTES)) == RING_BYTES
    put_number(memory, place_of(0, TAKEN), 5 + change)
    with pytest.raises(OSError, match=os.strerror(errno.EPROTO)):
        one.write(b"x")


def test_noise_in_the_memory_harms_nobody() -> None:
    """Every word of the header, at random, between reads and writes: bytes or a named error."""
    source = random.Random(7)
    for _ in range(300):
        one, other, memory = ends()
        for _ in range(20):
            place = source.randrange(24, DIRECTIONS + 2 * DIRECTION_BYTES, 4)
            put_number(memory, place, source.choice([0, 1, source.getrandbits(32)]), 4)
            for wire in (one, other):
                try:
                    wire.write(bytes(source.randrange(1, 6000)))
                    wire.read(6000, 1000)
                    wire.await_bytes(1000)
                    wire.await_room(1000)
                except OSError as error:
                    assert error.errno in (errno.EPROTO, errno.EPIPE, errno.EAGAIN)  # noqa: PT017
        one.close()
        other.close()
        memory.close()


def test_peer_cannot_take_its_end_back(pair: tuple[RingWire, RingWire, mmap.mmap]) -> None:
    """What has ended for a reader has ended."""
    one, other, memory = pair
    other.shut()
    assert one.read(1) == b""
    put_number(memory, SHUT + 4, 0, 4)
    assert one.read(1, PATIENCE_NS) == b""


def memory_file(size: int, seals: int) -> int:
    """Memory of a peer's making that begins as rings do."""
    fd = os.memfd_create("rings", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    model = ring_memory(RING_BYTES)
    os.pwrite(fd, os.pread(model, 64, 0), 0)
    os.close(model)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


GOOD_SIZE = 65536 + 2 * RING_BYTES
GOOD_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


@pytest.mark.parametrize(
    ("size", "seals", "words"),
    [
        (GOOD_SIZE, 0, "not sealed"),
        (GOOD_SIZE, fcntl.F_SEAL_SHRINK, "not sealed"),
        (GOOD_SIZE, fcntl.F_SEAL_GROW, "not sealed"),
        (0, GOOD_SEALS, "too small"),
        (65535, GOOD_SEALS, "too small"),
        (65536, GOOD_SEALS, "size"),
        (GOOD_SIZE - 1, GOOD_SEALS, "size"),
        (GOOD_SIZE + 1, GOOD_SEALS, "size"),
    ],
)
def test_memory_of_another_shape_is_refused(size: int, seals: int, words: str) -> None:
    """Before anything in it is used: what is not sealed could be cut off under its readers."""
    fd = memory_file(size, seals)
    with pytest.raises(WireError, match=words):
        RingWire(fd, 1)
    os.close(fd)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, b"E", "begin"),
        (8, b"\2", "version"),
        (16, b"\1", "size"),
        (17, b"\x20", "size"),
        (23, b"\x80", "size"),
    ],
)
def test_memory_that_begins_otherwise_is_refused(place: int, value: bytes, words: str) -> None:
    """Another magic number, version or ring size."""
    fd = memory_file(GOOD_SIZE, GOOD_SEALS)
    RingWire(fd, 1).close()
    assert os.pread(fd, 1, place) != value
    os.pwrite(fd, value, place)
    with pytest.raises(WireError, match=words):
        RingWire(fd, 1)
    os.close(fd)


def test_what_is_no_memory_is_refused() -> None:
    """A file, a pipe, a descriptor that is closed."""
    with open(__file__, "rb") as file, pytest.raises(WireError, match="sealed"):
        RingWire(file.fileno(), 0)
    reader, writer = os.pipe()
    os.close(writer)
    with pytest.raises(WireError, match="sealed"):
        RingWire(reader, 0)
    os.close(reader)
    with pytest.raises(WireError, match="sealed"):
        RingWire(-1, 0)


@pytest.mark.parametrize("ring_bytes", [0, 1, 2048, 4095, 4097, 6144, (1 << 30) + 1, 1 << 31, 1 << 63])
def test_ring_has_a_power_of_two(ring_bytes: int) -> None:
    """Neither too small nor too large."""
    with pytest.raises(ValueError, match="power of two"):
        ring_memory(ring_bytes)


@pytest.mark.parametrize(("side", "spin_ns"), [(2, 0), (-1, 0), (0, -1)])
def test_arguments_are_checked(side: int, spin_ns: int) -> None:
    """There are two sides, and no negative time."""
    fd = ring_memory(RING_BYTES)
    with pytest.raises(ValueError, match="side 0 or 1"):
        RingWire(fd, side, spin_ns=spin_ns)
    os.close(fd)


# --- nothing is left behind ---


def mapped_rings() -> int:
    """How many parts of this process's memory are rings."""
    return Path("/proc/self/maps").read_text().count("echo_core ring")


def test_memory_is_given_back() -> None:
    """Descriptors and mappings, whether a wire is closed or just dropped, or could not be made."""
    gc.collect()
    descriptors, mapped = len(os.listdir("/proc/self/fd")), mapped_rings()
    for turn in range(20):
        one, other, memory = ends()
        assert mapped_rings() > mapped
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
    assert (len(os.listdir("/proc/self/fd")), mapped_rings()) == (descriptors, mapped)
