"""What can still be read of a damaged block: a wrong checksum of a slice says nothing of the others."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

from echo_core._c import logs as c
from echo_core.formats.format import Format
from echo_core.logs.blocks import Parts, starts_of
from echo_core.logs.layout import SLICE_BYTES, State

Bools = npt.NDArray[np.bool_]


def missing_of(row: np.void, data: mmap.mmap | bytes, format_: Format) -> list[tuple[int, int]]:
    """The numbers of events of a block that are lost: first and last of each run."""
    first = int(row["first"])
    good = good_records(row, data, format_)
    return [(first + start, first + stop - 1) for start, stop in runs_of(~good)]


def good_records(row: np.void, data: mmap.mmap | bytes, format_: Format) -> Bools:
    """Which records of a block lie in slices whose checksum is right."""
    count, state = int(row["count"]), int(row["state"])
    if state & State.BAD_BODY:
        return np.zeros(count, np.bool_)
    if not state & State.BAD_SLICES:
        return np.ones(count, np.bool_)
    if row["codec"]:
        return np.zeros(count, np.bool_)
    parts = parts_of(row)
    bad = np.flatnonzero(_bad_slices(parts, data)) * SLICE_BYTES
    starts, ends = extents_of(parts, data, count, format_)
    good = np.ones(count, np.bool_)
    for start in bad.tolist():
        # Records are in order, so those that a slice touches are neighbours.
        touched = slice(
            int(np.searchsorted(ends, start, side="right")),
            int(np.searchsorted(starts, start + SLICE_BYTES, side="left")),
        )
        good[touched] = False
    return good


def parts_of(row: np.void) -> Parts:
    """Where in a segment the parts of a block are."""
    return Parts(
        int(row["offset"]), int(row["marks"]), int(row["stored"]), int(row["count"]), int(row["flags"])
    )


def extents_of(
    parts: Parts, data: mmap.mmap | bytes, count: int, format_: Format
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where in a payload each record begins and ends."""
    if parts.is_varying:
        ends = np.frombuffer(data, "<u4", count, parts.ends)
        return starts_of(ends).astype(np.int64), ends.astype(np.int64)
    starts = np.arange(count, dtype=np.int64) * format_.size_bytes
    return starts, starts + format_.size_bytes


def _bad_slices(parts: Parts, data: mmap.mmap | bytes) -> Bools:
    view = memoryview(data)
    count = (parts.ends - parts.slices) // 4
    expected = np.frombuffer(data, "<u4", count, parts.slices)
    starts = range(parts.payload, parts.end, SLICE_BYTES)
    found = [c.crc32c(view[start : min(start + SLICE_BYTES, parts.end)]) for start in starts]
    differ: Bools = np.array(found, np.uint32) != expected
    return differ


def runs_of(wanted: Bools) -> list[tuple[int, int]]:
    """Start and stop of each run of True."""
    edges = np.flatnonzero(np.diff(wanted.astype(np.int8), prepend=0, append=0))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]
