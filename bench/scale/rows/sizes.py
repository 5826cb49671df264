"""Events of 64 bytes to 64 MiB one way between two processes: beside a socket, ZeroMQ and memcpy."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import echo_core as echo
from bench.available import made_by
from bench.scale.growth import Growth, Judged, Study, in_turn, marginal, medians
from bench.scale.rows.records import COPIED
from bench.transport.processes import session
from bench.transport.processes.worker import Station, Task

_WAIT_S = 100.0
_HEAD = struct.Struct("<q")
_MIB = 1 << 20
_COPIED_SIZE = 16 * 1024  # from here on bytes take longer than what an event takes in any case
LIMITS = echo.Limits(payload_bytes=256 * _MIB)


@echo.event
class Frame:
    """What a camera or a radar sends."""

    step: int
    data: echo.Array[echo.UInt8, ...]


def sizes(quick: bool) -> Study:
    """As obvious code has it: an event is made of an array that the program has, and submitted."""
    most = 18 if quick else 26
    each = tuple(1 << power for power in range(6, most + 1, 4))
    rounds = 2 if quick else 7
    has_peer = bool(made_by({"pyzmq": lambda: [importlib.import_module("zmq")]}))
    its = {"sizes": each, "rounds": rounds, "has_peer": has_peer, "volume": _MIB if quick else 128 * _MIB}
    (taken, _) = session.run([Task(send, its), Task(receive, its)], limit_s=500)
    taken["memcpy"] = in_turn({size: functools.partial(_copied_s, size) for size in each}, rounds)
    amounts = {size: size for size in each}
    costs = {name: marginal(by_size, amounts, 1e9) for name, by_size in taken.items()}
    events = {name: medians(by_size, 1e6) for name, by_size in taken.items()}
    peers = [name for name in taken if not name.startswith("echo")]
    growths: list[Growth] = []
    for name in ("echo shm", "echo tcp"):
        times, bytes_ = ({it: of[it] for it in peers} for of in (events, costs))
        growths.append(Growth(f"{name}: an event", "us", events[name], times, goal=None))
        growths.append(Growth(f"{name}: a byte more", "ns", costs[name], bytes_, goal=None))
        beside = {size: cost / events["socket"][size] for size, cost in events[name].items()}
        growths.append(Growth(f"{name}: an event, beside the socket", "x", beside, judged=Judged.MOST))
    large = {size: cost for size, cost in costs["echo shm"].items() if size >= _COPIED_SIZE}
    growths.append(Growth("echo shm: a byte more of large events", "ns", large, resolution=COPIED))
    note = (
        "1 ns for a byte is 1 GB/s, 0.1 is 10. Caches end between sizes, for everybody: an event may take"
        " 1.25 times what the same bytes take in a socket in the same run. In shared memory less than"
        f" {COPIED} ns for a byte, what copying takes, counts as that."
    )
    return Study("sizes", "bytes of an event", growths, (note,))


def _copied_s(size: int) -> float:
    """Between two arrays that were touched before."""
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    count = max(3, (16 << 20) // size)
    began = time.perf_counter()
    for _ in range(count):
        np.copyto(target, source)
    return (time.perf_counter() - began) / count


def _count(size: int, volume: int) -> int:
    """Events of a measurement: so many bytes in all, and neither too few nor too many events."""
    return min(20_000, max(4, volume // size))


Send = Callable[[int, Any], None]
"""Sends event number so with that payload."""


def send(
    station: Station, *, sizes: Sequence[int], rounds: int, has_peer: bool, volume: int
) -> dict[str, dict[int, list[float]]]:
    """Seconds for an event, by contender, size and round: until the other process has all of them."""
    with contextlib.ExitStack() as kept:
        senders = _senders(kept, station, has_peer=has_peer)
        acknowledged = _accepted(kept, station)
        taken = {name: {size: list[float]() for size in sizes} for name in senders}
        for _, size, name in itertools.product(range(rounds + 1), sizes, senders):
            payload = np.arange(size, dtype=np.uint8)
            count = _count(size, volume)
            station.exchange()
            began = time.perf_counter()
            for k in range(count):
                senders[name](k, payload)
            assert acknowledged.recv(1)
            taken[name][size].append((time.perf_counter() - began) / count)
        return {name: {size: each[1:] for size, each in by_size.items()} for name, by_size in taken.items()}


def _senders(kept: contextlib.ExitStack, station: Station, *, has_peer: bool) -> dict[str, Send]:
    senders: dict[str, Send] = {}
    for transport in _TRANSPORTS:
        node = kept.enter_context(echo.Node(transports=[transport], limits=LIMITS))
        channel = node.create_channel(transport, Frame)
        station.exchange(channel.id)
        source = channel.source(Frame, backlog=echo.Backlog(when_full="block"))
        source.wait_matched(1, _WAIT_S)
        senders[f"echo {transport}"] = _submitting(source)
    senders["socket"] = _writing(_accepted(kept, station))
    if has_peer:
        senders["zmq PUSH, copy=False"] = _pushing(kept, station)
    return senders


def _submitting(source: Any) -> Send:
    def send_one(step: int, payload: Any) -> None:
        source.submit(Frame(step, payload))

    return send_one


def _writing(connected: socket.socket) -> Send:
    def send_one(step: int, payload: Any) -> None:
        connected.sendmsg([_HEAD.pack(step)])
        connected.sendall(payload)

    return send_one


def _pushing(kept: contextlib.ExitStack, station: Station) -> Send:
    zmq: Any = importlib.import_module("zmq")
    pushing = kept.enter_context(zmq.Context()).socket(zmq.PUSH)
    kept.callback(pushing.close, 0)
    pushing.bind("tcp://127.0.0.1:*")
    station.exchange(pushing.getsockopt(zmq.LAST_ENDPOINT).decode())

    def send_one(step: int, payload: Any) -> None:
        pushing.send(_HEAD.pack(step), zmq.SNDMORE)
        pushing.send(payload, copy=False)

    return send_one


def _accepted(kept: contextlib.ExitStack, station: Station) -> socket.socket:
    listening = kept.enter_context(socket.create_server(("127.0.0.1", 0)))
    station.exchange(listening.getsockname())
    connected = kept.enter_context(listening.accept()[0])
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


_TRANSPORTS: tuple[echo.Transport, ...] = ("shm", "tcp")
Receive = Callable[[int, int], None]
"""Takes so many events of so many bytes, and checks them."""


def receive(station: Station, *, sizes: Sequence[int], rounds: int, has_peer: bool, volume: int) -> None:
    """Every event is looked at: its number, its size, its last byte."""
    with contextlib.ExitStack() as kept:
        receivers = _receivers(kept, station, has_peer=has_peer)
        acknowledged = _connected(kept, station)
        for _, size, name in itertools.product(range(rounds + 1), sizes, receivers):
            station.exchange()
            receivers[name](_count(size, volume), size)
            acknowledged.sendall(b".")


def _receivers(kept: contextlib.ExitStack, station: Station, *, has_peer: bool) -> dict[str, Receive]:
    receivers: dict[str, Receive] = {}
    for transport in _TRANSPORTS:
        node = kept.enter_context(echo.Node(transports=[transport], limits=LIMITS))
        channel = node.open_channel(station.exchange()[0], timeout_s=_WAIT_S)
        handler = _Handler()
        channel.sink(Frame, handler.handle)
        receivers[f"echo {transport}"] = handler.receive
    receivers["socket"] = _reading(_connected(kept, station))
    if has_peer:
        receivers["zmq PUSH, copy=False"] = _pulling(kept, station)
    return receivers


def check(step: int, expected_step: int, data: Any, size: int) -> None:
    """A message that is not the one expected ends the benchmark."""
    if step != expected_step or len(data) != size or data[-1] != (size - 1) % 256:
        msg = (
            f"Expected event {expected_step} of {size} bytes, got {step} of {len(data)}, ending in {data[-1]}"
        )
        raise session.SessionError(msg)


class _Handler:
    """Counts what comes."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._last = 0
        self._come = threading.Condition()

    def handle(self, event: Frame) -> None:
        """The last one of a measurement is waited for; it is the one whose number is awaited."""
        with self._come:
            check(event.step, len(self._sizes), event.data, len(event.data))
            self._sizes.append(len(event.data))
            self._last = int(event.data[-1])
            self._come.notify()

    def receive(self, count: int, size: int) -> None:
        with self._come:
            assert self._come.wait_for(lambda: len(self._sizes) == count, _WAIT_S), len(self._sizes)
            assert set(self._sizes) == {size}
            assert self._last == (size - 1) % 256
            self._sizes.clear()


def _reading(connected: socket.socket) -> Receive:
    def receive_all(count: int, size: int) -> None:
        head = bytearray(_HEAD.size)
        for k in range(count):
            _read_into(connected, memoryview(head))
            data: Any = np.empty(size, np.uint8)
            _read_into(connected, memoryview(data))
            check(_HEAD.unpack(head)[0], k, data, size)

    return receive_all


def _read_into(connected: socket.socket, data: memoryview) -> None:
    while data:
        data = data[connected.recv_into(data) :]


def _pulling(kept: contextlib.ExitStack, station: Station) -> Receive:
    zmq: Any = importlib.import_module("zmq")
    pulling = kept.enter_context(zmq.Context()).socket(zmq.PULL)
    kept.callback(pulling.close, 0)
    pulling.connect(station.exchange()[0])

    def receive_all(count: int, size: int) -> None:
        for k in range(count):
            step = _HEAD.unpack(pulling.recv())[0]
            check(step, k, np.frombuffer(pulling.recv(copy=False), np.uint8), size)

    return receive_all


def _connected(kept: contextlib.ExitStack, station: Station) -> socket.socket:
    connected = kept.enter_context(socket.create_connection(station.exchange()[0]))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
