"""What is derived from sources whose processes do not know of derived channels, which who derives judges."""

from __future__ import annotations

import logging
import random
import threading
from functools import partial
from typing import Any

import pytest

import echo_core as echo
from echo_core.roster import receipt
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.losses import links_lost
from tests.echo_core.older import OLDER, make_older
from tests.echo_core.processes import LIMIT_S, Actor

__all__ = ["make_older"]

LINKED = ("shm", "unix", "tcp")


@echo.event
class Sample:
    id: int
    temp: float
    name: str = ""
    parts: list[float] = echo.field(default_factory=list)


@echo.event
class Fixed:
    id: int
    temp: echo.Float32


@echo.event(name="Sample")
class Lacking:
    id: int


class Ends:
    """A node that derives, and an older one with sources."""

    def __init__(self, make_node: MakeNode, make_older: MakeNode, transport: str = "unix") -> None:
        self.near, self.far = make_node(transports=[transport]), make_older(transports=[transport])
        self.base: echo.Channel[Any] = self.near.create_channel("base")
        self.opened: echo.Channel[Any] = self.far.open_channel(self.base.id)


@pytest.fixture
def ends(make_node: MakeNode, make_older: MakeNode) -> Ends:
    return Ends(make_node, make_older)


@pytest.fixture(params=LINKED)
def linked(request: pytest.FixtureRequest, make_node: MakeNode, make_older: MakeNode) -> Ends:
    return Ends(make_node, make_older, str(request.param))


def got(sink: echo.Sink[Any], count: int) -> list[tuple[Any, int]]:
    """Events, and their numbers."""
    pairs = [sink.get_with_info(LIMIT_S) for _ in range(count)]
    return [(event, info.number) for event, info in pairs]


# ---------------------------------------------------------------------------
# What comes


