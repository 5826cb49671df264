"""Events of no type leave anything behind; and what does is found out."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from bench.__main__ import main
from bench.leaks import MOST_BLOCKS, MOST_KIB, Left, left_by
from bench.types.case import Case, Spelling
from bench.types.contenders import DATACLASS, EVENT, all_cases, contenders

EVENTS = 1000
CASES = {case.name: case for case in all_cases()}


@pytest.fixture(scope="module", autouse=True)
def only_new_objects_are_collected() -> Iterator[None]:
    """The collector passes over what the tests before have left, which takes most of the time otherwise."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_events_leave_no_objects_behind(case: Case) -> None:
    """Made, encoded, decoded, read and let go: fewer blocks are left than a tenth of the events."""
    events = EVENTS // 10 if "1000" in case.name else EVENTS
    each = contenders(case)
    for kind in (EVENT, DATACLASS):
        assert left_by(each[kind], events).blocks < events / 10, kind


def test_an_object_for_each_event_is_found_out() -> None:
    """Here the program keeps one itself, in a way that a field's value does."""
    kept: list[object] = []

    class Kept(float):
        def __new__(cls, value: float) -> Self:
            made = super().__new__(cls, value)
            kept.append(made)
            return made

    case = CASES["float"]
    spelling = Spelling((("value", float),), 2.5, "keep(value)", names={"keep": Kept})
    leaking = Case(case.name, (), 2.5, spelling, spelling, spelling)
    left = left_by(contenders(leaking)[EVENT], EVENTS)
    assert left.blocks >= EVENTS


@pytest.mark.parametrize(
    ("left", "reached"),
    [
        (Left(MOST_BLOCKS, MOST_KIB), [True, True]),
        (Left(MOST_BLOCKS + 1, MOST_KIB), [False, True]),
        (Left(-5, MOST_KIB + 1), [True, False]),
    ],
)
def test_objects_and_memory_have_goals_of_their_own(left: Left, reached: list[bool]) -> None:
    """Less than before is nothing."""
    rows = left.rows("int, event", "group")
    assert [row.is_reached for row in rows] == reached
    assert all(row.measured >= 0 for row in rows)


def test_the_command_prints_and_writes_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two for each kind of class."""
    file = tmp_path / "figures.json"
    main(["leaks", "--events", "1000", "--only", "Chars[16]", "--json", str(file)])
    assert "Chars[16], event: resident" in capsys.readouterr().out
    assert len(json.loads(file.read_text())) == 8  # alone, and in a list
