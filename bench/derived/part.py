"""A process of the benchmark, a source or who receives from it: `python -m bench.derived.part FD`.

Of 10,000 events in any order so many as are asked for pass, by `temp < limit`; each has the same 96 bytes.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from importlib import import_module
from random import Random
from typing import Any

import echo_core as echo
from bench.against.children import serve
from bench.workload import Particle, particle

COUNT = 10_000
WAIT_S = 60.0
PREFIXES = b"\0", b"\1"  # of what ZeroMQ sends: does it pass?


def events() -> list[Any]:
    """Their temperatures are their places in another order."""
    order = list(range(COUNT))
    Random(1).shuffle(order)
    made = [particle(i) for i in range(COUNT)]
    for event, place in zip(made, order, strict=True):
        event.id = event.temp = place
    return made


class Source:
    """Submits all of the events so many times over, and says what that took."""

    def __init__(self) -> None:
        self.node = echo.Node(transports=["tcp"])
        self.channel = self.node.create_channel("particles", Particle)
        self.source = self.channel.source(backlog=echo.Backlog(events=4 * COUNT))
        self.events = events()
        self.socket: Any = None  # ZeroMQ's

    def id(self) -> str:
        return self.channel.id

    def wait_matched(self, sinks: int) -> None:
        self.source.wait_matched(sinks, WAIT_S)

    def submit(self, rounds: int) -> tuple[float, float]:
        """Processor time of an event in ns, and its bytes on the wire."""

        def submit() -> None:
            collections.deque(map(self.source.submit, self.events), maxlen=0)

        return self._measured(rounds, submit)

    def submit_tested(self, rounds: int, limit: int) -> tuple[float, float]:
        """The same, where Python says which events are worth a submit."""

        def submit() -> None:
            for event in self.events:
                if event.temp < limit:
                    self.source.submit(event)

        return self._measured(rounds, submit)

    def _measured(self, rounds: int, submit: Callable[[], None]) -> tuple[float, float]:
        before, began = self._sent(), time.process_time()
        for _ in range(rounds):
            submit()
        self.source.flush(WAIT_S)
        taken = time.process_time() - began
        count = rounds * COUNT
        return 1e9 * taken / count, (self._sent() - before) / count

    def _sent(self) -> int:
        return sum(link.sent_bytes for link in self.node.statistics().links)

    def bind(self) -> int:
        """ZeroMQ's publisher, by its own means."""
        zmq: Any = import_module("zmq")
        self.socket = zmq.Context.instance().socket(zmq.XPUB)
        self.socket.set(zmq.SNDHWM, 0)
        return int(self.socket.bind_to_random_port("tcp://127.0.0.1"))

    def publish(self, rounds: int, limit: int) -> tuple[float, float]:
        """What a prefix says is encoded first, whoever wants it. The wire's bytes are not known."""
        encode = echo.encoder(Particle)

        def publish() -> None:
            for event in self.events:
                self.socket.send(PREFIXES[event.temp < limit] + encode(event), copy=True)

        self.socket.recv()  # somebody has subscribed
        began = time.process_time()
        for _ in range(rounds):
            publish()
        return 1e9 * (time.process_time() - began) / (rounds * COUNT), 0.0


class Receiver:
    """Counts what passes, and adds up which events these are."""

    def __init__(self) -> None:
        self.node = echo.Node(transports=["tcp"])
        self.derived: Any = None
        self.count = self.total = self.limit = 0
        self.socket: Any = None  # ZeroMQ's

    def open(self, id_: str) -> None:
        self.channel = self.node.open_channel(id_)

    def take_all(self) -> None:
        """Everything comes, and is filtered here."""

        def handle(event: Any) -> None:
            if event.temp < self.limit:
                self._take(event)

        self.sink = self.channel.sink(Particle, handle)

    def take_derived(self) -> None:
        """What passes comes."""
        self.derived = self.channel.derive(where="temp < limit", limit=0.0)
        self.sink = self.derived.sink(Particle, self._take)

    def _take(self, event: Any) -> None:
        self.count += 1
        self.total += event.id

    def begin(self, limit: int) -> None:
        """So many of all are to pass from now on."""
        if self.derived is None:
            self.limit = limit
        else:
            self.derived.set(limit=float(limit), timeout_s=WAIT_S)
        self.count = self.total = 0
        self.began = time.process_time()

    def end(self) -> tuple[float, int, int]:
        """Processor time since then in s, how many have come, and the sum of their numbers."""
        return time.process_time() - self.began, self.count, self.total

    def subscribe(self, port: int) -> None:
        """To what passes."""
        zmq: Any = import_module("zmq")
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.set(zmq.RCVHWM, 0)
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        self.socket.subscribe(PREFIXES[1])

    def receive(self, count: int) -> int:
        """The sum of the numbers of so many."""
        decode = echo.decoder(Particle)
        return sum(decode(self.socket.recv()[1:]).id for _ in range(count))


if __name__ == "__main__":
    part: Any = {"source": Source, "receiver": Receiver}
    made: dict[str, Any] = {}

    def be(role: str) -> None:
        """Which one this process is."""
        made["it"] = part[role]()

    def do(what: str, *arguments: Any) -> Any:
        """One of its methods."""
        return getattr(made["it"], what)(*arguments)

    serve({"be": be, "do": do})
