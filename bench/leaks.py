"""`python -m bench leaks`: nothing is left behind by events of any type, however many there were.

Each type of `python -m bench types`, in both kinds of class, is constructed, encoded, decoded and read ten
million times. What is left is seen in two ways: blocks that Python's allocator has given out and not got
back, which tells a single object, and the memory that is resident, which also tells what C has allocated for
itself.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.memory import resident_kib
from bench.report import Row, as_text
from bench.types.contenders import DATACLASS, EVENT, Contender, all_cases, contenders

EVENTS = 10_000_000
MOST_BLOCKS = 100
"""Caches of the interpreter and of the library fill and empty a little."""
MOST_KIB = 64


@dataclass(frozen=True, slots=True)
class Left:
    """By so many events."""

    blocks: int
    kib: int

    def rows(self, what: str, group: str) -> tuple[Row, Row]:
        return (
            Row(f"{what}: objects and other blocks", max(self.blocks, 0), MOST_BLOCKS, "", group=group),
            Row(f"{what}: resident", max(self.kib, 0), MOST_KIB, "KiB", group=group),
        )


def left_by(contender: Contender, events: int) -> Left:
    """After as many again as a tenth of them, so that what is made once is there."""
    run = contender.whole_life()
    run(max(100, events // 10))
    before = _allocated()
    run(events)
    blocks, kib = _allocated()
    return Left(blocks - before[0], kib - before[1])


def _allocated() -> tuple[int, int]:
    gc.collect()
    return sys.getallocatedblocks(), resident_kib()


def measure(events: int, only: str) -> Iterator[Row]:
    """Two rows for every type and kind of class."""
    group = f"left behind by {events:,} events"
    for case in all_cases():
        if only in case.name:
            each = contenders(case)
            for kind in (EVENT, DATACLASS):
                each[kind].check(case.expected)
                yield from left_by(each[kind], events).rows(f"{case.name}, {kind}", group)


def main(arguments: Sequence[str]) -> int:
    """Returns 1 where something is left."""
    parser = argparse.ArgumentParser(prog="python -m bench leaks", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N", help=f"of each type; {EVENTS:,}")
    parser.add_argument("--only", default="", metavar="TEXT", help="types with this text in their names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    given = parser.parse_args(arguments)
    rows: list[Row] = []
    for row in measure(given.events, given.only):
        print(as_text([row]).splitlines()[-1], flush=True)
        rows.append(row)
    missed = [row for row in rows if not row.is_reached]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} figures reach their goals.")
    if given.json:
        given.json.write_text(json.dumps([row.as_dict() for row in rows], indent=1) + "\n")
    return 1 if missed else 0
