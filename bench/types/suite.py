"""`python -m bench types`: every type of docs/declaring-events.md in an event of `id: int` and one field of
that type.

An `@echo.event` is constructed and encoded, and decoded and read; a dataclass with slots, which Python
constructs, is encoded and decoded. Beside them a msgspec Struct is constructed, encoded to msgpack, decoded
and read in the same rounds. Reading is that of every field, of records within the event too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import timeit
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.available import LEFT_OUT
from bench.report import Row, Table
from bench.types.case import Case
from bench.types.contenders import DATACLASS, EVENT, STRUCT, all_cases, checked_timers

GOAL = 1.1
"""How many times as fast as a Struct, in each comparison."""

Key = tuple[str, str]
MADE, ENCODED, READ = "construct and encode", "encode", "decode and read"

NOTES = (
    "ns, medians; ratios are medians of the rounds' (time of the Struct / ours). The garbage collector is off"
    " while anything is timed. Where a Struct holds something else, making that of the value is part of its"
    " encoding, and making the value of it part of its decoding.",
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What of ours is held against what of the Struct's."""

    name: str
    ours: Key
    theirs: str
    theirs_if_held: str
    """The same for a Struct that holds something else: with what makes one of the other."""


COMPARISONS = (
    Comparison("event: construct, encode", (EVENT, MADE), MADE, MADE),
    Comparison("event: decode, read", (EVENT, READ), READ, READ),
    Comparison("dataclass: encode", (DATACLASS, ENCODED), ENCODED, MADE),
    Comparison("dataclass: decode", (DATACLASS, "decode"), "decode", READ),
)
_SHOWN: dict[str, tuple[str, ...]] = {
    EVENT: ("construct", ENCODED, READ),
    DATACLASS: (ENCODED, "decode"),
    STRUCT: ("construct", ENCODED, READ),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """The rounds of a case: seconds for one call of each kind."""

    case: Case
    rounds: Mapping[Key, Sequence[float]]

    def ns(self, contender: str) -> str:
        """What the table shows of one, or that it is not there."""
        if (contender, ENCODED) not in self.rounds:
            return "-"
        each = (self.rounds[contender, what] for what in _SHOWN[contender])
        return " + ".join(f"{1e9 * statistics.median(seconds):,.0f}" for seconds in each)

    def rows(self) -> list[Row]:
        """Nothing, if there is no peer."""
        if (STRUCT, ENCODED) not in self.rounds:
            return []
        return [
            Row(f"{self.case.name}: {it.name}", self._ratio(it), GOAL, "x", at_least=True)
            for it in COMPARISONS
        ]

    def _ratio(self, comparison: Comparison) -> float:
        what = comparison.theirs_if_held if self.case.held_as else comparison.theirs
        pairs = zip(self.rounds[STRUCT, what], self.rounds[comparison.ours], strict=True)
        return statistics.median(theirs / ours for theirs, ours in pairs)


def measured(case: Case, *, quick: bool) -> Measured:
    """Everyone once a round, in turn."""
    timers = {key: timer for key, timer in checked_timers(case).items() if _is_needed(key)}
    numbers = {key: _number(timer, 0.0005 if quick else 0.005) for key, timer in timers.items()}
    rounds: dict[Key, list[float]] = {key: [] for key in timers}
    for _ in range(3 if quick else 11):
        for key, timer in timers.items():
            rounds[key].append(timer.timeit(numbers[key]) / numbers[key])
    return Measured(case, rounds)


def _is_needed(key: Key) -> bool:
    contender, what = key
    return contender == STRUCT or what in _SHOWN[contender] or key in {it.ours for it in COMPARISONS}


def _number(timer: timeit.Timer, budget_s: float) -> int:
    """Calls that take about so long; the first ones warm up."""
    timer.timeit(3)
    return max(1, int(budget_s / max(timer.timeit(5) / 5, 1e-9)))


def table(all_measured: Sequence[Measured]) -> Table:
    """A line for each case, as the goals are set."""
    columns = (
        "second field",
        "event: construct + encode + decode and read",
        "dataclass: encode + decode",
        "Struct: construct + encode + decode and read",
        *(it.name for it in COMPARISONS),
        f"goal {GOAL:g}x",
    )
    return Table("Types beside msgspec Struct", columns, [_line(it) for it in all_measured], NOTES)


def _line(it: Measured) -> tuple[str, ...]:
    struct = it.ns(STRUCT) + (f" ({it.case.held_as})" if it.case.held_as else "")
    rows = it.rows()
    ratios = [f"{row.measured:.2f}x" for row in rows] or ["-"] * len(COMPARISONS)
    name = it.case.name.replace("|", "\\|")
    return name, it.ns(EVENT), it.ns(DATACLASS), struct, *ratios, _verdict(rows)


def _verdict(rows: Sequence[Row]) -> str:
    if not rows:
        return "-"
    missed = sum(not row.is_reached for row in rows)
    return f"**missed** in {missed}" if missed else "reached"


def main(arguments: Sequence[str]) -> int:
    """Returns 1 where a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench types", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a look, not a result")
    parser.add_argument("--only", default="", metavar="TEXT", help="types with this text in their names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    given = parser.parse_args(arguments)
    all_measured = [measured(case, quick=given.quick) for case in all_cases() if given.only in case.name]
    rows = [row for it in all_measured for row in it.rows()]
    print(table(all_measured).as_text())
    print(f"\n{sum(row.is_reached for row in rows)} of {len(rows)} comparisons reach {GOAL:g}x.")
    for peer, reason in LEFT_OUT.items():
        print(f"\nThe peer {peer} was left out: {reason}")
    if given.json:
        given.json.write_text(json.dumps([row.as_dict() for row in rows], indent=1) + "\n")
    return 0 if all(row.is_reached for row in rows) else 1
