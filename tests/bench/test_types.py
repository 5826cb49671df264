"""`python -m bench types` has a row for every type of the document, and finds out who loses a value."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from bench.__main__ import main
from bench.types.case import Case, check
from bench.types.contenders import STRUCT, all_cases, contenders
from bench.types.suite import COMPARISONS, Measured, table

DOCUMENT = Path(__file__).parents[2] / "docs" / "declaring-events.md"
CASES = {case.name: case for case in all_cases()}
SIZED = re.compile(r"(echo\.)?(U?Int|U?Long|Float|Complex)\d*")


def documented() -> set[str]:
    """The annotations in the first column of the document's table of types."""
    section = DOCUMENT.read_text().split("## Types")[1].split("\n## ")[0]
    cells = [re.split(r"(?<!\\)\|", line)[1] for line in section.splitlines() if line.startswith("| ")]
    _, *first_column = cells
    named = {text for cell in first_column for text in re.findall(r"`([^`]+)`", cell)}
    return named | {"an event class" for cell in first_column if "an event class" in cell}


def test_every_documented_type_has_a_row() -> None:
    """And what is listed there as a type is one."""
    stood_for = {text for case in CASES.values() for text in case.documented}
    assert documented() - stood_for == set()
    assert {text for text in stood_for - documented() if not SIZED.fullmatch(text)} == set()


def test_every_sized_number_has_a_row() -> None:
    """The document writes ranges of them; the package has their names."""
    numbers = {name for name in dir(echo) if SIZED.fullmatch(name)}
    assert numbers
    assert numbers - set(CASES) == set()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_values_come_back_from_everyone(case: Case) -> None:
    """Equal and of their types, from both kinds of class, and from the peer if it is installed."""
    for contender in contenders(case).values():
        contender.check(case.expected)


@pytest.mark.parametrize(
    ("expected", "read"),
    [(1, True), ([1.0], [1]), ((1,), [1]), ([1, 2], [1]), (np.zeros(2), np.zeros(2, "f4")), ("a", "b")],
)
def test_a_value_that_changes_is_found_out(expected: Any, read: Any) -> None:
    """Its type counts, at every depth."""
    with pytest.raises(AssertionError):
        check(expected, read)


def rounds_of(case: Case, struct_s: float) -> Measured:
    """Ours take 1 us for everything."""
    ours = {it.ours: [1e-6] * 3 for it in COMPARISONS}
    shown = {(kind, what): [1e-6] * 3 for kind in ("event", "dataclass") for what in ("construct", "encode")}
    shown |= {("event", "decode and read"): [1e-6] * 3, ("dataclass", "decode"): [1e-6] * 3}
    whats = ("construct", "construct and encode", "encode", "decode", "decode and read")
    return Measured(case, ours | shown | {(STRUCT, what): [struct_s] * 3 for what in whats})


@pytest.mark.parametrize(("struct_s", "verdict"), [(1.2e-6, "reached"), (1.05e-6, "**missed** in 4")])
def test_a_row_says_whether_the_goal_is_reached(struct_s: float, verdict: str) -> None:
    """A ratio is the Struct's time over ours."""
    line = table([rounds_of(CASES["int"], struct_s)]).lines[0]
    assert line[-1] == verdict
    assert line[-2] == f"{struct_s * 1e6:.2f}x"


def test_what_makes_another_type_of_a_value_counts() -> None:
    """A Struct that holds bytes is held against with what makes them of an array, and arrays of them."""
    case = CASES["complex"]
    measured = rounds_of(case, 1e-6)
    rounds = {**measured.rounds, (STRUCT, "construct and encode"): [5e-6] * 3}
    by_name = {row.what: row.measured for row in dataclasses.replace(measured, rounds=rounds).rows()}
    assert by_name["complex: dataclass: encode"] == pytest.approx(5)
    assert by_name["complex: dataclass: decode"] == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.once
def test_the_command_prints_its_table_and_writes_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quick run of one type."""
    pytest.importorskip("msgspec")
    file = tmp_path / "figures.json"
    main(["types", "--quick", "--only", "timedelta", "--json", str(file)])
    assert "| timedelta |" in capsys.readouterr().out
    figures = json.loads(file.read_text())
    assert len(figures) == 2 * len(COMPARISONS)
    assert all(row["measured"] > 0 for row in figures)
