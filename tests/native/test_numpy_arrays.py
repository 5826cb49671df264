"""numpy's arrays in events, which C code reads and makes by numpy's C interface: as Python code would."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gc
from typing import Any

import numpy as np
import pytest

import echo_core as echo


@echo.event
class Point:
    x: float
    n: echo.UInt8


@dataclasses.dataclass(slots=True)
class Arrays:
    values: echo.Array[echo.Float64, ...]
    rows: echo.Array[echo.Int16, ..., 3]
    flags: echo.Array[bool, ...]
    times: echo.Array[dt.datetime, ...]
    points: echo.Array[Point, ...]
    fixed: echo.Array[echo.Float32, 2, 2]


@echo.event
class Views:
    tag: str
    values: echo.Array[echo.Float64, ...]
    rows: echo.Array[echo.Int16, ..., 3]


POINTS = np.array([(1.5, 2), (2.5, 3)], echo.format_of(Point).dtype)
ARRAYS = Arrays(
    values=np.arange(5.0),
    rows=np.arange(12, dtype=np.int16).reshape(4, 3),
    flags=np.array([True, False, True]),
    times=np.arange(3).astype("M8[ns]"),
    points=POINTS,
    fixed=np.ones((2, 2), np.float32),
)
NAMES = [field.name for field in dataclasses.fields(Arrays)]
ENCODE, DECODE = echo.encoder(Arrays), echo.decoder(Arrays)


@pytest.mark.parametrize("name", NAMES)
def test_decoded_array_is_its_owners(name: str) -> None:
    """Its memory is its own and writeable, and all that it says of itself is so."""
    sent, got = getattr(ARRAYS, name), getattr(DECODE(ENCODE(ARRAYS)), name)
    assert type(got) is np.ndarray
    assert (got.dtype, got.shape, got.strides) == (sent.dtype, sent.shape, sent.strides)
    assert got.tolist() == sent.tolist()
    assert got.flags.writeable
    assert got.flags.c_contiguous
    assert got.flags.aligned
    got[...] = got[::-1].copy()
    assert got.tolist() == sent[::-1].tolist()


def test_view_keeps_its_record_alive_and_is_read_only() -> None:
    """The array outlives the event that it was read from."""
    encode, decode = echo.encoder(Views), echo.decoder(Views)
    for tag in ("", "1", "22", "333", "4444"):
        event: Any = decode(encode(Views(tag, ARRAYS.values, ARRAYS.rows)))
        values, rows = event.values, event.rows
        del event
        gc.collect()
        assert values.tolist() == ARRAYS.values.tolist()
        assert rows.tolist() == ARRAYS.rows.tolist()
        for array in (values, rows):
            like = np.frombuffer(array.base, array.dtype, array.size, _offset_of(array)).reshape(array.shape)
            assert isinstance(array.base, bytes)
            assert not array.flags.writeable
            assert not array.flags.owndata
            assert array.flags.c_contiguous
            assert array.flags.aligned == like.flags.aligned


def _offset_of(array: np.ndarray[Any, Any]) -> int:
    """Where in the bytes that it is a view of it begins."""
    base: Any = array.base
    addresses: list[int] = [
        it.__array_interface__["data"][0] for it in (array, np.frombuffer(base, np.uint8))
    ]
    return addresses[0] - addresses[1]


@pytest.mark.parametrize(
    "values",
    [
        np.arange(10.0)[::2],
        np.arange(5.0)[::-1],
        np.arange(5.0).astype(">f8"),
        np.arange(5, dtype=np.float32),
        np.arange(5),
        np.arange(5.0).view(type("Mine", (np.ndarray,), {})),
        np.frombuffer(b"x" + np.arange(5.0).tobytes(), np.float64, 5, 1),
        [0.0, 1.0, 2.0, 3.0, 4.0],
    ],
    ids=["strided", "reversed", "big-endian", "floats", "integers", "subclass", "unaligned", "list"],
)
@pytest.mark.parametrize("cls", [Views, Arrays])
def test_array_that_lies_otherwise_is_converted(cls: type[Any], values: Any) -> None:
    """Strides, other dtypes and classes: what is encoded are its numbers."""
    expected = [float(value) for value in values]
    if cls is Views:
        back: Any = echo.decoder(Views)(echo.encoder(Views)(Views("", values, ARRAYS.rows)))
    else:
        back = DECODE(ENCODE(dataclasses.replace(ARRAYS, values=values)))
    assert back.values.tolist() == expected


@pytest.mark.parametrize(
    "rows",
    [np.zeros(6, np.int16), np.zeros((2, 2), np.int16), np.zeros((2, 3, 1), np.int16), np.int16(1)],
    ids=["flat", "narrow", "deep", "scalar"],
)
def test_array_of_another_shape_is_refused(rows: Any) -> None:
    """When it is assigned to an event, and when it is encoded."""
    with pytest.raises(echo.EncodeError):
        Views("", ARRAYS.values, rows)
    with pytest.raises(echo.EncodeError):
        ENCODE(dataclasses.replace(ARRAYS, rows=rows))


def test_array_of_times_in_another_unit_is_converted() -> None:
    """A dtype that is equal but another object is the same; one of seconds is not taken for it."""
    for unit in ("M8[ns]", "M8[s]"):
        times = np.arange(3).astype(np.dtype(unit))
        back = DECODE(ENCODE(dataclasses.replace(ARRAYS, times=times))).times
        assert back.dtype == np.dtype("M8[ns]")
        assert (back == times).all()


def test_empty_arrays_come_back_empty() -> None:
    """With their dtypes and the lengths that their types fix."""
    empty = Arrays(*(getattr(ARRAYS, name)[:0] if name != "fixed" else ARRAYS.fixed for name in NAMES))
    back = DECODE(ENCODE(empty))
    for name in NAMES:
        assert getattr(back, name).shape == getattr(empty, name).shape
        assert getattr(back, name).dtype == getattr(empty, name).dtype