def test_those_that_pass_come_and_statistics_say_where_they_are_judged(
    linked: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    """The source is one of the derived channel for all that can be seen; the log has once how it is."""
    caplog.set_level(logging.INFO)
    source = linked.opened.source(Plain, name="old")
    hot = linked.base.derive(Plain, where="x > limit", limit=3.0)
    notices: list[echo.Notice] = []
    hot.watch(notices.append)
    sink = hot.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    for i in range(10):
        source.submit(Plain(i, float(i)))
    source.flush(LIMIT_S)
    assert got(sink, 6) == [(Plain(i, float(i)), i - 4) for i in range(4, 10)]
    told = sink.statistics()
    assert (told.sources, told.judged_here, told.filtered, told.lost) == (1, 1, 4, 0)
    of_channel = hot.statistics()
    assert (of_channel.remote_sources, of_channel.judged_here, of_channel.filtered) == (1, 1, 4)
    until(lambda: len(notices) > 0, "the notice")
    [opened] = [notice for notice in notices if isinstance(notice, echo.SourceOpened)]
    assert opened.name == "old"
    assert (
        len([line for line in caplog.messages if "`old`" in line and "filtered here, on receipt" in line])
        == 1
    )
    source.close()
    until(lambda: any(isinstance(notice, echo.SourceClosed) for notice in notices), "the end")
    assert hot.statistics().judged_here == sink.statistics().judged_here == 0
    assert hot.statistics().filtered == 4


DERIVATIONS: dict[str, dict[str, Any]] = {
    "a condition": {"where": "temp > limit", "limit": 0.5},
    "what varies in size": {"where": "len(parts) > 1 and name.startswith('a')"},
    "what is remembered": {"where": "previous(temp) is None or abs(temp - previous(temp)) > 0.3"},
    "changes": {"on_change": "id // 3", "every": 2},
    "one of several": {"every": 3},
    "new fields": {"where": "temp > 0.2", "select": {"id": "id", "twice": "temp * 2", "name": "name"}},
}


@pytest.mark.parametrize("what", DERIVATIONS)
def test_it_is_judged_as_it_would_be_at_its_source(ends: Ends, what: str) -> None:
    """One source says of itself what becomes of its events; the other one's are judged here."""
    derived = ends.base.derive(Sample, **DERIVATIONS[what])
    sink = derived.sink(None)
    sources = ends.base.source(Sample, name="knows"), ends.opened.source(Sample, name="old")
    for source in sources:
        source.wait_matched(1, LIMIT_S)
    chance = random.Random(what)
    for i in range(60):
        name, parts = chance.choice(["a", "ab", "b"]), [chance.random()] * chance.randrange(4)
        event = Sample(i, chance.random(), name, parts)
        for source in sources:
            source.submit(event)
    for source in sources:
        source.flush(LIMIT_S)
    count = sink.statistics().queued_events
    pairs = [sink.get_with_info(LIMIT_S) for _ in range(count)]
    seen = {
        name: [
            (event.id, getattr(event, "twice", 0.0), info.number)
            for event, info in pairs
            if info.source == name
        ]
        for name in ("knows", "old")
    }
    assert seen["old"] == seen["knows"]
    assert len(seen["old"]) > 5


@pytest.mark.parametrize("abi", ["native", "s390x"])
def test_arrays_and_other_layouts_are_judged_as_they_come(linked: Ends, abi: str) -> None:
    """Many records of a frame at once, in the sender's byte order; also for a sink of arrays."""
    hot = linked.base.derive(Fixed, where="id % 3 == 0 and temp > 1")
    sink, arrays = hot.sink(Fixed), hot.sink(Fixed, batch=True)
    source = linked.opened.source(Fixed, abi=abi)
    source.wait_matched(1, LIMIT_S)
    encode = echo.encoder(Fixed, abi=abi)
    source.submit_records(b"".join(encode(Fixed(i, i / 10)) for i in range(3000)))
    source.submit(Fixed(3, 2.0))
    source.flush(LIMIT_S)
    wanted = [*range(12, 3000, 3), 3]
    assert [(event.id, number) for event, number in got(sink, len(wanted))] == [
        (i, number) for number, i in enumerate(wanted)
    ]
    rows: list[int] = []
    while len(rows) < len(wanted):
        rows += arrays.get(LIMIT_S)["id"].tolist()
    assert rows == wanted
    assert sink.statistics().filtered == 3001 - len(wanted)


def test_it_takes_the_events_only_while_somebody_takes_what_passes(ends: Ends) -> None:
    """A sink of what is derived twice is one, too; numbers go on where others come."""
    source = ends.opened.source(Plain)
    hot = ends.base.derive(Plain, where="x > 1")
    until(lambda: ends.base.statistics().remote_sources == 1, "the source")
    assert source.sinks == 0
    with hot.derive(where="x > 2", select={"id": "id"}).sink(None) as sink, hot.sink(Plain) as other:
        source.wait_matched(1, LIMIT_S)
        for x in (1.0, 2.0, 3.0):
            source.submit(Plain(int(x), x))
        assert got(other, 2) == [(Plain(2, 2.0), 0), (Plain(3, 3.0), 1)]
        assert got(sink, 1)[0][0].id == 3
        assert source.sinks == 1
    until(lambda: source.sinks == 0, "the sinks to leave")
    source.submit(Plain(5, 5.0))
    with hot.sink(Plain) as sink:
        source.wait_matched(1, LIMIT_S)
        source.submit(Plain(6, 6.0))
        assert got(sink, 1) == [(Plain(6, 6.0), 2)]


def test_parameters_are_set_between_two_events(ends: Ends) -> None:
    """While the source submits: what comes with a number below the told one was judged by the old value."""
    hot = ends.base.derive(Plain, where="x >= limit", limit=0.0)
    source = ends.opened.source(Plain)
    over = threading.Event()
    events: list[tuple[float, int]] = []
    hot.sink(Plain, lambda event, info: events.append((event.x, info.number)))
    source.wait_matched(1, LIMIT_S)

    def submit() -> None:
        i = 0
        while not over.is_set():
            source.submit(Plain(i, float(i % 2)))
            i += 1

    def has_gone_on(reached: int) -> bool:
        return len(events) > reached + 2

    thread = threading.Thread(target=submit)
    thread.start()
    changes: list[int] = []
    for limit in (0.5, 0.0) * 10:
        until(partial(has_gone_on, len(events)), "more events")
        changes += hot.set(limit=limit, timeout_s=LIMIT_S).values()
    over.set()
    thread.join()
    source.flush(LIMIT_S)
    assert [number for _, number in events] == list(range(len(events)))
    for first, end in zip(changes[::2], changes[1::2], strict=True):
        assert all(x == 1.0 for x, _ in events[first:end])
    assert any(x == 0.0 for x, _ in events)


# ---------------------------------------------------------------------------
# What is kept, and links that are lost


def infos(sink: echo.Sink[Any], count: int) -> list[tuple[int, bool]]:
    """Events' own numbers, and whether they were kept."""
    pairs = [sink.get_with_info(LIMIT_S) for _ in range(count)]
    return [(event.id, info.is_kept) for event, info in pairs]


@pytest.mark.parametrize("keep", [echo.Keep(last=4), echo.Keep(last=1, per="id")])
@pytest.mark.parametrize("has_base_sink", [False, True])
def test_what_the_source_keeps_comes_first(ends: Ends, keep: echo.Keep, has_base_sink: bool) -> None:
    """For the first sink and for later ones, as far as it passes; also where it was here already."""
    source = ends.opened.source(Plain, keep=keep)
    for i in range(4):
        source.submit(Plain(i, float(i)))
    if has_base_sink:
        taken = ends.base.sink(Plain)
        assert [taken.get(LIMIT_S).id for _ in range(4)] == [0, 1, 2, 3]
    hot = ends.base.derive(Plain, where="x > 1")
    sink = hot.sink(Plain)
    assert infos(sink, 2) == [(2, True), (3, True)]
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(4, 4.0))
    assert infos(sink, 1) == [(4, False)]
    late = hot.sink(Plain)
    assert infos(late, 3) == [(2, True), (3, True), (4, True)]
    source.submit(Plain(5, 0.0))
    source.submit(Plain(6, 6.0))
    assert infos(sink, 1) == infos(late, 1) == [(6, False)]
    sink.close()
    late.close()
    until(lambda: source.sinks == (1 if has_base_sink else 0), "the sinks to leave")
    again = hot.sink(Plain)
    kept = [3, 4, 6] if keep.per is None else [2, 3, 4, 6]
    assert infos(again, len(kept)) == [(i, True) for i in kept]


