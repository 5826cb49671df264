"""Codecs with compiled code in front: the bytes and the events of the generic codec, or its errors."""

from __future__ import annotations

import dataclasses
import enum
import gc
import pickle
import sys
import threading
import tracemalloc
import uuid
import weakref
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core._c import events
from echo_core._c.events import ClassCodec
from echo_core.codegen import cpython
from echo_core.codegen.codecs import Codec
from echo_core.codegen.events.class_code import MAX_CODE_FIELDS, code_of, shape_of
from echo_core.codegen.events.value_trees import tree_of
from echo_core.codegen.machine import background
from tests.formats.strategies import examples

pytestmark = pytest.mark.skipif(bool(cpython.problem()), reason=cpython.problem() or "compiled")


class Colour(enum.Enum):
    """What Python has to handle."""

    RED = 1
    BLUE = 2


@dataclasses.dataclass(slots=True)
class Numbers:
    """Every number that code handles by itself."""

    a: echo.Int8
    b: echo.UInt8
    c: echo.Int16
    d: echo.UInt16
    e: echo.Int32
    f: echo.UInt32
    g: int
    h: echo.UInt64
    i: echo.Float32
    j: float
    k: bool


@dataclasses.dataclass(slots=True)
class Texts:
    """Text of several sizes, one of which has a way of its own."""

    one: echo.Chars[1]
    nine: echo.Chars[9]
    sixteen: echo.Chars[16]
    long: echo.Chars[100]


@dataclasses.dataclass(slots=True)
class Mixed:
    """Fields that code handles, beside fields that take a Python function."""

    id: int
    colour: Colour
    when: datetime
    took: timedelta
    key: uuid.UUID
    raw: echo.Bytes[3]
    spot: echo.Array[echo.Float64, 3]
    maybe: echo.Int32 | None
    half: echo.Float16
    wave: complex


@dataclasses.dataclass(slots=True)
class Inner:
    """A record in a record."""

    x: float
    name: echo.Chars[4]


@dataclasses.dataclass(slots=True, frozen=True)
class Outer:
    """Records in a record, one of them two levels deep."""

    first: Inner
    number: echo.Int16
    second: Inner


@dataclasses.dataclass(slots=True)
class Child(Numbers):
    """Slots of two classes."""

    extra: float


def both(cls: type[Any]) -> tuple[Codec[Any], Codec[Any]]:
    """The compiled codec of a class and the generic one."""
    return echo.codec(cls, tier="compiled"), echo.codec(cls, tier="interpreted")


def numbers(**changes: Any) -> Numbers:
    """An instance whose values all differ."""
    given: dict[str, Any] = {
        "a": -1,
        "b": 2,
        "c": -3,
        "d": 4,
        "e": -5,
        "f": 6,
        "g": -7,
        "h": 8,
        "i": 0.5,
        "j": -1e300,
    }
    return Numbers(**{**given, "k": True, **changes})


def texts(text: str) -> Texts:
    """As much of a text as fits each field."""
    return Texts(text[:1], text[:9], text[:16], text[:100])


MIXED = Mixed(
    1,
    Colour.BLUE,
    datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    timedelta(days=-1, microseconds=1),
    uuid.UUID(int=7),
    b"abc",
    np.array([1.0, 2.0, 3.0]),
    None,
    1.5,
    1 - 2j,
)
OUTER = Outer(Inner(1.5, "ab"), -2, Inner(-0.0, ""))

EDGES = sorted(
    {
        sign * (2**bits + d)
        for bits in (0, 7, 8, 15, 16, 29, 30, 31, 32, 59, 60, 62, 63, 64, 90)
        for d in (-1, 0, 1)
        for sign in (1, -1)
    }
)


def outcome(call: Any, argument: Any) -> Any:
    """What a call gives, or the error with its words."""
    try:
        result = call(argument)
    except echo.EchoError as error:
        return type(error), str(error)
    return result if isinstance(result, bytes) else repr(result)


