"""Codecs that walk a tree of values in C: the bytes and the events of the generic codec, or its errors."""

from __future__ import annotations

import dataclasses
import enum
import gc
import random
import sys
import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core._c import links
from echo_core._c.events import Value, Walker
from echo_core.codegen import cpython
from echo_core.codegen.events.class_code import use_inner_codes
from echo_core.codegen.events.value_trees import tree_of
from echo_core.codegen.plain.generic import GenericCodec
from echo_core.codegen.plain.objects import plain_of, value_of
from echo_core.errors import EchoError
from echo_core.formats.abi import NATIVE
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout, place
from echo_core.formats.leaves import is_numeric
from echo_core.formats.types import Field, Kind, Nullable, Record, Scalar, Sequence, StaticArray, Text, Type
from tests.formats.strategies import comparable, examples, layouts, plain_values, records

needs_code = pytest.mark.skipif(bool(cpython.problem()), reason=cpython.problem() or "compiled")
pytestmark = pytest.mark.skipif(
    NATIVE.pointer_size != 8 or NATIVE.byte_order != "little", reason="trees are for other machines"
)


def generic_codec(cls: type[Any]) -> GenericCodec[Any]:
    format_ = format_of(cls)
    return GenericCodec(cls, format_, format_, lossy=False)


def walker_of(cls: type[Any]) -> Walker | None:
    generic = generic_codec(cls)
    tree = tree_of(generic.receiver.record)
    return tree and Walker(tree, None, generic.encode, generic.decode)


def demand_walker(cls: type[Any]) -> Walker:
    walker = walker_of(cls)
    assert walker is not None
    return walker


def outcome(call: Any, argument: Any) -> Any:
    """The result, or the error that there is instead."""
    try:
        return call(argument)
    except EchoError as error:
        return type(error), str(error)


def assert_walks_alike(cls: type[Any], event: Any) -> bytes:
    """What the walker does, it does by itself and as the generic codec does."""
    walker, generic = demand_walker(cls), generic_codec(cls)
    data = generic.encode(event)
    assert walker.encode(event) == data
    again = walker.decode(data)
    assert repr(again) == repr(generic.decode(data))
    assert walker.encode(again) == data
    assert (walker.compiled, walker.interpreted) == (3, 0)
    return data


# ---------------------------------------------------------------------------------------------------
# Random formats


@examples(400)
@given(st.data())
def test_random_events_are_those_of_the_generic_codec(data: st.DataObject) -> None:
    """Whatever the format; a few enumerations have no tree."""
    format_ = Format(data.draw(layouts(NATIVE, depth=3)))
    cls = format_.record_class()
    walker, generic = walker_of(cls), generic_codec(cls)
    if walker is None:
        return
    plain = data.draw(plain_values(generic.receiver.layout))
    event = event_of(generic, plain)
    record = generic.encode(event)
    assert walker.encode(event) == record
    again = walker.decode(record)
    assert plain_value(generic, again) == plain_value(generic, event)
    assert walker.interpreted == 0 or is_left_to_python(generic.receiver.record, plain)


@examples(200)
@given(st.data())
def test_random_events_are_measured_as_large_as_they_are_encoded(data: st.DataObject) -> None:
    """Whatever the format: a queue counts an event for as many bytes as its record would take."""
    cls = Format(data.draw(layouts(NATIVE, depth=3))).record_class()
    walker, generic = walker_of(cls), generic_codec(cls)
    if walker is None:
        return
    plain = data.draw(plain_values(generic.receiver.layout))
    event = event_of(generic, plain)
    it = links.Queue(max_events=1, max_bytes=1, policy=links.DROP_NEWEST, timeout_ns=0)
    for encode in (walker.encode, echo.encoder(cls)):
        outlet = links.Outlet(cls, encode)
        outlet.direct = (links.Delivery(it, bytes, print),)
        outlet.submit(event)
        assert it.depth_bytes == len(generic.encode(event))
        assert it.get(0) is event
    assert walker.interpreted == 0 or is_left_to_python(generic.receiver.record, plain)


def is_left_to_python(type_: Type, plain: object) -> bool:
    """Whether the generic codec may have to: such tables, and a float of 16 bits that is no number."""
    return has_tables(type_) or (has_halves(type_) and "nan" in repr(plain))


