"""Events of a large fixed size: their memory is used again, and arrays are written where they belong."""

from __future__ import annotations

import copy
import gc
import pickle
import resource
from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.errors import EncodeError
from tests.echo_core.events.native_events import codec, generic

SIDE = 256


@echo.event
class Image:
    """128 KiB."""

    number: int
    pixels: echo.Array[echo.UInt16, SIDE, SIDE]
    is_last: bool = False


class Portrait(Image):
    """Of a class that a class statement made."""


@echo.event
class Named:
    """The same beside a text, so that the garbage collector may have to know of it."""

    number: int
    pixels: echo.Array[echo.UInt16, SIDE, SIDE]
    is_last: bool = False
    name: str = ""


@echo.event
class Sized:
    """The same of whatever size, so that the pixels are not in the event but in the bytes that it came in."""

    number: int
    pixels: echo.Array[echo.UInt16, ..., ...]
    is_last: bool = False


@echo.event
class Tile:
    """Small enough for many examples."""

    cells: echo.Array[echo.Int16, 3, 4]
    after: echo.Int32 = 7


@dataclass
class PlainTile:
    """The same, which holds what it is given."""

    cells: echo.Array[echo.Int16, 3, 4]
    after: echo.Int32 = 7


def image(number: int, cls: Any = Image) -> Any:
    """Each pixel has the number."""
    return cls(number, np.full((SIDE, SIDE), number, np.uint16), is_last=True)


def received(number: int, cls: Any) -> Any:
    """The same as it comes from another process."""
    return codec(cls).decode(memoryview(codec(cls).encode(image(number, cls))))


@pytest.mark.parametrize("cls", [Image, Named])
def test_memory_of_events_is_used_again(cls: Any) -> None:
    """New memory would be page faults, which take longer than to fill it."""
    first = image(1, cls)
    place = first.pixels.ctypes.data
    del first
    assert image(2, cls).pixels.ctypes.data == place


@pytest.mark.parametrize("cls", [Named, Sized])
def test_memory_of_many_events_is_used_again(cls: Any) -> None:
    """Rounds of events that end together take no more pages of the system than the first round did."""
    record = memoryview(codec(cls).encode(image(1, cls)))
    pages, events, rounds = len(record) // resource.getpagesize(), 10, 20

    def faults_of_round() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        living = [codec(cls).decode(record) for _ in range(events)]
        del living
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults_of_round()
    assert sum(faults_of_round() for _ in range(rounds)) < rounds * events * pages / 4


def test_bytes_that_somebody_has_asked_for_their_hash_are_not_used_again() -> None:
    """They would know the hash of what they had been."""
    first = codec(Sized).encode(received(1, Sized))
    before = hash(first)
    known = bytes(bytearray(first))
    assert hash(known) == before
    del first
    for number in range(2, 100):
        record = codec(Sized).encode(received(number, Sized))
        assert hash(record) == hash(bytes(bytearray(record)))


def test_memory_of_events_whose_class_is_gone_is_let_go_of() -> None:
    """Each class has a size of its own, so that its events' memory fits to no other's."""
    for more in range(40):
        count = (1 << 16) + 8 * more
        array: Any = echo.Array
        cls: Any = make_dataclass("Gone", [("name", str), ("pixels", array[echo.UInt8, count])])
        cls = echo.event(cls)
        events: list[Any] = [cls("", np.zeros(count, np.uint8)) for _ in range(3)]
        del cls, events
        gc.collect()


@pytest.mark.parametrize("cls", [Image, Named])
def test_nothing_of_an_event_is_in_the_next_one(cls: Any) -> None:
    """A field that was never set is 0, also in memory that was in use."""
    for number in range(1, 4):
        made = image(number, cls)
        del made
        empty = cls.__new__(cls)
        assert (empty.number, empty.is_last, int(empty.pixels.max())) == (0, False, 0)
        del empty


