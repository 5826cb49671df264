"""Where events leave: by reference and as records, to every kind of sink here; and what is refused."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from functools import partial
from typing import Any, Literal

import numpy as np
import pytest

import echo_core as echo
from echo_core._c.links import DROP_NEWEST, Delivery, Outlet, Queue
from echo_core.errors import ClosedError, EncodeError, EncodeTypeError, FormatError
from tests.forks import forks
from tests.native.sinks import (
    EVENTS,
    Native,
    NativeParts,
    Plain,
    Sink,
    Slotted,
    class_of,
    deliver,
    event_names,
    outlet_of,
    record_size,
)

Tier = Literal["interpreted", "compiled"]


# ---------------------------------------------------------------------------
# Events


@pytest.mark.parametrize("event", EVENTS, ids=event_names)
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_an_event_is_handed_by_reference_and_as_its_record(event: Any, tier: Tier) -> None:
    """Each sink as it wants it; records are counted in bytes."""
    cls = class_of(event)
    codec = echo.codec(cls, tier=tier)
    outlet = outlet_of(codec, cls)
    direct, converting = Sink(), Sink()
    outlet.direct = (deliver(direct, codec),)
    outlet.submit(event)
    assert (outlet.sequence, outlet.bytes) == (1, 0)
    outlet.converting = (deliver(converting, codec),) * 2
    outlet.submit(event)
    assert all(got is event for got in direct.events)
    assert (len(direct.events), converting.events) == (2, [event, event])
    assert all(got is not event for got in converting.events)
    assert (outlet.sequence, outlet.bytes) == (2, len(codec.encode(event)))
    assert direct.errors == converting.errors == []


def test_a_sink_of_another_version_gets_a_conversion() -> None:
    """In the process as between processes."""

    @echo.event
    class Older:
        id: int
        extra: float = 1.5

    sink = Sink()
    codec = echo.codec(Native)
    decode = echo.decoder(Older, sender=codec.format, tier="compiled")
    outlet = outlet_of(codec, Native)
    outlet.converting = (Delivery(sink, decode, sink.on_error, record_size=record_size(codec)),)
    outlet.submit(Native(5, 0.0, ""))
    assert sink.events == [Older(5, 1.5)]


def test_any_callable_may_encode() -> None:
    """Its bytes are the record; anything else is refused before it is counted."""
    sink = Sink()
    outlet = Outlet(int, lambda n: n.to_bytes(2, "little") if n < 9 else "nine")  # type: ignore[arg-type,return-value]  # pyright: ignore[reportArgumentType,reportReturnType]
    outlet.converting = (Delivery(sink, bytes, sink.on_error),)
    outlet.submit(5)
    with pytest.raises(TypeError, match="Expected bytes from the encoder"):
        outlet.submit(9)
    assert (sink.events, outlet.sequence, outlet.bytes) == ([b"\5\0"], 1, 2)


@pytest.mark.parametrize("cls", [Plain, Slotted, Native, NativeParts])
def test_what_is_not_of_the_class_is_refused_before_anybody_gets_it(cls: type[Any]) -> None:
    """In the encoder's words, also where nothing is encoded."""
    codec = echo.codec(cls, tier="compiled")
    outlet = outlet_of(codec, cls)
    direct, converting = Sink(), Sink()
    outlet.direct = (deliver(direct, codec),)
    for stage in range(2):
        for wrong in (None, 5, Sink()):
            with pytest.raises(EncodeError, match=f"Expected `{cls.__qualname__}`"):
                outlet.submit(wrong)
        outlet.converting = (deliver(converting, codec),) * stage
    assert direct.events == converting.events == []
    assert outlet.sequence == 0


def test_an_event_that_cannot_be_encoded_goes_nowhere() -> None:
    """No sink gets what others cannot."""
    codec = echo.codec(Slotted, tier="compiled")
    outlet = outlet_of(codec, Slotted)
    direct, converting = Sink(), Sink()
    outlet.direct, outlet.converting = (deliver(direct, codec),), (deliver(converting, codec),)
    with pytest.raises(EncodeError, match=r"Slotted\.tag"):
        outlet.submit(Slotted(1, 2.0, "longer than eight"))
    assert direct.events == converting.events == []
    assert outlet.sequence == 0