def test_times_are_those_of_submission(ends: Ends) -> None:
    """Not of receipt."""
    source = ends.opened.source(Plain, timestamps=True, keep=1)
    source.submit(Plain(1, 2.0))
    plain, hot = ends.base.sink(Plain), ends.base.derive(Plain, where="x > 1").sink(Plain)
    times = [sink.get_with_info(LIMIT_S)[1].submitted_ns for sink in (plain, hot)]
    assert times[0] is not None
    assert times[1] == times[0]


@pytest.mark.parametrize("kept", [0, 100])
def test_numbers_go_on_where_a_link_is_lost_and_back(ends: Ends, kept: int) -> None:
    """Nothing comes twice; what is kept meanwhile comes, and what is not counts as lost."""
    source = ends.opened.source(Plain, keep=kept) if kept else ends.opened.source(Plain)
    hot = ends.base.derive(Plain, where="id % 2 == 0")
    notices: list[echo.Notice] = []
    hot.watch(notices.append)
    sink = hot.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    for i in range(10):
        source.submit(Plain(i, 0.0))
    before = got(sink, 5)
    with links_lost(ends.near, ends.far):
        assert source.sinks == 0
        for i in range(10, 20):
            source.submit(Plain(i, 0.0))
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(20, 0.0))
    after = got(sink, 6 if kept else 1)
    first = before[0][1]
    wanted = [*range(0, 21, 2)] if kept else [*range(0, 10, 2), 20]
    assert [(event.id, number) for event, number in before + after] == [
        (i, first + place) for place, i in enumerate(wanted)
    ]
    assert sink.statistics().lost == (0 if kept else 10)
    until(lambda: len(notices) >= 3, "the notices")
    told = [type(notice) for notice in notices if not isinstance(notice, echo.EventsLost)]
    assert told == [echo.SourceOpened, echo.SourceClosed, echo.SourceOpened]