@pytest.mark.parametrize("event", [numbers(), texts("hello"), MIXED, OUTER], ids=lambda it: type(it).__name__)
def test_compiled_code_does_what_the_generic_codec_does(event: Any) -> None:
    """The same bytes, and the same event from them, alone and many times over."""
    cls: type[Any] = event.__class__
    compiled, generic = both(cls)
    data = generic.encode(event)
    assert compiled.encode(event) == data
    assert compiled.encode_many([event] * 3) == data * 3
    assert repr(compiled.decode(data)) == repr(event)
    assert repr(compiled.decode_many(data * 3)) == repr([event] * 3)


def test_code_really_runs() -> None:
    """The functions are built-in ones, and they count what code did."""
    compiled, _ = both(Numbers)
    functions = compiled.encode, compiled.decode, compiled.encode_many, compiled.decode_many
    assert all(type(function) is type(len) for function in functions)
    native: Any = compiled.encode
    before = native.__self__.compiled, native.__self__.interpreted
    compiled.encode(numbers())
    assert (native.__self__.compiled, native.__self__.interpreted) == (before[0] + 1, before[1])


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Numbers)])
def test_every_edge_of_every_number_is_judged_alike(name: str) -> None:
    """At and beyond the ends of each range, and with values of other types, both codecs agree to the word."""
    compiled, generic = both(Numbers)
    others: list[Any] = [None, "1", b"1", True, False, 1.5, 2, 1e39, -1e39, float("inf"), float("-inf"), 1j]
    others += [np.int32(5), np.float32(0.25), np.bool_(True), 2**70, 3.4028235677973366e38, 1e-50]
    for value in [*EDGES, *others]:
        event = numbers(**{name: value})
        assert outcome(compiled.encode, event) == outcome(generic.encode, event), (name, value)


def test_nan_keeps_its_bits() -> None:
    """A float is moved, not understood."""
    compiled, generic = both(Numbers)
    event = numbers(j=float("nan"), i=float("nan"))
    assert compiled.encode(event) == generic.encode(event)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "\0",
        "a\0b",
        "é",
        "\u20ac",
        "x" * 9,
        "x" * 16,
        "x" * 17,
        "x" * 100,
        "x" * 101,
        "\ud800",
        "ab\U0001f600",
    ],
)
@pytest.mark.parametrize("name", ["one", "nine", "sixteen", "long"])
def test_text_of_every_kind_is_judged_alike(name: str, text: str) -> None:
    """ASCII or not, with a NUL, just fitting or just too long."""
    compiled, generic = both(Texts)
    event = dataclasses.replace(texts("ok"), **{name: text})
    assert outcome(compiled.encode, event) == outcome(generic.encode, event)


@examples(200)
@given(st.text(st.characters(codec="ascii"), max_size=20))
def test_sixteen_bytes_of_text_are_written_whole(text: str) -> None:
    """The way that texts of this size have of their own agrees for every length and every NUL."""
    compiled, generic = both(Texts)
    event = Texts("", "", text, "")
    assert outcome(compiled.encode, event) == outcome(generic.encode, event)


@examples(200)
@given(st.binary(min_size=126, max_size=126))
def test_any_bytes_decode_alike(data: bytes) -> None:
    """Text that is not UTF-8 is refused in the same words, and everything else is the same event."""
    compiled, generic = both(Texts)
    assert outcome(compiled.decode, data) == outcome(generic.decode, data)


@examples(200)
@given(st.binary(min_size=56, max_size=56))
def test_any_bytes_of_numbers_decode_alike(data: bytes) -> None:
    """Every pattern of bits is a number."""
    compiled, generic = both(Numbers)
    assert compiled.format.size_bytes == 56
    assert outcome(compiled.decode, data) == outcome(generic.decode, data)


@pytest.mark.parametrize("wrong", [None, 1, "x", object(), OUTER, Numbers, dataclasses.asdict(numbers())])
def test_what_is_no_event_of_the_class_is_refused(wrong: Any) -> None:
    """With the words of the generic codec."""
    compiled, generic = both(Numbers)
    assert outcome(compiled.encode, wrong) == outcome(generic.encode, wrong)
    assert outcome(compiled.encode, wrong)[0] is echo.EncodeTypeError