def test_an_encoder_that_takes_what_is_not_of_the_class_changes_nothing() -> None:
    """Sinks by reference rely on the class."""
    outlet = Outlet(str, lambda _: b"")
    with pytest.raises(EncodeTypeError, match="Expected <class 'str'>"):
        outlet.submit(5)


def test_an_event_of_another_class_may_be_adopted() -> None:
    """By reference and as a record goes what was made of it."""
    codec = echo.codec(Slotted, tier="compiled")
    outlet = Outlet(Slotted, codec.encode, adopt=lambda number: Slotted(number, 2.0, "a"))
    direct, converting = Sink(), Sink()
    outlet.direct, outlet.converting = (deliver(direct, codec),), (deliver(converting, codec),)
    outlet.submit(7)
    assert direct.events == converting.events == [Slotted(7, 2.0, "a")]


@pytest.mark.parametrize("given", [None, 5, "text"])
def test_what_is_adopted_as_no_event_of_the_class_is_refused(given: object) -> None:
    outlet = Outlet(Slotted, lambda _: b"", adopt=lambda _: given)
    with pytest.raises(EncodeTypeError, match=r"Expected .*Slotted"):
        outlet.submit(5)
    assert outlet.sequence == 0


def test_adopting_may_fail_or_close_the_outlet() -> None:
    def fail(event: object) -> Slotted:
        raise LookupError(event)

    def close(event: object) -> Slotted:
        outlet.close()
        return Slotted(1, 2.0, "a")

    with pytest.raises(LookupError):
        Outlet(Slotted, lambda _: b"", adopt=fail).submit(5)
    outlet = Outlet(Slotted, lambda _: b"", adopt=close)
    with pytest.raises(echo.ClosedError):
        outlet.submit(5)


def test_an_instance_of_a_subclass_is_an_event_of_the_class() -> None:
    """By reference as it is, as a record what the class says."""

    class More(Slotted): ...

    codec = echo.codec(Slotted, tier="compiled")
    outlet = outlet_of(codec, Slotted)
    direct, converting = Sink(), Sink()
    outlet.direct, outlet.converting = (deliver(direct, codec),), (deliver(converting, codec),)
    event = More(1, 2.0, "a")
    outlet.submit(event)
    assert direct.events[0] is event
    assert converting.events == [Slotted(1, 2.0, "a")]


def test_what_a_source_without_a_class_takes_is_for_the_encoder_to_say() -> None:
    """Also where nobody takes its events."""
    sink = Sink()
    outlet = Outlet(None, str.encode, record_size=2)
    with pytest.raises(TypeError):
        outlet.submit(b"ab")
    outlet.converting = (Delivery(sink, bytes, sink.on_error, record_size=2),)
    with pytest.raises(TypeError):
        outlet.submit(b"ab")
    outlet.submit("ab")
    outlet.submit_records(b"cdef")
    assert (sink.events, outlet.sequence, outlet.bytes) == ([b"ab", b"cd", b"ef"], 3, 6)


# ---------------------------------------------------------------------------
# Records side by side


def test_records_side_by_side_reach_every_sink() -> None:
    """One by one or as one array; sinks by reference get events made for them."""
    codec = echo.codec(Native, tier="compiled")
    size = record_size(codec)
    outlet = outlet_of(codec, Native)
    direct, converting, arrays = Sink(), Sink(), Sink()
    outlet.direct = (deliver(direct, codec),)
    batches = Delivery(
        arrays, partial(np.frombuffer, dtype=codec.format.dtype), id, record_size=size, is_array=True
    )
    outlet.converting = (deliver(converting, codec), batches)
    events = [Native(i, i / 2, "e") for i in range(500)]
    array = np.frombuffer(codec.encode_many(events), codec.format.dtype).copy()
    outlet.submit_records(array)
    array["id"] = 0
    assert direct.events == converting.events == events
    assert arrays.events[0]["id"].tolist() == list(range(500))
    assert (outlet.sequence, outlet.bytes) == (500, 500 * size)


