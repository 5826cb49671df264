"""Memory for the arrays of large batches: whole pages, which are used again.

The pages of new memory are zeroed one by one as they are first written, which takes longer than all the rest:
15 ms for a million records of 96 bytes as columns, 5 with pages of 2 MiB, where the columns take 4. So what
is left when the last array of a batch is gone is kept for the next one: one room for each column, or for all
records, as long as their decoder lives.
"""

from __future__ import annotations

import contextlib
import mmap
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from echo_core.formats.types import round_up

Array_ = np.ndarray[Any, Any]

# From here on malloc asks the system for pages, and gives them back.
MIN_BYTES = 128 << 10

HUGE_PAGE_BYTES = 2 << 20

# Assumed where the system does not say.
CACHE_BYTES = 32 << 20

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def cache_bytes(caches: Path = _CACHES) -> int:
    """The size of the largest cache: what is written beyond it is not read from it again."""
    try:
        sizes = [path.read_text().strip() for path in caches.glob("index*/size")]
        return max(int(size[:-1]) * _UNITS[size[-1]] for size in sizes)
    except (OSError, ValueError, KeyError, IndexError):
        return CACHE_BYTES


class _Room:
    """Pages of memory; numpy is told of them in its own way, worked out once."""

    def __init__(self, size: int) -> None:
        if size >= HUGE_PAGE_BYTES // 2:  # the system puts only whole ones on pages of that size
            size = round_up(size, HUGE_PAGE_BYTES)
        self.size = size
        self._pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):  # one fault for 2 MiB instead of 512
            with contextlib.suppress(OSError):  # not every kernel has such pages
                self._pages.madvise(mmap.MADV_HUGEPAGE)
        self.interface = np.frombuffer(self._pages, np.uint8).__array_interface__


class _Held:
    """A room in use. Every array in it leads to this object, which gives the room back when it is gone."""

    __slots__ = ("__array_interface__", "_room", "_rooms")

    def __init__(self, room: _Room, rooms: list[_Room]) -> None:
        self.__array_interface__ = room.interface
        self._room, self._rooms = room, rooms

    def __reduce__(self) -> Any:
        msg = "the memory of an array cannot be copied without the array"
        raise TypeError(msg)  # a copy would give the room back too

    def __del__(self) -> None:
        self._rooms[:] = [self._room]  # one is enough: the last, which is most like the next


class Spare:
    """Memory for one array at a time: makes it, and keeps what it leaves when its last view is gone."""

    def __init__(self) -> None:
        self._rooms: list[_Room] = []

    def empty(self, count: int, dtype: np.dtype[Any]) -> Array_:
        """A new array, whose elements are anything; a large one begins on a page."""
        size = count * dtype.itemsize
        if size < MIN_BYTES:
            return np.empty(count, dtype)
        held: Array_ = np.asarray(_Held(self._room_of(size), self._rooms))
        return np.ndarray((count, *dtype.shape), dtype.base, buffer=held)

    def _room_of(self, size: int) -> _Room:
        """The spare room, unless it is too small or more than twice too large."""
        try:
            room = self._rooms.pop()
        except IndexError:
            return _Room(size)
        return room if size <= room.size <= 2 * size else _Room(size)