def has_halves(type_: Type) -> bool:
    """Whether there are floats of 16 bits."""
    match type_:
        case Record():
            return any(has_halves(field.type) for field in type_.fields)
        case StaticArray() | Sequence() | Nullable():
            return has_halves(type_.element)
        case _:
            return isinstance(type_, Scalar) and (type_.kind, type_.size) == (Kind.FLOAT, 2)


def has_tables(type_: Type) -> bool:
    """Whether there are lists or records in several dimensions, which the generic codec does when empty."""
    match type_:
        case Record():
            return any(has_tables(field.type) for field in type_.fields)
        case StaticArray() | Sequence():
            is_table = len(type_.shape) > 1 and not is_numeric(type_.element)
            return is_table or has_tables(type_.element)
        case Nullable():
            return has_tables(type_.element)
        case _:
            return False


def event_of(generic: GenericCodec[Any], plain: Any) -> Any:
    """An event of a plain value."""
    return value_of(generic.receiver.record, plain, "")


@needs_code
@examples(60)
@given(st.data())
def test_records_inside_are_done_by_code_as_they_are_walked(data: st.DataObject) -> None:
    """Whatever they are: what code leaves is walked from the start."""
    inner = data.draw(records(NATIVE, 1))
    members = [Field("text", Text(8)), Field("one", inner), Field("all", Sequence(inner, (None,), 8))]
    cls = Format(Layout("little", 8, place("Outer", members, NATIVE))).record_class()
    walker, generic = walker_of(cls), generic_codec(cls)
    if walker is None:
        return
    use_inner_codes(walker.value)
    record = generic.encode(event_of(generic, data.draw(plain_values(generic.receiver.layout))))
    event = generic.decode(record)
    assert walker.encode(event) == generic.encode(event)
    assert repr(walker.decode(record)) == repr(event)
    dice = random.Random(len(record))
    for damaged in mutants(record, dice, 20):
        ours, theirs = outcome(walker.decode, damaged), outcome(generic.decode, damaged)
        assert repr(ours) == repr(theirs)


@needs_code
def test_code_of_records_inside_is_used_and_leaves_what_is_unusual() -> None:
    codec, generic = echo.codec(Everything, tier="compiled"), generic_codec(Everything)
    native: Any = codec.encode
    (points,) = [value for value in inner_values(native.__self__.value) if value.cls is Flat]
    assert not points.takes_code
    given: list[list[Any]] = [[1, 2, 3], [True, 2, 3], [1, np.int64(2), 3], [1, 2.5, 3], [2**70, 2, 3]]
    for numbers in given:
        event = everything(flats=[Flat(number, 0.5) for number in numbers])
        assert outcome(codec.encode, event) == outcome(generic.encode, event)
    event = everything(flats=[Flat(1, 1.0)] * 100)
    assert codec.decode(codec.encode(event)).flats == [Flat(1, 1.0)] * 100


def inner_values(tree: Value) -> list[Value]:
    """Those inside, at any depth."""
    return [each for value in tree.inner for each in (value, *inner_values(value))]


@examples(200)
@given(st.data())
def test_damaged_records_are_refused_as_the_generic_codec_does(data: st.DataObject) -> None:
    """Every truncation and some changes; what is taken is the same event."""
    cls = Format(data.draw(layouts(NATIVE, depth=2))).record_class()
    walker, generic = walker_of(cls), generic_codec(cls)
    if walker is None:
        return
    record = generic.encode(event_of(generic, data.draw(plain_values(generic.receiver.layout))))
    dice = random.Random(data.draw(st.integers(0, 2**32)))
    for damaged in (*(record[:i] for i in range(min(len(record), 64))), *mutants(record, dice, 30)):
        ours, theirs = outcome(walker.decode, damaged), outcome(generic.decode, damaged)
        assert type(ours) is type(theirs)
        if isinstance(theirs, cls):  # an array may have numbers of no member, which are no plain value
            ours, theirs = (outcome(partial(plain_value, generic), it) for it in (ours, theirs))
        assert ours == theirs


def plain_value(generic: GenericCodec[Any], event: Any) -> Any:
    return comparable(plain_of(generic.receiver.record, event, ""))


