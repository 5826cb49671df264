"""Where large records are encoded: in memory that an outlet keeps for the next one."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core._c.links import (
    DROP_NEWEST,
    Branch,
    Delivery,
    Mapping,
    OutgoingStream,
    Outlet,
    Pool,
    SocketWire,
)
from tests.native.link_ends import NO_LIMIT, PATIENCE_NS, link_over
from tests.native.sinks import NativeParts, Sink, SlottedParts, outlet_of

CLASSES: list[type[Any]] = [NativeParts, SlottedParts]
SIZES = [10, 2000, 1500, 2600, 5000, 10, 1_500_000, 3000, 900_000, 1]


@echo.event
class NativeNumbers:
    id: int
    numbers: echo.Array[echo.Float64, ...]


@dataclass(slots=True)
class SlottedNumbers:
    id: int
    numbers: echo.Array[echo.Float64, ...]


def outlet_to(cls: type[Any], *targets: Any) -> tuple[Outlet, echo.Codec[Any]]:
    """To sinks in this process that take each record's bytes."""
    codec = echo.codec(cls, tier="compiled")
    outlet = outlet_of(codec, cls)
    outlet.converting = tuple(Delivery(target, bytes, print) for target in targets)
    return outlet, codec


@pytest.mark.parametrize("cls", CLASSES)
def test_records_of_any_size_follow_each_other(cls: type[Any]) -> None:
    """Nothing of a larger one shows in a smaller one behind it."""
    sink = Sink()
    outlet, codec = outlet_to(cls, sink)
    events = [cls(i, chr(97 + i) * size, ["t" * i]) for i, size in enumerate(SIZES)]
    for event in events:
        outlet.submit(event)
    assert sink.events == [codec.encode(event) for event in events]


@pytest.mark.parametrize("cls", CLASSES)
def test_what_a_handler_submits_is_not_written_over_the_record_that_it_handles(cls: type[Any]) -> None:
    """A submission within a submission has room of its own, also where it is larger."""
    sink = Sink()
    events = [cls(i, chr(97 + i) * 4000 * (i + 1), []) for i in range(4)]

    def submit_next(record: bytes) -> None:
        i = ord(record[:1])
        if i + 1 < len(events):
            outlet.submit(events[i + 1])

    outlet, codec = outlet_to(cls, submit_next, sink)
    for _ in range(3):
        outlet.submit(events[0])
    assert sink.events == [codec.encode(event) for event in reversed(events)] * 3


@pytest.mark.parametrize("cls", CLASSES)
def test_what_is_submitted_meanwhile_is_not_written_over_the_record_that_is_derived(cls: type[Any]) -> None:
    """Each has room of its own until what is derived from it is handed out as well."""
    sink, last = Sink(), Sink()
    events = [cls(i, chr(97 + i) * 4000 * (i + 1), []) for i in range(4)]

    def submit_next(record: bytes) -> None:
        i = ord(record[:1])
        if i + 1 < len(events):
            outlet.submit(events[i + 1])

    outlet, codec = outlet_to(cls, submit_next, sink)
    derived, _ = outlet_to(cls, last)
    outlet.branches = (Branch(None, derived),)
    for _ in range(3):
        outlet.submit(events[0])
    assert sink.events == last.events == [codec.encode(event) for event in reversed(events)] * 3


@pytest.mark.parametrize("cls", CLASSES)
def test_threads_do_not_write_over_each_others_records(cls: type[Any]) -> None:
    """One submits while the other's record is being handed out."""
    sink = Sink()
    meeting = threading.Barrier(2)

    def meet(_: object) -> None:
        meeting.wait(30)

    outlet, codec = outlet_to(cls, meet, sink)
    events = [cls(i, chr(97 + i) * 5000, []) for i in range(2)]

    def submit_often(event: Any) -> None:
        for _ in range(20):
            outlet.submit(event)

    threads = [threading.Thread(target=submit_often, args=(event,)) for event in events]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(sink.events) == sorted([codec.encode(event) for event in events] * 20)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_source_that_is_closed_by_a_handler_hands_on_the_same_record(cls: type[Any]) -> None:
    """Its memory is not given back before that."""
    sink = Sink()
    closing = False

    def close(_: object) -> None:
        if closing:
            outlet.close()

    outlet, codec = outlet_to(cls, close, sink)
    event = cls(1, "n" * 5000, [])
    outlet.submit(event)
    closing = True
    outlet.submit(event)
    assert sink.events == [codec.encode(event)] * 2


