"""The index of a segment: copies of its blocks' headers, and the ranges of fields in each.

It is written when a segment ends and helps who reads it later: a header that was damaged is read from here,
and blocks that cannot hold what is asked for are left alone. Nothing depends on it.

    headers     64 bytes of each block, in their order
    u32         how many rows the table has
    u32         zero
    table       u32 number of a format, u32 offset of a field in its records
    ranges      for each block of records, and each row of its format: the least and the greatest value,
                8 bytes each

What follows the headers may be left out.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from echo_core._c import logs as c
from echo_core.errors import LogError
from echo_core.formats.format import Format
from echo_core.logs import limits
from echo_core.logs.layout import (
    ALIGNMENT,
    BLOCK_HEADER_BYTES,
    FOUND,
    HEADER_BYTES,
    MARK,
    SLICE_BYTES,
    Flag,
    Kind,
    State,
)
from echo_core.logs.ranges import Range, numbers_of
from echo_core.logs.salvage import parts_of
from echo_core.logs.scanning import Rows

_HEADER_FIELDS = FOUND.names[4:] if FOUND.names is not None else ()
HEADER = np.dtype([(name, np.dtype(FOUND[name]).newbyteorder("<")) for name in _HEADER_FIELDS])
"""A block's header as it is in a file."""
_ROW = np.dtype([("format", "<u4"), ("offset", "<u4")])
_COUNT = struct.Struct("<II")
_RANGE_BYTES = 16
# So many at most, with all their ranges, stay below what one block may have.
_MAX_HEADERS = 65_536
_IS_GOOD = int(State.IS_BLOCK | State.IS_VERIFIED)

Ints = npt.NDArray[np.int64]
assert HEADER.itemsize == BLOCK_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Part:
    """One block of an index as it is written."""

    first: int
    """Which of the segment's blocks is its first, counted from 0."""
    count: int
    payload: bytes


def parts_of_index(headers: bytes, ranges: bytes, fields: Mapping[int, tuple[int, ...]]) -> Iterator[Part]:
    """An index in parts that readers take. `fields`: by a format's number, where those with ranges are."""
    table = b"".join(struct.pack("<II", number, at) for number, offsets in fields.items() for at in offsets)
    head = _COUNT.pack(len(table) // _ROW.itemsize, 0) + table if ranges else b""
    rows = np.frombuffer(headers, HEADER)
    ends = _ranges_before(rows, {number: len(offsets) for number, offsets in fields.items()}) * _RANGE_BYTES
    for first in range(0, len(rows), _MAX_HEADERS):
        behind = min(first + _MAX_HEADERS, len(rows))
        copies = headers[first * BLOCK_HEADER_BYTES : behind * BLOCK_HEADER_BYTES]
        of_these = ranges[int(ends[first]) : int(ends[behind])] if ranges else b""
        yield Part(first, behind - first, copies + head + of_these)


def _ranges_before(rows: Rows, count_by_format: Mapping[int, int]) -> Ints:
    """How many ranges there are before those of each block, and in the end all."""
    numbers = np.array([0, *sorted(count_by_format)], np.int64)
    counts = np.array([0, *(count_by_format[number] for number in sorted(count_by_format))], np.int64)
    formats = rows["format"].astype(np.int64)
    at = np.searchsorted(numbers, formats, "right") - 1
    has_ranges = (rows["kind"] == Kind.RECORDS) & (numbers[at] == formats)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.where(has_ranges, counts[at], 0))))


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Those of one part."""

    table: Mapping[int, Sequence[int]]
    """By a format's number, where the fields are in its records."""
    before: Ints
    data: bytes


class _PartOf(NamedTuple):
    """One block of an index as it was read."""

    rows: Rows
    ranges: _Ranges | None


class Index:
    """That of one segment, as far as its parts are right."""

    def __init__(self, parts: Sequence[_PartOf]) -> None:
        self.rows: Rows = np.concatenate([part.rows for part in parts])
        """The headers."""
        self.offsets: Ints = HEADER_BYTES + np.cumsum(np.concatenate(([0], _sizes_of(self.rows))))
        """Where each block begins, and where the last one ends."""
        self._ranges = [part.ranges for part in parts]
        self._firsts: Ints = np.cumsum([0, *(len(part.rows) for part in parts)])

    def header(self, number: int) -> bytes:
        """The bytes of a block's header."""
        return bytes(self.rows[number].tobytes())

    def between(self, start: int, end: int) -> Iterator[int]:
        """The numbers of the blocks that lie there as a whole."""
        first = int(np.searchsorted(self.offsets, start))
        behind = int(np.searchsorted(self.offsets, end, "right")) - 1
        return iter(range(first, behind))

    def ranges(self, row: np.void, format_: Format) -> dict[int, Range]:
        """Those of a block that was found, by the offsets of fields; nothing where it is not in here."""
        offset = int(row["offset"])
        number = int(np.searchsorted(self.offsets, offset))
        if number >= len(self.rows) or int(self.offsets[number]) != offset:
            return {}
        if any(row[name] != self.rows[number][name] for name in ("header_crc", "format", "first", "count")):
            return {}
        part = int(np.searchsorted(self._firsts, number, "right")) - 1
        ranges = self._ranges[part]
        return {} if ranges is None else _ranges_at(ranges, number - int(self._firsts[part]), row, format_)


