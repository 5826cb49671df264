"""Two ends of a link for tests, or one and a peer that sends what it likes.

`Peer` is a plain socket: what it reads and sends is bytes, so that a full wire, a lie or a silence is its to
choose. The sinks here decode with `bytes`, so an event is its record.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echo_core._c.links import (
    BLOCK,
    Delivery,
    IncomingStream,
    Link,
    OutgoingStream,
    Outlet,
    Queue,
    RingWire,
    SocketWire,
    Wire,
    ring_memory,
    scan,
)

SECOND_NS = 1_000_000_000
PATIENCE_NS = 30 * SECOND_NS
MAX_PAYLOAD = 1 << 20
KIND_LOAN, KIND_GAP, KIND_CREDIT = 1, 2, 20
NO_LIMIT = 1 << 62  # of a receiver that grants all at once
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
    granted: int = NO_LIMIT,
) -> tuple[Outlet, OutgoingStream]:
    """Records go in at the one, and are counted at the other; so many may go."""
    outgoing = OutgoingStream(
        link,
        stream,
        "a source",
        max_events=max_events,
        max_bytes=max_bytes,
        policy=policy,
        timeout_ns=timeout_ns,
        delay_ns=delay_ns,
    )
    outgoing.grant(granted, NO_LIMIT)
    outlet = Outlet(bytes, bytes)
    outlet.outgoing = (outgoing,)
    return outlet, outgoing


def sink(
    link: Link,
    target: Callable[[Any], object] | Queue,
    stream: int = 64,
    *,
    window: tuple[int, int] = (NO_LIMIT, NO_LIMIT),
    **options: Any,
) -> IncomingStream:
    """Records of the stream go to the target; so many events and bytes of them may be under way."""
    record_size = options.get("record_size", 0)
    incoming = IncomingStream(record_size=record_size, window_events=window[0], window_bytes=window[1])
    incoming.deliveries = (Delivery(target, options.pop("decode", bytes), fail, **options),)
    link.bind(stream, incoming)
    return incoming


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
            one, other = socket.socketpair()
            return RingWire(fd, 0, bell=one.detach()), RingWire(fd, 1, bell=other.detach())
        finally:
            os.close(fd)
    one, other = tcp_pair() if kind == "tcp" else socket.socketpair()
    return SocketWire(one.detach()), SocketWire(other.detach())


class Runner:
    """The thread that runs a link, and how that ended."""

    def __init__(self, link: Link) -> None:
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(link,), daemon=True)
        self._thread.start()

    def _run(self, link: Link) -> None:
        try:
            link.run()
        except BaseException as error:  # noqa: BLE001 - end() raises it
            self.error = error

    @property
    def processor_seconds(self) -> float:
        """How long a processor has been at it."""
        assert self._thread.ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    def end(self) -> None:
        """Waits until `run` returns; raises what it raised."""
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error


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


def eventually(condition: Callable[[], bool]) -> None:
    """What other threads will bring about; fails after half a minute."""
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "it did not come to pass"
        os.sched_yield()


def open_files() -> list[str]:
    """What this process's descriptors refer to."""
    found: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(descriptor))
    return found


def fill(outlet: Outlet, outgoing: OutgoingStream) -> int:
    """Submits until events wait in the backlog: how many."""
    count = 0
    while outgoing.queued_events == 0:
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
