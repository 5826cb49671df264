"""`python -m bench against REV SUITE...`: this tree, or a second commit, beside a first one."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import statements
from bench.against import checkouts, instructions
from bench.against.checkouts import Checkout, CheckoutError
from bench.against.children import ChildError
from bench.against.instructions import Count
from bench.against.paired import FEWEST, Row, Verdict
from bench.against.rounds import BUDGETS_S, compared

_COUNTS = ("instructions", "statements")
_QUICK_ROUNDS, _ROUNDS = FEWEST, 21


def main(arguments: Sequence[str]) -> int:
    """Returns 1 where a row is slower."""
    parser = _parser()
    given = parser.parse_args(arguments)
    suites = given.suites or [*BUDGETS_S, *_COUNTS]
    rounds = given.rounds or (_QUICK_ROUNDS if given.quick else _ROUNDS)
    if rounds < FEWEST:
        parser.error(f"Expected at least {FEWEST} rounds, got {rounds}: fewer say nothing")
    try:
        return _compare(given, [it for it in BUDGETS_S if it in suites], rounds, _counts(given))
    except (CheckoutError, ChildError) as error:
        parser.exit(2, f"{error}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench against",
        description="Builds two commits, lets them take turns in one run, and prints the ratio of their times"
        " with its interval: slower is what is surely so. Beside that it counts instructions of submit and"
        " hand-over by callgrind, and statements of the product.",
    )
    parser.add_argument("revision", metavar="REV", help="the older commit, by any name that git knows")
    parser.add_argument(
        "suites",
        metavar="SUITE",
        nargs="*",
        choices=[*BUDGETS_S, *_COUNTS],
        help=f"{', '.join(BUDGETS_S)}; {' or '.join(_COUNTS)} alone; none: all of these",
    )
    parser.add_argument("--with", dest="other", metavar="REV2", help="instead of the working tree")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"new processes so often; {_ROUNDS}")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this text in their names")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_ROUNDS} rounds, and nothing counted")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="so much slower is no worse",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all times and counts there")
    return parser


def _counts(given: argparse.Namespace) -> list[str]:
    """What was asked for by name; or all of it beside times, unless these are a quick look."""
    named = [it for it in _COUNTS if it in given.suites]
    return named or ([] if given.quick else list(_COUNTS))


def _compare(given: argparse.Namespace, suites: Sequence[str], rounds: int, counts: Sequence[str]) -> int:
    found: dict[str, Any] = {"old": given.revision, "new": given.other or "working tree"}
    rows: list[Row] = []
    if suites or "instructions" in counts:
        old = checkouts.of_revision(given.revision)
        new = checkouts.of_revision(given.other) if given.other else checkouts.working_tree()
        if suites:
            rows = compared(old, new, suites, rounds, tolerance=given.tolerance, told=_told, only=given.only)
            print(f"{times_table(old.name, new.name, rows, given.tolerance)}\n", flush=True)
            found["rows"] = [row.as_dict() for row in rows]
        if "instructions" in counts:
            found["instructions"] = _count_instructions(old, new)
    if "statements" in counts:
        found["statements"] = _count_statements(given.revision, given.other)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if any(row.ratio.verdict(given.tolerance) is Verdict.SLOWER for row in rows) else 0


def _told(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def times_table(old: str, new: str, rows: Sequence[Row], tolerance: float) -> str:
    """Medians, and the median of the rounds' ratios with its interval."""
    lines = [f"| | {old} us | {new} us | new / old | 95 % of it | |", "|---|---|---|---|---|---|"]
    for row in rows:
        ratio = row.ratio
        what = ": ".join(row.key)
        times = f"{1e6 * row.old_s:.4g} | {1e6 * row.new_s:.4g}"
        share = f"{ratio.median:.3f} | {ratio.low:.3f} to {ratio.high:.3f}"
        lines.append(f"| {what} | {times} | {share} | {ratio.verdict(tolerance).value} |")
    return "\n".join(lines)


def _count_instructions(old: Checkout, new: Checkout) -> Any:
    reason = instructions.unavailable()
    if reason is not None:
        print(f"instructions: {reason}\n")
        return reason
    counted: list[Mapping[str, Count]] = []
    for checkout in (old, new):
        _told(f"counting instructions of {checkout.name}")
        counted.append(instructions.per_event(checkout, instructions.RUNS))
    print(f"{instructions_table(old.name, new.name, *counted)}\n")
    return [{what: dataclasses.asdict(count) for what, count in each.items()} for each in counted]


def instructions_table(old: str, new: str, before: Mapping[str, Count], after: Mapping[str, Count]) -> str:
    """Instructions for one event in both, and what several repeats lay between."""
    lines = [f"| instructions for an event | {old} | {new} | |", "|---|---|---|---|"]
    for what, count in after.items():
        was = before[what]
        lines.append(f"| {what} | {was} | {count} | {count.median - was.median:+.0f} |")
    return "\n".join(lines)


def _count_statements(old: str, new: str | None) -> Any:
    sizes = statements.measured(old), statements.measured(new or checkouts.working_tree_id())
    print(statements.as_text(old, *sizes))
    return [statements.whole(each).statements for each in sizes]
