"""Fans: many branches of one shape, which a table judges at once, beside branches that judge one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core._c import links
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.predicates import Predicate, where
from echo_core.codegen.expressions.tables import Index, Table, is_index
from tests.formats.strategies import examples
from tests.native.test_branches import ENCODE, PLAIN, RECORD, Plain, Sample, delivery, outlet, plain_outlet

TEXTS = ("id == k", "x > k", "x / k > 1", "id + k > 3")
INTS, FLOATS = (0, 1, 2, 3, 2**63 - 1), (0.0, 1.0, 2.5, -1.0)
ROWS = 7  # that come and go
FEW_AND_MANY = (ROWS, 22)  # arrays are judged record by record while at least 20 take something


def fan_of(predicate: Predicate, tier: Any) -> links.Fan:
    """With a table for predicates like this one."""
    kind = Index if is_index(predicate.derivation) else Table
    table = kind(predicate.derivation, predicate.format, tier)
    return links.Fan(predicate.judge, table.native, takes_objects=True)


def predicate_of(cls: Any, text: str, value: float) -> Predicate:
    return where(cls, text, tier="interpreted", k=value)


def snapshot_of(predicate: Predicate) -> bytes:
    """Its parameters, as a judge has them."""
    derivation = predicate.derivation
    return lower([(derivation.tree, derivation.conditions)], RECORD).snapshot(derivation.values)


@dataclass
class Row:
    """One derivation, and what came of it."""

    predicate: Predicate
    branch: links.Branch
    to: links.Outlet
    taken: list[Any] = field(default_factory=list[Any])
    numbers: list[int] = field(default_factory=list[int])

    def seen(self) -> tuple[Any, ...]:
        """All that is told of it."""
        it = self.branch
        return (
            self.taken,
            self.numbers,
            self.to.sequence,
            it.filtered,
            it.come_to,
            self.predicate.judge.failed,
        )


class Tree:
    """An outlet with rows: in a fan, or one by one where there is no tier."""

    def __init__(self, text: str, values: list[float], tier: str | None) -> None:
        self.base = outlet()
        self.rows = [self._row(predicate_of(Sample, text, value)) for value in values]
        self.fan = None if tier is None else fan_of(self.rows[0].predicate, tier)
        self.base.branches = () if self.fan is None else (self.fan,)
        self.inside: set[int] = set()

    def _row(self, predicate: Predicate) -> Row:
        to = outlet()
        return Row(predicate, links.Branch(predicate.judge, to, takes_objects=True), to)

    def switch(self, number: int) -> None:
        """It takes part from now on, or no longer."""
        branch, is_in = self.rows[number].branch, number in self.inside
        self.inside ^= {number}
        if self.fan is None:
            others = tuple(each for each in self.base.branches if each is not branch)
            self.base.branches = others if is_in else (*others, branch)
        elif is_in:
            self.fan.remove(branch)
        else:
            self.fan.put(branch)

    def take(self, number: int, how: str) -> None:
        """A sink comes, by reference or for records, or all are gone."""
        row = self.rows[number]
        sinks = (delivery(row.taken.append),)
        row.to.direct, row.to.converting = (sinks if how == kind else () for kind in ("direct", "converting"))

    def set(self, number: int, text: str, value: float) -> None:
        row = self.rows[number]
        row.numbers.append(row.branch.set(snapshot_of(predicate_of(Sample, text, value)), None))


def some_step(random: Random, text: str, values: tuple[float, ...]) -> tuple[Any, ...]:
    """What is done to each of two trees."""
    number = random.randrange(ROWS)
    event = Sample(random.choice((0, 1, 2, 3, 4)), random.choice((-3.0, 0.0, 2.0, 5.0)))
    what = random.choice(("switch", "take", "set", "submit", "submit", "submit", "records", "array"))
    how: Any = {"take": random.choice(("direct", "converting", "")), "set": random.choice(values)}.get(what)
    many = [Sample(random.randrange(5), random.uniform(-3, 5)) for _ in range(random.choice((1, 5, 300)))]
    return what, number, how, event, many, text


def do(tree: Tree, step: tuple[Any, ...]) -> None:
    """One step."""
    what, number, how, event, many, text = step
    match what:
        case "switch":
            tree.switch(number)
        case "take":
            tree.take(number, how)
        case "set":
            tree.set(number, text, how)
        case "submit":
            tree.base.submit(event)
        case _:
            tree.base.submit_records(b"".join(map(ENCODE, many)))


@pytest.mark.parametrize("text", TEXTS)
@examples(60)
@given(seed=st.integers(0, 2**62), tier=st.sampled_from(["compiled", "interpreted"]))
def test_a_fan_passes_and_counts_what_its_branches_would(text: str, seed: int, tier: str) -> None:
    """Whoever comes, goes, sets parameters or meets errors, in whatever order."""
    random = Random(seed)
    values = FLOATS if text.startswith("x") else INTS
    given = [random.choice(values) for _ in range(random.choice(FEW_AND_MANY))]
    fanned, single = Tree(text, given, tier), Tree(text, given, None)
    for number in range(len(given)):
        for step in (("switch", number), ("take", number, "direct")):
            for tree in (fanned, single):
                do(tree, (*step, *(None,) * (6 - len(step))))
    for _ in range(40):
        step = some_step(random, text, values)
        for tree in (fanned, single):
            do(tree, step)
        for mine, theirs in zip(fanned.rows, single.rows, strict=True):
            assert mine.seen() == theirs.seen(), (step[0], step[1])


def _note(taken: list[int], number: int, _: Sample) -> None:
    taken.append(number)


@pytest.mark.parametrize("text", ["id == k", "id + k > 3"])
def test_rows_of_a_fan_are_more_than_are_noted_on_the_stack(text: str) -> None:
    """All of a thousand that an event passes get it, and none that has gone."""
    base = outlet()
    taken: list[int] = []
    first = predicate_of(Sample, text, 5)
    base.branches = (fan := fan_of(first, "compiled"),)
    branches: list[links.Branch] = []
    for i in range(1000):
        to = outlet()
        to.direct = (delivery(partial(_note, taken, i)),)
        branches.append(links.Branch(predicate_of(Sample, text, 5).judge, to, takes_objects=True))
        fan.put(branches[-1])
    base.submit(Sample(5, 0.0))
    assert sorted(taken) == list(range(1000))
    for each in branches[::2]:
        fan.remove(each)
    taken.clear()
    base.submit(Sample(5, 0.0))
    assert sorted(taken) == list(range(1, 1000, 2))
    assert (fan.branches, fan.judged) == (500, 2)
    assert [each.come_to for each in branches[:2]] == [1, 2]


def test_a_row_that_fails_costs_only_itself_once_it_is_gone() -> None:
    """What it leaves behind in the table belongs to nobody, and is judged all the same."""
    base = outlet()
    base.branches = (fan := fan_of(predicate_of(Sample, "x / k > 1", 1.0), "compiled"),)
    branches: list[links.Branch] = []
    for value in (0.0, 2.0):
        to = outlet()
        to.direct = (delivery(print),)
        branches.append(links.Branch(predicate_of(Sample, "x / k > 1", value).judge, to, takes_objects=True))
        fan.put(branches[-1])
    base.submit(Sample(1, 5.0))
    assert fan.judged == 0
    fan.remove(branches[0])
    base.submit(Sample(1, 5.0))
    assert (fan.judged, branches[1].outlet.sequence) == (1, 2)


def test_parameters_that_are_set_while_others_derive_count_behind_what_was_judged_before() -> None:
    """A row that an event has passed, and that is not its turn yet, is told so."""
    base, one, two = outlet(), outlet(), outlet()
    told: list[int] = []
    other = snapshot_of(predicate_of(Sample, "id == k", 9))

    def convert(record: bytes) -> bytes:
        told.append(second.set(other, None))
        return record

    predicates = [predicate_of(Sample, "id == k", 1) for _ in range(2)]
    first = links.Branch(
        predicates[0].judge, one, takes_objects=True, convert=convert, derived_size=RECORD.size_bytes
    )
    second = links.Branch(predicates[1].judge, two, takes_objects=True)
    one.converting, two.direct = (delivery(print),), (delivery(print),)
    base.branches = (fan := fan_of(predicates[0], "compiled"),)
    fan.put(first)
    fan.put(second)
    base.submit(Sample(1, 1.0))
    assert (told, two.sequence) == ([1], 1)
    base.submit(Sample(1, 1.0))
    assert (told, one.sequence, two.sequence) == ([1, 1], 2, 1)
    assert (second.filtered, second.come_to) == (1, 2)


def test_an_event_that_cannot_be_encoded_passes_no_row_and_leaves_none_in_hand() -> None:
    """What was noted for others is let go of."""
    base, one, two = plain_outlet(), plain_outlet(), plain_outlet()
    predicates = [where(Plain, "id == k", tier="interpreted", k=1) for _ in range(2)]
    branches = [
        links.Branch(each.judge, to, takes_objects=True)
        for each, to in zip(predicates, (one, two), strict=True)
    ]
    base.branches = (fan := fan_of(predicates[0], "compiled"),)
    for each, to in zip(branches, (one, two), strict=True):
        to.converting = (delivery(print, PLAIN),)
        fan.put(each)
    wrong: Any = "no float"
    with pytest.raises(Exception, match="x"):
        base.submit(Plain(1, wrong))
    assert [each.set(snapshot_of(predicates[0]), None) for each in branches] == [0, 0]
    assert [each.filtered for each in branches] == [0, 0]


def test_code_that_takes_all_rows_out_while_an_event_is_encoded_is_heard() -> None:
    """The event passes nobody."""
    base, to = plain_outlet(), plain_outlet()
    predicate = where(Plain, "id == k", tier="interpreted", k=5)

    class Number:
        def __index__(self) -> int:
            fan.remove(branch)
            return 5

    branch = links.Branch(predicate.judge, to, takes_objects=True)
    to.direct = (delivery(print, PLAIN),)
    base.branches = (fan := fan_of(predicate, "compiled"),)
    fan.put(branch)
    base.submit(Plain(cast("int", Number()), 1.0))
    assert (base.sequence, to.sequence, fan.branches) == (1, 0, 0)


def test_a_fan_takes_branches_that_judge_without_a_clock_and_are_in_no_other() -> None:
    """And a table and a judge that C code can ask."""
    predicate = predicate_of(Sample, "id == k", 1)
    fan, other = fan_of(predicate, "interpreted"), fan_of(predicate, "interpreted")
    branch = links.Branch(predicate.judge, outlet(), takes_objects=True)
    fan.put(branch)
    wrong: list[Any] = [branch, links.Branch(None, outlet()), None]
    wrong.append(links.Branch(predicate.judge, outlet(), has_clock=True))
    for each in wrong:
        with pytest.raises(TypeError, match="Expected a Branch with a judge"):
            other.put(each)
    other.remove(branch)
    assert (fan.branches, other.branches) == (1, 0)
    nothing: Any = object()
    with pytest.raises(AttributeError, match="raw_table"):
        links.Fan(predicate.judge, nothing)
    with pytest.raises(AttributeError, match="raw_judge"):
        links.Fan(nothing, nothing)
    with pytest.raises(TypeError):
        links.Follower()
    del fan
    assert branch.come_to == 0
    other.put(branch)
