"""Rows of a segment as its readers have them: blocks of records, and what is said of these unread."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np

from echo_core.logs.blocks import Block, Extent, starts_of
from echo_core.logs.catalogue import Contents, Counted
from echo_core.logs.compression import decompressed
from echo_core.logs.described import Position
from echo_core.logs.layout import MARK
from echo_core.logs.salvage import parts_of


def _records(row: np.void, data: mmap.mmap, at: int) -> memoryview:
    stored = memoryview(data)[at : at + int(row["stored"])]
    if not row["codec"]:
        return stored
    return memoryview(decompressed(int(row["codec"]), int(row["flags"]), stored, int(row["raw"])))


def rows_between(
    contents: Contents, since: Position | None, until: Position | None
) -> Iterator[tuple[int, Counted]]:
    """The rows of blocks of records between two places, with their streams."""
    rows, here = contents.rows, contents.number
    first, last = 0, len(rows)
    if since is not None and since.segment == here:
        first = int(np.searchsorted(rows["end"], since.offset, "right"))
    if until is not None and until.segment == here:
        last = int(np.searchsorted(rows["end"], until.offset, "right"))
    for index in range(first, last):
        stream = contents.streams[index]
        if stream is not None:
            yield index, stream


def extent_of(contents: Contents, index: int, stream: Counted) -> Extent:
    """What is said of a row that has records."""
    row = contents.rows[index]
    first = int(row["first"])
    return Extent(
        stream.info(),
        first,
        first + int(row["count"]) - 1,
        int(row["least_time"]),
        int(row["greatest_time"]),
        Position(contents.number, int(row["offset"])),
        Position(contents.number, int(row["end"])),
        int(row["raw"]),
        lambda: {} if contents.index is None else contents.index.ranges(row, stream.format),
    )


def block_of(segment: int, row: np.void, stream: Counted, data: mmap.mmap) -> Block:
    """The block of a row whose checksums are right. WireError: its records are not what was compressed."""
    parts = parts_of(row)
    count = int(row["count"])
    ends = np.frombuffer(data, "<u4", count, parts.ends) if parts.is_varying else None
    return Block(
        stream.info(),
        Position(segment, int(row["end"])),
        first_sequence=int(row["first"]),
        count=count,
        marks=np.frombuffer(data, MARK, int(row["marks"]), parts.marks),
        records=_records(row, data, parts.payload),
        ends=ends,
        starts=None if ends is None else starts_of(ends),
    )