def mutants(record: bytes, dice: random.Random, count: int) -> list[bytes]:
    made: list[bytes] = []
    for _ in range(count if record else 0):
        changed = bytearray(record)
        for _ in range(dice.choice((1, 1, 2, 5))):
            changed[dice.randrange(len(record))] = dice.choice(
                (0, 1, 7, 8, 127, 128, 255, dice.randrange(256))
            )
        made.append(bytes(changed))
    return made


# ---------------------------------------------------------------------------------------------------
# Every kind of field


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = -5
    HIGH = 300


@dataclasses.dataclass(slots=True)
class Point:
    x: float
    y: echo.Float32
    name: str


@echo.event
class Cell:
    at: echo.Int16
    level: Level
    tag: echo.Chars[6]


@echo.event
class Note:
    text: str
    seen: list[int]


@dataclasses.dataclass(slots=True)
class Flat:
    number: int
    weight: float


@dataclasses.dataclass
class Everything:
    number: echo.UInt64
    small: echo.Int8
    truth: bool
    when: datetime
    lasting: timedelta
    key: uuid.UUID
    color: Color
    level: Level | None
    text: str
    absent: str | None
    data: bytes
    tag: echo.Chars[5]
    fixed: echo.Bytes[3]
    complex: complex
    half: echo.Float16
    point: Point
    maybe: Point | None
    points: list[Point]
    cell: Cell
    cells: list[Cell]
    cell_array: echo.Array[Cell, 2]
    note: Note
    notes: tuple[Note, ...]
    words: tuple[str, ...]
    table: echo.Array[float, 2, 3]
    counts: echo.Array[int, ...]
    flags: echo.Array[bool, ...]
    times: echo.Array[datetime, ...]
    numbers: list[echo.Int16] | None
    flats: list[Flat]


def everything(**changes: Any) -> Everything:
    cells = np.zeros(2, format_of(Cell).dtype)
    cells["level"] = -5
    values: dict[str, Any] = {
        "number": 2**64 - 1,
        "small": -128,
        "truth": True,
        "when": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "lasting": timedelta(days=-1, microseconds=7),
        "key": uuid.UUID(int=7),
        "color": Color.GREEN,
        "level": None,
        "text": "grüße 数",
        "absent": None,
        "data": b"\0\1\2",
        "tag": "äbc",
        "fixed": b"xyz",
        "complex": 1 + 2j,
        "half": 0.5,
        "point": Point(1.5, 2.5, "p"),
        "maybe": Point(0.0, -0.0, ""),
        "points": [Point(1, 2, "an int is a float too"), Point(float("inf"), float("nan"), "")],
        "cell": Cell(1, Level.HIGH, "ab"),
        "cells": [Cell(2, Level.LOW, "c"), Cell(3, Level.HIGH, "")],
        "cell_array": cells,
        "note": Note("a note", [1, 2, 3]),
        "notes": (Note("", []), Note("b", [2**40])),
        "words": ("a", "", "ü"),
        "table": np.arange(6.0).reshape(2, 3),
        "counts": np.arange(4),
        "flags": np.array([True, False]),
        "times": np.array(["2026-01-01"], "M8[ns]"),
        "numbers": [1, -1, 32767],
        "flats": [Flat(1, 0.5)],
    }
    return Everything(**(values | changes))


