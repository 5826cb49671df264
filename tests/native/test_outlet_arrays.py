"""Arrays of a source's own dtype: from an Outlet to a Delivery, as one piece."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from echo_core._c.links import Delivery, Outlet
from echo_core.errors import ClosedError, FormatError
from tests.native.sinks import Sink

DTYPE = np.dtype([("id", "<i8"), ("x", "<f8")])


def numbered(count: int, dtype: Any = DTYPE) -> np.ndarray[Any, Any]:
    """Records with ids from 0."""
    array: np.ndarray[Any, Any] = np.zeros(count, dtype)
    ids: Any = array["id"]
    ids[:] = np.arange(count)
    return array


def outlet_to(sink: Sink, dtype: Any = DTYPE) -> Outlet:
    """Whose arrays come to the sink as arrays."""
    outlet = Outlet(None, bytes, record_size=16, dtype=dtype)
    delivery = Delivery(sink, np.frombuffer, sink.on_error, record_size=16, is_array=True, dtype=dtype)
    outlet.converting = (delivery,)
    return outlet


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(numbered(5), id="whole"),
        pytest.param(numbered(20)[::4], id="every fourth"),
        pytest.param(numbered(5)[::-1], id="backwards"),
        pytest.param(numbered(6).reshape(2, 3).T, id="two dimensions"),
        pytest.param(numbered(5, np.dtype([("id", "<i8"), ("x", "<f8")])), id="equal dtype"),
        pytest.param(numbered(0), id="empty"),
    ],
)
def test_an_array_arrives_in_its_own_order(array: np.ndarray[Any, Any]) -> None:
    """However it lies in memory."""
    sink = Sink()
    outlet = outlet_to(sink)
    outlet.submit_array(array)
    assert outlet.sequence == array.size
    assert [it["id"].tolist() for it in sink.events] == ([array.ravel()["id"].tolist()] if array.size else [])
    assert all(it.dtype is DTYPE for it in sink.events)


@pytest.mark.parametrize(
    ("array", "dtype", "error", "what"),
    [
        (np.zeros(4), DTYPE, FormatError, r"an array of \[\('id'.*\], got one of float64 - at `records`"),
        (numbered(1, DTYPE.newbyteorder(">")), DTYPE, FormatError, "Expected an array of"),
        (numbered(1), None, FormatError, "the records of this source vary in size"),
        (b"0123456789abcdef", DTYPE, FormatError, "a numpy array of records, got <class 'bytes'>"),
    ],
)
def test_what_is_another_array_is_refused(array: Any, dtype: Any, error: type[Exception], what: str) -> None:
    """Nobody gets any of it."""
    sink = Sink()
    outlet = Outlet(None, bytes, record_size=16, dtype=dtype)
    outlet.converting = (Delivery(sink, bytes, sink.on_error, record_size=16),)
    with pytest.raises(error, match=what):
        outlet.submit_array(array)
    assert (outlet.sequence, sink.events) == (0, [])


def test_a_closed_outlet_takes_no_array() -> None:
    outlet = outlet_to(Sink())
    outlet.close()
    with pytest.raises(ClosedError):
        outlet.submit_array(numbered(1))


class Closing:
    """A dtype that closes an outlet when somebody compares it."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet

    def __eq__(self, other: object) -> bool:
        self.outlet.close()
        return True

    def __hash__(self) -> int:
        return 0


class Odd(np.ndarray[Any, Any]):
    """An array with a dtype of its own."""

    dtype: Any = None


def test_an_outlet_that_is_closed_meanwhile_takes_no_array() -> None:
    """Asking for a dtype may run any code."""
    sink = Sink()
    outlet = outlet_to(sink)
    odd = numbered(2).view(Odd)
    odd.dtype = Closing(outlet)
    with pytest.raises(ClosedError):
        outlet.submit_array(odd)
    assert (outlet.sequence, sink.events) == (0, [])


def test_dtypes_are_let_go() -> None:
    """By outlets and by deliveries."""
    dtype = np.dtype([("id", "<i8"), ("x", "<f8"), ("pad", "V1")])
    before = sys.getrefcount(dtype)
    sink = Sink()
    outlet = outlet_to(sink, dtype)
    assert sys.getrefcount(dtype) == before + 2
    del outlet, sink
    assert sys.getrefcount(dtype) == before
