"""From the records of a stream to a sink: every kind of class, arrays, queues; whose fault an error is."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
import pytest

import echo_core as echo
from echo_core._c.events import Routine
from echo_core._c.links import DROP_NEWEST, Delivery, IncomingStream, Queue
from echo_core.errors import ConversionError, WireError
from tests.native.sinks import (
    EVENTS,
    Native,
    NativeParts,
    Plain,
    Sink,
    Slotted,
    SlottedParts,
    class_of,
    event_names,
    record_size,
)

Tier = Literal["interpreted", "compiled"]


def deliver(sink: Sink, decode: Any, size: int = 0, **options: Any) -> Delivery:
    return Delivery(sink, decode, sink.on_error, record_size=size, **options)


def large_queue() -> Queue:
    return Queue(max_events=10_000, max_bytes=1 << 30, policy=DROP_NEWEST, timeout_ns=0)


# ---------------------------------------------------------------------------
# Events


@pytest.mark.parametrize("event", EVENTS, ids=event_names)
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_handler_gets_the_event_of_each_record(event: Any, tier: Tier) -> None:
    """Whatever its class, and however it is decoded."""
    cls = class_of(event)
    codec = echo.codec(cls, tier=tier)
    sink = Sink()
    delivery = deliver(sink, codec.decode, record_size(codec))
    for _ in range(3):
        delivery.hand(codec.encode(event))
    assert sink.events == [event] * 3
    assert all(type(got) is cls for got in sink.events)
    assert (delivery.events, delivery.failures, sink.errors) == (3, 0, [])


@pytest.mark.parametrize("event", EVENTS[:3], ids=event_names[:3])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_records_side_by_side_come_one_by_one(event: Any, tier: Tier) -> None:
    """In their order."""
    cls = class_of(event)
    codec = echo.codec(cls, tier=tier)
    events = [cls(i, i / 2, f"e{i}") for i in range(100)]
    sink = Sink()
    deliver(sink, codec.decode, record_size(codec)).hand(codec.encode_many(events))
    assert sink.events == events


@pytest.mark.parametrize("event", EVENTS, ids=event_names)
@pytest.mark.parametrize("abi", ["s390x", "i386"])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_records_of_another_machine_are_converted(event: Any, abi: str, tier: Tier) -> None:
    """With its byte order and its offsets."""
    cls = class_of(event)
    sender = echo.format_of(cls, abi=abi)
    record = echo.encoder(cls, abi=abi)(event)
    codec = echo.codec(cls, sender=sender, tier=tier)
    sink = Sink()
    deliver(sink, codec.decode, sender.size_bytes if sender.is_fixed else 0).hand(record)
    assert (sink.events, sink.errors) == ([event], [])


@pytest.mark.parametrize("cls", [Plain, Slotted, Native])
def test_an_event_keeps_nothing_of_the_memory_that_it_came_in(cls: type[Any]) -> None:
    """A handler may keep events for ever."""
    codec = echo.codec(cls, tier="compiled")
    data = codec.encode(cls(1, 2.0, "a")) + b""
    before = sys.getrefcount(data)
    sink = Sink()
    deliver(sink, codec.decode, record_size(codec)).hand(data)
    assert sys.getrefcount(data) == before
    assert sink.events == [cls(1, 2.0, "a")]


def test_any_callable_may_decode() -> None:
    """It is given bytes."""
    sink = Sink()
    deliver(sink, memoryview, 2).hand(bytearray(b"abcd"))
    assert [(view.obj, view.readonly) for view in sink.events] == [(b"ab", True), (b"cd", True)]


def test_a_builtin_function_of_something_else_decodes_as_any_callable() -> None:
    """Only the codecs' own are called on plain memory."""
    sink = Sink()
    deliver(sink, len).hand(b"abcd")
    deliver(sink, b"-".join, 0).hand(b"")
    assert sink.events == [4, b""]


def test_an_event_of_the_sinks_own_type_is_handed_by_reference() -> None:
    """It is not decoded."""
    sink = Sink()
    event = object()
    delivery = deliver(sink, None)
    delivery.hand_event(event)
    assert sink.events == [event]
    assert sink.events[0] is event
    assert (delivery.events, delivery.compiled, delivery.interpreted) == (1, 0, 0)