def test_a_sink_that_leaves_while_a_link_is_lost_is_not_waited_for(ends: Ends) -> None:
    """The source is a new one to those who come after that."""
    source = ends.opened.source(Plain)
    hot = ends.base.derive(Plain, where="x > 1")
    sink = hot.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 2.0))
    _, first = sink.get_with_info(LIMIT_S)
    with links_lost(ends.near, ends.far):
        assert (source.sinks, sink.statistics().judged_here) == (0, 0)
        sink.close()
    again = hot.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(2, 3.0))
    event, second = again.get_with_info(LIMIT_S)
    assert (event, second.number, first.number) == (Plain(2, 3.0), 0, 0)
    assert first.source_id != second.source_id


# ---------------------------------------------------------------------------
# Processes that are killed, slow, or strange


SOURCE = """
node = echo.Node(transports=[sys.argv[1]])
channel = node.open_channel(sys.argv[2])
source = channel.source(Plain, name="old")
source.wait_matched(2, LIMIT_S)
for i in range(20):
    source.submit(Plain(i, float(i)))
source.flush(LIMIT_S)
say("sent")
hear()
"""

DERIVER = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
sink = channel.derive(Plain, where="x > 15").sink(Plain)
say("takes")
while True:
    for _ in range(4):
        event, info = sink.get_with_info(LIMIT_S)
        say(event.id, info.number)
    say(sink.statistics().judged_here)
    while sink.statistics().judged_here:
        time.sleep(0.001)
    say("gone")
"""


def test_sources_and_receivers_may_be_killed_and_start_again(make_node: MakeNode) -> None:
    """Each of three processes: the creator, an older source that comes back, and who derives."""
    base = make_node(transports=["unix"]).create_channel("base", Plain)
    here = base.derive(where="x > 15").sink(Plain)
    with Actor(DERIVER, "unix", base.id) as deriver:
        assert deriver.hear() == "takes"
        for _ in range(2):
            with Actor(OLDER + SOURCE, "unix", base.id) as source:
                assert [deriver.hear() for _ in range(5)] == ["16 0", "17 1", "18 2", "19 3", "1"]
                assert [event.id for event, _ in got(here, 4)] == [16, 17, 18, 19]
                assert source.hear() == "sent"
                source.kill()
            until(lambda: here.statistics().judged_here == 0, "the source to go")
            assert deriver.hear() == "gone"
        deriver.kill()
    assert here.statistics().filtered == 32


def test_a_sink_that_is_slow_gets_all_and_its_source_waits(ends: Ends) -> None:
    """What is under way is bounded, as for any sink: nothing is dropped, and others get that much, too."""
    backlog = echo.Backlog(events=100, when_full="block")
    source = ends.opened.source(Plain, backlog=backlog)
    hot = ends.base.derive(Plain, where="x > 0")
    slow = hot.sink(Plain, backlog=backlog)
    source.wait_matched(1, LIMIT_S)
    seen: list[int] = []
    fast = ends.base.sink(Plain, lambda event: seen.append(event.id))
    source.wait_matched(2, LIMIT_S)
    total = 3000

    def submit() -> None:
        for i in range(total):
            source.submit(Plain(i, 1.0))

    thread = threading.Thread(target=submit)
    thread.start()
    until(lambda: len(seen) >= 100, "the other sink to go on")
    assert slow.statistics().queued_events <= 100
    assert [event.id for event, _ in got(slow, total)] == list(range(total))
    thread.join()
    assert slow.statistics().dropped == 0
    until(lambda: len(seen) == total, "all to come")
    fast.close()


class Slow:
    """A handler that gets stuck in its first call, until it is told to go on."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.is_stuck, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, event: Plain) -> None:
        self.seen.append(event.id)
        self.is_stuck.set()
        assert self.goes_on.wait(LIMIT_S)