def test_no_records_are_nothing() -> None:
    """No sink hears of them."""
    sink = Sink()
    outlet = Outlet(None, bytes, record_size=8)
    outlet.converting = (Delivery(sink, bytes, sink.on_error, record_size=8),)
    outlet.submit_records(b"")
    assert (outlet.sequence, sink.events) == (0, [])


@pytest.mark.parametrize(
    ("records", "what"),
    [
        (b"1234567", "records of 8 bytes each, got 7 bytes"),
        (memoryview(bytes(64))[::2], "contiguous buffer"),
        (np.zeros((4, 4))[:, :2], "contiguous buffer"),
        (5, "contiguous buffer of records, got <class 'int'>"),
    ],
)
def test_what_is_no_row_of_records_is_refused(records: Any, what: str) -> None:
    """With the reason."""
    outlet = Outlet(None, bytes, record_size=8)
    with pytest.raises(FormatError, match=what):
        outlet.submit_records(records)
    assert outlet.sequence == 0


def test_records_that_vary_in_size_are_not_taken_side_by_side() -> None:
    """Nothing tells them apart."""
    outlet = outlet_of(echo.codec(NativeParts), NativeParts)
    with pytest.raises(FormatError, match="vary in size"):
        outlet.submit_records(b"12345678")


def test_a_buffer_is_let_go_after_its_records_are_submitted() -> None:
    """Also one that was refused."""
    outlet = Outlet(None, bytes, record_size=8)
    data = bytearray(16)
    outlet.submit_records(data)
    data.append(0)
    with pytest.raises(FormatError):
        outlet.submit_records(data)
    data.append(0)


# ---------------------------------------------------------------------------
# Handlers


class OddError(Exception):
    """What a handler raises here."""


def test_a_handler_that_raises_stops_nobody_else() -> None:
    """Nor the source."""
    codec = echo.codec(Slotted)
    outlet = outlet_of(codec, Slotted)
    sink = Sink()

    def fail(_: object) -> None:
        raise OddError

    failing = Delivery(fail, codec.decode, sink.on_error, record_size=record_size(codec))
    outlet.direct = (failing, deliver(sink, codec))
    outlet.converting = (failing, deliver(sink, codec))
    event = Slotted(1, 2.0, "a")
    outlet.submit(event)
    assert sink.events == [event, event]
    assert [type(error) for error in sink.errors] == [OddError, OddError]


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("interrupted", ["direct", "converting"])
def test_an_interrupt_in_a_handler_reaches_the_submitter(interrupted: str) -> None:
    """When all others have got the event: nobody else would hand it to them."""
    sink = Sink()
    outlet = Outlet(int, lambda n: bytes([n]))
    outlet.direct = outlet.converting = (Delivery(sink, bytes, sink.on_error),)
    setattr(outlet, interrupted, (Delivery(_interrupt, bytes, sink.on_error), *outlet.direct))
    with pytest.raises(KeyboardInterrupt):
        outlet.submit(5)
    assert (sink.events, sink.errors) == ([5, b"\5"], [])


def test_an_interrupt_where_nothing_is_encoded_reaches_the_submitter() -> None:
    """Likewise."""
    sink = Sink()
    outlet = Outlet(int, bytes)
    outlet.direct = (Delivery(_interrupt, bytes, sink.on_error), Delivery(sink, bytes, sink.on_error))
    with pytest.raises(KeyboardInterrupt):
        outlet.submit(5)
    assert (sink.events, sink.errors) == ([5], [])


@pytest.mark.parametrize("way", ["direct", "converting"])
def test_a_second_interrupt_ends_the_submission(way: str) -> None:
    """Who presses Ctrl-C again does not wait for the rest."""
    sink = Sink()
    outlet = Outlet(int, bytes)
    interrupting = Delivery(_interrupt, bytes, sink.on_error)
    setattr(outlet, way, (interrupting, interrupting, Delivery(sink, bytes, sink.on_error)))
    with pytest.raises(KeyboardInterrupt) as caught:
        outlet.submit(5)
    assert type(caught.value.__context__) is KeyboardInterrupt
    assert sink.events == []