def test_what_python_code_decodes_is_counted_for_each_sink() -> None:
    """Also that which native code refuses, as it has the words."""
    codec = echo.codec(Slotted, tier="compiled")
    record, damaged = codec.encode(Slotted(1, 0.5, "a")), b"\xff" * codec.format.size_bytes
    deliveries = [deliver(Sink(), codec.decode, len(record)) for _ in range(2)]
    for delivery in deliveries:
        delivery.hand(record * 3)
    with pytest.raises(WireError):
        deliveries[0].hand(record + damaged)
    assert [(each.events, each.compiled, each.interpreted) for each in deliveries] == [(5, 4, 1), (3, 3, 0)]


def test_a_decoder_of_python_s_own_interprets_all() -> None:
    delivery = deliver(Sink(), memoryview, 2)
    delivery.hand(b"abcdef")
    assert (delivery.compiled, delivery.interpreted) == (0, 3)


def test_arrays_that_python_code_converts_are_counted_by_their_events() -> None:
    routine = Routine(bytes)

    def decode(data: bytes) -> Any:
        return routine.call(data)

    delivery = deliver(Sink(), decode, 2, is_array=True, convert=routine.call)
    delivery.hand(b"abcdef")
    plain = deliver(Sink(), memoryview, 2, is_array=True)
    plain.hand(b"abcdef")
    assert [(each.compiled, each.interpreted) for each in (delivery, plain)] == [(0, 3), (3, 0)]


def test_who_is_counted_lives_as_long_as_the_delivery() -> None:
    convert = Routine(bytes).call
    delivery = deliver(Sink(), memoryview, 2, is_array=True, convert=convert)
    held = weakref.ref(convert)
    del convert
    gc.collect()
    delivery.hand(b"ab")
    assert held() is not None
    del delivery
    gc.collect()
    assert held() is None


def test_a_bound_method_and_a_builtin_function_are_handlers_too() -> None:
    """Any callable of one argument is."""
    got: list[Any] = []
    for handler in (got.append, Sink(got).__call__, Sink(got)):
        Delivery(handler, bytes, print).hand(b"x")
    assert got == [b"x"] * 3


def test_a_queue_gets_events_with_the_size_of_their_records() -> None:
    """For its limit of bytes."""
    codec = echo.codec(Native)
    queue = large_queue()
    delivery = Delivery(queue, codec.decode, print, record_size=record_size(codec))
    events = [Native(i, 0.0, "") for i in range(5)]
    delivery.hand(codec.encode_many(events))
    assert (queue.depth_events, queue.depth_bytes) == (5, 5 * record_size(codec))
    assert [queue.get() for _ in events] == events
    delivery.hand_event(events[0])
    assert queue.get() is events[0]


# ---------------------------------------------------------------------------
# Arrays


def test_all_records_of_a_batch_become_one_array() -> None:
    """`events` counts records."""
    codec = echo.codec(Native)
    dtype = codec.format.dtype
    sink = Sink()
    delivery = deliver(sink, partial(np.frombuffer, dtype=dtype), record_size(codec), is_array=True)
    delivery.hand(codec.encode_many([Native(i, i, "a") for i in range(1000)]))
    delivery.hand(codec.encode(Native(7, 7, "a")))
    assert [len(array) for array in sink.events] == [1000, 1]
    assert sink.events[0]["id"].tolist() == list(range(1000))
    assert delivery.events == 1001


def test_a_large_batch_is_read_in_place_and_a_small_one_is_copied() -> None:
    """A view keeps its memory, and nothing else does."""
    sink = Sink()
    delivery = deliver(sink, memoryview, 8, is_array=True)
    for size, is_kept in ((4096, True), (4088, False)):
        data = b"x" * size
        before = sys.getrefcount(data)
        delivery.hand(data)
        view = sink.events.pop()
        assert view.readonly
        assert view == data
        assert sys.getrefcount(data) == before + is_kept
        del view
        assert sys.getrefcount(data) == before


