"""Two commits take turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.against import checkouts
from bench.against.children import Child, ChildError, QuestionError
from bench.against.paired import Key, Pair, Row, Verdict
from bench.against.rounds import compared, confirmed, pair_of

NEEDS_GIT = pytest.mark.skipif(not (checkouts.ROOT / ".git").exists(), reason="this tree is not git's")


class FakeSide:
    """Answers as a worker does, and writes down who was asked in which order."""

    def __init__(self, name: str, log: list[str], times: Sequence[float], *, can: bool = True) -> None:
        self._name, self._log, self._times, self._can = name, log, iter(times), can

    def ask(self, question: str, *arguments: Any) -> Any:
        self._log.append(f"{self._name} {question}")
        if question == "open" and not self._can:
            raise QuestionError(*arguments)
        return next(self._times) if question == "measure" else None


@pytest.mark.parametrize(
    ("old_first", "order"),
    [(True, ["old", "new", "new", "old"]), (False, ["new", "old", "old", "new"])],
)
def test_who_begins_also_ends(old_first: bool, order: list[str]) -> None:
    """So that what grows meets both alike; each side's better time counts."""
    log: list[str] = []
    old, new = FakeSide("old", log, [3.0, 2.0]), FakeSide("new", log, [4.0, 5.0])
    assert pair_of(old, new, ("s", "row"), 0.1, old_first=old_first) == Pair(2.0, 4.0)
    assert [it.split()[0] for it in log if it.endswith("measure")] == order
    assert sorted(log[-2:]) == ["new close", "old close"]


def test_what_the_old_commit_cannot_do_is_left_out() -> None:
    """A suite may have rows for what is new."""
    log: list[str] = []
    old, new = FakeSide("old", log, [], can=False), FakeSide("new", log, [])
    assert pair_of(old, new, ("s", "row"), 0.1, old_first=True) is None
    assert log == ["new open", "old open", "new close"]


def test_what_seems_slower_is_measured_again() -> None:
    """The second time decides: one row was unlucky, and one is slower."""
    rows = [Row(("s", name), [Pair(1, new_s)] * 5) for name, new_s in (("a", 1), ("b", 1.2), ("c", 1.3))]
    asked: list[Key] = []

    def again(keys: Sequence[Key]) -> list[Row]:
        asked.extend(keys)
        return [Row(("s", "b"), [Pair(1, 0.99)] * 5), Row(("s", "c"), [Pair(1, 1.2)] * 5)]

    verdicts = [row.ratio.verdict() for row in confirmed(rows, again, 0.0)]
    assert asked == [("s", "b"), ("s", "c")]
    assert verdicts == [Verdict.NO_WORSE, Verdict.FASTER, Verdict.SLOWER]


def test_what_a_child_cannot_do_is_told_with_its_traceback(tmp_path: Path) -> None:
    """It answers the next question all the same, and a dead one none."""
    environment = checkouts.this_tree().environment(tmp_path)
    with Child("bench.against.workloads.worker", environment) as child:
        with pytest.raises(QuestionError, match="KeyError: 'nonsense'"):
            child.ask("names", "nonsense")
        assert "dataclass to 1" in child.ask("names", "inprocess")
    # A package that cannot be run stands for a child that dies.
    with Child("json", environment) as child, pytest.raises(ChildError, match="died"):
        child.ask("names", "inprocess")


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("suite", "row"),
    [
        ("codec", "variable parts, dataclass: decode"),
        ("convert", "big-endian: 10 records"),
        ("fanout", "4 sinks: echo-unix/dataclass"),
        ("inprocess", "record to 20"),
        ("latency", "round trip Unix socket, a particle alone, one core: echo-unix/record"),
        ("latency", "round trip Unix socket, a particle alone, one core: echo-unix-waiting/record"),
        ("throughput", "arrays of 1000: echo-tcp/array"),
    ],
)
def test_a_row_of_each_suite_is_measured_over_and_over(suite: str, row: str, tmp_path: Path) -> None:
    """One opening serves several measurements: the next stream begins where one has ended."""
    environment = checkouts.this_tree().environment(tmp_path)
    with Child("bench.against.workloads.worker", environment) as child:
        assert row in child.ask("names", suite)
        child.ask("open", suite, row)
        assert all(0 < child.ask("measure", 0.02) < 0.1 for _ in range(3))
        child.ask("close")
        checkouts.this_tree().check_imported(child.ask("modules"))


@NEEDS_GIT
@pytest.mark.slow
@pytest.mark.once
def test_a_tree_is_no_worse_than_itself() -> None:
    """By a few rounds of the real thing, in processes of its own."""
    tree = checkouts.working_tree()
    rows = compared(tree, tree, ["inprocess"], 5, tolerance=0.5, told=lambda _: None)
    assert all(len(row.pairs) == 5 for row in rows)
    assert Verdict.SLOWER not in {row.ratio.verdict(0.5) for row in rows}