def test_a_subclass_is_encoded_as_its_parent() -> None:
    """Code knows the exact class only; the generic codec takes what is one."""
    compiled, generic = both(Numbers)
    child = Child(**dataclasses.asdict(numbers()), extra=1.0)
    assert compiled.encode(child) == generic.encode(child) == compiled.encode(numbers())
    assert repr(both(Child)[0].decode(both(Child)[0].encode(child))) == repr(child)


def test_an_attribute_that_was_never_set_is_named() -> None:
    """An empty slot is no value."""
    compiled, _ = both(Numbers)
    empty = object.__new__(Numbers)
    with pytest.raises(echo.EncodeError, match=r"never set - at `Numbers\.a`"):
        compiled.encode(empty)


def test_a_wrong_event_among_many_is_named() -> None:
    """And so is one whose field does not fit; what came before it is not lost to the next call."""
    compiled, _ = both(Numbers)
    good = numbers()
    with pytest.raises(echo.EncodeError, match="Numbers"):
        compiled.encode_many([good, "x"])
    with pytest.raises(echo.EncodeError, match=r"Numbers\.a"):
        compiled.encode_many([good, numbers(a=200), good])
    assert compiled.encode_many([good, numbers(j=3), good]) == b"".join(
        map(compiled.encode, [good, numbers(j=3.0), good])
    )


def test_many_events_come_from_any_iterable() -> None:
    """A tuple, a generator or nothing at all."""
    compiled, generic = both(Numbers)
    events = [numbers(g=i) for i in range(5)]
    data = generic.encode_many(events)
    assert compiled.encode_many(tuple(events)) == compiled.encode_many(iter(events)) == data
    assert compiled.encode_many([]) == b""
    assert compiled.decode_many(b"") == []
    with pytest.raises(TypeError, match="not iterable"):
        compiled.encode_many(3)  # type: ignore[arg-type]


def test_large_ints_of_many_events_take_no_stack() -> None:
    """What CPython is asked for an int leaves nothing behind."""

    @dataclasses.dataclass(slots=True)
    class Large:
        a: int
        b: int

    codec, _ = both(Large)
    count = 600_000  # by 32 bytes each, more than a stack
    assert codec.encode_many([Large(2**40, -(2**50))] * count) == codec.encode(Large(2**40, -(2**50))) * count


def test_a_list_that_shrinks_while_it_is_encoded_is_taken_as_it_was() -> None:
    """A fallback may run any Python code, even such that changes the list."""
    events: list[Any] = []

    class Sly(float):
        def __float__(self) -> float:
            events.clear()
            gc.collect()
            return 1.0

    compiled, _ = both(Numbers)
    events += [numbers(), numbers(j=Sly(2.0)), numbers(), numbers()]
    data = compiled.encode_many(events)
    assert len(data) == 4 * compiled.format.size_bytes
    assert compiled.decode_many(data)[3] == numbers()


@pytest.mark.parametrize("size", [0, 1, 55, 57, 112])
def test_a_record_of_the_wrong_size_is_refused(size: int) -> None:
    """In the words of the generic codec."""
    compiled, generic = both(Numbers)
    assert outcome(compiled.decode, bytes(size)) == outcome(generic.decode, bytes(size))
    assert outcome(compiled.decode, bytes(size))[0] is echo.WireError


def test_records_that_are_no_whole_number_are_refused() -> None:
    """A rest is never dropped."""
    compiled, _ = both(Numbers)
    with pytest.raises(echo.WireError):
        compiled.decode_many(bytes(57))


def test_records_come_from_any_buffer() -> None:
    """Not only from bytes."""
    compiled, _ = both(Numbers)
    data = compiled.encode(numbers())
    assert compiled.decode(bytearray(data)) == compiled.decode(memoryview(data)) == numbers()
    assert compiled.decode_many(bytearray(data * 2)) == [numbers()] * 2