def test_a_batch_in_memory_that_may_change_is_copied() -> None:
    """What a sink holds stays as it was."""
    sink = Sink()
    data = bytearray(8192)
    deliver(sink, memoryview, 8, is_array=True).hand(data)
    data[0] = 1
    assert sink.events[0][0] == 0


def test_a_queue_gets_whole_arrays() -> None:
    """Each with its events and its bytes."""
    queue = large_queue()
    delivery = Delivery(queue, memoryview, print, record_size=8, is_array=True)
    delivery.hand(bytes(8000))
    delivery.hand(bytes(16))
    assert (queue.depth_events, queue.depth_bytes) == (1002, 8016)
    assert [len(queue.get(0)) for _ in range(2)] == [8000, 16]
    assert (queue.depth_events, queue.depth_bytes) == (0, 0)


# ---------------------------------------------------------------------------
# Errors


class OddError(Exception):
    """What a handler raises here."""


def test_what_a_handler_raises_is_reported_and_stops_nobody() -> None:
    """With its traceback, which leads to the handler."""
    sink = Sink()

    def handler(event: bytes) -> None:
        sink(event)
        raise OddError(event)

    delivery = Delivery(handler, bytes, sink.on_error, record_size=1)
    delivery.hand(b"abc")
    assert sink.events == [b"a", b"b", b"c"]
    assert [error.args for error in sink.errors] == [(b"a",), (b"b",), (b"c",)]
    for error in sink.errors:
        assert error.__traceback__ is not None
        assert error.__traceback__.tb_frame.f_code is handler.__code__
    assert (delivery.events, delivery.failures) == (3, 3)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_is_raised_when_the_batch_is_done(interrupt: type[BaseException]) -> None:
    """Ctrl-C is not an error of a handler, and nobody else would hand the others over."""
    sink = Sink()

    def handler(event: bytes) -> None:
        sink(event)
        if event == b"a":
            raise interrupt

    with pytest.raises(interrupt):
        Delivery(handler, bytes, sink.on_error, record_size=1).hand(b"abc")
    assert (sink.events, sink.errors) == ([b"a", b"b", b"c"], [])