def _sizes_of(rows: Rows) -> Ints:
    """Of the blocks in the file."""
    stored = _aligned(rows["stored"].astype(np.int64))
    ends = np.where(rows["flags"] & Flag.VARIES, rows["count"].astype(np.int64), 0)
    slices = -(-stored // SLICE_BYTES)
    head = BLOCK_HEADER_BYTES + MARK.itemsize * rows["marks"].astype(np.int64) + 4 * slices + 4 * ends
    sizes: Ints = _aligned(head) + stored
    return sizes


def _aligned(sizes: Ints) -> Ints:
    return (sizes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _part_of(count: int, payload: bytes) -> _PartOf:
    """LogError: it is none."""
    size = count * BLOCK_HEADER_BYTES
    if not 0 < size <= len(payload):
        msg = f"Expected headers of {size} bytes, got {len(payload)}"
        raise LogError(msg)
    rows = np.frombuffer(payload[:size], HEADER)
    return _PartOf(rows, _ranges_in(rows, payload[size:]) if len(payload) > size else None)


def _ranges_in(rows: Rows, data: bytes) -> _Ranges:
    """LogError: not as many as the headers and the table say."""
    count = _COUNT.unpack_from(data)[0] if len(data) >= _COUNT.size else 0
    end = _COUNT.size + count * _ROW.itemsize
    if count > limits.MAX_FORMATS * c.MAX_RANGED or len(data) < end:
        msg = f"Expected a table of {count} fields, got {len(data)} bytes"
        raise LogError(msg)
    table: dict[int, list[int]] = {}
    for number, offset in np.frombuffer(data, _ROW, count, _COUNT.size).tolist():
        table.setdefault(number, []).append(offset)
    before = _ranges_before(rows, {number: len(offsets) for number, offsets in table.items()})
    if len(data) - end != int(before[-1]) * _RANGE_BYTES:
        msg = f"Expected {before[-1]} ranges of {_RANGE_BYTES} bytes, got {len(data) - end} bytes"
        raise LogError(msg)
    return _Ranges(table, before, data[end:])


def _ranges_at(ranges: _Ranges, number: int, row: np.void, format_: Format) -> dict[int, Range]:
    known, at = numbers_of(format_), int(ranges.before[number]) * _RANGE_BYTES
    found: dict[int, Range] = {}
    for offset in ranges.table.get(int(row["format"]), ()):
        if offset in known:
            found[offset] = _READ[known[offset].kind].unpack_from(ranges.data, at)
        at += _RANGE_BYTES
    return found


_READ = {"i": struct.Struct("<qq"), "u": struct.Struct("<QQ"), "f": struct.Struct("<dd")}


# ---------------------------------------------------------------------------
# In a file


def index_of(rows: Rows, data: mmap.mmap | bytes, salt: int) -> Index | None:
    """The index that stands among a segment's blocks, up to where it is right; None: there is none."""
    parts: list[_PartOf] = []
    count = 0
    for row in rows[rows["kind"] == Kind.INDEX]:
        state, _ = c.verify(data, int(row["offset"]), int(row["end"]), salt)
        if state != _IS_GOOD or row["codec"] or row["first"] != count:
            break
        at = parts_of(row).payload
        try:
            parts.append(_part_of(int(row["count"]), bytes(data[at : at + int(row["stored"])])))
        except LogError:
            break  # nothing depends on it
        count += int(row["count"])
    return Index(parts) if parts else None


def mended(rows: Rows, index: Index, data: mmap.mmap | bytes, salt: int) -> Rows:
    """The same rows; in place of bytes that are no block those whose headers the index has."""
    if (rows["state"] & State.IS_BLOCK).all():
        return rows
    made: list[Rows] = []
    for i, row in enumerate(rows):
        made.append(rows[i : i + 1] if row["state"] & State.IS_BLOCK else _mended(row, index, data, salt))
    return np.concatenate(made)


def _mended(row: np.void, index: Index, data: mmap.mmap | bytes, salt: int) -> Rows:
    at, end = int(row["offset"]), int(row["end"])
    found: list[Rows] = []
    for number in index.between(at, end):
        start, behind = int(index.offsets[number]), int(index.offsets[number + 1])
        state, bad = c.verify(data, start, end, salt, index.header(number))
        if not state:
            continue
        if start > at:
            found.append(_bytes_between(at, start))
        block = np.zeros(1, FOUND)
        for name in _HEADER_FIELDS:
            block[name] = index.rows[number][name]
        block["offset"], block["end"] = start, behind
        block["state"], block["bad_slices"] = state | State.MENDED, bad
        found.append(block)
        at = behind
    if at < end:
        found.append(_bytes_between(at, end))
    return np.concatenate(found)


def _bytes_between(start: int, end: int) -> Rows:
    row = np.zeros(1, FOUND)
    row["offset"], row["end"] = start, end
    return row
