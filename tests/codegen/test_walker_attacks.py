"""What nobody does on purpose: classes, values, records and threads that a tree of values has to survive."""

from __future__ import annotations

import collections
import dataclasses
import enum
import gc
import random
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core._c.events import Value
from echo_core.codegen.events.value_trees import part_functions
from echo_core.codegen.machine import background
from echo_core.errors import EncodeError, WireError
from echo_core.formats.abi import NATIVE
from echo_core.formats.declare import format_of
from tests.codegen.test_value_trees import (
    Cell,
    Everything,
    Level,
    Point,
    assert_walks_alike,
    demand_walker,
    everything,
    generic_codec,
    mutants,
    outcome,
)

pytestmark = pytest.mark.skipif(
    NATIVE.pointer_size != 8 or NATIVE.byte_order != "little", reason="trees are for other machines"
)


# ---------------------------------------------------------------------------------------------------
# Classes


@dataclasses.dataclass(init=False)
class Queue(collections.deque[int]):
    size: int


@dataclasses.dataclass(init=False)
class Group(frozenset[int]):
    size: int


@pytest.mark.parametrize("cls", [Queue, Group])
def test_no_instance_is_made_that_python_would_not_make(cls: type[Any]) -> None:
    """What only the base's own constructor fills would be all zeros, and using it a crash."""
    walker, generic = demand_walker(cls), generic_codec(cls)
    event = cls()
    object.__setattr__(event, "size", 3)
    assert walker.encode(event) == generic.encode(event)
    assert walker.interpreted == 0
    for decode in (walker.decode, generic.decode):
        with pytest.raises(TypeError, match="__new__"):
            decode(generic.encode(event))


@dataclasses.dataclass
class Slotted:
    __slots__ = ("__weakref__", "number", "text")
    number: int
    text: str


@dataclasses.dataclass(slots=True, weakref_slot=True)
class MoreSlots(Slotted):
    more: float


@dataclasses.dataclass
class WithDict(MoreSlots):
    last: bytes


@dataclasses.dataclass(slots=True)
class Private:
    __hidden: int  # pyright: ignore[reportGeneralTypeIssues]
    shown: str


@dataclasses.dataclass
class Overridden:
    """A property stands for its field."""

    text: str


def _get(event: Any) -> Any:
    return event.__dict__["kept"]


def _set(event: Any, text: str) -> None:
    event.__dict__["kept"] = text


type.__setattr__(Overridden, "text", property(_get, _set))


@echo.event
class Parent:
    number: int
    text: str


@echo.event
class Child(Parent):
    numbers: list[int]
    tag: echo.Chars[4]


@echo.event(frozen=True)
class Frozen:
    numbers: echo.Array[float, 3]
    cells: echo.Array[Cell, 2]
    maybe: Point | None


def frozen() -> Frozen:
    cells: Any = [Cell(1, Level.LOW, "a"), Cell(2, Level.HIGH, "b")]
    return Frozen(np.zeros(3), cells, Point(1.0, 2.0, "p"))


@dataclasses.dataclass
class Family:
    child: Child
    frozen: list[Frozen]