def test_a_handler_may_submit_to_its_own_source() -> None:
    """An event in an event is delivered at once."""
    outlet = Outlet(int, lambda n: bytes([n]))
    seen: list[int] = []

    def count_down(n: int) -> None:
        seen.append(n)
        if n > 0:
            outlet.submit(n - 1)

    outlet.direct = (Delivery(count_down, bytes, print),)
    outlet.converting = (Delivery(id, bytes, print),)
    outlet.submit(50)
    assert seen == list(range(50, -1, -1))
    assert outlet.sequence == 51


@pytest.mark.parametrize("way", ["direct", "converting"])
@pytest.mark.parametrize("is_builtin", [False, True])
def test_endless_recursion_is_an_error_of_the_handler(way: str, is_builtin: bool) -> None:
    """Reported once, where there is room for it again; the process lives."""
    sink = Sink()
    outlet = Outlet(int, lambda n: bytes([n]))

    def again(event: object) -> None:
        outlet.submit(event)

    def one(_: object) -> int:
        return 1

    handler = outlet.submit if is_builtin else again
    setattr(outlet, way, (Delivery(handler, one, sink.on_error),))
    outlet.submit(1)
    assert [type(error) for error in sink.errors] == [RecursionError]


def test_200_submits_may_be_inside_one_another() -> None:
    """As docs/channels.md says; who has made the next one hears of it, and has it reported."""
    raised: list[RecursionError] = []
    reported: list[BaseException] = []
    outlet = Outlet(int, bytes)

    def again(depth: int) -> None:
        try:
            outlet.submit(depth + 1)
        except RecursionError as error:
            raised.append(error)
            assert depth == 200
            raise

    outlet.direct = (Delivery(again, bytes, reported.append),)
    outlet.submit(1)
    assert (outlet.sequence, outlet.direct[0].failures) == (200, 1)
    assert raised == reported


def test_an_interrupt_that_is_raised_twice_is_no_context_of_its_own() -> None:
    """Whoever walks the contexts of an exception comes to an end."""
    stop = SystemExit()

    def raise_it(_: object) -> None:
        raise stop

    outlet = Outlet(int, bytes)
    outlet.direct = (Delivery(raise_it, bytes, print),) * 2
    with pytest.raises(SystemExit) as caught:
        outlet.submit(5)
    assert caught.value is stop
    assert stop.__context__ is None


@pytest.mark.parametrize("way", ["direct", "converting"])
def test_a_source_that_is_closed_by_its_encoder_takes_nothing(way: str) -> None:
    """Nor does it count what nobody gets."""
    sink = Sink()

    def encode(_: object) -> bytes:
        outlet.close()
        return b"1"

    outlet = Outlet(int, encode)
    queue = Queue(max_events=9, max_bytes=9, policy=DROP_NEWEST, timeout_ns=0)
    setattr(outlet, way, (Delivery(queue, bytes, sink.on_error),))
    with pytest.raises(ClosedError):
        outlet.submit(5)
    assert (outlet.sequence, queue.depth_events) == (0, 0)


def test_sinks_may_come_and_go_during_a_submit() -> None:
    """Whoever was there when it began gets the event."""
    sink = Sink()
    outlet = Outlet(int, lambda n: bytes([n]))

    def leave(event: object) -> None:
        sink(event)
        outlet.direct = ()
        outlet.converting = ()
        gc.collect()

    outlet.direct = tuple(Delivery(leave, bytes, sink.on_error) for _ in range(3))
    outlet.submit(5)
    outlet.submit(6)
    assert sink.events == [5, 5, 5]