def test_every_kind_of_field_is_walked() -> None:
    assert_walks_alike(Everything, everything())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("level", Level.LOW),
        ("absent", "there"),
        ("maybe", None),
        ("points", []),
        ("points", (Point(1.0, 1.0, "of a tuple"),)),
        ("cells", []),
        ("cell_array", [Cell(2, Level.LOW, "c"), Cell(3, Level.HIGH, "")]),
        ("notes", ()),
        ("table", np.arange(6.0).reshape(2, 3).copy()),
        ("counts", np.zeros(0, np.int64)),
        ("counts", [1, 2]),
        ("counts", np.arange(100_000)),
        ("text", "x" * 5000),
        ("data", bytes(3000)),
        ("numbers", None),
        ("numbers", []),
    ],
)
def test_other_values_are_walked_too(name: str, value: Any) -> None:
    assert_walks_alike(Everything, everything(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", np.uint64(5)),
        ("number", 2**64),
        ("number", -1),
        ("number", 1.0),
        ("small", 128),
        ("truth", np.True_),
        ("truth", 1),
        ("when", datetime(2026, 1, 1)),
        ("color", Level.LOW),
        ("level", 300),
        ("text", "a\0b"),
        ("text", "\ud800"),
        ("text", b"bytes"),
        ("data", bytearray(b"abc")),
        ("data", "text"),
        ("tag", "äää"),
        ("tag", "a\0"),
        ("fixed", b"xy"),
        ("complex", 5),
        ("half", 1e9),
        ("point", None),
        ("point", Cell(1, Level.LOW, "")),
        ("points", [Point(1, 1, "a"), None]),
        ("points", [Point(1, 1e39, "a")]),
        ("cell_array", np.zeros(2, format_of(Cell).dtype)),  # 0 is no level
        ("cell_array", np.zeros(3, format_of(Cell).dtype)),
        ("words", ["a list"]),
        ("words", "text"),
        ("table", np.arange(6.0)),
        ("table", np.arange(6.0).reshape(3, 2)),
        ("table", np.arange(6).reshape(2, 3)),
        ("table", np.arange(12.0).reshape(2, 6)[:, ::2]),
        ("table", [[1, 2, 3], [4, 5, 6]]),
        ("counts", np.arange(3.0)),
        ("counts", np.arange(3, dtype=">i8")),
        ("counts", np.arange(3, dtype=np.int16)),
        ("counts", [1, "2"]),
        ("counts", np.arange(10)[::2]),
        ("numbers", [32768]),
        ("numbers", range(3)),
        ("numbers", np.arange(3, dtype=np.int16)),
    ],
)
def test_unusual_values_have_the_outcome_of_the_generic_codec(name: str, value: Any) -> None:
    walker, generic = demand_walker(Everything), generic_codec(Everything)
    event = everything(**{name: value})
    assert outcome(walker.encode, event) == outcome(generic.encode, event)


def test_received_arrays_are_the_receivers_own() -> None:
    data = demand_walker(Everything).encode(everything())
    event = demand_walker(Everything).decode(data)
    event.table[0, 0] = 77
    event.cell_array["at"] = 3
    assert event.table.flags.c_contiguous
    assert event.times.dtype == "M8[ns]"
    assert demand_walker(Everything).decode(data).table[0, 0] == 0


def test_padding_of_structured_arrays_does_not_travel() -> None:
    """Nor what stands behind the end of a text, or beside a value that is absent."""
    cells = np.frombuffer(bytearray(b"\xff" * 2 * format_of(Cell).size_bytes), format_of(Cell).dtype)
    cells["at"], cells["level"], cells["tag"] = 1, 300, b"a"
    event = everything(cell_array=cells)
    data = demand_walker(Everything).encode(event)
    assert data == generic_codec(Everything).encode(event)
    assert b"\xff" not in data[data.index(b"a\0") - 10 :][:30]


@echo.event
class Tagged:
    tag: echo.Chars[16]
    other: echo.Chars[5]
    number: int


@dataclasses.dataclass
class Tags:
    tagged: echo.Array[Tagged, ...]


def test_texts_in_structured_arrays_end_at_their_first_nul() -> None:
    """Wherever that is, and whatever stands around it; what is not UTF-8 is refused."""
    walker, generic = demand_walker(Tags), generic_codec(Tags)
    source = random.Random(16)
    choices = [b"\0", b"a", b"\x7f", b"\x80", b"\xc3\xa9", b"\xff"]
    refused = 0
    for _ in range(2000):
        weights = [source.random() ** 4 * likely for likely in (1, 1, 1, 0.02, 0.1, 0.02)]
        texts = np.frombuffer(b"".join(source.choices(choices, weights, k=64))[:64], "u1")
        array = texts.copy().view(format_of(Tagged).dtype)
        expected = outcome(generic.encode, Tags(array))
        assert outcome(walker.encode, Tags(array)) == expected
        refused += not isinstance(expected, bytes)
    assert 500 < refused < 1500


# ---------------------------------------------------------------------------------------------------
# Classes


@dataclasses.dataclass
class Counted:
    values: echo.Array[float, "n"]  # noqa: F821, UP037 - the name of a field
    n: echo.UInt16
    others: echo.Array[echo.Int32, "n"] | None = None  # noqa: F821, UP037 - the name of a field


INTS: Any = np.zeros(3, np.int32)  # echo.Array is more than any of its spellings, for type checkers


