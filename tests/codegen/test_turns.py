"""Long work gives other threads their turn: the largest events that a channel takes by default."""

from __future__ import annotations

import gc
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen import cpython
from echo_core.formats.abi import NATIVE
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.transports.limits import DEFAULT_EVENT_OBJECTS, DEFAULT_PAYLOAD_BYTES
from tests.codegen.test_counting import Flood, LazyFlood, SlottedFlood, flood


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    """How long the garbage collector holds up others is the interpreter's: it looks at all objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


pytestmark = pytest.mark.skipif(
    NATIVE.pointer_size != 8 or NATIVE.byte_order != "little", reason="the records are this machine's"
)

TICK_S = 0.0005
BOUND_S = 0.1  # it is 8 ms; on a machine that is busy threads wait for a processor too
ATTEMPTS = 5
LARGE = DEFAULT_PAYLOAD_BYTES - (1 << 20)


class Ticking:
    """A thread that wants to run all the time; `worst_s` is for how long it could not."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._runs, self._ends = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._tick)

    def _tick(self) -> None:
        last = time.monotonic()
        while not self._ends.wait(TICK_S):
            now = time.monotonic()
            self.worst_s, last = max(self.worst_s, now - last), now
            self._runs.set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._runs.wait(30.0)
        self.worst_s = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def worst_wait_s(work: Callable[[], object]) -> float:
    with Ticking() as ticking:
        work()
    return ticking.worst_s


def assert_others_have_their_turn(work: Callable[[], object]) -> None:
    """In one of some attempts: a machine that is busy makes threads wait too."""
    assert any(worst_wait_s(work) < BOUND_S for _ in range(ATTEMPTS))


@dataclass
class Texts:
    all: list[str]


@dataclass
class Lists:
    all: list[list[str]]


@dataclass
class Numbers:
    all: echo.Array[float, ...]


@dataclass
class Table:
    all: list[echo.Int16]


@dataclass
class Whole:
    data: bytes


