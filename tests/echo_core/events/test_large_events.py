"""Events of a large fixed size: their memory is used again, and arrays are written where they belong."""

from __future__ import annotations

import copy
import gc
import pickle
from dataclasses import dataclass
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
class Tile:
    """Small enough for many examples."""

    cells: echo.Array[echo.Int16, 3, 4]
    after: echo.Int32 = 7


@dataclass
class PlainTile:
    """The same, which holds what it is given."""

    cells: echo.Array[echo.Int16, 3, 4]
    after: echo.Int32 = 7


def image(number: int) -> Image:
    """Each pixel has the number."""
    return Image(number, np.full((SIDE, SIDE), number, np.uint16), is_last=True)


def test_memory_of_events_is_used_again() -> None:
    """New memory would be page faults, which take longer than to fill it."""
    first = image(1)
    place = first.pixels.ctypes.data
    del first
    assert image(2).pixels.ctypes.data == place


def test_nothing_of_an_event_is_in_the_next_one() -> None:
    """A field that was never set is 0, also in memory that was in use."""
    for number in range(1, 4):
        made = image(number)
        del made
        empty = Image.__new__(Image)
        assert (empty.number, empty.is_last, int(empty.pixels.max())) == (0, False, 0)
        del empty


def test_events_that_live_have_memory_of_their_own() -> None:
    """However many live, and in whatever order they go."""
    living = [image(number) for number in range(40)]
    del living[::2]
    living += [image(number) for number in range(40, 60)]
    assert all((event.pixels == event.number).all() for event in living)
    again = [codec(Image).decode(codec(Image).encode(event)) for event in living]
    assert again == living


def test_an_array_keeps_the_event_that_it_is_of() -> None:
    """Its memory is not used again before that."""
    pixels = image(3).pixels
    others = [image(4) for _ in range(20)]
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
