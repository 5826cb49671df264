"""Links: frames and events between two ends, and between one end and a peer that sends what it likes.

`Peer` is a plain socket: what it reads and sends is bytes, so that a full wire, a lie or a silence is its to
choose. SINKS below decode with `bytes`, so an event is its record.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echo_core._links import (
    BLOCK,
    DROP_NEWEST,
    DROP_OLDEST,
    ERROR,
    Delivery,
    Inlet,
    Link,
    Mapping,
    Outlet,
    Pool,
    Queue,
    RingWire,
    Route,
    SocketWire,
    Wire,
    ring_memory,
    scan,
)
from echo_core.errors import BacklogError, ClosedError, LinkError, WireError
from tests.native.test_link_frames import frame_bytes

SECOND_NS = 1_000_000_000
PATIENCE_NS = 30 * SECOND_NS
MAX_PAYLOAD = 1 << 20
KIND_LOAN, KIND_GAP = 1, 2
ROOT = Path(__file__).parents[2]


def fail(error: BaseException) -> None:
    """What a handler raised; none of these handlers should."""
    raise error


def link_over(
    wire: Wire, control: Callable[[int, bytes], object] = lambda kind, payload: None, **settings: Any
) -> Link:
    """A link with settings that no test waits for, unless they are given."""
    given_settings: dict[str, Any] = {
        "max_payload": MAX_PAYLOAD,
        "control_bytes": 1 << 20,
        "delay_ns": 100_000,
        "stall_ns": PATIENCE_NS,
    } | settings
    return Link(wire, control, **given_settings)


def source(
    link: Link,
    stream: int = 64,
    *,
    max_events: int = 1000,
    max_bytes: int = 1 << 24,
    policy: int = BLOCK,
    timeout_ns: int = PATIENCE_NS,
    delay_ns: int = 0,
) -> tuple[Outlet, Route]:
    """Records go in at the one, and are counted at the other."""
    route = Route(
        link,
        stream,
        max_events=max_events,
        max_bytes=max_bytes,
        policy=policy,
        timeout_ns=timeout_ns,
        delay_ns=delay_ns,
    )
    outlet = Outlet(bytes, bytes)
    outlet.routes = (route,)
    return outlet, route


def sink(link: Link, target: Callable[[Any], object] | Queue, stream: int = 64, **options: Any) -> Inlet:
    """Records of the stream go to the target."""
    inlet = Inlet(record_size=options.get("record_size", 0))
    inlet.deliveries = (Delivery(target, options.pop("decode", bytes), fail, **options),)
    link.bind(stream, inlet)
    return inlet


def unbounded_queue() -> Queue:
    """A queue that is never full."""
    return Queue(max_events=1 << 30, max_bytes=1 << 40, policy=BLOCK, timeout_ns=-1)


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Connected over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        return one, other


def wires(kind: str) -> tuple[Wire, Wire]:
    """Two connected ends."""
    if kind == "ring":
        fd = ring_memory(1 << 16)
        try:
            return RingWire(fd, 0), RingWire(fd, 1)
        finally:
            os.close(fd)
    one, other = tcp_pair() if kind == "tcp" else socket.socketpair()
    return SocketWire(one.detach()), SocketWire(other.detach())


class Runner:
    """The thread that runs a link, and how that ended."""

    def __init__(self, link: Link) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(link,), daemon=True)
        self._thread.start()

    def _run(self, link: Link) -> None:
        try:
            link.run()
        except BaseException as error:  # noqa: BLE001 - end() raises it
            self._error = error

    def end(self) -> None:
        """Waits until `run` returns; raises what it raised."""
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error


@dataclass
class Ends:
    """Two links on one wire, each with its thread."""

    kind: str
    one: Link
    other: Link
    messages: list[tuple[int, bytes]]
    runners: list[Runner] = field(default_factory=list[Runner])

    def run(self) -> None:
        """From here on both read."""
        self.runners = [Runner(self.one), Runner(self.other)]

    def close(self) -> None:
        """Both sides end, and without an error."""
        self.one.shut()
        self.other.shut()
        for runner in self.runners:
            runner.end()


@pytest.fixture(params=["tcp", "unix", "ring"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Two links, of which `other` keeps the control frames that it gets."""
    one, other = wires(request.param)
    messages: list[tuple[int, bytes]] = []
    pair = Ends(
        request.param,
        link_over(one),
        link_over(other, lambda kind, payload: messages.append((kind, payload))),
        messages,
    )
    yield pair
    pair.close()


