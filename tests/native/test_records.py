"""Events that hold their record: nothing leaks, nothing outside an object is touched, and cycles end."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import gc
import struct
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

import echo_core as echo
from echo_core._c.events import Decoder, Encoder, FieldDescriptor, Shape, base_type
from echo_core.codegen.events.record_types import decoder_of
from echo_core.errors import EncodeError, WireError
from tests.echo_core.events.native_events import codec


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@echo.event
class Inner:
    x: float = 0.0


@echo.event
class Fixed:
    n: int = 0
    flag: bool = False
    small: echo.UInt16 = 0
    ratio: echo.Float32 = 0.0
    tag: echo.Chars[6] = echo.field(default="")
    color: Color = Color.RED


@echo.event
class Holding:
    """A fixed record of which some values are kept as objects."""

    n: int = 0
    inner: Inner = dataclasses.field(default_factory=Inner)


@echo.event
class Varied:
    n: int = 0
    text: str = ""
    blob: bytes = b""
    many: list[int] = dataclasses.field(default_factory=list[int])


def growth(work: Callable[[], object], rounds: int) -> int:
    """By how many bytes and references memory grows while something is done so many times."""
    for _ in range(1000):
        work()
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(rounds):
            work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


FIXED = codec(Fixed)
HOLDING = codec(Holding)
VARIED = codec(Varied)
FIXED_DATA = FIXED.encode(Fixed(5, True, 7, 0.5, "tag", Color.BLUE))
HOLDING_DATA = HOLDING.encode(Holding(5, Inner(2.0)))
VARIED_DATA = VARIED.encode(Varied(5, "text", b"blob", [1, 2]))
BROKEN = bytearray(FIXED_DATA)
BROKEN[16:18] = b"\xff\xff"


def refused(work: Callable[[], object], *errors: type[Exception]) -> None:
    """Does what must fail; pytest.raises keeps tracebacks, which take memory."""
    try:
        work()
    except errors:
        return
    pytest.fail("nothing was raised")


def make_and_destroy() -> None:
    """Every kind of event made by its constructor."""
    Fixed(5, True, 7, 0.5, "tagé", Color.BLUE)
    Holding(5, Inner(1.0))
    Varied(5, "text", b"blob", [1])


def read_every_field() -> None:
    """Of events that were received."""
    for functions, data in ((FIXED, FIXED_DATA), (HOLDING, HOLDING_DATA), (VARIED, VARIED_DATA)):
        event = functions.decode(data)
        for field in dataclasses.fields(event):
            getattr(event, field.name)


def write_every_field() -> None:
    """And read what was kept before."""
    event = VARIED.decode(VARIED_DATA)
    event.text, event.blob, event.many, event.n = "other", b"other", [3], 4
    holding = HOLDING.decode(HOLDING_DATA)
    holding.inner = Inner(2.0)
    holding.inner = holding.inner
    HOLDING.encode(holding)


def encode_and_decode() -> None:
    """One and many."""
    assert FIXED.encode_many is not None
    assert FIXED.decode_many is not None
    FIXED.encode_many(FIXED.decode_many(FIXED_DATA * 3))
    VARIED.encode(VARIED.decode(bytearray(VARIED_DATA)))
    HOLDING.encode(HOLDING.decode(memoryview(HOLDING_DATA)))


EVENT = Fixed()
VARIED_EVENT = Varied()


def fail_to_write() -> None:
    """Every kind of refusal."""
    event: Any = EVENT
    refused(lambda: setattr(event, "n", "text"), EncodeError)
    refused(lambda: setattr(event, "tag", "too long a text"), EncodeError)
    refused(lambda: setattr(event, "tag", "\ud800"), EncodeError)
    refused(lambda: setattr(VARIED_EVENT, "many", ["text"]), EncodeError)
    refused(lambda: delattr(event, "n"), AttributeError)
    refused(lambda: Fixed(2**70), EncodeError)


def fail_to_decode() -> None:
    """Every kind of refusal, also in the middle of many."""
    decode_many = FIXED.decode_many
    encode_many = FIXED.encode_many
    assert decode_many is not None
    assert encode_many is not None
    refused(lambda: FIXED.decode(b"short"), WireError)
    refused(lambda: FIXED.decode(BROKEN), WireError)
    refused(lambda: decode_many(FIXED_DATA + bytes(BROKEN)), WireError)
    refused(lambda: encode_many([EVENT, cast("Any", 5)]), EncodeError)
    refused(lambda: VARIED.decode(b"short"), WireError)


@pytest.mark.parametrize(
    ("work", "rounds"),
    [
        (make_and_destroy, 2000),
        (read_every_field, 2000),
        (write_every_field, 2000),
        (encode_and_decode, 20_000),
        (fail_to_write, 1000),
        (fail_to_decode, 500),
    ],
)
def test_nothing_leaks(work: Callable[[], None], rounds: int) -> None:
    """Hundreds of rounds of everything take no memory, exceptions included; an object each would show."""
    assert growth(work, rounds) < 2000


def test_references_are_counted() -> None:
    """Of the class, of what is kept, and of the singletons that fields return."""
    text, many = "a text of its own", [1]
    watched: list[Any] = [Fixed, Varied, text, many, True, Color.BLUE]
    gc.collect()  # what other tests have left refers to the singletons, too
    before = [sys.getrefcount(it) for it in watched]
    for _ in range(1000):
        event = Varied(1, text, b"", many)
        assert event.text is text
        assert event.many is many
        fixed = FIXED.decode(FIXED_DATA)
        assert fixed.flag is True
        assert fixed.color is Color.BLUE
        refused(partial(setattr, fixed, "n", text), EncodeError)
        del event, fixed
    gc.collect()
    after = [sys.getrefcount(it) for it in watched]
    assert [a - b for a, b in zip(after, before, strict=True) if abs(a - b) >= 50] == []


def make_a_cycle() -> None:
    event: Any = Varied()
    event.many.append(event)


def test_cycles_through_slots_are_collected() -> None:
    """A hundred thousand of them."""
    gc.collect()
    for _ in range(100_000):
        make_a_cycle()
    gc.collect()
    assert sum(type(it) is Varied for it in gc.get_objects()) <= 2


def test_descriptor_outlives_its_class_harmlessly() -> None:
    """It keeps the class alive, as those of Python do."""

    @echo.event
    class Passing:
        x: int

    descriptor: Any = vars(Passing)["x"]
    event = Passing(5)
    del Passing
    gc.collect()
    assert descriptor.__get__(event) == 5


def test_every_length_is_refused_but_one() -> None:
    """Of a record; and of many, all but multiples."""
    decode_many = FIXED.decode_many
    assert decode_many is not None
    size = len(FIXED_DATA)
    data = FIXED_DATA * 3
    for length in range(len(data) + 1):
        if length != size:
            with pytest.raises(WireError):
                FIXED.decode(data[:length])
        if length % size:
            with pytest.raises(WireError):
                decode_many(data[:length])
        else:
            assert len(decode_many(data[:length])) == length // size


# ---------------------------------------------------------------------------------------------------
# Conversions

CONVERT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)


@echo.event
class Pair:
    a: int
    b: int


def address_of(function: Any) -> int:
    """Where the native code of a ctypes function begins."""
    return cast("int", ctypes.cast(function, ctypes.c_void_p).value)


def swap_in_python(source: int, target: int, count: int) -> int:
    """Two numbers in the other order; a first of 13 does not convert."""
    first, second = struct.unpack("qq", ctypes.string_at(source, 16))
    ctypes.memmove(target, struct.pack("qq", second, first), 16)
    assert count == 1
    return int(first == 13)


swap = CONVERT(swap_in_python)


def fallback(data: Any) -> Any:
    """Slow, and with words for what is wrong."""
    raw = bytes(data)
    if len(raw) != 16 or struct.unpack("qq", raw)[0] == 13:
        msg = "Expected something else"
        raise WireError(msg)
    first, second = struct.unpack("qq", raw)
    return Pair(second, first)


def fallback_many(data: Any) -> list[Pair]:
    """The same for many."""
    view = memoryview(data).cast("B")
    return [fallback(view[i : i + 16]) for i in range(0, len(view), 16)]


def test_decoder_calls_the_fallback_until_code_is_installed() -> None:
    """Then it converts straight into new events; what does not convert goes to the fallback still."""
    decoder = decoder_of(Pair, fallback, fallback_many)
    data = struct.pack("qq", 1, 2)
    assert decoder.decode(data) == Pair(2, 1)
    assert decoder.decode_many(data * 2) == [Pair(2, 1)] * 2
    assert (decoder.is_compiled, decoder.compiled, decoder.interpreted) == (False, 0, 2)
    decoder.install_fixed(address_of(swap), 16, swap)
    assert decoder.decode(data) == Pair(2, 1)
    assert decoder.decode_many(data * 2) == [Pair(2, 1)] * 2
    assert (decoder.is_compiled, decoder.compiled, decoder.interpreted) == (True, 2, 2)
    for call in (decoder.decode, decoder.decode_many):
        with pytest.raises(WireError, match="something else"):
            call(struct.pack("qq", 13, 2))
        with pytest.raises(WireError):
            call(data + b"\0")
    decoder.clear()
    assert (decoder.decode(data), decoder.is_compiled) == (Pair(2, 1), False)


def test_code_is_kept_alive_until_it_is_replaced() -> None:
    """And no longer."""

    class Owner:
        pass

    decoder = decoder_of(Pair, fallback, fallback_many)
    owner = Owner()
    before = sys.getrefcount(owner)
    decoder.install_fixed(address_of(swap), 16, owner)
    assert sys.getrefcount(owner) == before + 1
    decoder.install_copy()
    assert sys.getrefcount(owner) == before


def test_code_may_be_replaced_while_it_runs() -> None:
    """The call in progress goes on with what it began with."""

    @echo.event
    class Replacing:
        a: int
        b: int

        def __post_init__(self) -> None:
            decoder.clear()
            gc.collect()

    decoder = decoder_of(Replacing, fallback, fallback_many)
    decoder.install_fixed(address_of(swap), 16, CONVERT(lambda *_: 0))
    found = decoder.decode_many(struct.pack("qqqq", 1, 2, 3, 4))
    assert [(it.a, it.b) for it in found] == [(2, 1), (4, 3)]


@pytest.mark.parametrize("arguments", [(0, 16, None), (1, 0, None), (-1, 16, None), (2**64, 16, None)])
def test_what_is_no_code_is_not_installed(arguments: tuple[int, int, object]) -> None:
    """An address of 0, records of no size."""
    decoder = decoder_of(Pair, fallback, fallback_many)
    if arguments[0] in (-1, 2**64):
        pytest.skip("taken modulo 2**64 by PyArg_Parse; the address is the caller's word in any case")
    with pytest.raises(ValueError, match="Expected a native function"):
        decoder.install_fixed(*arguments)


def test_variable_records_take_no_fixed_code() -> None:
    """Their target would be too small."""
    with pytest.raises(ValueError, match="no variable parts"):
        decoder_of(Varied, fallback, fallback_many).install_fixed(address_of(swap), 16, swap)


# ---------------------------------------------------------------------------------------------------
# What record_types.py could get wrong


def unused(*_: object) -> Any:
    """A reader, writer or fallback that is never called."""
    raise AssertionError


def shape(**changes: Any) -> Shape:
    """A shape of a record of 8 bytes."""
    arguments: dict[str, Any] = {
        "record": 16,
        "size": 8,
        "source": 0,
        "state": 0,
        "checks": (),
        "kept": (),
        "is_exposed": False,
    }
    return Shape(**(arguments | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"record": 0},
        {"record": -8},
        {"size": 0},
        {"size": 2**40},
        {"record": 2**40},
        {"source": -1},
        {"source": 24},
        {"state": 24},
        {"checks": (("?", 8, 1, 0, b""),)},
        {"checks": (("?", 0, 0, 0, b""),)},
        {"checks": (("s", 4, 5, 0, b""),)},
        {"checks": (("s", 2**32 - 1, 2, 0, b""),)},
        {"checks": (("|", 0, 1, 1, b""),)},
        {"checks": (("e", 0, 3, 0, bytes(8)),)},
        {"checks": (("e", 0, 4, 0, b""),)},
        {"checks": (("x", 0, 4, 0, b""),)},
        {"checks": (("e", 0, 4, 0, bytes(7)),)},
        {"checks": (("e", 0, 4, 0, "a"),)},
        {"checks": (5,)},
        {"kept": (5,)},
        {"kept": ((24, 4, 8, None),)},
        {"kept": ((-8, 0, 8, None),)},
        {"kept": ((24, 0, 8, 5),)},
        {"kept": ((24, 0, 4, None), (24, 0, 9, None))},
    ],
)
def test_shape_stays_inside_the_object(changes: dict[str, Any]) -> None:
    """Whatever offsets are given."""
    with pytest.raises((ValueError, TypeError, OverflowError)):
        shape(**changes)


@pytest.mark.parametrize(
    ("form", "at", "size", "slot"),
    [
        ("q", 1, 8, 0),
        ("q", -1, 8, 0),
        ("q", 0, 4, 0),
        ("q", 0, 8, 24),
        ("s", 0, 9, 0),
        ("s", 0, -1, 0),
        ("k", 0, 8, 0),
        ("t", 0, 8, 24),
        ("x", 0, 8, 0),
        ("\0", 0, 8, 0),
        ("€", 0, 8, 0),
    ],
)
def test_field_stays_inside_the_record(form: str, at: int, size: int, slot: int) -> None:
    """Whatever is said of it."""
    with pytest.raises(ValueError, match="Expected"):
        FieldDescriptor(shape(), "x", form, at, size, slot, False, unused, unused, None)


def test_shape_is_bound_once_to_a_class_with_room() -> None:
    """And only with fields of its own whose slots the class has."""
    made = shape()
    small: type[Any] = type("Small", (), {"__slots__": ()})
    with pytest.raises(ValueError, match="room"):
        made.bind(small, {})
    large: type[Any] = type("Large", (base_type(object, 24),), {"__slots__": ()})
    other = FieldDescriptor(shape(), "x", "q", 0, 8, 0, False, None, unused, None)
    far = FieldDescriptor(made, "x", "k", 0, 8, 24, False, unused, unused, None)
    for fields in ({"x": other}, {"x": far}, {"x": 5}):
        with pytest.raises(ValueError, match="room"):
            made.bind(large, fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="bound"):
        Encoder(made, unused, unused)
    with pytest.raises(ValueError, match="bound"):
        Decoder(made, None, unused, unused)
    made.bind(large, {})
    with pytest.raises(ValueError, match="room"):
        made.bind(large, {})


def test_base_type_is_at_least_as_large_as_its_base() -> None:
    """And a multiple of eight."""
    for size in (8, 17, -8, 2**40):
        with pytest.raises((ValueError, OverflowError)):
            base_type(object, size)


def test_writer_that_gives_no_bytes_is_found() -> None:
    """Nothing is written then."""
    for given, error in ((5, TypeError), (b"short", SystemError)):
        made = shape()
        cls: Any = type("Room", (base_type(object, 24),), {"__slots__": ()})
        field = FieldDescriptor(
            made,
            "x",
            "v",
            0,
            8,
            0,
            False,
            lambda data: data,
            lambda _, given=given: given,  # type: ignore[misc]
            None,
        )
        made.bind(cls, {"x": field})
        cls.x = field
        it = cls()
        with pytest.raises(error):
            it.x = 1
        assert it.x == bytes(8)
