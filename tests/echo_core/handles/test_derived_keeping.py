"""What sinks of a derived channel get of events that their source has kept: what one of the base would, as
far as it passes; over every transport, in process, and between processes.
"""

from __future__ import annotations

import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import echo_core as echo
from tests.echo_core.census import origin_of, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import Collector, Pair
from tests.echo_core.losses import links_lost
from tests.echo_core.processes import LIMIT_S as SCRIPT_LIMIT_S
from tests.echo_core.processes import Actor

LIMIT_S = 60.0
LAST = -1


@echo.event
class Sample:
    id: int
    temp: float
    name: str = ""


@echo.event(name="Sample")
class Picked:
    id: int
    twice: float


Judge = Callable[[Sample, float], bool]  # an event, and the limit of now


# ---------------------------------------------------------------------------
# The oracle: kept events, and stages, in Python


class Kept:
    """What a source keeps."""

    def __init__(self, keep: echo.Keep) -> None:
        self._keep = keep
        self._by_key = OrderedDict[object, list[tuple[int, Sample]]]()
        self._count = 0

    def add(self, event: Sample) -> None:
        key = None if self._keep.per is None else getattr(event, self._keep.per)
        of_key = [*self._by_key.pop(key, []), (self._count, event)]
        self._by_key[key] = of_key[-self._keep.last :]
        if len(self._by_key) > self._keep.max_keys:
            self._by_key.popitem(last=False)
        self._count += 1

    @property
    def events(self) -> list[Sample]:
        numbered = [it for of_key in self._by_key.values() for it in of_key]
        return [event for _, event in sorted(numbered, key=lambda it: it[0])]


def all_above() -> Judge:
    return lambda event, limit: event.temp > limit


def every_second() -> Judge:
    reached = -1

    def judge(event: Sample, limit: float) -> bool:
        nonlocal reached
        reached += event.temp > limit
        return event.temp > limit and reached % 2 == 0

    return judge


