"""What is missing in a log, against sets of numbers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echo_core.logs.described import Damage, Gap, Position
from echo_core.logs.views.missing import UNEXPLAINED, Missing, MissingIn
from tests.formats.strategies import examples

HERE = Position(1, 64)
RUNS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=8)


def numbers(gaps: list[Gap]) -> list[int]:
    return [number for gap in gaps for number in range(gap.first, gap.last + 1)]


@examples(100)
@given(runs=RUNS, first=st.integers(0, 40), size=st.integers(0, 12))
def test_each_number_is_told_once_and_in_order(runs: list[tuple[int, int]], first: int, size: int) -> None:
    """Whatever overlaps; what nobody has told of is not explained."""
    gaps = [Gap(1, start, start + more, "dropped", HERE) for start, more in runs[::2]]
    damage = [Damage(1, 64, 128, "flipped", 1, (start, start + more)) for start, more in runs[1::2]]
    missing, known = (
        Missing(gaps, damage),
        {n for start, more in runs for n in range(start, start + more + 1)},
    )
    assert numbers(list(missing.all())) == sorted(known)
    assert numbers(list(missing.behind(1, first))) == sorted(n for n in known if n >= first)
    last = first + size
    found = list(missing.between(1, first, last, HERE))
    assert numbers(found) == [*range(first, last + 1)]
    unexplained = numbers([gap for gap in found if gap.cause == UNEXPLAINED])
    assert unexplained == [n for n in range(first, last + 1) if n not in known]
    begin = missing.begins(1, first)
    assert {*range(begin, first)} <= known
    assert begin == 0 or begin - 1 not in known
    assert list(missing.behind(2, 0)) == []


def test_a_hundred_thousand_gaps_are_gone_through_once() -> None:
    """As many as a recorder tells of that has too little room for a day."""
    missing = Missing([Gap(1, 10 * i, 10 * i + 3, "dropped", HERE) for i in range(100_000)], [])
    for i in range(100_000):
        assert [gap.last for gap in missing.between(1, 10 * i, 10 * i + 3, HERE)] == [10 * i + 3]


@examples(100)
@given(parts=st.lists(RUNS, max_size=4))
def test_what_comes_later_is_told_once_too(parts: list[list[tuple[int, int]]]) -> None:
    """In order, and what was known before stays."""
    missing, known = Missing(), dict[int, str]()
    for turn, runs in enumerate(parts):
        missing.add([Gap(1, start, start + more, str(turn), HERE) for start, more in runs], [])
        for start, more in runs:
            for number in range(start, start + more + 1):
                known.setdefault(number, str(turn))
    found = [(number, gap.cause) for gap in missing.all() for number in range(gap.first, gap.last + 1)]
    assert found == sorted(known.items())


def test_losses_that_are_found_one_by_one_are_gone_through_once() -> None:
    """As a view finds them that reads a log which is damaged all over."""

    class Found:
        gaps: list[Gap]

        def __init__(self) -> None:
            self.gaps = []
            self.looked_at = 0

        @property
        def losses(self) -> int:
            return len(self.gaps)

        def losses_from(self, gaps: int, damage: int) -> tuple[list[Gap], list[Damage]]:
            self.looked_at += len(self.gaps) - gaps
            return self.gaps[gaps:], []

    found: Any = Found()
    missing = MissingIn(found)
    for i in range(20_000):
        found.gaps.append(Gap(1, 10 * i, 10 * i + 3, "damage", HERE))
        assert [gap.last for gap in missing().behind(1, 10 * i)] == [10 * i + 3]
    assert found.looked_at == 20_000