EVENTS: list[Any] = [
    Slotted(1, "a"),
    MoreSlots(1, "a", 2.0),
    WithDict(1, "a", 2.0, b"x"),
    Private(1, "x"),
    Overridden("text"),
    Parent(1, "t"),
    Child(1, "t", [2], "x"),
    frozen(),
    Family(Child(1, "t", [2], "x"), [frozen(), frozen()]),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_fields_are_found_wherever_a_class_keeps_them(event: Any) -> None:
    assert_walks_alike(event.__class__, event)


def test_a_subclass_that_keeps_its_fields_elsewhere_is_sent_as_its_parent() -> None:
    event = Child(1, "t", [2], "x")
    assert demand_walker(Parent).encode(event) == generic_codec(Parent).encode(event)


def test_what_was_changed_after_decoding_is_what_is_encoded() -> None:
    walker = demand_walker(Family)
    event: Any = walker.decode(walker.encode(EVENTS[-1]))
    event.frozen[0].maybe.x = 9.0
    event.child.numbers.append(5)
    assert walker.encode(event) == generic_codec(Family).encode(event)
    assert walker.interpreted == 0


def tie(cls: Any, codec: Any) -> None:
    """Has the class keep the codec, and a function that keeps both."""
    cls.codec = codec
    cls.both = lambda: (cls, codec)


def test_classes_and_their_codecs_are_collected() -> None:
    def make() -> list[weakref.ref[Any]]:
        class Hue(enum.IntEnum):
            RED = 1

        @echo.event
        class Inner:
            number: int
            text: str

        @dataclasses.dataclass
        class Outer:
            hue: Hue
            inner: Inner
            many: list[Inner]
            table: echo.Array[float, ...]

        @dataclasses.dataclass(slots=True)
        class Small:
            number: int

        refs: list[weakref.ref[Any]] = [weakref.ref(it) for it in (Inner, Outer, Small)]
        inner = Inner(1, "a")
        events = Outer(Hue.RED, inner, [inner], np.zeros(3)), Small(1), inner
        for event in events:
            cls: Any = event.__class__
            codec = echo.codec(cls)
            tie(cls, codec)
            codec.decode(codec.encode(event))
            refs.append(weakref.ref(codec))
        return refs

    refs = make()
    background.drain(10)
    gc.collect()
    gc.collect()
    assert [ref() for ref in refs] == [None] * 6


# ---------------------------------------------------------------------------------------------------
# `__post_init__`


seen: list[int] = []


@dataclasses.dataclass(slots=True)
class Watched:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            msg = "number must not be negative"
            raise ValueError(msg)
        seen.append(self.number)


@dataclasses.dataclass(slots=True)
class Pair:
    first: Watched
    tag: echo.Chars[4]


@dataclasses.dataclass
class Several:
    first: Watched
    more: list[Watched]
    text: str


def test_post_init_sees_no_event_of_a_record_that_is_refused() -> None:
    data = generic_codec(Several).encode(Several(Watched(1), [Watched(2), Watched(3)], "ab"))
    walker = demand_walker(Several)
    for damaged in (data + b"x", data[:-2] + b"\xff\0", data[:-1]):
        seen.clear()
        with pytest.raises(WireError):
            walker.decode(damaged)
        assert seen == []
    walker.decode(data)
    assert seen == [1, 2, 3]


def test_neither_does_it_in_compiled_code() -> None:
    codec = echo.codec(Pair)
    background.drain(10)
    damaged = codec.encode(Pair(Watched(1), "ab"))[:8] + b"\xff" * 4
    seen.clear()
    with pytest.raises(WireError):
        codec.decode(damaged.ljust(16, b"\0"))
    assert seen == []


def test_rows_of_an_array_are_held_to_their_post_init() -> None:
    @echo.event
    class Row:
        number: int

        def __post_init__(self) -> None:
            Watched(self.number)

    @dataclasses.dataclass
    class Rows:
        rows: echo.Array[Row, ...]

    walker, generic = demand_walker(Rows), generic_codec(Rows)
    rows: Any = np.zeros(2, format_of(Row).dtype)
    assert walker.encode(Rows(rows)) == generic.encode(Rows(rows))
    rows["number"] = -1
    for encode in (walker.encode, generic.encode):
        with pytest.raises(ValueError, match="negative"):
            encode(Rows(rows))


# ---------------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, GeneratorExit])
def test_what_stops_a_program_is_no_reason_to_try_again(error: type[BaseException]) -> None:
    class Stopped(Overridden):
        def __getattribute__(self, name: str) -> Any:
            if name == "text":
                raise error
            return object.__getattribute__(self, name)

    walker = demand_walker(Overridden)
    with pytest.raises(error):
        walker.encode(object.__new__(Stopped))
    assert walker.interpreted == 0


def test_an_array_of_no_records_has_the_dimensions_that_a_list_would_have() -> None:
    @dataclasses.dataclass
    class Cells:
        cells: echo.Array[Cell, 2, ..., ...]

    generic, walker = generic_codec(Cells), demand_walker(Cells)
    event = Cells(np.zeros((2, 0, 7), format_of(Cell).dtype))
    data = walker.encode(event)
    assert data == generic.encode(event)
    damaged = data[:16] + b"\7" + data[17:]
    assert walker.decode(damaged).cells.shape == generic.decode(damaged).cells.shape


def test_nothing_of_a_received_record_travels_on_but_its_values() -> None:
    """Neither what stood behind the end of a text nor beside an absent value."""

    @echo.event
    class Received:
        tag: echo.Chars[5]
        maybe: int | None
        text: str

    codec, walker, generic = echo.codec(Received), demand_walker(Received), generic_codec(Received)
    data = bytearray(codec.encode(Received("ab", None, "x")))
    data[3] = data[9] = 7
    event = codec.decode(bytes(data))
    assert walker.encode(event) == generic.encode(event)


def test_a_member_that_was_never_set_is_refused() -> None:
    @echo.event
    class Fresh:
        level: Level
        text: str

    event = object.__new__(Fresh)
    event.text = ""
    with pytest.raises(EncodeError, match="never set"):
        demand_walker(Fresh).encode(event)


# ---------------------------------------------------------------------------------------------------
# Records


@pytest.mark.parametrize("is_view", [False, True])
def test_a_part_that_is_not_aligned_is_left_to_the_fallback(is_view: bool) -> None:
    @dataclasses.dataclass
    class Numbers:
        numbers: echo.Array[float, ...]

    record = format_of(Numbers).record
    (field,) = record.fields
    read, _ = part_functions(field, record, (lambda _: "fallback", lambda _: None), is_view=is_view)
    data = generic_codec(Numbers).encode(Numbers(np.arange(2.0)))
    assert read(data).tolist() == [0.0, 1.0]
    assert read(b"\x11" + data[1:] + b"\0") == "fallback"


# ---------------------------------------------------------------------------------------------------
# Trees


def test_trees_are_of_limited_depth() -> None:
    tree = Value("b", 1, 1, ())
    for size in range(2, 65):
        tree = Value("n", size, 1, (tree,))
    with pytest.raises(ValueError, match="inside one another"):
        Value("n", 65, 1, (tree,))


def test_an_array_of_no_elements_has_no_tree() -> None:
    leaf = Value("q", 8, 8, ())
    for shape in ((0,), (0, 5), (5, 0)):
        with pytest.raises(ValueError, match="within bounds"):
            Value("a", 8, 8, (leaf, shape, list, None))


# ---------------------------------------------------------------------------------------------------
# Threads


def test_threads_share_a_codec_while_classes_come_and_go() -> None:
    walker, event = demand_walker(Everything), everything()
    data = walker.encode(event)
    failures: list[BaseException] = []

    def encode_and_decode(seed: int) -> None:
        dice = random.Random(seed)
        for damaged in mutants(data, dice, 100):
            assert walker.encode(walker.decode(data)) == data
            outcome(walker.decode, damaged)

    def make_classes(_: int) -> None:
        for _ in range(10):
            cls = dataclasses.make_dataclass("Passing", [("number", int), ("point", Point)], slots=True)
            passing = demand_walker(cls)
            passing.decode(passing.encode(cls(1, Point(1.0, 2.0, "p"))))
            gc.collect()

    def work(job: Any, seed: int) -> None:
        try:
            job(seed)
        except BaseException as failure:  # noqa: BLE001 - a thread has nobody else to tell
            failures.append(failure)

    jobs = [encode_and_decode] * 4 + [make_classes] * 2
    threads = [threading.Thread(target=work, args=(job, seed)) for seed, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
