"""What events that vary in size count for in a queue of this process: as much as their records would take."""

from __future__ import annotations

from collections import UserList
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core._c.links import DROP_NEWEST, DROP_OLDEST, Delivery, Outlet, Queue
from echo_core.errors import EncodeError
from tests.native.queues import queue
from tests.native.sinks import EVENTS, Native, NativeParts, Sink, class_of, event_names, outlet_of

LARGE: Any = np.arange(1000.0)


@dataclass
class Inner:
    text: str
    numbers: list[echo.Int16]


@dataclass
class Varied:
    """Every kind of part, and parts within parts."""

    flag: bool
    samples: echo.Array[echo.Float64, ...] = field(default_factory=lambda: LARGE[:0])
    blob: bytes = b""
    inners: list[Inner] = field(default_factory=list[Inner])
    note: str | None = None
    blobs: tuple[bytes, ...] = ()
    one: Inner | None = None


@echo.event
class VariedNative:
    id: echo.UInt8
    samples: echo.Array[echo.Float64, ...]
    text: str
    blob: bytes


VARIED: list[Any] = [
    Varied(flag=True),
    Varied(flag=True, samples=LARGE, blob=b"abc", note="nöte"),
    Varied(flag=False, inners=[Inner("x", [1, 2, 3]), Inner("", [])], blobs=(b"1", b"", b"333")),
    Varied(flag=False, one=Inner("x" * 5000, [1]), note="€" * 77, samples=LARGE[::3]),
    Varied(flag=False, samples=LARGE.astype("f4"), inners=[Inner("a", [7])] * 9),
    Varied(flag=False, samples=LARGE.astype(">f8")),
    VariedNative(1, LARGE, "text", b"blob"),
    VariedNative(2, LARGE[:0], "", b""),
]


def delivery_to(target: Any) -> Delivery:
    return Delivery(target, bytes, print)


def size_of(event: Any, encode: Callable[[Any], bytes], record_size: int = 0) -> int:
    """How many bytes an event counts for in a queue."""
    it = queue()
    outlet = Outlet(class_of(event), encode, record_size=record_size)
    outlet.direct = (delivery_to(it),)
    outlet.submit(event)
    size = it.depth_bytes
    assert it.get(0) is event
    return size


def to_queue(encode: Callable[[Any], bytes]) -> tuple[Outlet, Queue]:
    it = queue()
    outlet = Outlet(Varied, encode)
    outlet.direct = (delivery_to(it),)
    return outlet, it


@pytest.mark.parametrize("event", [*EVENTS, *VARIED], ids=[*event_names, *map(str, range(len(VARIED)))])
@pytest.mark.parametrize("tier", ["interpreted", "auto"])
def test_an_event_counts_for_the_size_of_its_record(event: Any, tier: Any) -> None:
    """Measured in C, or encoded for want of that."""
    encode = echo.encoder(class_of(event), tier=tier)
    assert size_of(event, encode) == len(encode(event))


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_an_event_of_one_size_counts_for_that(tier: Any) -> None:
    codec = echo.codec(Native, tier=tier)
    assert size_of(Native(1, 2.0, ""), codec.encode, codec.format.size_bytes) == codec.format.size_bytes


def test_a_received_event_counts_for_the_record_that_it_holds() -> None:
    """Until it is changed: then for what it would be encoded to."""
    codec = echo.codec(NativeParts)
    record = codec.encode(NativeParts(1, "name", ["tag"] * 100))
    event = codec.decode(record)
    assert size_of(event, codec.encode) == len(record)
    event.name += "n" * 4096
    assert size_of(event, codec.encode) == len(codec.encode(event)) == len(record) + 4096


def test_an_event_of_a_subclass_counts_for_its_record() -> None:
    class Special(Varied): ...

    codec = echo.codec(Varied)
    event = Special(flag=True, samples=LARGE, note="x")
    outlet, it = to_queue(codec.encode)
    outlet.submit(event)
    assert it.depth_bytes == len(codec.encode(event))


CONVERTED: list[dict[str, Any]] = [
    {"samples": UserList([1.0] * 99)},
    {"samples": [1] * 99},
    {"blob": bytearray(99)},
    {"inners": UserList([Inner("x", [1])])},
    {"blobs": [b"x"]},
]


@pytest.mark.parametrize("change", CONVERTED)
def test_what_does_not_show_its_size_is_encoded(change: dict[str, Any]) -> None:
    event = Varied(flag=True, **change)
    encode = echo.encoder(Varied)
    assert size_of(event, encode) == len(encode(event))