@pytest.mark.parametrize("abi", ["s390x", "i386", "m68k"])
@pytest.mark.parametrize("event", [numbers(), texts("abc"), OUTER], ids=lambda it: type(it).__name__)
def test_a_foreign_record_becomes_an_event(event: Any, abi: str) -> None:
    """Converted by code, then made by code."""
    cls: type[Any] = event.__class__
    sender = echo.format_of(cls, abi=abi)
    data = echo.encoder(cls, abi=abi)(event)
    compiled = echo.codec(cls, sender=sender, tier="compiled")
    assert compiled.decode(data) == event
    assert compiled.decode_many(data * 3) == [event] * 3


def test_a_value_that_does_not_fit_says_so() -> None:
    """A conversion that may lose, where it would lose."""

    @dataclasses.dataclass(slots=True)
    class Wide:
        number: int

    @dataclasses.dataclass(slots=True)
    class Narrow:
        number: echo.Int8

    codec = echo.codec(Narrow, sender=echo.format_of(Wide), lossy=True, tier="compiled")
    encode = echo.encoder(Wide)
    assert codec.decode(encode(Wide(100))) == Narrow(100)
    with pytest.raises(echo.ConversionError, match=r"Narrow\.number"):
        codec.decode(encode(Wide(1000)))


def test_a_large_foreign_record_is_converted_off_the_stack() -> None:
    """Beyond what the stack is used for."""

    @dataclasses.dataclass(slots=True)
    class Large:
        text: echo.Chars[5000]
        number: int

    event = Large("x" * 4000, 7)
    sender = echo.format_of(Large, abi="s390x")
    data = echo.encoder(Large, abi="s390x")(event)
    assert echo.codec(Large, sender=sender, tier="compiled").decode(data) == event


def test_post_init_runs_on_what_is_decoded() -> None:
    """Such classes are decoded by the generic codec, and encoded by code."""

    @dataclasses.dataclass(slots=True)
    class Checked:
        number: int
        double: int = 0

        def __post_init__(self) -> None:
            self.double = 2 * self.number

    codec = echo.codec(Checked)
    background.drain(10)
    assert codec.decode(codec.encode(Checked(3))).double == 6


COUNTED = range(events.MAX_TIES + 1)
Counting: Any = dataclasses.make_dataclass(
    "Counting",
    [(f"n{i}", int) for i in COUNTED] + [(f"all{i}", echo.Array[int, f"n{i}"]) for i in COUNTED],
)


def test_a_class_that_c_code_does_not_know_says_why_when_asked_for_it() -> None:
    """And works all the same when not."""
    with pytest.raises(echo.CompileError, match="too much that counts"):
        echo.codec(Counting, tier="compiled")
    codec = echo.codec(Counting)
    event = Counting(*(i for i in COUNTED), *([1] * i for i in COUNTED))
    again = codec.decode(codec.encode(event))
    assert [list(getattr(again, f"all{i}")) for i in COUNTED] == [[1] * i for i in COUNTED]


@pytest.mark.parametrize(
    ("cls", "value"),
    [
        (dataclasses.make_dataclass("WithDict", [("x", int)]), 3),
        (dataclasses.make_dataclass("WithText", [("x", str)], slots=True), "a"),
    ],
)
def test_a_class_without_code_of_its_own_is_walked(cls: type[Any], value: Any) -> None:
    """Its instances have no slots, or its records no fixed size."""
    with pytest.raises(echo.CompileError):
        code_of(cls)
    codec = echo.codec(cls, tier="compiled")
    assert codec.encode(cls(value)) == echo.encoder(cls, tier="interpreted")(cls(value))
    assert codec.decode(codec.encode(cls(value))).x == value


def test_a_class_that_meddles_with_attributes_gets_no_code() -> None:
    """Code would not ask its `__getattribute__`."""

    @dataclasses.dataclass(slots=True)
    class Meddling:
        x: int

        def __getattribute__(self, name: str) -> Any:
            return 7 if name == "x" else object.__getattribute__(self, name)

    with pytest.raises(echo.CompileError):
        code_of(Meddling)
    assert echo.encoder(Meddling)(Meddling(1)) == (7).to_bytes(8, sys.byteorder)