def changed() -> Judge:
    before: list[int] = []

    def judge(event: Sample, limit: float) -> bool:
        if event.temp <= limit:
            return False
        is_changed = before != [event.id // 3]
        before[:] = [event.id // 3]
        return is_changed

    return judge


def rising() -> Judge:
    before: list[float] = []

    def judge(event: Sample, limit: float) -> bool:
        is_rising = not before or event.temp > before[0] + limit
        before[:] = [event.temp]
        return is_rising

    return judge


class Case(NamedTuple):
    asked: dict[str, Any]
    judge: Callable[[], Judge]


CASES = {
    "where": Case({"where": "temp > limit"}, all_above),
    "every": Case({"where": "temp > limit", "every": 2}, every_second),
    "on_change": Case({"where": "temp > limit", "on_change": "id // 3"}, changed),
    "previous": Case({"where": "previous(temp) is None or temp > previous(temp) + limit"}, rising),
}
KEEPS = [echo.Keep(7), echo.Keep(2, per="name", max_keys=3)]
SELECTION = {"id": "id", "twice": "temp * 2"}


class Base:
    """A source that keeps, and all that the oracle knows of it."""

    def __init__(self, pair: Pair, keep: echo.Keep, seed: int = 0) -> None:
        self.near = pair[0].create_channel("samples", Sample)
        self.far = pair[1].open_channel(self.near.id)
        self.source = self.near.source(Sample, keep=keep)
        self.kept = Kept(keep)
        self.chance = random.Random(seed)
        self._count = 0

    def submit(self, count: int) -> list[Sample]:
        """Some more."""
        made = [
            Sample(self._count + i, self.chance.gauss(0, 1), self.chance.choice("abcd")) for i in range(count)
        ]
        self._count += count
        for event in made:
            self.source.submit(event)
            self.kept.add(event)
        return made

    def derive(self, **asked: Any) -> Any:
        """At the source, too."""
        before = len(origin_of(self.source).branchings)
        derived = self.far.derive(**asked)
        until(lambda: len(origin_of(self.source).branchings) > before, "the source to be derived from")
        return derived

    def expected(self, case: Case, limit: float) -> list[Sample]:
        """Of a sink that comes now."""
        judge = case.judge()
        return [event for event in self.kept.events if judge(event, limit)]


def taken(sink: echo.Sink[Any], count: int) -> list[tuple[int, bool]]:
    """So many events of a sink: which they are, and whether they were kept."""
    got = [sink.get_with_info(LIMIT_S) for _ in range(count)]
    numbers = [info.number for _, info in got]
    assert numbers == list(range(numbers[0], numbers[0] + count)) if numbers else not count
    return [(event.id, info.is_kept) for event, info in got]


def as_kept(events: list[Sample]) -> list[tuple[int, bool]]:
    return [(event.id, True) for event in events]


def as_new(events: list[Sample]) -> list[tuple[int, bool]]:
    return [(event.id, False) for event in events]


# ---------------------------------------------------------------------------
# Against the oracle


@pytest.mark.parametrize("keep", KEEPS, ids=["last", "key"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_a_late_sink_gets_what_is_kept_and_passes_and_then_what_follows(
    pair: Pair, keep: echo.Keep, name: str, seed: int
) -> None:
    """Judged anew with the parameters of now; what the branch remembers is of what came since it began."""
    case, base, limit = CASES[name], Base(pair, keep, seed), 0.0
    base.submit(base.chance.randrange(12))
    hot = base.derive(**case.asked, limit=limit)
    live = case.judge()
    for event in base.submit(base.chance.randrange(12)):
        live(event, limit)
    limit = base.chance.choice([-0.5, 0.0, 0.5])
    hot.set(limit=limit, timeout_s=LIMIT_S)
    for event in base.submit(base.chance.randrange(12)):
        live(event, limit)
    kept = base.expected(case, limit)
    sink = hot.sink(Sample)
    base.source.wait_matched(1, LIMIT_S)
    new = [event for event in base.submit(20) if live(event, limit)]
    assert taken(sink, len(kept) + len(new)) == [*as_kept(kept), *as_new(new)]
    assert sink.statistics().lost == sink.statistics().dropped == 0


@pytest.mark.parametrize("keep", KEEPS, ids=["last", "key"])
def test_what_is_kept_is_selected(pair: Pair, keep: echo.Keep) -> None:
    """As events are; the key need not be among the fields."""
    base = Base(pair, keep)
    picked = base.derive(where="temp > 0", select=SELECTION, name="Sample")
    base.submit(30)
    kept = base.expected(CASES["where"], 0.0)
    sink = picked.sink(Picked)
    base.source.wait_matched(1, LIMIT_S)
    new = [event for event in base.submit(10) if event.temp > 0]
    got = [sink.get(LIMIT_S) for _ in [*kept, *new]]
    assert [(event.id, event.twice) for event in got] == [(it.id, it.temp * 2) for it in [*kept, *new]]


@pytest.mark.parametrize("keep", KEEPS, ids=["last", "key"])
def test_what_is_kept_passes_all_channels_between(pair: Pair, keep: echo.Keep) -> None:
    """Derived from what is derived."""
    base = Base(pair, keep)
    base.submit(20)
    warm = base.derive(where="temp > 0", select=SELECTION, name="Sample")
    hot = warm.derive(where="twice > limit", on_change="id", limit=1.0)
    [branching] = origin_of(base.source).branchings
    until(lambda: bool(branching.origin.branchings), "the derived source to be derived from")
    base.submit(5)
    kept = [event for event in base.kept.events if event.temp * 2 > 1]
    sink = hot.sink(Picked)
    base.source.wait_matched(1, LIMIT_S)
    new = [event for event in base.submit(10) if event.temp * 2 > 1]
    assert taken(sink, len(kept) + len(new)) == [*as_kept(kept), *as_new(new)]


def test_sinks_that_come_one_after_the_other_get_the_same_numbers(pair: Pair) -> None:
    """Where nothing was set meanwhile and nothing is remembered, an event has the same number for all."""
    base = Base(pair, echo.Keep(5))
    base.submit(20)
    hot = base.derive(where="temp > 0")
    numbers: dict[int, int] = {}
    for _ in range(4):
        kept = base.expected(CASES["where"], 0.0)
        with hot.sink(Sample) as sink:
            base.source.wait_matched(1, LIMIT_S)
            new = [event for event in base.submit(6) if event.temp > 0]
            for expected in [*kept, *new]:
                event, info = sink.get_with_info(LIMIT_S)
                assert event.id == expected.id
                assert numbers.setdefault(event.id, info.number) == info.number
        until(lambda: not base.source.wanted, "the sink to be gone")
    assert sorted(numbers.values()) == sorted(set(numbers.values()))


def test_sinks_that_have_gone_miss_nothing_that_is_kept(pair: Pair) -> None:
    """Events are judged while nobody takes them: the next sink gets them."""
    base = Base(pair, echo.Keep(50))
    hot = base.derive(where="temp > 0", every=2)
    hot.sink(Sample).close()
    until(lambda: not base.source.wanted, "the sink to be gone")
    base.submit(30)
    kept = base.expected(CASES["every"], 0.0)
    assert taken(hot.sink(Sample), len(kept)) == as_kept(kept)


def test_sinks_beside_others_get_it_too(pair: Pair) -> None:
    """A handler before `sink` has returned."""
    base = Base(pair, echo.Keep(100))
    hot = base.derive(where="temp > 0")
    first = hot.sink(Sample)
    base.source.wait_matched(1, LIMIT_S)
    base.submit(40)
    base.source.flush(LIMIT_S)
    kept = base.expected(CASES["where"], 0.0)
    second, called = hot.sink(Sample), Collector()
    hot.sink(Sample, called)
    assert [event.id for event in called.events] == [event.id for event in kept]
    assert taken(second, len(kept)) == as_kept(kept)
    new = [event for event in base.submit(10) if event.temp > 0]
    assert taken(second, len(new)) == as_new(new)
    assert [event.id for event in called.wait(len(kept) + len(new))] == [it.id for it in [*kept, *new]]
    assert [it for it, _ in taken(first, len(kept) + len(new))] == [it.id for it in [*kept, *new]]


# ---------------------------------------------------------------------------
# While events flow


@pytest.mark.parametrize("keep", [1, 50])
@pytest.mark.parametrize("asked", [{}, {"select": ["id", "x"]}], ids=["as it is", "selected"])
def test_late_joiners_miss_nothing_and_get_nothing_twice(
    pair: Pair, keep: int, asked: dict[str, Any]
) -> None:
    """Others publish meanwhile: from its first event on each gets all that pass, or it counts as lost."""
    channel = pair[0].create_channel("x", Plain)
    source = channel.source(keep=keep, backlog=echo.Backlog(when_full="block"))
    even = pair[1].open_channel(channel.id).derive(where="id % 2 == 0 or id < 0", **asked)
    until(lambda: bool(origin_of(source).branchings), "the source to be derived from")
    is_over = threading.Event()

    def publish() -> None:
        number = 0
        while not is_over.is_set():
            source.submit(Plain(number, 0.0))
            number += 1
            if number % 20 == 0:
                is_over.wait(0.001)
        source.submit(Plain(LAST, 0.0))

    publisher = threading.Thread(target=publish)
    publisher.start()
    joined: list[tuple[Any, Collector]] = []
    for _ in range(10):
        collector = Collector()
        joined.append((even.sink(None, collector), collector))
        collector.wait(3)
        if len(joined) == 5:
            for each, _ in joined:
                each.close()
            joined = []
    is_over.set()
    publisher.join()
    source.flush(LIMIT_S)
    for sink, collector in joined:
        got = ids_until_the_last(collector)
        assert got == sorted(set(got))
        missing = (got[-1] - got[0]) // 2 + 1 - len(got)
        assert 0 <= missing <= sink.statistics().lost


def ids_until_the_last(collector: Collector) -> list[int]:
    count = 1
    while collector.wait(count)[-1].id != LAST:
        count = len(collector.events) + 1
    return [event.id for event in collector.events][:-1]


def test_what_a_handler_submits_while_it_is_handed_what_is_kept_comes_behind(make_node: MakeNode) -> None:
    """In process, by the thread that makes the sink; in the order in which it is submitted."""
    channel = make_node().create_channel("x", Plain)
    source = channel.source(keep=3)
    for i in range(4):
        source.submit(Plain(i, 0.0))
    odd = channel.derive(where="id % 2 == 1")
    got: list[int] = []

    def handle(event: Plain) -> None:
        got.append(event.id)
        if event.id < 20:
            source.submit(Plain(event.id + 3, 0.0))
            source.submit(Plain(event.id + 4, 0.0))

    sink = odd.sink(Plain, handle)
    assert got == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23]
    assert sink.statistics().lost == 0


def test_what_a_process_has_missed_is_kept_for_it(make_node: MakeNode) -> None:
    """Its link was lost: it gets the rest when it is back, nothing twice."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    source = channel.source(keep=100)
    even = there.open_channel(channel.id).derive(where="id % 2 == 0")
    sink = even.sink(Plain)
    source.wait_matched()
    for i in range(10):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    with links_lost(here, there):
        assert source.sinks == 0
        for i in range(10, 20):
            source.submit(Plain(i, 0.0))
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(20, 0.0))
    assert [sink.get(LIMIT_S).id for _ in range(11)] == list(range(0, 21, 2))
    assert sink.statistics().lost == 0


# ---------------------------------------------------------------------------
# Counters and limits


def test_what_is_judged_anew_counts_as_nothing_that_was_submitted(make_node: MakeNode) -> None:
    """Neither as an event of the derived source nor as filtered."""
    channel = make_node().create_channel("x", Plain)
    source = channel.source(keep=5)
    for i in range(5):
        source.submit(Plain(i, 0.0))
    hot = channel.derive(where="id > 2")
    for _ in range(3):
        with hot.sink(Plain) as sink:
            assert [sink.get(LIMIT_S).id for _ in range(2)] == [3, 4]
    [derived] = [each.origin for each in origin_of(source).branchings]
    assert (derived.statistics().events, derived.statistics().filtered) == (0, 0)
    source.submit(Plain(5, 0.0))
    source.submit(Plain(0, 0.0))
    assert (derived.statistics().events, derived.statistics().filtered) == (1, 1)


def test_an_interval_is_that_between_submissions(make_node: MakeNode) -> None:
    """Where the source tells when that was; else all that is kept comes at once."""
    channel = make_node().create_channel("x", Plain)
    for timestamps, passed in ((True, [0, 1, 2]), (False, [0])):
        source = channel.source(keep=3, timestamps=timestamps)
        for i in range(3):
            source.submit(Plain(i, 0.0))
            after_a_millisecond()
        calm = channel.derive(min_interval_s=0.001)
        got: list[int] = []
        calm.sink(Plain, lambda event, got=got: got.append(event.id)).close()
        assert got == passed
        source.close()


def after_a_millisecond() -> None:
    """By the clock that tells when events are submitted."""
    now_ns = time.time_ns()
    until(lambda: abs(time.time_ns() - now_ns) > 1_000_000)


def test_a_run_time_error_in_what_is_kept_passes_by(make_node: MakeNode) -> None:
    """Of the condition, and of what is computed."""
    channel = make_node().create_channel("x", Plain)
    source = channel.source(keep=5)
    for i in range(5):
        source.submit(Plain(i, 0.0))
    judged = channel.derive(where="12 // (id - 2) != 5").sink(None)
    computed = channel.derive(select={"id": "id", "it": "12 // (id - 2)"}).sink(None)
    for sink in (judged, computed):
        assert [sink.get(LIMIT_S).id for _ in range(4)] == [0, 1, 3, 4]


# ---------------------------------------------------------------------------
# Between processes

SOURCE = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
source = channel.source(Plain, keep=4)
for i in range(10):
    source.submit(Plain(i, float(i)))
say("sent")
while hear() == "more":
    i += 1
    source.submit(Plain(i, float(i)))
    source.flush(LIMIT_S)
    say("sent")
"""

VIEWER = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
sink = channel.sink(Plain)
while True:
    event, info = sink.get_with_info(LIMIT_S)
    say(event.id, info.number, info.is_kept)
"""


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_who_has_nothing_but_the_id_gets_what_another_process_has_kept(
    make_node: MakeNode, transport: str
) -> None:
    """As it passes by what is set when it comes."""
    base = make_node(transports=[transport]).create_channel("base", Plain)
    hot = base.derive(where="x >= limit", limit=100.0)
    with Actor(SOURCE, transport, base.id) as source:
        assert source.hear() == "sent"
        until(lambda: bool(hot.set(limit=7.0, timeout_s=SCRIPT_LIMIT_S)), "the source to be there")
        with Actor(VIEWER, transport, hot.id) as viewer:
            assert [viewer.hear() for _ in range(3)] == ["7 1 True", "8 2 True", "9 3 True"]
            source.tell("more")
            assert source.hear() == "sent"
            assert viewer.hear() == "10 4 False"
        with Actor(VIEWER, transport, hot.id) as again:
            assert [again.hear() for _ in range(4)] == [f"{i} {i - 6} True" for i in range(7, 11)]
