"""Block: records of one stream that lie together in a log, as they are in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from echo_core.formats.format import Format
from echo_core.logs.described import Position, StreamInfo
from echo_core.logs.layout import (
    ALIGNMENT,
    BLOCK_HEADER_BYTES,
    MARK,
    RECORD_ALIGNMENT,
    SLICE_BYTES,
    Flag,
)
from echo_core.logs.ranges import Range

U32 = npt.NDArray[np.uint32]


class Extent(NamedTuple):
    """What the header of a block says of its events."""

    stream: StreamInfo
    first: int
    """Their numbers, both included."""
    last: int
    first_ns: int
    """The least and the greatest of their times."""
    last_ns: int
    begin: Position
    """Where the block is in the log."""
    end: Position
    bytes: int
    """Of the records."""
    ranges: Callable[[], Mapping[int, Range]]
    """Between which values fields are, by their offsets, as far as the index says that."""


class Block:
    """A run of a stream's events, numbered one by one.

    Its records are in the file's memory, and stay there while somebody refers to them, also when the file is
    removed meanwhile.
    """

    __slots__ = (
        "count",
        "ends",
        "first_sequence",
        "marks",
        "position",
        "records",
        "starts",
        "stream",
    )

    def __init__(
        self,
        stream: StreamInfo,
        position: Position,
        *,
        first_sequence: int,
        count: int,
        marks: npt.NDArray[np.void],
        records: memoryview,
        ends: U32 | None,
        starts: U32 | None,
    ) -> None:
        self.stream = stream
        self.position = position
        """The end of it in the log."""
        self.first_sequence = first_sequence
        self.count = count
        self.marks = marks
        """From which record on which time holds."""
        self.records = records
        """One behind another where they have a fixed size; otherwise at `starts`, up to `ends`."""
        self.starts = starts
        self.ends = ends
        """None where records have a fixed size."""

    @property
    def format(self) -> Format:
        """That of its stream."""
        return self.stream.format

    @property
    def first_time_ns(self) -> int:
        """The least of its times."""
        return int(self.marks["time"].min())

    @property
    def last_time_ns(self) -> int:
        """The greatest."""
        return int(self.marks["time"].max())

    @property
    def last_sequence(self) -> int:
        return self.first_sequence + self.count - 1

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        numbers = f"{self.first_sequence} to {self.last_sequence}"
        where = f"{self.position.segment}:{self.position.offset}"
        return f"<Block of {self.count} {self.format.name or 'records'}, {numbers}, at {where}>"

    def record(self, index: int) -> memoryview:
        """The record of an event, by its place in this block."""
        if not 0 <= index < self.count:
            msg = f"Expected 0 to {self.count - 1}, got {index}"
            raise IndexError(msg)
        if self.starts is None or self.ends is None:
            size = self.format.size_bytes
            return self.records[index * size : (index + 1) * size]
        return self.records[int(self.starts[index]) : int(self.ends[index])]

    def __iter__(self) -> Iterator[memoryview]:
        """The records."""
        return map(self.record, range(self.count))

    def sequences(self) -> npt.NDArray[np.uint64]:
        """The number of each event."""
        return np.arange(self.count, dtype=np.uint64) + np.uint64(self.first_sequence)

    def times_ns(self) -> npt.NDArray[np.int64]:
        """When each event was submitted, or recorded, in ns UTC."""
        starts = np.append(self.marks["index"].astype(np.int64), self.count)
        return np.repeat(self.marks["time"].astype(np.int64), starts[1:] - starts[:-1])

    def part(self, start: int, stop: int) -> Block:
        """Some of its events, by their places."""
        if start == 0 and stop == self.count:
            return self
        size = self.format.size_bytes
        return Block(
            self.stream,
            self.position,
            first_sequence=self.first_sequence + start,
            count=stop - start,
            marks=marks_of_part(self.marks, start, stop),
            records=self.records if self.ends is not None else self.records[start * size : stop * size],
            ends=None if self.ends is None else self.ends[start:stop],
            starts=None if self.starts is None else self.starts[start:stop],
        )


def marks_of_part(marks: npt.NDArray[np.void], start: int, stop: int) -> npt.NDArray[np.void]:
    """Those that hold from one record to before another, counted anew from the first."""
    first = int(np.searchsorted(marks["index"], start, side="right")) - 1
    behind = int(np.searchsorted(marks["index"], stop, side="left"))
    part = marks[first:behind].copy()
    part["index"] = np.maximum(part["index"].astype(np.int64) - start, 0)
    return part


def starts_of(ends: U32) -> U32:
    """Where records begin that end there: each at the next multiple of 16 behind the one before."""
    before = np.concatenate((np.zeros(1, np.uint32), ends[:-1]))
    return (before + np.uint32(RECORD_ALIGNMENT - 1)) & ~np.uint32(RECORD_ALIGNMENT - 1)


class Parts:
    """Where in a block its parts are, by its header."""

    __slots__ = ("end", "ends", "is_varying", "marks", "payload", "slices")

    def __init__(self, offset: int, marks: int, stored: int, count: int, flags: int) -> None:
        self.is_varying = bool(flags & Flag.VARIES)
        self.marks = offset + BLOCK_HEADER_BYTES
        self.slices = self.marks + MARK.itemsize * marks
        self.ends = self.slices + 4 * (-(-_aligned(stored) // SLICE_BYTES))
        self.payload = offset + _aligned(self.ends + (4 * count if self.is_varying else 0) - offset)
        self.end = self.payload + _aligned(stored)


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
