"""Sinks in other processes: processor time of a source for an event and a sink, beside ZeroMQ's publisher."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import echo_core as echo
from bench.available import made_by
from bench.codec.peer import Slots, values
from bench.scale.growth import Growth, Study, marginal
from bench.transport.forms import msgspec_form
from bench.transport.processes import session
from bench.transport.processes.worker import Station, Task
from bench.workload import particle

_WAIT_S = 100.0
Send = Callable[[int], None]
"""Sends so many events and returns when all sinks have them."""


def sink_processes(quick: bool) -> Study:
    """Processes 1 to n have a sink on the channel of size n, for every n: sizes take turns in each round."""
    sizes = (1, 2, 4) if quick else (1, 2, 4, 8, 16, 32, 64)
    rounds, events = (2, 200) if quick else (4, 1000)
    has_peer = bool(made_by({"pyzmq": lambda: [importlib.import_module("zmq")]}))
    growths: list[Growth] = []
    for transport in ("shm", "tcp"):
        its = {
            "transport": transport,
            "sizes": sizes,
            "rounds": rounds,
            "events": events,
            "has_peer": has_peer,
        }
        tasks = [Task(send, its), *(Task(receive, its) for _ in range(max(sizes)))]
        (costs, *_) = session.run(tasks, limit_s=500)
        steps = {
            name: marginal(by_size, {size: size for size in sizes}, 1e9 / events)
            for name, by_size in costs.items()
        }
        ours = steps.pop("ours")
        growths.append(Growth(f"{transport}: dataclass", "ns per event and sink", ours, steps))
    note = (
        "Processor time of the source's process, all threads, divided by events; what each further sink adds."
    )
    return Study("sink-processes", "processes with a sink", growths, (note,))


class Counted:
    """A handler that says when all have come, in their order."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.count = 0
        self.have_come = threading.Event()

    def handle(self, event: Any) -> None:
        assert event.id == self.count
        self.count += 1
        if self.count == self.expected:
            self.have_come.set()

    def wait(self) -> None:
        assert self.have_come.wait(_WAIT_S), f"{self.count} of {self.expected} came"
        self.have_come.clear()
        self.count = 0


def send(
    station: Station, *, transport: Any, sizes: Sequence[int], rounds: int, events: int, has_peer: bool
) -> Mapping[str, Mapping[int, list[float]]]:
    """The processor time of each round, by contender and size."""
    with contextlib.ExitStack() as kept:
        publishers = _publishers(kept, sizes) if has_peer else {}
        node = kept.enter_context(echo.Node(transports=[transport]))
        channels = [node.create_channel(f"to {size}", Slots) for size in sizes]
        station.exchange([([channel.id for channel in channels], [it.address for it in publishers.values()])])
        sources = [channel.source(Slots, backlog=echo.Backlog(when_full="block")) for channel in channels]
        for size, source in zip(sizes, sources, strict=True):
            source.wait_matched(size, _WAIT_S)
        for publisher in publishers.values():
            publisher.wait_for_sinks()
        station.exchange()
        sends: dict[str, dict[int, Send]] = {"ours": _by_size(sizes, sources)}
        if has_peer:
            sends["zmq XPUB + msgspec over TCP"] = {size: it.send for size, it in publishers.items()}
        costs = {name: {size: list[float]() for size in sizes} for name in sends}
        for _, size, name in itertools.product(range(rounds + 1), sizes, sends):
            station.exchange()
            began = time.process_time()
            sends[name][size](events)
            costs[name][size].append(time.process_time() - began)
            station.exchange()
        return {name: {size: each[1:] for size, each in its.items()} for name, its in costs.items()}


def _by_size(sizes: Sequence[int], sources: Sequence[Any]) -> dict[int, Send]:
    event = Slots(*values(particle()))

    def sending(source: Any) -> Send:
        def send_all(events: int) -> None:
            submit = source.submit
            for event.id in range(events):
                submit(event)
            source.flush(_WAIT_S)

        return send_all

    return {size: sending(source) for size, source in zip(sizes, sources, strict=True)}


class Publisher:
    """ZeroMQ's, which waits where a sink has no room."""

    def __init__(self, kept: contextlib.ExitStack, context: Any, size: int) -> None:
        zmq: Any = importlib.import_module("zmq")
        self._socket = context.socket(zmq.XPUB)
        kept.callback(self._socket.close, 0)
        self._socket.setsockopt(zmq.XPUB_NODROP, 1)
        self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._socket.bind("tcp://127.0.0.1:*")
        self._size = size
        self._form = msgspec_form(0)
        self.address: str = self._socket.getsockopt(zmq.LAST_ENDPOINT).decode()

    def wait_for_sinks(self) -> None:
        for _ in range(self._size):
            self._socket.recv()  # a subscription

    def send(self, events: int) -> None:
        encode, message, send_ = self._form.encode, self._form.message, self._socket.send
        assert encode is not None
        for message.id in range(events):
            send_(encode(message))


def _publishers(kept: contextlib.ExitStack, sizes: Sequence[int]) -> dict[int, Publisher]:
    zmq: Any = importlib.import_module("zmq")
    context = kept.enter_context(zmq.Context())
    return {size: Publisher(kept, context, size) for size in sizes}


def receive(
    station: Station, *, transport: Any, sizes: Sequence[int], rounds: int, events: int, has_peer: bool
) -> None:
    """Takes what comes on the channels of those sizes that this process is among."""
    mine = [i for i, size in enumerate(sizes) if station.index <= size]
    with contextlib.ExitStack() as kept:
        ((ids, addresses),), *_ = station.exchange()
        node = kept.enter_context(echo.Node(transports=[transport]))
        counted = {sizes[i]: Counted(events) for i in mine}
        for i in mine:
            node.open_channel(ids[i], timeout_s=_WAIT_S).sink(Slots, counted[sizes[i]].handle)
        subscribed = _subscribed(kept, {sizes[i]: addresses[i] for i in mine}) if has_peer else {}
        station.exchange()
        form = msgspec_form(0) if has_peer else None
        names = ("ours", "peer") if has_peer else ("ours",)
        for _, size, name in itertools.product(range(rounds + 1), sizes, names):
            station.exchange()
            if size in counted and name == "ours":
                counted[size].wait()
            elif size in counted and form is not None and form.decode is not None:
                for k in range(events):
                    assert form.decode(subscribed[size].recv()).id == k
            station.exchange()


def _subscribed(kept: contextlib.ExitStack, addresses: Mapping[int, str]) -> dict[int, Any]:
    zmq: Any = importlib.import_module("zmq")
    context = kept.enter_context(zmq.Context())
    sockets: dict[int, Any] = {}
    for size, address in addresses.items():
        sockets[size] = context.socket(zmq.SUB)
        kept.callback(sockets[size].close, 0)
        sockets[size].setsockopt(zmq.SUBSCRIBE, b"")
        sockets[size].connect(address)
    return sockets