@dataclass
class Peer:
    """The far end of a link's wire, byte for byte."""

    socket: socket.socket
    rest: bytes = b""

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """All that the link sends, until it ends."""
        while data := self.socket.recv(1 << 20):
            found, consumed = scan(self.rest + data, 1 << 30)
            self.rest = (self.rest + data)[consumed:]
            yield from found

    def frames_until(self, kind: int) -> list[tuple[int, bytes]]:
        """Up to the first control frame of that kind, without it."""
        found: list[tuple[int, bytes]] = []
        for frame in self.frames():
            if frame[0] == kind:
                return found
            found.append(frame)
        msg = f"no frame of kind {kind}, but {len(found)} others"
        raise AssertionError(msg)


@pytest.fixture
def peer() -> Iterator[tuple[SocketWire, Peer]]:
    """A wire, and who is at its other end. Small buffers: it is full soon."""
    one, other = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    other.settimeout(30)
    yield SocketWire(one.detach()), Peer(other)
    other.close()


def eventually(condition: Callable[[], bool]) -> None:
    """What other threads will bring about; fails after half a minute."""
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "it did not come to pass"
        os.sched_yield()


def fill(outlet: Outlet, route: Route) -> int:
    """Submits until events wait in the backlog: how many."""
    count = 0
    while route.queued_events == 0:
        outlet.submit(numbered(count))
        count += 1
    return count


def repeat(call: Callable[..., object], *arguments: object) -> None:
    """Until it raises; ten thousand times at most."""
    for _ in range(10000):
        call(*arguments)


def numbered(number: int, size: int = 1000) -> bytes:
    """A record that begins with its number."""
    return number.to_bytes(8, "little") + bytes(size - 8)


def number_of(record: bytes) -> int:
    """Which one it was."""
    return int.from_bytes(record[:8], "little")


def counted(frames: list[tuple[int, bytes]], stream: int = 64) -> list[int]:
    """The place of each event that came in its stream, by counting events and gaps."""
    place, places = 0, list[int]()
    for kind, payload in frames:
        if kind == stream:
            places.append(place)
            place += 1
        elif kind == KIND_GAP and struct.unpack_from("<I", payload)[0] == stream:
            place += struct.unpack_from("<Q", payload, 8)[0]
    return places


def events_of(frames: list[tuple[int, bytes]], stream: int = 64) -> list[int]:
    """The numbers of the events that came."""
    return [number_of(payload) for kind, payload in frames if kind == stream]


# --- what goes in comes out ---


def test_records_of_all_sizes_come_whole_and_in_order(ends: Ends) -> None:
    rng = random.Random(4)
    sizes = [rng.choice([0, 1, 7, 8, 96, 4000, 65528, 65529, 70000, 300000]) for _ in range(300)]
    sent = [rng.randbytes(size) for size in sizes]
    received: list[bytes] = []
    inlet = sink(ends.other, received.append)
    ends.run()
    outlet, route = source(ends.one)
    for record in sent:
        outlet.submit(record)
    assert ends.one.drain(PATIENCE_NS)
    eventually(lambda: inlet.events == len(sent))
    assert received == sent
    assert (route.events, route.dropped, route.queued_events) == (len(sent), 0, 0)
    assert inlet.bytes == sum(sizes)
    assert ends.one.sent_bytes == ends.other.received_bytes
    assert ends.one.sent_frames == ends.other.received_frames == len(sent)


def test_events_cross_both_ways_at_once(ends: Ends) -> None:
    totals = [sink(ends.one, lambda event: None), sink(ends.other, lambda event: None)]
    ends.run()

    def submit_all(link: Link) -> None:
        outlet, _ = source(link)
        for number in range(3000):
            outlet.submit(numbered(number))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(submit_all, [ends.one, ends.other]))
    eventually(lambda: [total.events for total in totals] == [3000, 3000])