@pytest.mark.parametrize(
    "event",
    [
        Counted(np.zeros(3), 3, INTS),
        Counted(np.zeros(0), 0),
        Counted(np.zeros(3), 2, INTS),
        Counted(np.zeros(3), 3),
        Counted(np.zeros(2), 2, INTS),
    ],
)
def test_fields_that_count_others_must_agree(event: Counted) -> None:
    walker, generic = demand_walker(Counted), generic_codec(Counted)
    assert outcome(walker.encode, event) == outcome(generic.encode, event)


@dataclasses.dataclass(frozen=True)
class Frozen:
    text: str
    point: Point


@dataclasses.dataclass
class Derived:
    """A property stands for a field."""

    text: str
    _hidden: str = dataclasses.field(default="", init=False)


class Extended(Point):
    pass


@dataclasses.dataclass
class Initialised:
    name: str
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            msg = "size must not be negative"
            raise ValueError(msg)
        object.__setattr__(self, "twice", 2 * self.size)


def test_classes_of_every_kind_are_walked() -> None:
    for event in (Frozen("a", Point(1, 2, "b")), Derived("x"), Note("t", [1]), Initialised("n", 2)):
        assert_walks_alike(type(event), event)
    walker: Any = demand_walker(Initialised)
    assert walker.decode(walker.encode(Initialised("n", 2))).twice == 4


def test_an_instance_of_a_subclass_is_sent_as_the_class() -> None:
    walker = demand_walker(Point)
    assert walker.encode(Extended(1.0, 2.0, "x")) == walker.encode(Point(1.0, 2.0, "x"))
    assert walker.interpreted == 0


def test_the_error_of_post_init_reaches_the_caller_once() -> None:
    walker = demand_walker(Initialised)
    event = Initialised("n", 2)
    event.size = -1
    with pytest.raises(ValueError, match="negative"):
        walker.decode(walker.encode(event))
    assert walker.interpreted == 0


def test_an_attribute_that_was_never_set_is_refused() -> None:
    walker, generic = demand_walker(Point), generic_codec(Point)
    event = object.__new__(Point)
    assert outcome(walker.encode, event) == outcome(generic.encode, event)


def test_native_events_are_walked_whether_made_or_received() -> None:
    codec = echo.codec(Note, tier="compiled")
    made = Note("text", [1, 2])
    received = codec.decode(codec.encode(made))
    walker = demand_walker(Note)
    assert walker.encode(received) == walker.encode(made) == codec.encode(made)
    assert received.seen == [1, 2]
    received.seen.append(3)
    assert codec.decode(codec.encode(received)).seen == [1, 2, 3]


# ---------------------------------------------------------------------------------------------------
# Python code that interferes


def test_a_list_that_changes_while_it_is_encoded_does_no_harm() -> None:
    @dataclasses.dataclass
    class Outer:
        items: list[Frozen]

    class Evil(Frozen):
        def __getattribute__(self, name: str) -> Any:
            if name == "text":
                event.items.clear()
                gc.collect()
                return "gone"
            return object.__getattribute__(self, name)

    walker, generic = demand_walker(Outer), generic_codec(Outer)
    event = Outer([Evil("a", Point(1, 2, "b"))] * 3)
    ours = outcome(walker.encode, event)
    event = Outer([Evil("a", Point(1, 2, "b"))] * 3)
    assert ours == walker.encode(Outer([])) or ours == outcome(generic.encode, event)


def test_any_buffer_is_decoded() -> None:
    walker = demand_walker(Point)
    data = walker.encode(Point(1.0, 2.0, "abc"))
    for buffer in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        assert walker.decode(buffer) == Point(1.0, 2.0, "abc")
    assert walker.interpreted == 0


def test_nothing_leaks() -> None:
    """References to what every event shares, and memory for what goes wrong midway."""
    walker = demand_walker(Everything)
    event = everything()
    data = walker.encode(event)
    wrong = everything(numbers=[1, "x"])
    damaged = data[:-1] + b"\xff"
    watched = (Point, Cell, Note, Color.GREEN, Level.HIGH, np.ndarray, format_of(Cell).dtype, "dtype")

    def work() -> None:
        for _ in range(200):
            walker.decode(walker.encode(event))
            outcome(walker.encode, wrong)
            outcome(walker.decode, damaged)
            outcome(walker.decode, data[:-1])

    work()
    gc.collect()
    before = [sys.getrefcount(it) for it in watched], len(gc.get_objects())
    work()
    gc.collect()
    after = [sys.getrefcount(it) for it in watched], len(gc.get_objects())
    assert all(abs(a - b) < 20 for a, b in zip(after[0], before[0], strict=True))
    assert abs(after[1] - before[1]) < 50