@pytest.mark.parametrize("is_derived_from", [False, True])
@pytest.mark.parametrize("cls", [NativeNumbers, SlottedNumbers])
def test_the_next_large_record_takes_no_new_memory(cls: type[Any], *, is_derived_from: bool) -> None:
    """New memory would be page faults, which cost more than the encoding."""
    codec = echo.codec(cls, tier="compiled")
    outlet = outlet_of(codec, cls)
    if is_derived_from:
        derived = outlet_of(codec, cls)
        derived.direct = (Delivery(id, bytes, print),)
        outlet.branches = (Branch(None, derived),)
    here, there = socket.socketpair()
    link = link_over(SocketWire(here.detach()))
    full = {"max_events": 1, "max_bytes": 1, "policy": DROP_NEWEST, "timeout_ns": PATIENCE_NS}
    outlet.outgoing = (OutgoingStream(link, 64, "a source", **full),)
    outlet.outgoing[0].grant(NO_LIMIT, NO_LIMIT)
    event = cls(1, np.arange(10_000.0))

    def submit_often() -> None:
        for i in range(50):
            event.id = i  # or it would be known what it encodes to
            outlet.submit(event)

    tracemalloc.start()
    try:
        submit_often()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        submit_often()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        link.shut()
        there.close()
    assert peak - before < 40_000  # half a record


@dataclass(slots=True)
class Grid:
    """A record of fixed size, half a MiB."""

    id: int
    cells: echo.Array[echo.UInt16, 512, 512]


@echo.event
class NativeGrid:
    id: int
    cells: echo.Array[echo.UInt16, 512, 512]


AMPLE = {"max_events": 1 << 20, "max_bytes": 1 << 30, "policy": DROP_NEWEST, "timeout_ns": PATIENCE_NS}
LENT: dict[type[Any], Any] = {
    Grid: np.arange(1 << 18, dtype=np.uint16).reshape(512, 512),
    NativeGrid: np.arange(1 << 18, dtype=np.uint16).reshape(512, 512),
    NativeNumbers: np.arange(60_000.0),
    SlottedNumbers: np.arange(60_000.0),
}


@pytest.mark.parametrize("is_derived_from", [False, True])
@pytest.mark.parametrize("cls", LENT, ids=lambda cls: cls.__name__)
def test_a_record_that_is_lent_is_encoded_where_it_is_read(cls: type[Any], *, is_derived_from: bool) -> None:
    """No other memory holds it on its way; also where something is derived that nobody takes."""
    pool = Pool(block_bytes=1 << 16, blocks=64)
    codec = echo.codec(cls, tier="compiled")
    outlet = outlet_of(codec, cls)
    outlet.pool = pool
    if is_derived_from:
        outlet.branches = (Branch(None, outlet_of(codec, cls)),)
    here, there = socket.socketpair()
    holder = pool.attach()
    link = link_over(SocketWire(here.detach()), pool=pool, holder=holder)
    outlet.outgoing = (OutgoingStream(link, 64, "a source", **AMPLE),)
    outlet.outgoing[0].grant(NO_LIMIT, NO_LIMIT)
    mapping = Mapping(pool.fileno(), holder)
    event = cls(0, LENT[cls])
    submitted: list[int] = []

    def submit(number: int) -> None:
        event.id = number
        outlet.submit(event)
        frame = there.recv(1 << 20)
        lent: Any = mapping.open(frame[8:24])[1]
        submitted.append(codec.decode(lent).id)

    with there:
        for number in range(3):
            submit(number)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            event.id = 3
            outlet.submit(event)
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        link.shut()
    assert submitted == [0, 1, 2]
    assert peak < 40_000


def test_a_record_that_a_sink_here_reads_is_in_no_memory_of_others() -> None:
    """A reader could change it while it is decoded."""
    pool = Pool(block_bytes=1 << 16, blocks=64)
    codec = echo.codec(NativeGrid, tier="compiled")
    here, there = socket.socketpair()
    link = link_over(SocketWire(here.detach()), pool=pool, holder=pool.attach())
    used: list[int] = []
    outlet = outlet_of(codec, NativeGrid)
    outlet.pool = pool
    outlet.outgoing = (OutgoingStream(link, 64, "a source", **AMPLE),)  # without credit: what is lent waits

    def take(record: bytes) -> None:
        used.append(pool.used)

    outlet.converting = (Delivery(take, bytes, print),)
    with there:
        for number in range(3):
            outlet.submit(NativeGrid(number, LENT[NativeGrid]))
        link.shut()
    assert used == [9, 18, 27]