def test_background_code_takes_over_by_itself() -> None:
    """The first events go through the generic codec; the same function is compiled later."""

    @dataclasses.dataclass(slots=True)
    class Fresh:
        x: int
        y: float

    codec = echo.codec(Fresh)
    data = codec.encode(Fresh(1, 2.0))
    assert background.drain(30)
    native: Any = codec.encode
    assert native.__self__.is_compiled
    assert codec.encode(Fresh(1, 2.0)) == data
    assert codec.decode(data) == Fresh(1, 2.0)


def test_threads_share_a_codec() -> None:
    """Many at once, some of whose events go to the generic codec."""
    codec, _ = both(Numbers)
    events = [numbers(g=i, j=float(i) if i % 7 else i) for i in range(50)]
    data = codec.encode_many(events)
    right: list[bool] = []

    def work() -> None:
        right.extend(
            codec.encode_many(events) == data and codec.decode_many(data)[49].g == 49 for _ in range(20)
        )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 80


@pytest.mark.slow
@pytest.mark.parametrize("event", [numbers(), texts("hello"), MIXED, OUTER], ids=lambda it: type(it).__name__)
def test_nothing_leaks(event: Any) -> None:
    """Thousands of events in and out, right ones and wrong ones, leave memory as it was."""
    cls: type[Any] = event.__class__
    codec, _ = both(cls)
    data = codec.encode(event)

    def work() -> None:
        for _ in range(2000):
            codec.decode(codec.encode(event))
            with pytest.raises(echo.EchoError):
                codec.encode(None)
            with pytest.raises(echo.EchoError):
                codec.decode(data[1:])
        codec.decode_many(codec.encode_many([event] * 100))

    work()
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        work()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def test_the_code_dies_with_its_class() -> None:
    """A class that nobody refers to is collected, and with it its code."""

    def use_once() -> weakref.ref[Any]:
        @dataclasses.dataclass(slots=True)
        class Passing:
            x: int

        codec = echo.codec(Passing, tier="compiled")
        codec.decode(codec.encode(Passing(1)))
        return weakref.ref(Passing)

    gone = use_once()
    gc.collect()
    assert gone() is None


def test_code_stays_behind_when_its_class_is_pickled() -> None:
    """As it is by value, where a class has no module to be found in."""
    echo.encoder(Numbers, tier="compiled")
    held = vars(Numbers)["__echo_code__"]
    assert held.code is not None
    again = pickle.loads(pickle.dumps(held))
    assert again.code is None
    assert again.cls is None


def test_code_is_for_records_of_its_own_class() -> None:
    @dataclasses.dataclass(slots=True)
    class Other:
        x: int

    @dataclasses.dataclass(slots=True)
    class Outer:
        text: str
        other: Other

    walker: Any = echo.codec(Outer, tier="interpreted")
    tree = tree_of(walker.format.record)
    assert tree is not None
    with pytest.raises(ValueError, match="its code"):
        tree.inner[1].use_code(code_of(Numbers))
    tree.inner[1].use_code(code_of(Other))
    codec = ClassCodec(len, 1000, 1000)
    with pytest.raises(ValueError, match="this size"):
        codec.install(code_of(Other), True, True, 0, None)


@pytest.mark.skipif(bool(cpython.problem()), reason=cpython.problem() or "compiled")
@pytest.mark.parametrize(("extra", "has_code"), [(-1, True), (0, True), (1, False)])
def test_classes_of_very_many_fields_are_walked(extra: int, *, has_code: bool) -> None:
    """To compile one of 1000 fields takes a second."""
    names = [f"f{i}" for i in range(MAX_CODE_FIELDS + extra)]
    cls = dataclasses.make_dataclass("Wide", [(name, int) for name in names], slots=True)
    assert (shape_of(echo.format_of(cls).record) is not None) == has_code
    event = cls(*range(len(names)))
    codec: echo.Codec[Any] = echo.codec(cls)
    assert codec.decode(codec.encode(event)) == event