@pytest.mark.parametrize("exits", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_is_reported_where_its_reporter_takes_it(exits: type[BaseException]) -> None:
    """As in a thread that is no component's, and where the record is not even decoded."""
    sink = Sink()
    reported: list[BaseException] = []

    def leave(_: object) -> None:
        raise exits

    def take(error: BaseException) -> bool:
        reported.append(error)
        return True

    for failing in (Delivery(leave, bytes, take, record_size=1), Delivery(sink, leave, take, record_size=1)):
        failing.hand(b"abc")
        assert (failing.events, failing.failures) == (3, 3)
    assert [type(error) for error in reported] == [exits] * 6
    assert sink.events == []


def test_what_a_decoder_raises_can_be_reported_apart() -> None:
    """From what the handler does."""
    sink, refusals = Sink(), Sink()

    def decode(record: bytes) -> bytes:
        if record == b"a":
            raise OddError(record)
        return record

    def handle(event: bytes) -> None:
        raise OddError(event)

    delivery = Delivery(handle, decode, sink.on_error, record_size=1, on_refusal=refusals.on_error)
    delivery.hand(b"ab")
    assert [[error.args for error in each.errors] for each in (refusals, sink)] == [[(b"a",)], [(b"b",)]]
    assert (delivery.events, delivery.failures) == (2, 2)


@pytest.mark.parametrize("answer", [None, False, ZeroDivisionError, KeyboardInterrupt])
def test_what_is_no_exception_stays_the_same_where_its_reporter_does_not(answer: Any) -> None:
    """Nor does it get another context, or frames of the reporter."""

    def leave(event: object) -> None:
        raise SystemExit(event)

    def on_error(_: BaseException) -> Any:
        if answer in {None, False}:
            return answer
        raise answer

    with pytest.raises(SystemExit) as caught:
        Delivery(leave, bytes, on_error).hand(b"a")
    assert caught.value.args == (b"a",)
    assert caught.value.__context__ is None
    assert [entry.name for entry in caught.traceback][-1] == "leave"


def test_the_second_interrupt_ends_the_batch() -> None:
    """Whoever presses Ctrl-C twice does not want to wait."""
    sink = Sink()

    def handler(event: bytes) -> None:
        sink(event)
        raise KeyboardInterrupt(event)

    with pytest.raises(KeyboardInterrupt, match="b") as caught:
        Delivery(handler, bytes, sink.on_error, record_size=1).hand(b"abc")
    assert isinstance(caught.value.__context__, KeyboardInterrupt)
    assert sink.events == [b"a", b"b"]


def test_an_exception_of_the_error_handler_is_unraisable(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody left to tell, and the next event is delivered."""
    sink = Sink()
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def on_error(error: BaseException) -> None:
        raise OddError(2) from error

    def handler(event: bytes) -> None:
        sink(event)
        raise OddError(1)

    Delivery(handler, bytes, on_error, record_size=1).hand(b"ab")
    assert sink.events == [b"a", b"b"]
    assert [args.exc_value.args for args in unraisable] == [(2,)] * 2


def test_an_interrupt_of_the_error_handler_goes_on() -> None:
    """As one of the handler does."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    def fail(_: object) -> None:
        raise OddError

    with pytest.raises(KeyboardInterrupt):
        Delivery(fail, bytes, interrupt).hand(b"")


@pytest.mark.parametrize("cls", [Plain, Slotted, Native, NativeParts, SlottedParts])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_damaged_record_is_the_senders_fault(cls: type[Any], tier: Tier) -> None:
    """So it is not reported to the sink: whoever handed it on learns of it."""
    sink = Sink()
    codec = echo.codec(cls, tier=tier)
    delivery = deliver(sink, codec.decode)
    with pytest.raises(WireError):
        delivery.hand(b"\xff" * 3)
    assert (sink.events, sink.errors) == ([], [])
    assert (delivery.events, delivery.failures) == (1, 1)


def outcome_of(function: Callable[[Any], Any], argument: Any) -> Any:
    """What it returns, or the error that it raises; reading a field may raise too."""
    try:
        return function(argument)
    except echo.EchoError as error:
        return type(error), str(error)


def damaged(record: bytes) -> Iterator[bytes]:
    """Every truncation, every byte changed, and some bytes too many."""
    for i in range(len(record)):
        yield record[:i]
        for change in (1, 0x80, 0xFF):
            yield record[:i] + bytes([record[i] ^ change]) + record[i + 1 :]
    yield record + bytes(8)


@pytest.mark.parametrize("event", EVENTS[:5], ids=event_names[:5])
@pytest.mark.parametrize("abi", ["native", "s390x"])
def test_a_damaged_record_is_what_the_decoder_says_it_is(event: Any, abi: str) -> None:
    """Plain memory is read by the same rules as bytes, and refused in the same words."""
    cls = class_of(event)
    decode = echo.codec(cls, sender=echo.format_of(cls, abi=abi), tier="compiled").decode
    for record in damaged(echo.encoder(cls, abi=abi)(event)):
        sink = Sink()
        expected = outcome_of(decode, record)
        got = outcome_of(deliver(sink, decode).hand, record)
        if got is None:
            (got,) = sink.events or [(type(error), str(error)) for error in sink.errors]
        assert outcome_of(repr, got) == outcome_of(repr, expected)


@pytest.mark.parametrize("is_array", [False, True])
def test_a_torn_record_is_refused_before_any_is_delivered(is_array: bool) -> None:
    """A frame holds whole records."""
    sink = Sink()
    delivery = deliver(sink, bytes, 4, is_array=is_array)
    for torn in (b"", b"123", b"12345", b"1234567"):
        with pytest.raises(WireError, match="records of 4 bytes each"):
            delivery.hand(torn)
    assert sink.events == []


def test_a_value_that_does_not_fit_is_the_events_own_error() -> None:
    """A conversion that may lose was asked for; the next event is delivered."""

    @echo.event
    class Wide:
        n: int

    @echo.event
    class Narrow:
        n: echo.Int8

    codec = echo.codec(Narrow, sender=echo.format_of(Wide), lossy=True, tier="compiled")
    sink = Sink()
    delivery = deliver(sink, codec.decode, 8)
    delivery.hand(echo.codec(Wide).encode_many([Wide(1), Wide(1000), Wide(3)]))
    assert sink.events == [Narrow(1), Narrow(3)]
    assert [type(error) for error in sink.errors] == [ConversionError]
    assert (delivery.events, delivery.failures) == (3, 1)


def test_what_a_class_raises_for_a_new_event_is_the_events_own_error() -> None:
    """`__post_init__` is the receiver's code."""

    @echo.event
    class Picky:
        n: int

        def __post_init__(self) -> None:
            if self.n == 2:
                raise OddError(self.n)

    codec = echo.codec(Picky, tier="compiled")
    sink = Sink()
    one, three = Picky(1), Picky(3)
    records = codec.encode(one) + (2).to_bytes(8, sys.byteorder) + codec.encode(three)
    deliver(sink, codec.decode, 8).hand(records)
    assert sink.events == [one, three]
    assert [error.args for error in sink.errors] == [(2,)]


def test_arguments_of_the_wrong_kind_are_refused() -> None:
    """An array needs records of a size."""
    with pytest.raises(ValueError, match="size of a record"):
        Delivery(print, bytes, print, record_size=-1)
    with pytest.raises(ValueError, match="size of a record"):
        Delivery(print, bytes, print, is_array=True)
    with pytest.raises(TypeError):
        Delivery(print, bytes, print).hand("text")


# ---------------------------------------------------------------------------
# What is kept alive


def test_a_delivery_in_a_cycle_is_collected() -> None:
    """A component's handler refers to the component, which holds its sink."""

    class Component:
        def __init__(self) -> None:
            self.delivery = Delivery(self.handle, bytes, self.handle)

        def handle(self, _: object) -> None: ...

    component = Component()
    gone = weakref.ref(component)
    del component
    gc.collect()
    assert gone() is None


def test_deliveries_and_incoming_streams_let_go_of_everything() -> None:
    """Their types, and what they were given."""
    handler, codec = Sink(), echo.codec(Native)
    watched = [Delivery, IncomingStream, handler, codec.decode]
    before = [sys.getrefcount(it) for it in watched]
    for _ in range(10):
        incoming = IncomingStream(record_size=record_size(codec))
        incoming.deliveries = (deliver(handler, codec.decode, record_size(codec)),) * 3
        incoming.deliveries[0].hand(codec.encode(Native(1, 2.0, "")))
        del incoming
        handler.events.clear()
    assert [sys.getrefcount(it) for it in watched] == before


def test_events_are_let_go_when_the_handler_returns() -> None:
    """Whether it succeeds or not."""

    gone: list[weakref.ref[Any]] = []

    class Weak: ...

    def decode(_: bytes) -> Weak:
        event = Weak()
        gone.append(weakref.ref(event))
        return event

    def fail(_: object) -> None:
        raise OddError

    for handler in (id, fail):
        Delivery(handler, decode, id).hand(b"")
    assert [ref() for ref in gone] == [None, None]


# ---------------------------------------------------------------------------
# Incoming streams


def test_an_incoming_stream_begins_where_its_stream_does() -> None:
    """`sequence` can be set, as a stream is joined in its middle."""
    incoming = IncomingStream(record_size=8, sequence=41)
    assert (incoming.sequence, incoming.events, incoming.bytes, incoming.lost) == (41, 0, 0, 0)
    incoming.sequence += 1
    assert incoming.sequence == 42
    assert incoming.deliveries == ()


def test_an_incoming_stream_takes_a_tuple_of_deliveries_only() -> None:
    """Anything else would be called as one."""
    incoming = IncomingStream()
    several: list[Any] = [[], (1,), (Delivery(id, id, id), IncomingStream())]
    for wrong in several:
        with pytest.raises(TypeError, match="Expected a tuple"):
            incoming.deliveries = wrong
    with pytest.raises(TypeError, match="Expected a tuple"):
        del incoming.deliveries
    assert incoming.deliveries == ()
    with pytest.raises(ValueError, match="size of a record"):
        IncomingStream(record_size=-1)