def test_threads_that_submit_at_once_keep_each_sources_order(ends: Ends) -> None:
    received: dict[int, list[bytes]] = {stream: [] for stream in range(64, 68)}
    inlets = [sink(ends.other, events.append, stream) for stream, events in received.items()]
    ends.run()

    def submit_all(stream: int) -> None:
        outlet, _ = source(ends.one, stream)
        for number in range(2000):
            outlet.submit(numbered(number, 8 + 500 * (number % 5)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit_all, received))
    eventually(lambda: sum(inlet.events for inlet in inlets) == 8000)
    assert all([number_of(event) for event in events] == list(range(2000)) for events in received.values())


def test_control_frames_stand_between_the_events_where_they_were_sent(ends: Ends) -> None:
    seen: list[object] = []
    sink(ends.other, lambda event: seen.append(number_of(event)))
    ends.run()
    outlet, route = source(ends.one)
    for number in range(100):
        outlet.submit(numbered(number))
        if number == 50:
            ends.one.send(9, b"link")
            route.send(10, b"route")
    ends.one.send(11, b"")
    eventually(lambda: len(ends.messages) == 3)
    assert ends.messages == [(9, b"link"), (10, b"route"), (11, b"")]
    assert seen == list(range(100))


def test_control_frame_larger_than_all_buffers_comes_whole(ends: Ends) -> None:
    payload = random.Random(1).randbytes(300000)
    ends.run()
    ends.one.send(9, b"before")
    ends.one.send(10, payload)
    ends.one.send(11, b"after")
    eventually(lambda: len(ends.messages) == 3)
    assert ends.messages[1] == (10, payload)


def test_handler_may_submit_to_the_link_it_was_called_from(ends: Ends) -> None:
    answers: list[int] = []
    back, _ = source(ends.other, 65)
    sink(ends.other, back.submit)
    sink(ends.one, lambda event: answers.append(number_of(event)), 65)
    ends.run()
    outlet, _ = source(ends.one)
    for number in range(1000):
        outlet.submit(numbered(number, 96))
    eventually(lambda: len(answers) == 1000)
    assert answers == list(range(1000))


# --- who writes, and when ---