@pytest.mark.parametrize("is_array", [False, True])
def test_a_slow_handler_holds_up_itself_alone(linked: Ends, is_array: bool) -> None:
    """Two of them, of a channel and of one that is derived from it: all others get all, in its order."""
    hot = linked.base.derive(Fixed, where="id % 2 == 0")
    hotter = hot.derive(where="id % 4 == 0", select=["id"])
    slow, slower = Slow(), Slow()
    seen: list[list[int]] = [[] for _ in range(4)]
    hot.sink(Fixed, slow)
    hotter.sink(None, slower)
    for channel, its in zip((hot, hotter, linked.base), seen, strict=False):
        channel.sink(None, lambda event, its=its: its.append(event.id))
    hot.sink(Fixed, lambda event: seen[3].append(event.id))
    source = linked.opened.source(Fixed)
    source.wait_matched(1, LIMIT_S)
    total, encode = 3000, echo.encoder(Fixed)

    def submit() -> None:
        for i in range(0, total, 10):
            if is_array:
                source.submit_records(b"".join(encode(Fixed(j, 0.0)) for j in range(i, i + 10)))
            for j in range(i, i + 10 * (not is_array)):
                source.submit(Fixed(j, 0.0))

    submitting = threading.Thread(target=submit)
    submitting.start()
    wanted = [list(range(0, total, step)) for step in (2, 4, 1, 2)]
    until(lambda: seen == wanted, "all others to get all")
    assert (len(slow.seen), len(slower.seen)) == (1, 1)
    submitting.join()
    slow.goes_on.set()
    slower.goes_on.set()
    source.drain(LIMIT_S)
    assert slow.seen == wanted[0]
    assert slower.seen == wanted[1]


def test_what_waits_for_a_slow_handler_is_dropped_with_its_sink(ends: Ends) -> None:
    """It counts there and at the source; others go on, also those that come later."""
    hot = ends.base.derive(Plain, where="x > 0")
    slow = Slow()
    sink, other = hot.sink(Plain, slow), hot.sink(Plain)
    source = ends.opened.source(Plain)
    source.wait_matched(1, LIMIT_S)
    for i in range(100):
        source.submit(Plain(i, 1.0))
    assert [event.id for event, _ in got(other, 100)] == list(range(100))
    sink.close()
    slow.goes_on.set()
    until(lambda: source.statistics().dropped_at_sinks == 99, "the source to hear")
    assert (sink.statistics().events, sink.statistics().dropped) == (100, 99)
    seen: list[int] = []
    with hot.sink(Plain, lambda event: seen.append(event.id)):
        source.submit(Plain(100, 1.0))
        assert other.get(LIMIT_S).id == 100
        source.drain(LIMIT_S)
    assert (seen, slow.seen) == ([100], [0])


def test_what_sinks_drop_is_told_to_the_source(ends: Ends) -> None:
    """To each its own, as by ordinary sinks: of the first also what had to make room for the second."""
    hot = ends.base.derive(Plain, where="id % 2 == 0")
    sink = hot.sink(Plain, backlog=echo.Backlog(events=10, when_full="drop_oldest"))
    sources = [ends.opened.source(Plain) for _ in range(2)]

    def are(dropped: list[int]) -> bool:
        return [source.statistics().dropped_at_sinks for source in sources] == dropped

    for source, dropped in zip(sources, ([90, 0], [100, 90]), strict=True):
        source.wait_matched(1, LIMIT_S)
        for i in range(200):
            source.submit(Plain(i, 0.0))
        source.flush(LIMIT_S)
        until(partial(are, dropped), "the source to hear")
    sink.close()
    assert sink.statistics().dropped == 190
    source = sources[0]
    with hot.sink(Plain, backlog=echo.Backlog(events=10, when_full="drop_newest")):
        source.wait_matched(1, LIMIT_S)
        for i in range(200):
            source.submit(Plain(i, 0.0))
        source.flush(LIMIT_S)
    until(partial(are, [190, 90]), "the source to hear of a sink that leaves")