def test_threads_may_submit_to_one_source() -> None:
    """Every event arrives once."""
    queue = Queue(max_events=1 << 20, max_bytes=1 << 30, policy=DROP_NEWEST, timeout_ns=0)
    codec = echo.codec(Native)
    outlet = outlet_of(codec, Native)
    outlet.direct = (Delivery(queue, codec.decode, print),)
    outlet.converting = (Delivery(queue, codec.decode, print, record_size=record_size(codec)),)

    def submit(first: int) -> None:
        for i in range(first, first + 1000):
            outlet.submit(Native(i, 0.0, ""))

    threads = [threading.Thread(target=submit, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.close()
    assert sorted(event.id for event in queue) == sorted([*range(4000), *range(4000)])
    assert outlet.sequence == 4000


@forks
@pytest.mark.parametrize("way", ["direct", "converting"])
def test_a_child_that_a_handler_forks_hands_on_nothing(way: str) -> None:
    """The sinks behind it are the parent's."""
    sink, children = Sink(), list[int]()

    def fork(_: object) -> None:
        children.append(os.fork())

    outlet = Outlet(int, lambda n: bytes([n]))
    setattr(outlet, way, (Delivery(fork, bytes, sink.on_error), Delivery(sink, bytes, sink.on_error)))
    outlet.submit(5)
    if children == [0]:
        os._exit(len(sink.events))
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    assert len(sink.events) == 1


# ---------------------------------------------------------------------------
# Closing, and what is kept alive


def test_a_closed_source_takes_nothing() -> None:
    """And lets go of its sinks."""
    sink = Sink()
    outlet = Outlet(int, bytes, record_size=1)
    delivery = Delivery(sink, bytes, sink.on_error)
    before = sys.getrefcount(delivery)
    outlet.direct, outlet.converting = (delivery,), (delivery, delivery)
    outlet.close()
    outlet.close()
    assert sys.getrefcount(delivery) == before
    left: list[Any] = [outlet.outgoing, outlet.direct, outlet.converting, outlet.pool]
    assert left == [(), (), (), None]
    with pytest.raises(ClosedError, match="open source"):
        outlet.submit(5)
    with pytest.raises(ClosedError, match="open source"):
        outlet.submit_records(b"1")


def test_a_handler_may_close_the_source() -> None:
    """Those behind it still get this event."""
    sink = Sink()
    outlet = Outlet(int, lambda n: bytes([n]))

    def close(_: object) -> None:
        outlet.close()

    closing = Delivery(close, bytes, sink.on_error)
    outlet.direct = (closing, Delivery(sink, bytes, sink.on_error))
    outlet.submit(5)
    assert sink.events == [5]
    assert sink.errors == []


def test_attributes_take_what_they_are_for() -> None:
    """Tuples of the right kind, or nothing changes."""
    outlet = Outlet(int, bytes)
    delivery = Delivery(id, id, id)
    several: list[Any] = [[], (1,), (delivery, 1), None]
    for name in ("outgoing", "direct", "converting"):
        for wrong in several:
            with pytest.raises(TypeError, match="Expected a tuple"):
                setattr(outlet, name, wrong)
        with pytest.raises(TypeError, match="Expected a tuple"):
            delattr(outlet, name)
        assert getattr(outlet, name) == ()
    with pytest.raises(TypeError, match="Expected a tuple"):
        outlet.outgoing = (delivery,)  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError, match="Pool or None"):
        outlet.pool = 5  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    outlet.pool = None


def test_arguments_of_the_wrong_kind_are_refused() -> None:
    """When it is made."""
    with pytest.raises(TypeError, match="class or None"):
        Outlet(5, bytes)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    wrongs: list[dict[str, Any]] = [{"record_size": -1}, {"max_payload": 0}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="Expected a size"):
            Outlet(int, bytes, **wrong)


def test_an_outlet_in_a_cycle_is_collected() -> None:
    """Its sink may submit to it."""
    outlet = Outlet(int, bytes)
    outlet.direct = (Delivery(outlet.submit, bytes, print),)
    holder = Sink()
    outlet.converting = (Delivery(holder, bytes, outlet.submit),)
    gone = weakref.ref(holder)
    del outlet, holder
    gc.collect()
    assert gone() is None


def test_outlets_let_go_of_everything() -> None:
    """Their type, what they were given, and each event."""
    codec = echo.codec(Native, tier="compiled")
    event, sink = Native(1, 2.0, "a"), Sink()
    watched = [Outlet, Delivery, codec.encode, event, sink, Native]
    before = [sys.getrefcount(it) for it in watched]
    for _ in range(10):
        outlet = outlet_of(codec, Native)
        outlet.direct = outlet.converting = (deliver(sink, codec),)
        outlet.submit(event)
        outlet.submit_records(codec.encode(event))
        with pytest.raises(EncodeError):
            outlet.submit(5)
        del outlet
        sink.events.clear()
    assert [sys.getrefcount(it) for it in watched] == before
