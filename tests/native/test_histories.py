"""What outlets and the receiving ends of streams keep for sinks that come later."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core._c.links import Delivery, IncomingStream, Outlet, Sharers
from echo_core.errors import ClosedError
from echo_core.streams.catching_up import CatchingUp

SIZE = 8


def record(number: int) -> bytes:
    return struct.pack("<Q", number)


def outlet_that_keeps(events: int, size_bytes: int = 1 << 20, record_size: int = SIZE) -> Outlet:
    return Outlet(None, record, record_size=record_size, keep_events=events, keep_bytes=size_bytes)


@given(st.integers(1, 40), st.lists(st.integers(0, 100), max_size=8), st.integers(0, 400))
def test_the_last_are_kept_with_their_numbers(events: int, batches: list[int], number: int) -> None:
    """However they were submitted, one by one or side by side."""
    outlet, submitted = outlet_that_keeps(events), 0
    for batch in batches:
        outlet.submit_records(b"".join(map(record, range(submitted, submitted + batch))))
        outlet.submit(submitted + batch)
        submitted += batch + 1
    kept, following = outlet.kept_since(number)
    assert following == submitted
    assert kept == [(i, record(i), 0) for i in range(max(number, submitted - events), submitted)]


def test_bytes_are_bounded() -> None:
    outlet = Outlet(None, bytes, keep_events=100, keep_bytes=10)
    for size in (4, 4, 4):
        outlet.submit(size)
    assert outlet.kept_since(0) == ([(1, bytes(4), 0), (2, bytes(4), 0)], 3)
    outlet.submit(11)
    assert outlet.kept_since(0) == ([], 4)
    outlet.submit(10)
    assert outlet.kept_since(0) == ([(4, bytes(10), 0)], 5)


def test_an_outlet_that_is_closed_keeps_nothing() -> None:
    outlet = outlet_that_keeps(3)
    outlet.submit(1)
    outlet.close()
    assert outlet.kept_since(0) == ([], 1)
    with pytest.raises(ClosedError):
        outlet.submit(2)


def test_a_sink_takes_part_from_the_number_that_it_names() -> None:
    """Or from any."""
    outlet, got = outlet_that_keeps(1), list[bytes]()
    outlet.submit(0)
    delivery = Delivery(got.append, bytes, print, record_size=SIZE)
    assert outlet.add_delivery(delivery, 0, False) is None
    assert outlet.add_delivery(delivery, 1, False) == 1
    outlet.submit(1)
    assert outlet.add_delivery(delivery, None, False) == 2
    outlet.submit(2)
    assert got == [record(1), record(2), record(2)]


def test_a_stream_that_starts_again_keeps_nothing_of_before() -> None:
    incoming = IncomingStream(record_size=SIZE, keep_events=2, keep_bytes=100)
    incoming.restart(7)
    assert incoming.kept_since(0) == ([], 7)
    with pytest.raises(OverflowError):
        incoming.restart(-1)


@pytest.mark.parametrize(("events", "size_bytes"), [(-1, 1), (1, -1)])
def test_what_is_kept_is_not_negative(events: int, size_bytes: int) -> None:
    with pytest.raises(ValueError, match="to keep at least 0 events"):
        Outlet(None, record, keep_events=events, keep_bytes=size_bytes)
    with pytest.raises(ValueError, match="to keep at least 0 events"):
        IncomingStream(keep_events=events, keep_bytes=size_bytes)


SMALL = st.integers(0, 6)


@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(8, 80), st.lists(st.tuples(SMALL, SMALL), max_size=60)
)
def test_the_last_of_each_value_are_kept(
    last: int, keys: int, size_bytes: int, events: list[tuple[int, int]]
) -> None:
    """As a model says: of too many values, or bytes, those go that were longest without an event."""
    outlet = Outlet(None, bytes, keep_events=last, keep_bytes=size_bytes, key=(0, 4, False, False, keys))
    model: dict[int, list[tuple[int, bytes, int]]] = {}
    forgotten = 0

    def bytes_kept() -> int:
        return sum(len(event) for of_value in model.values() for _, event, _ in of_value)

    for number, (key, more) in enumerate(events):
        event = struct.pack("<I", key) + bytes(4 * more)
        outlet.submit(event)
        if key not in model and len(model) == keys:
            del model[next(iter(model))]
            forgotten += 1
        of_value = model.pop(key, [])
        if len(event) > size_bytes:
            forgotten += 1
            continue
        of_value = of_value[max(0, len(of_value) + 1 - last) :]
        while model and bytes_kept() + sum(len(it) for _, it, _ in of_value) + len(event) > size_bytes:
            del model[next(iter(model))]
            forgotten += 1
        while sum(len(it) for _, it, _ in of_value) + len(event) > size_bytes:
            del of_value[0]
        model[key] = [*of_value, (number, event, 0)]
    kept = sorted(event for of_value in model.values() for event in of_value)
    assert outlet.kept_since(0) == (kept, len(events))
    assert outlet.forgotten_keys == forgotten


def test_many_values_are_found_again() -> None:
    """And forgotten ones make room for others."""
    outlet = Outlet(
        None, record, record_size=SIZE, keep_events=2, keep_bytes=1 << 20, key=(0, 8, False, False, 1000)
    )
    for _ in range(3):
        for number in range(1000):
            outlet.submit(number)
    kept, following = outlet.kept_since(0)
    assert [number for number, _, _ in kept] == list(range(1000, 3000))
    for number in range(5000):
        outlet.submit(10_000 + number)
    kept, following = outlet.kept_since(0)
    assert [it for _, it, _ in kept] == [record(14_000 + number) for number in range(1000)]
    assert (following, outlet.forgotten_keys) == (8000, 5000)
    outlet.close()
    assert outlet.forgotten_keys == 5000


@pytest.mark.parametrize(
    "sent",
    [b"", bytes(7), struct.pack("<Q", 8), struct.pack("<Q", 1 << 63), struct.pack("<Q", 8) + b"no end"],
)
def test_text_that_is_no_key_is_not_kept(sent: bytes) -> None:
    """It is for decoders to refuse; nothing is read beyond the record."""
    outlet = Outlet(None, bytes, keep_events=1, keep_bytes=1 << 20, key=(0, 8, True, False, 10))
    outlet.submit(sent)
    assert outlet.kept_since(0) == ([], 1)
    outlet.submit(struct.pack("<Q", 8) + b"end\0")
    assert [number for number, _, _ in outlet.kept_since(0)[0]] == [1]


@pytest.mark.parametrize(
    "key", [(-1, 4, 0, 0, 1), (0, 0, 0, 0, 1), (0, 9, 1, 0, 1), (0, 4, 0, 0, 0), (1 << 62, 1 << 62, 0, 0, 1)]
)
def test_a_key_has_a_place(key: tuple[int, int, bool, bool, int]) -> None:
    with pytest.raises(ValueError, match="the place of a key"):
        Outlet(None, bytes, keep_events=1, keep_bytes=1, key=key)


def test_streams_that_call_one_handler_share_a_window() -> None:
    """As long as there are several; what was granted holds."""
    sharers, granted = Sharers(), list[tuple[int, int]]()
    streams = [IncomingStream(window_events=100, window_bytes=1000) for _ in range(4)]
    for stream in streams:
        stream.deliveries = (Delivery(print, bytes, print, sink=sharers),)
        granted.append(stream.grant())
    assert granted == [(100, 1000), (50, 500), (33, 333), (25, 250)]
    assert sharers.streams == 4
    for stream in streams[:3]:
        stream.deliveries = ()
    assert (sharers.streams, streams[3].grant()) == (1, (100, 1000))


def test_no_stream_begins_anew_with_a_number_that_could_begin_anew() -> None:
    incoming = IncomingStream()
    incoming.restart(2**63 - 1)
    with pytest.raises(ValueError, match="below 2"):
        incoming.restart(2**63)


def test_a_source_is_held_up_until_the_last_that_comes_up_with_it_has() -> None:
    """It is granted event by event, and then as much as before."""
    incoming = IncomingStream(window_events=10, window_bytes=10)
    for change, granted in ((1, 1), (1, 1), (0, 1), (-1, 1), (-1, 10)):
        incoming.hold(change)
        assert incoming.grant() == (granted, granted)


def test_a_sink_that_was_interrupted_before_it_began_takes_nothing_from_others() -> None:
    """More than usual is kept as long as another one follows."""
    outlet = outlet_that_keeps(1)
    outlet.follow(True)
    behind = CatchingUp(outlet, None, 10, lambda _: 0, is_by_key=False)
    assert behind.take_part(is_due=True) == 0
    for i in range(3):
        outlet.submit(i)
    assert [number for number, _, _ in outlet.kept_since(0, True)[0]] == [0, 1, 2]
    outlet.follow(False)
    assert [number for number, _, _ in outlet.kept_since(0, True)[0]] == [2]


@pytest.mark.parametrize("change", [2, -2])
def test_sinks_come_up_with_a_source_one_by_one(change: int) -> None:
    for keeper in (outlet_that_keeps(1), IncomingStream()):
        with pytest.raises(ValueError, match="1, 0 or -1"):
            keeper.hold(change)
