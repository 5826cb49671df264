"""What is in one segment's file: its header, and which blocks it has, by bytes that may be anything."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from echo_core._c import logs as c
from echo_core.logs import limits
from echo_core.logs.layout import FOUND, HEADER_BYTES, SegmentHeader, State

Rows = npt.NDArray[np.void]

_ROWS_AT_ONCE = 65_536
_IS_GOOD = int(State.IS_BLOCK | State.IS_VERIFIED)


@dataclass(slots=True)
class Scan:
    """What was found in a part of a segment."""

    rows: Rows
    """Blocks, and bytes between them that are none, without a gap from `start` to `end`."""
    start: int
    end: int
    """What is behind it is no block, and none is behind that."""
    is_too_many: bool = False
    """There are more blocks than a segment may have, and these were not looked at."""


def read_header(fd: int) -> tuple[SegmentHeader | None, bool]:
    """A segment's header, and whether part of it is damaged; None: there is none. LogError: other version."""
    return SegmentHeader.from_bytes(os.pread(fd, HEADER_BYTES, 0))


def map_file(fd: int, size: int) -> mmap.mmap:
    """The first bytes of a file, which has so many."""
    return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)


def scan(
    data: mmap.mmap | bytes, salt: int, *, start: int = HEADER_BYTES, end: int, verify: bool, had: int = 0
) -> Scan:
    """Which blocks are between two offsets; `had`: how many the segment has before."""
    parts: list[bytes] = []
    at, room = start, limits.MAX_BLOCKS - had
    while room > 0:
        part, behind = c.scan(data, at, end, salt, verify, min(room, _ROWS_AT_ONCE))
        parts.append(part)
        room -= len(part) // FOUND.itemsize
        is_all = len(part) < _ROWS_AT_ONCE * FOUND.itemsize
        at = behind
        if is_all:
            break
    rows = np.frombuffer(bytearray(b"").join(parts), FOUND)
    return Scan(rows, start, at, is_too_many=room <= 0 and at < end)


def without_torn_tail(found: Scan) -> Scan:
    """Up to the last block that is right in all: what is behind it may never have been written out."""
    good = np.flatnonzero(found.rows["state"] == _IS_GOOD)
    count = int(good[-1]) + 1 if len(good) else 0
    end = int(found.rows["end"][count - 1]) if count else found.start
    return Scan(found.rows[:count], found.start, end, found.is_too_many)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a segment ends that nobody writes to any more."""

    header: SegmentHeader | None
    length: int
    """Up to the last block that is right."""
    crc: int


def ending_of(data: mmap.mmap | bytes) -> Ending:
    """Of a segment that may have been broken off anywhere, also within its header."""
    header, _ = SegmentHeader.from_bytes(data[:HEADER_BYTES])
    size = min(len(data), limits.MAX_SEGMENT_BYTES)
    if header is None or size <= HEADER_BYTES:
        return Ending(header, HEADER_BYTES if header is not None else 0, 0)
    found = without_torn_tail(scan(data, header.salt, end=size, verify=True))
    crc = int(found.rows["header_crc"][-1]) if len(found.rows) else 0
    return Ending(header, found.end, crc)