@pytest.mark.parametrize("cls", [Image, Named, Sized])
def test_events_that_live_have_memory_of_their_own(cls: Any) -> None:
    """However many live, and in whatever order they go."""
    for made in (image, received):
        living = [made(number, cls) for number in range(40)]
        del living[::2]
        living += [made(number, cls) for number in range(40, 60)]
        assert all((event.pixels == event.number).all() for event in living)
        again = [codec(cls).decode(codec(cls).encode(event)) for event in living]
        assert [codec(cls).encode(event) for event in again] == [codec(cls).encode(event) for event in living]


@pytest.mark.parametrize("cls", [Image, Named, Sized])
def test_an_array_keeps_the_memory_that_it_is_of(cls: Any) -> None:
    """Whose it is, is not used again before that."""
    for made in (image, received):
        pixels = made(3, cls).pixels
        others = [made(4, cls) for _ in range(20)]
        assert (pixels == 3).all()
        assert all((event.pixels == 4).all() for event in others)


@pytest.mark.parametrize("cls", [Image, Portrait])
def test_large_events_are_dataclasses_as_others_are(cls: type[Image]) -> None:
    """They pickle, copy and compare, and their subclasses do."""
    event = cls(5, np.arange(SIDE * SIDE, dtype=np.uint16).reshape(SIDE, SIDE))
    for again in (pickle.loads(pickle.dumps(event)), copy.copy(event), copy.deepcopy(event)):
        assert type(again) is cls
        assert again.number == event.number
        assert (again.pixels == event.pixels).all()
    del event, again
    gc.collect()


@st.composite
def values(draw: st.DrawFn) -> Any:
    """What might be given for an array of three by four numbers of 16 bits: right, nearly right, wrong."""
    dtype = draw(st.sampled_from(["i2", ">i2", "u2", "i1", "i4", "i8", "f4", "?", "S2"]))
    shape = draw(st.sampled_from([(3, 4), (3, 4), (4, 3), (12,), (3, 4, 1), (1, 3, 4), ()]))
    array = np.array(draw(st.integers(0, 40_000))).astype(dtype) + np.zeros(shape, dtype).astype(dtype)
    array = array.astype(dtype) if dtype != "S2" else np.full(shape, b"ab", dtype)
    turn = draw(st.sampled_from(["", "transposed", "reversed", "sliced", "list"]))
    match turn:
        case "transposed":
            array = np.asfortranarray(array)
        case "reversed" if array.ndim:
            array = array[::-1]
        case "sliced" if array.ndim:
            array = np.repeat(array, 2, axis=0)[::2]
        case "list":
            return array.tolist()
        case _:
            pass
    return array


@given(values())
def test_an_array_is_taken_as_python_code_takes_it(value: Any) -> None:
    """The same bytes, or refused; then the field stays as it was."""
    before = np.arange(12, dtype=np.int16).reshape(3, 4)
    event = Tile(before)
    try:
        expected = generic(PlainTile).encode(PlainTile(value))
    except EncodeError:
        with pytest.raises(EncodeError):
            event.cells = value
        assert (event.cells == before).all()
    else:
        event.cells = value
        assert codec(Tile).encode(event) == expected


@pytest.mark.parametrize("cls", [Tile, Image])
def test_an_array_may_be_a_view_of_the_field_that_it_is_given_to(cls: type[Any]) -> None:
    """Nothing is overwritten before it is read."""
    event = Tile(np.arange(12, dtype=np.int16).reshape(3, 4)) if cls is Tile else image(0)
    name = "cells" if cls is Tile else "pixels"
    array = getattr(event, name)
    array[...] = np.arange(array.size, dtype=array.dtype).reshape(array.shape)
    expected = array.copy()
    setattr(event, name, array)
    assert (getattr(event, name) == expected).all()
    setattr(event, name, array[::-1])
    assert (getattr(event, name) == expected[::-1]).all()
