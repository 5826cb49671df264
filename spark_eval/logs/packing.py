"""Which part of a log each task reads: runs of blocks of about as many bytes. Pure.

A task costs Spark 25 ms, whatever it reads, so tasks are few and large. What lies between two blocks that are
wanted goes with them; who reads skips it.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

Place = tuple[int, int]  # segment and offset: the end of a block

_LEAST_BYTES = 16 << 20  # of a task, where there are cores that would have none


class Extent(NamedTuple):
    """A block: the place behind the one before, its own end, and what it holds."""

    begin: Place
    end: Place
    bytes: int
    events: int


def parts_of(total_bytes: int, most_bytes: int, cores: int) -> int:
    """How many tasks: none has more than so many bytes or far too few, and all cores have as much to do."""
    needed = -(-total_bytes // most_bytes)
    even = -(-needed // cores) * cores
    return max(needed, min(even, total_bytes // _LEAST_BYTES), 1)


def packed(extents: Sequence[Extent], parts: int) -> Iterator[tuple[Place, Place]]:
    """The places between which each task reads, in the log's order."""
    total = sum(extent.bytes for extent in extents)
    before, held = 0, list[tuple[int, Extent]]()
    for extent in extents:
        held.append(((before + extent.bytes // 2) * parts // max(total, 1), extent))
        before += extent.bytes
    for _, run in itertools.groupby(held, key=operator.itemgetter(0)):
        of_part = [extent for _, extent in run]
        yield of_part[0].begin, of_part[-1].end


def reached(extents: Iterable[Extent], most_rows: int, start: Place) -> Place:
    """How far a stream goes that takes at most so many rows, but at least one block."""
    rows, end = 0, start
    for extent in extents:
        if rows and rows + extent.events > most_rows:
            break
        rows += extent.events
        end = extent.end
    return end