# ---------------------------------------------------------------------------------------------------
# Trees that make no sense


LEAF = ("q", 8, 8, ())


@pytest.mark.parametrize(
    "arguments",
    [
        ("q", 4, 4, ()),
        ("q", 8, 3, ()),
        ("q", 8, 8, (1,)),
        ("Z", 8, 8, ()),
        ("\0", 8, 8, ()),
        ("\u20ac", 8, 8, ()),
        ("s", 0, 1, ()),
        ("s", 2**31, 1, ()),
        ("e", 4, 4, ((), ())),
        ("e", 3, 1, ((None,), (1,))),
        ("e", 4, 4, ((None, None), (2, 1))),
        ("v", 8, 8, (None, None)),
        ("g", 4, 4, ()),
        ("C", 8, 8, ()),
        ("T", 4, 4, ()),
        ("U", 8, 1, (uuid.UUID, 16, 24, None)),
        ("U", 16, 1, (uuid.UUID, 0, 24, None)),
        ("U", 16, 1, (uuid.UUID, 16, 20, None)),
        ("U", 16, 1, (uuid.UUID, 16, 1024, None)),
        ("n", 8, 8, LEAF),
        ("N", 8, 8, LEAF),
        ("a", 16, 8, (LEAF, (3,), list, None)),
        ("a", 16, 8, (LEAF, (-1,), list, None)),
        ("a", 16, 8, (LEAF, (2**62, 4), list, None)),
        ("a", 16, 8, (LEAF, (None,), list, None)),
        ("a", 16, 8, (LEAF, (1, 2), tuple, None)),
        ("a", 16, 8, (LEAF, (2,), list, np.dtype("i8"))),
        ("a", 16, 8, (LEAF, (2,), np.ndarray, None)),
        ("a", 16, 8, (LEAF, (), list, None)),
        ("a", 16, 8, (LEAF, (2,) * 9, list, None)),
        ("l", 8, 8, (LEAF, (None,), list, None)),
        ("r", 8, 8, (object, (("x", LEAF, 1, 0, 0),), (), (), 0, None)),
        ("r", 8, 8, (object, (("x", LEAF, -1, 0, 0),), (), (), 0, None)),
        ("r", 8, 8, (object, (("x", LEAF, 0, 16, 0),), (), (), 0, None)),
        ("r", 8, 8, (object, (("x", LEAF, 0, 0, 16),), (), (), 0, None)),
        ("r", 8, 8, (object, (("x", LEAF, 0, 0, 8),), (), (), 0, None)),
        ("r", 8, 8, (object, (), ((1, "q"),), (), 0, None)),
        ("r", 8, 8, (object, (), ((0, "d"),), (), 0, None)),
        ("r", 8, 8, (object, (), ((0, "q"),) * 17, (), 0, None)),
        ("r", 8, 8, (object, (), (), ((4, 5),), 0, None)),
        ("r", 8, 8, (object, (), (), (), 16, None)),
        ("r", 8, 8, (object, (), (), (), 0, 5)),
        ("r", 16, 8, (object, (("x", ("l", 8, 8, (LEAF, ((0,),), list, None)), 0, 0, 0),), (), (), 0, None)),
        ("a", 8, 8, (("l", 8, 8, (LEAF, ((0,),), list, None)), (1,), list, None)),
    ],
)
def test_a_tree_that_makes_no_sense_is_refused(arguments: tuple[Any, ...]) -> None:
    """Whatever Python code says, nothing outside a record or an object is read or written."""

    def made(it: Any) -> Any:
        if it.__class__ is tuple:
            items = tuple(made(each) for each in it)
            is_value = len(items) == 4 and isinstance(items[0], str) and isinstance(items[3], tuple)
            return Value(*items) if is_value else items
        return it

    form, size, alignment, details = arguments
    with pytest.raises((ValueError, TypeError)):
        Value(form, size, alignment, made(details) if details != LEAF else (made(LEAF),))