def test_a_source_comes_later_than_what_is_derived_in_several_steps(ends: Ends) -> None:
    """It is judged for all of them that are taken."""
    hot = ends.base.derive(Plain, where="x > 1")
    hotter = hot.derive(where="x > 2")
    sink = hotter.derive(where="x > 3").sink(Plain)
    source = ends.opened.source(Plain)
    source.wait_matched(1, LIMIT_S)
    for i in range(6):
        source.submit(Plain(i, float(i)))
    assert got(sink, 2) == [(Plain(4, 4.0), 0), (Plain(5, 5.0), 1)]


def test_who_has_the_derived_id_alone_hears_that_it_has_nothing_of_them(
    make_node: MakeNode, make_older: MakeNode
) -> None:
    """Once, though several have the base and say so; and it may watch later."""
    ends = Ends(make_node, make_older)
    other = make_node(transports=["unix"]).open_channel(ends.base.id)
    hot, again = (base.derive(Plain, where="x > 1") for base in (ends.base, other))
    viewer: echo.Channel[Any] = make_node(transports=["unix"]).open_channel(hot.id)
    notices: list[echo.Notice] = []
    viewer.watch(notices.append)
    sink, near = viewer.sink(Plain), again.sink(Plain)
    source = ends.opened.source(Plain, name="old")
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 2.0))
    assert near.get(LIMIT_S) == Plain(1, 2.0)

    def told() -> list[echo.Unreachable]:
        return [notice for notice in notices if isinstance(notice, echo.Unreachable)]

    until(lambda: told() != [], "the notice")
    assert [notice.source for notice in told()] == ["old"]
    assert "does not know of derived channels" in told()[0].text
    assert sink.statistics().sources == 0


def test_a_source_that_lacks_a_field_has_nothing_on_receipt_either(ends: Ends) -> None:
    """As it is told where it is judged; others of its process go on."""
    hot = ends.base.derive(Sample, where="len(name) > 0")
    notices: list[echo.Notice] = []
    hot.watch(notices.append)
    sink = hot.sink(Sample)
    ends.opened.source(Lacking, name="lacks")
    source = ends.opened.source(Sample)
    source.wait_matched(1, LIMIT_S)
    source.submit(Sample(1, 2.0, "a"))
    assert sink.get(LIMIT_S).id == 1
    until(lambda: any(isinstance(notice, echo.Unreachable) for notice in notices), "the notice")
    [told] = [notice for notice in notices if isinstance(notice, echo.Unreachable)]
    assert told.source == "lacks"
    assert "no such field" in told.text


def test_so_many_channels_of_one_peer_are_filtered_here(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond is told of."""
    monkeypatch.setattr(receipt, "MAX_RELAYED", 3)
    hot = ends.base.derive(Plain, where="x > 1")
    notices: list[echo.Notice] = []
    hot.watch(notices.append)
    sink = hot.sink(Plain)
    for _ in range(5):
        ends.opened.source(Plain)
    until(lambda: sum(isinstance(notice, echo.Unreachable) for notice in notices) == 1, "the notices")
    assert sink.statistics().judged_here == 3


# ---------------------------------------------------------------------------
# Sources here that keep


@pytest.mark.parametrize("stages", [1, 3])
def test_a_derived_sink_takes_part_in_a_source_that_comes_later_and_keeps(
    make_node: MakeNode, stages: int
) -> None:
    """From its first event on: none of them was kept for it."""
    channel = make_node().create_channel("x", Plain)
    hot: echo.Channel[Any] = channel
    for stage in range(stages):
        hot = hot.derive(Plain, where=f"x > {stage}")
    sink = hot.sink(Plain)
    source = channel.source(keep=3)
    for i in range(6):
        source.submit(Plain(i, float(i)))
    passed = [i for i in range(6) if i > stages - 1]
    assert infos(sink, len(passed)) == [(i, False) for i in passed]