FLOOD = flood((DEFAULT_EVENT_OBJECTS - 2) // 2)


def texts(count: int) -> bytes:
    """So many texts of one letter."""
    first = 16 + 8 * count
    slots = np.arange(first, first + 2 * count, 2, dtype="<u8").tobytes()
    return struct.pack("<QQ", 16, count) + slots + b"x\0" * count


def lists(count: int) -> bytes:
    """So many empty lists."""
    end = 16 + 16 * count
    return struct.pack("<QQ", 16, count) + struct.pack("<QQ", end, 0) * count


def numbers(size: int) -> bytes:
    return struct.pack("<QQ", 16, size // 8) + bytes(size)


REFLECTED = Format.from_metadata(format_of(Flood).metadata)
LARGEST: dict[str, tuple[type[Any] | None, Format, bytes]] = {
    "dataclasses": (Flood, format_of(Flood), FLOOD),
    "dataclasses with slots": (SlottedFlood, format_of(Flood), FLOOD),
    "events": (LazyFlood, format_of(Flood), FLOOD),
    "reflected": (None, REFLECTED, FLOOD),
    "texts": (Texts, format_of(Texts), texts(DEFAULT_EVENT_OBJECTS - 2)),
    "lists": (Lists, format_of(Lists), lists(DEFAULT_EVENT_OBJECTS - 2)),
    "ints": (Table, format_of(Table), struct.pack("<QQ", 16, 249_998) + bytes(2 * 249_998)),
    "an array": (Numbers, format_of(Numbers), numbers(LARGE)),
    "bytes": (Whole, format_of(Whole), struct.pack("<QQ", 16, LARGE) + bytes(LARGE)),
}


@pytest.mark.parametrize("kind", LARGEST)
def test_while_the_largest_event_is_decoded_others_have_their_turn(kind: str) -> None:
    cls, sender, record = LARGEST[kind]
    decode: Any = echo.decoder(cls, sender=sender, tier="compiled", max_objects=DEFAULT_EVENT_OBJECTS)
    assert_others_have_their_turn(lambda: read_all(decode(record)))


@pytest.mark.parametrize("kind", ["dataclasses", "texts"])
def test_while_the_interpreter_decodes_it_others_have_their_turn(kind: str) -> None:
    cls, sender, record = LARGEST[kind]
    decode: Any = echo.decoder(cls, sender=sender, tier="interpreted")
    assert_others_have_their_turn(lambda: decode(record))


def test_while_a_conversion_is_interpreted_others_have_their_turn() -> None:
    """In Python, which lets others run by itself."""
    foreign, native = format_of(Flood, abi="s390x"), format_of(Flood)
    record = echo.converter(native, foreign, tier="compiled")(FLOOD)
    interpret = echo.converter(foreign, native, tier="interpreted")
    assert_others_have_their_turn(lambda: interpret(record))


def read_all(event: Any) -> object:
    """Where fields are made when they are read, now."""
    return [bit.x for bit in event.bits] if isinstance(event, LazyFlood) else event


@pytest.mark.parametrize("kind", LARGEST)
def test_while_the_largest_event_is_encoded_others_have_their_turn(kind: str) -> None:
    cls, sender, record = LARGEST[kind]
    codec: Any = echo.codec(cls, sender=sender)
    event = codec.decode(record)
    read_all(event)
    assert_others_have_their_turn(lambda: codec.encode(event))


@dataclass(slots=True)
class Point:
    x: float
    y: int


@echo.event
class LazyPoint:
    x: float
    y: int


@pytest.mark.parametrize("cls", [Point, LazyPoint])
def test_while_many_events_are_encoded_and_decoded_others_have_their_turn(cls: Any) -> None:
    codec: Any = echo.codec(cls, tier="compiled" if cls is LazyPoint or not cpython.problem() else "auto")
    events = [cls(0.5, i) for i in range(200_000)]
    records = codec.encode_many(events)
    assert_others_have_their_turn(lambda: codec.encode_many(events))
    assert_others_have_their_turn(lambda: codec.decode_many(records))


def test_a_list_that_another_thread_changes_between_turns_is_no_crash() -> None:
    """It is encoded as it was, or refused."""
    codec = echo.codec(Point, tier="compiled" if not cpython.problem() else "auto")
    events = [Point(0.5, i) for i in range(300_000)]
    more = events[100_000:]
    ends = threading.Event()

    def change() -> None:
        while not ends.is_set() and events:
            events.pop()
            if len(events) == 100_000:  # it shall not run out of them
                events.extend(more)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        refusals = sum(not is_encoded(codec, events) for _ in range(20))
    finally:
        ends.set()
        thread.join()
    assert refusals <= 20


def is_encoded(codec: echo.Codec[Point], events: list[Point]) -> bool:
    try:
        codec.encode_many(events)
    except RuntimeError as error:
        assert "the list changed its size" in str(error)  # noqa: PT017 - either is well
        return False
    return True


def test_an_event_that_another_thread_changes_between_turns_is_no_crash() -> None:
    """What is encoded is a record, whichever of the two lists it has got."""
    codec = echo.codec(Texts)
    event = Texts(["x"] * 100_000)
    ends = threading.Event()

    def change() -> None:
        while not ends.is_set():
            event.all[:] = ["longer"] * 50_000
            event.all[:] = ["x"] * 100_000

    thread = threading.Thread(target=change)
    thread.start()
    try:
        sizes = {
            len(codec.decode(record).all) for record in (encoded(codec, event) for _ in range(20)) if record
        }
    finally:
        ends.set()
        thread.join()
    assert sizes <= {0, 50_000, 100_000}


def encoded(codec: echo.Codec[Texts], event: Texts) -> bytes:
    try:
        return codec.encode(event)
    except echo.EncodeError:
        return b""
