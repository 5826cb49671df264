"""A taker of records as C code finds it (native/logs/taking.h), which lists what it is given."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

_NAME = b"__echo_record_taker_1__"
_TAKE = ctypes.PYFUNCTYPE(
    ctypes.c_int64,
    ctypes.py_object,
    ctypes.c_void_p,
    ctypes.c_ssize_t,
    ctypes.c_uint64,
    ctypes.c_uint64,
    ctypes.c_int64,
)
_MISS = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p)
_HAS_ROOM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_uint64)


class _Table(ctypes.Structure):
    _fields_ = [("take", _TAKE), ("miss", _MISS), ("has_room", _HAS_ROOM)]


class Taken(NamedTuple):
    number: int
    record: bytes
    time_ns: int


class Taker:
    """Keeps so many bytes at most."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.taken: list[Taken] = []
        self.calls = 0
        self.room = room

    @property
    def __echo_record_taker_1__(self) -> object:
        return _capsule

    def _take(self, data: bytes, events: int, number: int, time_ns: int) -> int:
        self.calls += 1
        if len(data) > self.room:
            return events
        self.room -= len(data)
        size = len(data) // events
        for i in range(events):
            self.taken.append(Taken(number + i, data[i * size : (i + 1) * size], time_ns))
        return 0

    @property
    def numbers(self) -> list[int]:
        return [each.number for each in self.taken]


def _take(taker: Taker, data: int, size: int, events: int, number: int, time_ns: int) -> int:
    return taker._take(ctypes.string_at(data, size), events, number, time_ns)  # pyright: ignore[reportPrivateUsage]


def _miss(taker: Taker, first: int, last: int, cause: bytes) -> int:
    raise AssertionError((taker, first, last, cause))


def _has_room(taker: Taker, size_bytes: int) -> int:
    return int(taker.room >= size_bytes)


_table = _Table(_TAKE(_take), _MISS(_miss), _HAS_ROOM(_has_room))
_new = ctypes.pythonapi.PyCapsule_New
_new.argtypes, _new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
_capsule = _new(ctypes.addressof(_table), _NAME, None)