def test_event_on_an_idle_link_is_written_by_the_thread_that_submits(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, _ = source(link)
    before = set(os.listdir("/proc/self/task"))
    outlet.submit(b"x" * 96)
    assert link.queued_bytes == 0
    assert set(os.listdir("/proc/self/task")) <= before  # one of an earlier test may end meanwhile
    assert next(far.frames()) == (64, b"x" * 96)


def test_events_that_gathered_are_written_without_anybodys_doing(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, _ = source(link, delay_ns=5_000_000)
    for number in range(10):
        outlet.submit(numbered(number))
    assert link.writes == 0
    frames = far.frames()
    assert [number_of(next(frames)[1]) for _ in range(10)] == list(range(10))
    eventually(lambda: link.writes == 1)  # counted after the bytes have come


def test_event_without_time_takes_those_with_time_along(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire, delay_ns=0)
    patient, _ = source(link, 64, delay_ns=3600 * SECOND_NS)
    hasty, _ = source(link, 65)
    patient.submit(b"first")
    hasty.submit(b"second")
    frames = far.frames()
    assert [next(frames), next(frames)] == [(64, b"first"), (65, b"second")]


def test_drain_says_whether_all_was_written(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, route = source(link)
    assert link.drain(0)
    fill(outlet, route)
    assert not link.drain(0)
    assert not link.drain(1_000_000)
    assert link.queued_bytes > 0
    reader = threading.Thread(target=far.frames_until, args=(9,))
    reader.start()
    assert link.drain(PATIENCE_NS)
    assert link.queued_bytes == 0
    link.send(9, b"")
    reader.join(30)
    assert not reader.is_alive()


# --- a peer that does not read ---


@pytest.mark.parametrize("policy", [DROP_OLDEST, DROP_NEWEST])
def test_receiver_can_count_what_was_dropped(policy: int, peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, route = source(link, max_events=20, policy=policy)
    sent = fill(outlet, route)
    for number in range(sent, sent + 200):
        outlet.submit(numbered(number))
    assert route.queued_events == 20
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(far.frames_until, 9)
        assert link.drain(PATIENCE_NS)
        outlet.submit(numbered(sent + 200))
        link.send(9, b"")
        frames = reading.result(30)
    came = events_of(frames)
    assert counted(frames) == came
    assert came == sorted(came)
    assert came[-1] == sent + 200
    assert route.dropped == sent + 201 - len(came) > 100
    assert (came[-2] == sent + 199) == (policy == DROP_OLDEST)


def test_oldest_is_dropped_around_control_frames(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, route = source(link, max_events=10, policy=DROP_OLDEST)
    sent = fill(outlet, route)
    for number in range(sent, sent + 100):
        outlet.submit(numbered(number))
        if number % 7 == 0:
            route.send(10, number.to_bytes(8, "little"))
    link.send(9, b"")
    frames = far.frames_until(9)
    assert counted(frames) == events_of(frames)
    marks = [number_of(payload) for kind, payload in frames if kind == 10]
    assert marks == [number for number in range(sent, sent + 100) if number % 7 == 0]
    for at, (kind, payload) in enumerate(frames):
        if kind == 10:  # between the events that it was sent between, and so are the gaps
            assert len(counted([*frames[:at], (64, b"")])) == 1 + len(events_of(frames[:at]))
            assert counted([*frames[:at], (64, b"")])[-1] == number_of(payload) + 1


def test_full_backlog_raises_under_error_and_the_receiver_can_count(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, route = source(link, max_events=5, policy=ERROR)
    sent = fill(outlet, route)
    for number in range(sent, sent + 4):
        outlet.submit(numbered(number))
    with pytest.raises(BacklogError, match="stream 64 is full: expected at most 5 events"):
        outlet.submit(numbered(sent + 4))
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(far.frames_until, 9)
        assert link.drain(PATIENCE_NS)
        outlet.submit(numbered(sent + 5))
        link.send(9, b"")
        frames = reading.result(30)
    assert counted(frames) == events_of(frames) == [*range(sent + 4), sent + 5]
    assert (route.events, route.dropped) == (sent + 5, 1)


def test_backlog_is_bounded_in_bytes_too(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    outlet, route = source(link_over(wire), max_bytes=10 * 1008, policy=DROP_NEWEST)
    fill(outlet, route)
    for number in range(20):
        outlet.submit(numbered(number))
    assert (route.queued_events, route.queued_bytes) == (10, 10080)


def test_record_larger_than_the_backlog_waits_alone(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, route = source(link, max_bytes=100, policy=DROP_NEWEST)
    sent = fill(outlet, route)
    outlet.submit(numbered(sent))
    assert (route.queued_events, route.dropped) == (1, 1)
    link.send(9, b"")
    assert events_of(far.frames_until(9)) == list(range(sent))


def test_submit_that_blocks_gives_up_in_time(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    outlet, route = source(link_over(wire), max_events=5, timeout_ns=20_000_000)
    with pytest.raises(BacklogError, match="stream 64 was full for 20 ms"):
        repeat(outlet.submit, numbered(0))
    assert (route.queued_events, route.dropped) == (5, 1)


@pytest.mark.parametrize("size", [1000, 60000, 200000])
def test_submit_that_blocks_goes_on_when_the_peer_reads(size: int, peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, route = source(link, max_events=5)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(far.frames_until, 9)
        for number in range(300):
            outlet.submit(numbered(number, size))
        link.send(9, b"")
        frames = reading.result(60)
    assert [payload for _, payload in frames] == [numbered(number, size) for number in range(300)]
    assert (route.events, route.dropped) == (300, 0)


def test_submit_that_blocks_ends_with_the_link(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, route = source(link, max_events=5)
    sent = fill(outlet, route)

    def submit_more() -> None:
        for number in range(100):
            outlet.submit(numbered(number))

    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(submit_more)
        eventually(lambda: route.queued_events == 5)
        far.socket.close()
        submitting.result(30)
    assert route.events + route.dropped >= sent + 100
    assert route.queued_events == 0
    assert not link.is_open


def test_interrupt_ends_a_submit_that_blocks() -> None:
    program = (
        "import os, signal, socket, threading\n"
        "from tests.native.test_links import fill, link_over, numbered, source, SocketWire\n"
        "one, other = socket.socketpair()\n"
        "outlet, route = source(link_over(SocketWire(one.detach())), max_events=5, timeout_ns=-1)\n"
        "fill(outlet, route)\n"
        "threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    while True: outlet.submit(numbered(0))\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "interrupted\n"


def test_source_with_much_waiting_holds_up_no_other(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    much, route = source(link, 64)
    sent = fill(much, route)
    for number in range(sent, sent + 500):
        much.submit(numbered(number))
    little, _ = source(link, 65)
    little.submit(b"little")
    link.send(9, b"")
    frames = far.frames_until(9)
    assert events_of(frames) == list(range(sent + 500))
    assert frames.index((65, b"little")) <= sent + 2


def test_control_frame_waits_behind_every_event_before_it_and_no_other(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlets = [source(link, stream)[0] for stream in (64, 65, 66)]
    first, route = source(link, 67)
    fill(first, route)
    for number in range(30):
        outlets[number % 3].submit(numbered(number))
    link.send(10, b"fence")
    for number in range(30, 60):
        outlets[number % 3].submit(numbered(number))
    link.send(9, b"")
    frames = [frame for frame in far.frames_until(9) if frame[0] != 67]
    fence = frames.index((10, b"fence"))
    assert sorted(number_of(payload) for _, payload in frames[:fence]) == list(range(30))
    assert sorted(number_of(payload) for _, payload in frames[fence + 1 :]) == list(range(30, 60))


def test_peer_that_reads_nothing_for_too_long_loses_the_link(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link = link_over(wire, stall_ns=30_000_000)
    runner = Runner(link)
    outlet, route = source(link)
    sent = fill(outlet, route)
    with pytest.raises(LinkError, match=r"The peer has read nothing for (29|30) ms"):
        runner.end()
    assert not link.is_open
    outlet.submit(b"into nothing")
    assert (route.queued_events, route.dropped) == (0, 1 + 1)
    assert route.events == sent
    with pytest.raises(LinkError, match="read nothing"):
        link.send(9, b"")


def test_peer_that_lets_control_frames_pile_up_loses_the_link(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link = link_over(wire, control_bytes=10000)
    runner = Runner(link)
    with pytest.raises(LinkError, match="more than 10000 bytes of control frames"):
        repeat(link.send, 9, bytes(1000))
    with pytest.raises(LinkError, match="does not read"):
        runner.end()


def test_control_frames_of_routes_are_bounded_too(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link = link_over(wire, control_bytes=10000)
    routes = (source(link, stream)[1] for stream in range(64, 10064))
    with pytest.raises(LinkError, match="does not read"):
        repeat(lambda: next(routes).send(9, bytes(1000)))


def test_backlog_of_a_closed_route_is_still_sent(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, route = source(link)
    sent = fill(outlet, route)
    route.close()
    with pytest.raises(ClosedError, match="stream 64 is closed"):
        outlet.submit(b"late")
    del outlet, route
    gc.collect()
    link.send(9, b"")
    assert events_of(far.frames_until(9)) == list(range(sent))


# --- a peer that sends what it likes ---


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
        inlet = sink(link, lambda event: None)
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
        assert inlet.events == is_good


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (frame_bytes(64, bytes(40))[:30], LinkError, "Received 30 of 48 bytes of a frame; peer closed"),
        (frame_bytes(64, b"")[:5], LinkError, "Received 5 of at least 8 bytes of a frame"),
        (frame_bytes(65, b""), WireError, "Expected a stream that was asked for, got 65"),
        (frame_bytes(2**32 - 1, b""), WireError, "got 4294967295"),
        (frame_bytes(0, b""), WireError, "stream 0"),
        (frame_bytes(KIND_GAP, bytes(15)), WireError, "a gap of 16 bytes, got 15"),
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
    inlet = sink(link, lambda event: None)
    gap = frame_bytes(KIND_GAP, struct.pack("<IIQ", 64, 0, 1000))
    far.socket.sendall(frame_bytes(64, b"") + gap + frame_bytes(64, b""))
    far.socket.shutdown(socket.SHUT_WR)
    link.run()
    assert (inlet.events, inlet.lost, inlet.sequence) == (2, 1000, 1002)


def test_stream_that_was_unbound_is_skipped(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    inlet = sink(link, lambda event: None)
    link.unbind(64)
    link.unbind(65)
    gap = frame_bytes(KIND_GAP, struct.pack("<IIQ", 64, 0, 1000))
    far.socket.sendall(frame_bytes(64, b"late") + gap)
    far.socket.shutdown(socket.SHUT_WR)
    link.run()
    assert (inlet.events, inlet.sequence, link.received_frames) == (0, 0, 2)


def test_memory_does_not_grow_with_the_number_of_a_stream(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link = link_over(wire)
    for stream in (0, 63, 64 + (1 << 20)):
        with pytest.raises(WireError, match="Expected a stream from 64 to 1048639"):
            link.bind(stream, Inlet())
    link.bind(63 + (1 << 20), Inlet())


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
    inlet = sink(ends.other, views.append, decode=memoryview, record_size=8, is_array=True)
    ends.run()
    outlet, _ = source(ends.one)
    sent = [random.Random(number).randbytes(size) for number in range(40)]
    for record in sent:
        outlet.submit(record)
    eventually(lambda: inlet.bytes == 40 * size)
    eventually(lambda: sum(view.nbytes for view in views) == 40 * size)
    assert b"".join(views) == b"".join(sent)


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
    route = source(lender)[1]
    outlet = Outlet(None, bytes, record_size=8)
    outlet.routes, outlet.pool = (route,), pool
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
    plain, route = source(lender, max_events=1, policy=policy)
    fill(plain, route)
    outlet = Outlet(None, bytes, record_size=60000)
    outlet.routes, outlet.pool = (route,), pool
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


# --- leaders and followers ---


def leading_queue(link: Link) -> tuple[Queue, list[int]]:
    """A queue whose getters lead, and in which threads its events were decoded."""
    threads: list[int] = []

    def decode(record: Any) -> bytes:
        threads.append(threading.get_ident())
        return bytes(record)

    queue = unbounded_queue()
    sink(link, queue, decode=decode)
    link.follow(queue)
    queue.lead(link)
    return queue, threads


def test_thread_that_waits_reads_the_link_itself(ends: Ends) -> None:
    queue, threads = leading_queue(ends.other)
    ends.run()
    outlet, _ = source(ends.one)
    for number in range(100):
        outlet.submit(numbered(number))
        assert number_of(queue.get(PATIENCE_NS)) == number
    assert threads.count(threading.get_ident()) >= 50


def test_events_are_read_while_nobody_leads(ends: Ends) -> None:
    queue, _ = leading_queue(ends.other)
    elsewhere: list[bytes] = []
    sink(ends.other, elsewhere.append, 65)
    ends.run()
    outlet, _ = source(ends.one)
    other_outlet, _ = source(ends.one, 65)
    for number in range(5):
        outlet.submit(numbered(number))
        assert number_of(queue.get(PATIENCE_NS)) == number
        other_outlet.submit(numbered(number))
        eventually(lambda: len(elsewhere) == number + 1)  # noqa: B023


def test_getter_that_leads_gives_up_in_time(ends: Ends) -> None:
    queue, _ = leading_queue(ends.other)
    ends.run()
    assert queue.get(1_000_000) is None
    assert queue.get(60_000_000) is None
    source(ends.one)[0].submit(b"event")
    assert queue.get(PATIENCE_NS) == b"event"


def test_getter_that_leads_notices_that_its_queue_was_closed(ends: Ends) -> None:
    queue, _ = leading_queue(ends.other)
    ends.run()
    with ThreadPoolExecutor(1) as pool:
        getting = pool.submit(queue.get)
        with pytest.raises(TimeoutError):
            getting.result(0.02)
        queue.close()
        with pytest.raises(ClosedError):
            getting.result(30)


def test_interrupt_ends_a_get_that_leads() -> None:
    program = (
        "import os, signal, socket, threading\n"
        "from tests.native.test_links import *\n"
        "one, other = socket.socketpair()\n"
        "link = link_over(SocketWire(one.detach()))\n"
        "queue, _ = leading_queue(link)\n"
        "runner = Runner(link)\n"
        "threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try: queue.get()\n"
        "except KeyboardInterrupt: other.sendall(frame_bytes(64, b'event'))\n"
        "print(queue.get(), link.is_open)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "b'event' True\n"


def test_two_getters_share_a_link(ends: Ends) -> None:
    queues = [unbounded_queue(), unbounded_queue()]
    for stream, queue in zip((64, 65), queues, strict=True):
        sink(ends.other, queue, stream)
        ends.other.follow(queue)
        queue.lead(ends.other)
    ends.run()

    def get_all(queue: Queue) -> list[int]:
        return [number_of(queue.get(PATIENCE_NS)) for _ in range(500)]

    with ThreadPoolExecutor(2) as pool:
        getting = [pool.submit(get_all, queue) for queue in queues]
        outlets = [source(ends.one, stream)[0] for stream in (64, 65)]
        for number in range(500):
            for outlet in outlets:
                outlet.submit(numbered(number))
        assert [got.result(60) for got in getting] == [list(range(500))] * 2


def test_error_that_a_leader_meets_is_raised_by_run(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    queue, _ = leading_queue(link)
    far.socket.sendall(frame_bytes(64, b"good"))
    assert queue.get(PATIENCE_NS) == b"good"
    far.socket.sendall(frame_bytes(65, b"bad"))
    assert queue.get(50_000_000) is None
    with pytest.raises(WireError, match="got 65"):
        link.run()


def test_queue_that_follows_no_more_is_left_alone(ends: Ends) -> None:
    queue, _ = leading_queue(ends.other)
    ends.other.unfollow(queue)
    ends.other.unfollow(queue)
    queue.lead(None)
    ends.run()
    source(ends.one)[0].submit(b"event")
    assert queue.get(PATIENCE_NS) == b"event"


# --- the end ---


def test_shut_ends_both_sides(ends: Ends) -> None:
    ends.run()
    ends.one.shut()
    for runner in ends.runners:
        runner.end()
    assert not ends.one.is_open
    assert not ends.other.is_open
    with pytest.raises(ClosedError, match="The link is closed"):
        ends.one.send(9, b"")


def test_events_after_the_end_are_counted_as_dropped(ends: Ends) -> None:
    outlet, route = source(ends.one)
    ends.one.shut()
    outlet.submit(b"")
    assert (route.events, route.dropped) == (0, 1)


def test_only_one_thread_runs_a_link(ends: Ends) -> None:
    ends.run()
    eventually(lambda: ends.other.is_open)
    inlet = sink(ends.other, lambda event: None)
    source(ends.one)[0].submit(b"")
    eventually(lambda: inlet.events == 1)
    with pytest.raises(RuntimeError, match="Another thread runs this link"):
        ends.other.run()


def test_nothing_is_left_of_a_link(ends: Ends) -> None:
    descriptors, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    for _ in range(10):
        one, other = wires(ends.kind)
        pair = Ends(ends.kind, link_over(one), link_over(other), [])
        queue, _ = leading_queue(pair.other)
        pair.run()
        outlet, route = source(pair.one, delay_ns=200_000)
        for number in range(20):
            outlet.submit(numbered(number))
            queue.get(PATIENCE_NS)
        pair.close()
        del pair, queue, outlet, route, one, other
    gc.collect()
    eventually(lambda: len(os.listdir("/proc/self/task")) <= threads)
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_link_that_refers_to_itself_is_collected() -> None:
    class Owner:
        link: Link

        def control(self, kind: int, payload: bytes) -> None: ...

    owner = Owner()
    one, other = socket.socketpair()
    owner.link = link_over(SocketWire(one.detach()), owner.control)
    outlet, route = source(owner.link)
    fill(outlet, route)
    gone = weakref.ref(owner)
    del owner, outlet, route
    gc.collect()
    assert gone() is None
    with other:
        while other.recv(1 << 20):
            continue


def test_wire_has_one_link_only(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link_over(wire)
    with pytest.raises(ClosedError):
        link_over(wire)


def test_socket_wire_wants_a_stream_socket() -> None:
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with datagrams, pytest.raises(ValueError, match="Expected a stream socket"):
        SocketWire(datagrams.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        SocketWire(-1)


def test_settings_are_checked(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    with pytest.raises(ValueError, match="max_payload below"):
        link_over(wire, max_payload=1 << 31)
    with pytest.raises(TypeError, match=r"Pool'> or None, got 5"):
        link_over(wire, pool=5)
    link = link_over(wire)
    with pytest.raises(TypeError, match="Expected a Queue, got 5"):
        link.follow(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="Expected stream from 64"):
        source(link, 63)
    with pytest.raises(ValueError, match="kind from 1 on"):
        link.send(0, b"")


def test_forked_child_cannot_use_a_link_and_its_parent_goes_on() -> None:
    program = (
        "import os, socket\n"
        "from tests.native.test_links import *\n"
        "from echo_core.errors import ClosedError\n"
        "def refused(call, *arguments):\n"
        "    try: call(*arguments)\n"
        "    except ClosedError as error: return 'belongs to the parent' in str(error)\n"
        "one, other = socket.socketpair()\n"
        "link = link_over(SocketWire(one.detach()))\n"
        "runner = Runner(link)\n"
        "outlet, route = source(link)\n"
        "sent = fill(outlet, route)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    calls = [(outlet.submit, b''), (link.send, 9, b''), (link.drain, 0), (link.run,)]\n"
        "    good = all(refused(*call) for call in [*calls, (route.send, 9, b'')])\n"
        "    good = good and not link.is_open and link.queued_bytes == 0\n"
        "    link.abandon()\n"
        "    del outlet, route, link\n"
        "    os._exit(0 if good else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
        "other.settimeout(30)\n"
        "left = sent * 1008\n"
        "while left: left -= len(other.recv(left))\n"
        "other.sendall(frame_bytes(9, b''))\n"
        "assert link.is_open\n"
        "try: link.abandon()\n"
        "except RuntimeError: print('gone on')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("gone on\n", "")


def test_handler_may_fork_and_its_child_reads_nothing() -> None:
    program = (
        "import os, socket\n"
        "from tests.native.test_links import *\n"
        "one, other = socket.socketpair()\n"
        "link = link_over(SocketWire(one.detach()))\n"
        "back, _ = source(link)\n"
        "pids = []\n"
        "def handle(event):\n"
        "    back.submit(event)\n"
        "    if event == b'fork': pids.append(os.fork())\n"
        "sink(link, handle)\n"
        "events = [(64, b'a'), (64, b'fork'), (9, b''), (64, b'b')]\n"
        "other.sendall(b''.join(frame_bytes(*event) for event in events))\n"
        "other.shutdown(socket.SHUT_WR)\n"
        "link.run()\n"
        "if pids == [0]: os._exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 7\n"
        "other.settimeout(30)\n"
        "print([payload for _, payload in Peer(other).frames()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[b'a', b'fork', b'b']\n", "")


def test_process_that_is_killed_leaves_a_link_that_has_ended() -> None:
    one, other = socket.socketpair()
    program = f"import socket; socket.socket(fileno={other.fileno()}).recv(1); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], pass_fds=[other.fileno()], stdin=subprocess.PIPE
    ) as process:
        other.close()
        link = link_over(SocketWire(one.detach()))
        runner = Runner(link)
        outlet, route = source(link, max_events=5)
        fill(outlet, route)
        process.send_signal(signal.SIGKILL)
        with pytest.raises(LinkError):
            runner.end()
        for number in range(100):
            outlet.submit(numbered(number))
    assert not link.is_open
