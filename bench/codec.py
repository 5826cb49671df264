"""Objects to bytes and back, beside what a Python user would take today, in one process and one run.

The event classes are a dataclass with slots and an `@echo.event` record of the same fields. All data is hot.
Cold data costs everyone a cache miss for each object, beside which the differences shrink.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import pickle
import statistics
import timeit
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import echo_core as echo
from bench.peers import FIELDS, Peer, peers, protobuf_messages, values
from bench.report import Row
from bench.workload import Message, Particle, particle

# The particle as a plain dataclass with the event's own types.
Slots: Any = dataclasses.make_dataclass(
    "Slots", [(name, Particle.__annotations__[name]) for name in FIELDS], slots=True
)

COUNT = 1000

# How many times faster than each peer: encode one, encode a list, decode one, decode a list. None: no goal.
DATACLASS: dict[str, tuple[float | None, ...]] = {
    "pickle": (50, 100, 15, 5),
    "msgpack": (12, 35, 3, None),
    "msgspec": (6, 20, 3, None),
    "msgspec array_like": (2.5, 4, 1.5, None),
    "protobuf": (40, None, None, None),
    "XML": (60, None, None, None),
}
RECORD: dict[str, tuple[float | None, ...]] = {
    "pickle": (None, None, 60, 70),
    "msgpack": (None, None, 12, None),
    "msgspec array_like": (None, None, 5, 15),
}
OPERATIONS = ("encode", f"encode {COUNT}", "decode", f"decode {COUNT}")


def measure(*, quick: bool) -> list[Row]:
    """All figures of the table "Codec"."""
    rounds = [_round(quick) for _ in range(1 if quick else 5)]
    theirs = {name: _medians([times[name] for times in rounds]) for name in rounds[0]}
    rows: list[Row] = []
    for cls, goals in ((Slots, DATACLASS), (Particle, RECORD)):
        ours = theirs[cls.__name__]
        name = "dataclass" if cls is Slots else "@echo.event"
        for peer, wanted in goals.items():
            for operation, mine, other, goal in zip(OPERATIONS, ours, theirs[peer], wanted, strict=True):
                if goal is not None:
                    what = f"{name}: {operation}, {1e9 * mine:.3g} ns each, faster than {peer}"
                    rows.append(Row(what, other / mine, goal, "x", at_least=True))
    return [*rows, *_parse_only(quick), *_attribute(quick), *_variable(quick)]


def _round(quick: bool) -> dict[str, list[float]]:
    """Everyone once, in turn: what slows the machine down for a while slows all of them."""
    times = {peer.name: _peer_times(peer, quick) for peer in peers()}
    return {**times, "Slots": _our_times(Slots, quick), "Particle": _our_times(Particle, quick)}


def _medians(rounds: list[list[float]]) -> list[float]:
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def _particles() -> list[Particle]:
    return [particle(i) for i in range(COUNT)]


def _our_times(cls: type[Any], quick: bool) -> list[float]:
    codec = echo.codec(cls, tier="compiled")
    events = [cls(*values(it)) for it in _particles()]
    data, many = codec.encode(events[3]), codec.encode_many(events)
    assert values(codec.decode(data)) == values(events[3])
    assert list(map(values, codec.decode_many(many))) == list(map(values, events))
    assert many == b"".join(map(echo.encoder(cls, tier="interpreted"), events))
    return [
        _each(codec.encode, events[3], 1, quick),
        _each(codec.encode_many, events, COUNT, quick),
        _each(codec.decode, data, 1, quick),
        _each(codec.decode_many, many, COUNT, quick),
    ]


def _peer_times(peer: Peer, quick: bool) -> list[float]:
    peer.check(_particles())
    given = [peer.made(it) for it in _particles()]
    data, many = peer.encode(given[3]), peer.encode_list(given)
    return [
        _each(peer.encode, given[3], 1, quick),
        _each(peer.encode_list, given, COUNT, quick),
        _each(peer.decode, data, 1, quick),
        _each(peer.decode_list, many, COUNT, quick),
    ]


def _each(call: Any, argument: Any, count: int, quick: bool) -> float:
    """Seconds for each of `count` events that one call does: the best of several runs."""
    timer = timeit.Timer("f(x)", globals={"f": call, "x": argument})
    calls = max(1, int((0.002 if quick else 0.02) / max(timer.timeit(3) / 3, 1e-9)))
    gc.collect()
    return min(timer.repeat(5 if quick else 9, calls)) / calls / count


def _parse_only(quick: bool) -> Iterator[Row]:
    """protobuf without making Python objects, beside records that are objects already."""
    one, many = protobuf_messages()
    messages = [one(**dict(zip(FIELDS, values(it), strict=True))) for it in _particles()]
    parsing = _each(many.FromString, many(particles=messages).SerializeToString(), COUNT, quick)
    ours = _our_times(Particle, quick)[3]
    yield Row("@echo.event: decode 1000, faster than protobuf's parse", parsing / ours, 4, "x", at_least=True)


def _variable(quick: bool) -> Iterator[Row]:
    """Reading a field of a record beside a slot, in a function as the goal has it and alone."""
    message = Message(7, "a name of some length", np.arange(10.0), ["one", "two"])
    plain = PlainMessage(message.id, message.name, message.values, message.tags)
    pickled = pickle.dumps(plain, 5)
    dumps = functools.partial(pickle.dumps, protocol=5)
    theirs = _each(dumps, plain, 1, quick), _each(pickle.loads, pickled, 1, quick)
    codec = echo.codec(Message, tier="compiled")
    data = codec.encode(message)
    assert codec.decode(data) == message

    def read(data: bytes) -> object:
        event = codec.decode(data)
        return event.id, event.name, event.values, event.tags

    for what, ours, other in (
        ("decode", _each(codec.decode, data, 1, quick), theirs[1]),
        ("decode and read every field", _each(read, data, 1, quick), theirs[1]),
        ("encode what was received", _each(codec.encode, codec.decode(data), 1, quick), theirs[0]),
        ("encode what was made here", _each(codec.encode, message, 1, quick), theirs[0]),
    ):
        what = f"variable parts: {what}, {1e9 * ours:.3g} ns, faster than pickle"
        yield Row(what, other / ours, 1, "x", at_least=True)


@dataclass
class PlainMessage:
    """The same for pickle."""

    id: int
    name: str
    values: np.ndarray[Any, Any]
    tags: list[str]


def _attribute(quick: bool) -> Iterator[Row]:
    """Reading a field of a record, beside a slot: in a function, as the goal was set, and alone."""
    number, repeat = (100_000, 5) if quick else (1_000_000, 15)
    times: dict[str, list[float]] = {"f()": [], "e.x": []}
    for cls in (Particle, Slots):
        codec = echo.codec(cls, tier="compiled")
        event: Any = codec.decode(codec.encode(cls(*values(particle(7)))))
        for read, taken in times.items():
            names = {"e": event, "f": lambda event=event: event.x}
            taken.append(min(timeit.repeat(read, globals=names, number=number, repeat=repeat)))
    for read, what in (("f()", "in a function"), ("e.x", "alone")):
        ours, slot = times[read]
        yield Row(f"@echo.event: read an attribute {what}, against a slot", ours / slot, 1.8, "x")
