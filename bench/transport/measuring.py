"""What the processes of a session do: round trips, and streams to one or several."""

from __future__ import annotations

import functools
import queue
import time
from collections.abc import Callable
from typing import Any

from bench.transport import loops
from bench.transport.endpoint import End, Part, Peer, Role
from bench.transport.processes.tcp_bytes import received_bytes
from bench.transport.processes.worker import Station
from bench.transport.statistics import Trips

_WAIT_S = 200.0
_WARM_NS = 150_000_000


def ask(station: Station, *, peer: Peer, n: int, budget_s: float, most: int) -> Trips:
    """Round trips, once warm: code is compiled by then."""
    end = _new_end(peer, Role(Part.PING, station.index, 1), n)
    ask_for = _handled(station, end) if end.calls_handlers else _awaited(station, end)
    ask_for(_WARM_NS, most)
    began_ns = time.perf_counter_ns()
    trips = Trips(began_ns, ask_for(int(budget_s * 1e9), most))
    _send_last(end)
    _part(station, end)
    return trips


def _awaited(station: Station, end: End) -> Callable[[int, int], Any]:
    """Round trips of a thread that waits for each answer."""
    _meet(station, end)
    loop = loops.ping(end.form)
    return functools.partial(loop, end.form.message, end.send, end.receive, end.form.encode, end.form.decode)


def _handled(station: Station, end: End) -> Callable[[int, int], Any]:
    """Round trips of a handler that answers each answer."""
    finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
    begin, end.handle = loops.ping_handler(end.form)(end.form.message, end, finished.put)
    _meet(station, end)

    def ask_for(budget_ns: int, most: int) -> Any:
        begin(budget_ns, most)
        return finished.get(timeout=_WAIT_S)

    return ask_for


def answer(station: Station, *, peer: Peer, n: int) -> None:
    """Sends everything back."""
    finished: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    end = _new_end(peer, Role(Part.PONG, station.index, 1), n)
    if end.calls_handlers:
        end.handle = loops.pong_handler(end.form)(end, finished.put)
    _meet(station, end)
    if end.calls_handlers:
        finished.get(timeout=_WAIT_S)
    else:
        loops.pong(end.form)(end.send, end.receive, end.form.encode, end.form.decode)
    _part(station, end)


def send(
    station: Station, *, peer: Peer, n: int, receivers: int, budget_s: float, stride: int
) -> tuple[int, int]:
    """When the first message was sent, and how many."""
    end = _opened(station, peer, Part.SOURCE, n, receivers)
    loop = loops.source(end.form)
    began_ns, sent = loop(end.form.message, end.send, end.form.encode, int(budget_s * 1e9), stride)
    _send_last(end)
    _part(station, end)
    return began_ns, sent


def count(station: Station, *, peer: Peer, n: int, receivers: int) -> tuple[int, int, int]:
    """When the last message came, how many came, and the bytes that came over TCP for them."""
    finished: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    end = _new_end(peer, Role(Part.SINK, station.index, receivers), n)
    if end.calls_handlers:
        end.handle = loops.sink_handler(end.form)(finished.put)
    end.join(station.exchange(end.offer()))
    before = received_bytes()
    station.exchange()
    if end.calls_handlers:
        ended_ns, received = finished.get(timeout=_WAIT_S)
    else:
        ended_ns, received = loops.sink(end.form)(end.receive, end.form.decode)
    over_tcp = received_bytes() - before
    _part(station, end)
    return ended_ns, received, over_tcp


def _new_end(peer: Peer, role: Role, n: int) -> End:
    return peer.open(role, peer.make(n))


def _opened(station: Station, peer: Peer, part: Part, n: int, receivers: int) -> End:
    end = _new_end(peer, Role(part, station.index, receivers), n)
    _meet(station, end)
    return end


def _meet(station: Station, end: End) -> None:
    """Everyone has found everyone, and everyone knows."""
    end.join(station.exchange(end.offer()))
    station.exchange()


def _send_last(end: End) -> None:
    message = loops.end_message(end.form)
    end.send(end.form.encode(message) if end.form.encode else message)
    end.flush()


def _part(station: Station, end: End) -> None:
    """Nobody leaves before all have what they wait for."""
    station.exchange()
    end.close()