@pytest.mark.parametrize(
    "change", [{"note": 5}, {"samples": np.zeros((2, 2))}, {"inners": [1]}, {"one": "x"}]
)
def test_what_has_no_size_is_refused_before_anybody_gets_it(change: dict[str, Any]) -> None:
    """In the words of the encoder."""
    event = Varied(flag=True, **change)
    outlet, it = to_queue(echo.encoder(Varied))
    sink = Sink()
    outlet.direct = (delivery_to(sink), *outlet.direct)
    with pytest.raises(EncodeError) as expected:
        echo.encoder(Varied)(event)
    with pytest.raises(EncodeError) as caught:
        outlet.submit(event)
    assert str(caught.value) == str(expected.value)
    assert (sink.events, it.depth_events, outlet.sequence) == ([], 0, 0)


def test_values_are_not_checked_where_only_the_size_counts() -> None:
    """A sink of this process gets what was submitted."""
    wrong: Any = "neither true nor false"
    event = Varied(flag=wrong, samples=LARGE)
    assert size_of(event, echo.encoder(Varied)) == size_of(
        Varied(flag=True, samples=LARGE), echo.encoder(Varied)
    )


class Watched(Varied):
    """Says how often it is looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        Watched.looks += name == "samples"
        return super().__getattribute__(name)


def test_nobody_looks_at_events_that_go_to_handlers_only() -> None:
    """Nor at those that are encoded for others, once more."""
    outlet, it = to_queue(echo.encoder(Varied))
    event = Watched(flag=True, samples=LARGE)
    handled, queued = delivery_to(Sink()), delivery_to(it)

    def looks(direct: tuple[Delivery, ...], converting: tuple[Delivery, ...]) -> int:
        outlet.direct, outlet.converting = direct, converting
        Watched.looks = 0
        outlet.submit(event)
        return Watched.looks

    assert looks((handled,), ()) == 0
    assert looks((handled, queued), ()) == 1
    assert looks((), (handled,)) == looks((queued, handled), (handled,)) > 0
    assert looks((handled, handled), ()) == 0


def test_a_queue_gets_the_size_of_what_was_encoded_for_others() -> None:
    """Then all that get the event by reference do."""
    codec, sink = echo.codec(Varied), Sink()
    calls: list[Any] = []

    def encode(event: Any) -> bytes:
        calls.append(event)
        return codec.encode(event)

    outlet, it = to_queue(encode)
    handled = delivery_to(sink)
    outlet.direct = (handled, *outlet.direct)
    outlet.converting = (Delivery(sink, codec.decode, print),)
    event = Varied(flag=True, samples=LARGE)
    outlet.submit(event)
    assert len(calls) == 1
    assert it.depth_bytes == handled.bytes == len(codec.encode(event))


@pytest.mark.parametrize("policy", [DROP_NEWEST, DROP_OLDEST])
def test_events_that_vary_are_bounded_by_bytes(policy: int) -> None:
    """Three records and a half have room."""
    codec = echo.codec(Varied)
    events = [Varied(flag=True, samples=LARGE, note=str(i)) for i in range(9)]
    it = queue(1000, 7 * len(codec.encode(events[0])) // 2, policy)
    outlet = outlet_of(codec, Varied)
    delivery = delivery_to(it)
    outlet.direct = (delivery,)
    for event in events:
        outlet.submit(event)
    kept = events[:3] if policy == DROP_NEWEST else events[-3:]
    assert (it.depth_events, it.dropped, delivery.dropped) == (3, 6, 6)
    assert [it.get(0) is event for event in kept] == [True] * 3
    assert it.depth_bytes == 0


def test_an_encoder_that_gives_no_bytes_is_said_to() -> None:
    it = queue()
    no_encoder: Any = int
    outlet = Outlet(int, no_encoder)
    outlet.direct = (delivery_to(it),)
    with pytest.raises(TypeError, match="bytes"):
        outlet.submit(5)
    assert it.depth_events == 0


def test_an_interrupt_while_an_event_is_measured_goes_on() -> None:
    class Interrupting(Varied):
        def __getattribute__(self, name: str) -> Any:
            if name == "samples":
                raise KeyboardInterrupt
            return super().__getattribute__(name)

    outlet, it = to_queue(echo.encoder(Varied))
    with pytest.raises(KeyboardInterrupt):
        outlet.submit(Interrupting(flag=True))
    assert (it.depth_events, outlet.sequence) == (0, 0)


def test_a_list_that_grows_shorter_while_it_is_measured_is_no_harm() -> None:
    items: list[Inner] = []

    class Shrinking(Inner):
        def __getattribute__(self, name: str) -> Any:
            if name == "text":
                del items[1:]
            return super().__getattribute__(name)

    items += [Shrinking("", []), Inner("y", []), Inner("z", [])]
    outlet, it = to_queue(echo.encoder(Varied))
    outlet.submit(Varied(flag=True, inners=items))
    assert it.depth_events == 1
