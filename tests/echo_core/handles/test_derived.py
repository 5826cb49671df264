"""Derived channels: sources send what passes, numbered anew, and whoever has the id gets that and no more."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core._c import links
from echo_core.codegen.expressions import deriving
from echo_core.codegen.machine import background
from echo_core.handles.derived import DerivedChannel
from echo_core.roster import derivations, ending, presence
from echo_core.roster.bookkeeping import books
from echo_core.roster.memberships import Membership
from echo_core.streams.outgoing import OutgoingStream
from echo_core.transports.limits import MAX_DERIVED_DEPTH
from echo_core.transports.protocol.messages import Derive
from tests.echo_core.census import left_behind, origin_of, settled_census, until
from tests.echo_core.channel_events import Plain, Reading1, Reading2, Reading3, Story
from tests.echo_core.conftest import MakeNode

LIMIT_S = 60.0


@echo.event
class Sample:
    id: int
    temp: echo.Float32


class Both:
    """A source on one node, and the channel that another one has opened."""

    def __init__(self, pair: tuple[echo.Node, echo.Node], cls: type[Any] = Sample) -> None:
        self.sender, self.receiver = pair
        self.near = self.sender.create_channel("samples", cls)
        self.far = self.receiver.open_channel(self.near.id)
        self.source = self.near.source(cls)

    def submit(self, temps: Any) -> None:
        self.source.wait_matched(1, LIMIT_S)
        for i, temp in enumerate(temps):
            self.source.submit(Sample(i, temp))
        self.source.flush(LIMIT_S)


@pytest.fixture
def both(pair: tuple[echo.Node, echo.Node]) -> Both:
    return Both(pair)


def taken(sink: echo.Sink[Any], count: int) -> list[Any]:
    return [sink.get(LIMIT_S) for _ in range(count)]


def test_those_that_pass_come_and_have_numbers_of_their_own(both: Both) -> None:
    """What was filtered is neither a gap nor lost, and is counted at both ends."""
    hot = both.far.derive(where="temp > limit", limit=3.0)
    sink = hot.sink(Sample)
    both.submit(range(10))
    events = [sink.get_with_info(LIMIT_S) for _ in range(6)]
    assert [event.id for event, _ in events] == [4, 5, 6, 7, 8, 9]
    assert [info.number for _, info in events] == list(range(6))
    until(lambda: sink.statistics().filtered == 4, "what was filtered to be told")
    assert sink.statistics().lost == sink.statistics().dropped == 0
    [derived] = [each.origin for each in origin_of(both.source).branchings]
    assert derived.statistics().filtered == 4
    assert derived.statistics().events == 6
    assert both.source.statistics().filtered == 0


def test_records_in_arrays_are_judged_as_events_are(both: Both) -> None:
    """Those that pass come side by side."""
    sink = both.far.derive(where=lambda sample: sample.temp > 3).sink(Sample, batch=True)
    rows = np.zeros(10_000, both.source.format.dtype)
    rows["id"], rows["temp"] = np.arange(10_000), np.arange(10_000) % 5
    both.source.wait_matched(1, LIMIT_S)
    both.source.submit_array(rows)
    came: list[Any] = []
    while sum(map(len, came)) < 2000:
        came.append(sink.get(LIMIT_S))
    assert np.array_equal(np.concatenate(came)["id"], rows["id"][rows["temp"] > 3])


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_is_what_a_predicate_lets_pass(both: Both, seed: int) -> None:
    """Events, records and arrays in any order, against `echo.where` and plain Python, one by one."""
    chance = random.Random(seed)
    asked: dict[str, Any] = {"on_change": "id // 4 + seed", "every": 2, "seed": seed} if seed else {}
    expression = "temp > 0 and id % 3 != 1"
    predicate = echo.where(Sample, expression, **asked)
    sink = both.far.derive(where=expression, **asked).sink(Sample)
    both.source.wait_matched(1, LIMIT_S)
    events = [Sample(i, chance.gauss(0, 1)) for i in range(300)]
    passed = [event for event in events if predicate(event)]
    encode = echo.encoder(Sample)
    while events:
        part, events = events[: (count := chance.choice([1, 1, 7, 40]))], events[count:]
        if chance.random() < 0.5:
            both.source.submit_records(b"".join(map(encode, part)))
        else:
            for event in part:
                both.source.submit(event)
    assert [event.id for event in taken(sink, len(passed))] == [event.id for event in passed]
    if not seed:
        assert all(event.temp > 0 and event.id % 3 != 1 for event in passed)
    assert sink.statistics().lost == 0


def test_derived_channels_that_were_given_no_name_are_called_differently(both: Both) -> None:
    """By what they are derived by; equal ones are one channel, at either end."""
    hot, cold = both.far.derive(where="temp > 1"), both.far.derive(where="temp < 1")
    assert hot.name != cold.name
    assert both.far.derive(where="temp > 1").name == hot.name
    assert both.far.derive(where="temp > 2", name="Hot").name == f"{both.far.name}: Hot"


def test_selected_fields_are_events_of_their_own(both: Both) -> None:
    """A class of one's own takes them; so does the one that is made for them."""

    @echo.event
    class Squared:
        id: int
        square: float

    derived = both.far.derive(
        where="temp >= 1", select={"id": "id", "square": "temp * factor"}, name="Squared", factor=2.0
    )
    sink, made = derived.sink(Squared), derived.sink(None)
    both.source.wait_matched(2, LIMIT_S)
    both.source.submit(Sample(1, 0.5))
    both.source.submit(Sample(2, 1.5))
    both.source.submit_array(np.array([(3, 0.0), (4, 2.5)], both.source.format.dtype))
    assert taken(sink, 2) == [Squared(2, 3.0), Squared(4, 5.0)]
    assert [(event.id, event.square) for event in taken(made, 2)] == [(2, 3.0), (4, 5.0)]
    numbers = derived.set(factor=10.0, timeout_s=LIMIT_S)
    assert list(numbers.values()) == [2]
    both.source.submit(Sample(5, 1.0))
    assert taken(sink, 1) == [Squared(5, 10.0)]


def test_fields_alone_are_selected_by_their_names(both: Both) -> None:
    """Without a name for them sinks match by shape."""

    @echo.event
    class OnlyId:
        id: int

    sink = both.far.derive(select=["id"]).sink(OnlyId)
    both.submit([1.0, 2.0])
    assert taken(sink, 2) == [OnlyId(0), OnlyId(1)]


def test_who_has_the_id_gets_the_view_alone(make_node: MakeNode, transport: str) -> None:
    """Neither what was filtered, nor the sources of the base, nor its key."""
    sender, deriver, third = (make_node(transports=[transport]) for _ in range(3))
    near = sender.create_channel("samples", Sample)
    source = near.source()
    hot = deriver.open_channel(near.id).derive(where="temp > 3")
    viewed = third.open_channel(hot.id)
    assert [type_.name for type_ in viewed.types] == ["Sample"]
    sink = viewed.sink(Sample)
    sink.wait_matched(1, LIMIT_S)
    source.wait_matched(1, LIMIT_S)
    for i in range(6):
        source.submit(Sample(i, i))
    assert [event.id for event in taken(sink, 2)] == [4, 5]
    assert near.identity != hot.identity
    with pytest.raises(echo.ChannelError, match="not derived"):
        hot.source(Sample)


def test_what_is_derived_is_derived_from_eight_deep(both: Both) -> None:
    """Each level is judged by itself, and numbers its own; a ninth is refused."""
    channel: echo.Channel[Any] = both.far
    for i in range(MAX_DERIVED_DEPTH):
        channel = channel.derive(where="temp != without", without=float(i))
    sink = channel.sink(Sample)
    both.submit([float(i) for i in range(12)])
    events = [sink.get_with_info(LIMIT_S) for _ in range(4)]
    assert [(event.temp, info.number) for event, info in events] == [(8, 0), (9, 1), (10, 2), (11, 3)]
    with pytest.raises(echo.ChannelError, match="8 deep"):
        channel.derive(where="temp > 1")


def test_sources_that_come_later_are_derived_from_too(both: Both) -> None:
    """With the parameters of now."""
    hot = both.far.derive(where="temp > limit", limit=3.0)
    sink = hot.sink(Sample)
    both.source.wait_matched(1, LIMIT_S)
    hot.set(limit=5.0, timeout_s=LIMIT_S)
    with both.near.source(name="later") as later:
        later.wait_matched(1, LIMIT_S)
        later.submit(Sample(1, 4.0))
        later.submit(Sample(2, 6.0))
        assert taken(sink, 1)[0].id == 2
        assert len(hot.set(limit=0.0, timeout_s=LIMIT_S)) == 2
    until(lambda: sink.statistics().sources == 1, "the derived source to be closed with its own")


def test_equal_derivations_without_parameters_are_one_channel(both: Both) -> None:
    """It is judged once. What can be set is the deriver's own."""
    one, other = (both.far.derive(where="temp > 3") for _ in range(2))
    assert one.identity == other.identity
    assert (
        both.far.derive(where="temp > x", x=3.0).identity != both.far.derive(where="temp > x", x=3.0).identity
    )


def test_a_derivation_ends_when_nobody_takes_it(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the source judges for nobody; who derives it again has it again."""
    for _ in range(2):
        monkeypatch.undo()
        hot = both.far.derive(where="temp > 3")
        sink = hot.sink(Sample)
        both.submit([1.0, 4.0])
        assert taken(sink, 1)[0].id == 1
        hot.close()
        monkeypatch.setattr(derivations, "UNUSED_S", 0.0)
        until(lambda: not origin_of(both.source).branchings, "the branch to end")


def test_a_derivation_outlives_its_deriver_while_a_sink_takes_it(make_node: MakeNode) -> None:
    """The id is all that the sink's process has."""
    sender, deriver, third = (make_node(transports=["unix"]) for _ in range(3))
    near = sender.create_channel("samples", Sample)
    source = near.source()
    hot = deriver.open_channel(near.id).derive(where="temp > 3")
    sink = third.open_channel(hot.id).sink(Sample)
    source.wait_matched(1, LIMIT_S)
    deriver.close()
    source.submit(Sample(7, 4.0))
    assert sink.get(LIMIT_S).id == 7


def test_rejected_events_are_neither_encoded_nor_sent(make_node: MakeNode) -> None:
    """So a wrong value in them, which the condition does not read, goes unnoticed; in one that passes not."""
    sender, receiver = make_node(transports=["unix"]), make_node(transports=["unix"])
    near = sender.create_channel("plain", Plain)
    source = near.source()
    sink = receiver.open_channel(near.id).derive(where="id > 3").sink(Plain)
    source.wait_matched(1, LIMIT_S)
    wrong: Any = "no number"
    [before] = sender.statistics().links
    for _ in range(1000):
        source.submit(Plain(1, wrong))
    [after] = sender.statistics().links
    assert after.sent_frames - before.sent_frames < 500
    with pytest.raises(echo.EncodeError):
        source.submit(Plain(5, wrong))
    source.submit(Plain(6, 1.0))
    assert sink.get(LIMIT_S) == Plain(6, 1.0)
    assert sink.statistics().lost == 0


def test_a_run_time_error_raises_nothing_and_counts_as_filtered(both: Both) -> None:
    """In a condition, and in what is computed."""
    sink = both.far.derive(where="100 // id > 20").sink(Sample)
    computed = both.far.derive(select={"share": "100 // id"}).sink(None)
    both.source.wait_matched(2, LIMIT_S)
    both.submit([0.0] * 6)
    assert [event.id for event in taken(sink, 4)] == [1, 2, 3, 4]
    assert [event.share for event in taken(computed, 5)] == [100, 50, 33, 25, 20]
    until(lambda: (sink.statistics().filtered, computed.statistics().filtered) == (2, 1), "to be told")


def test_a_handler_that_submits_keeps_the_order_of_every_stream(make_node: MakeNode) -> None:
    """What is submitted by a handler of one derived channel follows on the others."""
    node = make_node(transports=["unix"])
    near = node.create_channel("samples", Sample)
    far = make_node(transports=["unix"]).open_channel(near.id)
    first, second = (near.derive(where=f"id < {100 + i}") for i in range(2))
    source = near.source()
    there = far.derive(where="id < 100").sink(Sample), far.derive(where="id < 101").sink(Sample)
    here: list[int] = []

    def answer(event: Sample) -> None:
        if event.id < 10:
            source.submit(Sample(event.id + 10, 0.0))

    near.sink(Sample, answer)
    first.sink(Sample, answer)
    second.sink(Sample, lambda event: here.append(event.id))
    source.wait_matched(5, LIMIT_S)
    for i in range(10):
        source.submit(Sample(i, 0.0))
    for sink in there:
        ids = [event.id for event in taken(sink, 30)]
        assert [it for it in ids if it < 10] == list(range(10))
        assert all(ids.index(i) < ids.index(i + 10) for i in range(10))
    assert sorted(here) == sorted([*range(10), *[i + 10 for i in range(10)] * 2])


def test_versions_and_layouts_are_judged_as_they_lie(make_node: MakeNode) -> None:
    """A renamed, widened field, and a source that lays its events out as another machine."""
    node = make_node(transports=["unix"])
    near = node.create_channel("readings", Reading1)
    far = make_node(transports=["unix"]).open_channel(near.id)
    derived = far.derive(Reading3, where="temp > 3")
    sink = derived.sink(Reading3)
    sources = near.source(Reading1), near.source(Reading2), near.source(Reading1, abi="s390x")
    for source in sources:
        source.wait_matched(1, LIMIT_S)
    for i in range(6):
        sources[0].submit(Reading1(i, i))
        sources[1].submit(Reading2("", i, 10 + i))
        sources[2].submit(Reading1(20 + i, i))
    assert sorted(event.id for event in taken(sink, 6)) == [4, 5, 14, 15, 24, 25]


def test_events_of_varying_size_are_derived(make_node: MakeNode) -> None:
    """By text, with fields taken over that vary themselves."""
    node = make_node(transports=["unix"])
    near = node.create_channel("stories", Story)
    far = make_node(transports=["unix"]).open_channel(near.id)
    sink = far.derive(where="title.startswith('a') and len(body) > 1", select=["id", "title", "tags"]).sink(
        None
    )
    source = near.source()
    source.wait_matched(1, LIMIT_S)
    for i, title in enumerate(["ab", "b", "ac" * 3000]):
        source.submit(Story(i, title, b"12", np.zeros(3, np.float32), ["x", title]))
    assert [(it.id, it.title, it.tags) for it in taken(sink, 2)] == [
        (0, "ab", ["x", "ab"]),
        (2, "ac" * 3000, ["x", "ac" * 3000]),
    ]


def test_a_peer_may_ask_for_fields_that_vary_where_they_did_not(make_node: MakeNode) -> None:
    """A text of the derived format may be one of fixed size at the source, also in an array."""

    @echo.event
    class Fixed:
        id: int
        tag: echo.Chars[8]

    @echo.event
    class Varying:
        id: int
        tag: str

    record = echo.format_of(Fixed).record
    asked = deriving.derive(record, select=["id", "tag"], parameters={}).derivation
    asked = replace(asked, output=echo.format_of(Varying))
    near = make_node().create_channel("fixed", Fixed)
    base = membership_of(near)
    told = Derive(0, bytes(16), "varying", asked.to_bytes())
    with books.changing():
        child = derivations.derive(base, told, asked)
    view = make_node(transports=["unix"]).open_channel(channel_id(child))
    sink = view.sink(Varying)
    source = near.source()
    source.wait_matched(1, LIMIT_S)
    source.submit_array(np.array([(1, b"a"), (2, b"bcd")], source.format.dtype))
    source.submit(Fixed(3, "efg"))
    assert taken(sink, 3) == [Varying(1, "a"), Varying(2, "bcd"), Varying(3, "efg")]


def membership_of(channel: echo.Channel[Any]) -> Membership:
    return channel._membership  # pyright: ignore[reportPrivateUsage]


def channel_id(child: Membership) -> str:
    with books.changing():
        return str(presence.invitation(child))


def test_nothing_is_left_of_what_was_derived(make_node: MakeNode) -> None:
    """Channels, links, threads and descriptors, whoever closes first."""
    before = settled_census()
    for i in range(3):
        sender, receiver = echo.Node(transports=["unix"]), echo.Node(transports=["unix"])
        both = Both((sender, receiver))
        hot = both.far.derive(where="temp > limit", limit=1.0)
        sink = hot.derive(select=["id"]).sink(None)
        both.submit([0.0, 2.0])
        assert sink.get(LIMIT_S).id == 1
        for each in [(hot, both.source), (both.source, hot), ()][i]:
            each.close()
        first, last = (sender, receiver) if i % 2 else (receiver, sender)
        first.close()
        last.close()
        del both, hot, sink, sender, receiver, first, last
    assert left_behind(before) == ""


# ---------------------------------------------------------------------------
# Parameters


class Judged:
    """Which events have come under which number, and which parameter counted from which number on."""

    def __init__(self) -> None:
        self.came: deque[tuple[int, int]] = deque()
        self.changes: list[tuple[int, int]] = [(0, 0)]

    def take(self, event: Sample, info: echo.EventInfo) -> None:
        self.came.append((info.number, event.id))

    def demand_exact(self) -> None:
        """Each event was judged by what counted at its number."""
        changes = iter(pairwise([*self.changes, (2**63, -1)]))
        (_, wanted), (until_number, _) = next(changes)
        for i, (number, id_) in enumerate(self.came):
            assert number == i
            while number >= until_number:
                (_, wanted), (until_number, _) = next(changes)
            assert id_ % 10 == wanted


@pytest.fixture
def stop(both: Both) -> Iterator[Callable[[], None]]:
    """Of a thread that submits until then."""
    is_over = threading.Event()

    def submit() -> None:
        i = 0
        while not is_over.is_set():
            both.source.submit(Sample(i, 0.0))
            i += 1

    def end() -> None:
        is_over.set()
        thread.join()

    thread = threading.Thread(target=submit)
    thread.start()
    yield end
    end()


def test_parameters_change_exactly_between_two_events(both: Both, stop: Callable[[], None]) -> None:
    """Under load, over every transport: the number that `set` returns says from which event on they count."""
    judged = Judged()
    hot = both.far.derive(where="id % 10 == wanted", wanted=0)
    hot.sink(Sample, judged.take)
    until(lambda: len(judged.came) > 0, "an event")
    for i in range(1, 101):
        [number] = hot.set(wanted=i % 10, timeout_s=LIMIT_S).values()
        judged.changes.append((number, i % 10))
    stop()
    both.source.flush(LIMIT_S)
    judged.demand_exact()


def test_parameters_change_while_the_sink_has_a_full_queue(make_node: MakeNode) -> None:
    """The answer does not wait for events that wait for who asks."""
    near = make_node(transports=["unix"]).create_channel("samples", Sample)
    far = make_node(transports=["unix"], limits=echo.Limits(window_events=64)).open_channel(near.id)
    hot = far.derive(where="temp > limit", limit=0.0)
    sink = hot.sink(Sample, backlog=echo.Backlog(events=64))
    with near.source(backlog=echo.Backlog(events=10_000)) as source:
        source.wait_matched(1, LIMIT_S)
        for i in range(1000):
            source.submit(Sample(i, 1.0))
        assert sink.statistics().events < 1000
        assert list(hot.set(limit=2.0, timeout_s=LIMIT_S).values()) == [1000]
        assert [event.id for event in taken(sink, 1000)] == list(range(1000))


def test_ten_thousand_changes_are_each_exact(make_node: MakeNode) -> None:
    """Between any two events, at the very next one."""
    near = make_node().create_channel("samples", Sample)
    hot = near.derive(where="id % 10 == wanted", wanted=0)
    judged = Judged()
    hot.sink(Sample, judged.take)
    source = near.source()
    for i in range(10_000):
        [number] = hot.set(wanted=i % 10).values()
        judged.changes.append((number, i % 10))
        source.submit(Sample(i, 0.0))
        source.submit(Sample(i + 1, 0.0))
    assert len(judged.came) == 10_000
    judged.demand_exact()


@pytest.mark.parametrize("where", ["id == wanted", "id % 10 == wanted"])
def test_ten_thousand_changes_among_many_of_one_shape_are_each_exact(make_node: MakeNode, where: str) -> None:
    """Where a table judges for all of them: as ever the very next event, and no other derivation's."""
    near = make_node().create_channel("samples", Sample)
    made = [near.derive(where=where, wanted=i) for i in range(10)]
    judged = [Judged() for _ in made]
    for derived, each in zip(made, judged, strict=True):
        derived.sink(Sample, each.take)
        each.changes[:] = [(0, made.index(derived))]
    source = near.source()
    source.submit(Sample(11, 0.0))
    assert background.drain(LIMIT_S)
    for i in range(10_000):
        wanted = (i + i // 10) % 10
        [number] = made[i % 10].set(wanted=wanted).values()
        judged[i % 10].changes.append((number, wanted))
        source.submit(Sample(i * 3 % 10, 0.0))
    assert all(len(each.came) > 100 for each in judged)
    for each in judged:
        each.demand_exact()
    assert len(origin_of(source).outlet.branches) == 1


@dataclass(slots=True)
class Tagged:
    id: int
    name: str = ""
    tag: echo.Chars[4] = ""
    data: bytes = b""


@pytest.mark.parametrize("field", ["name", "tag", "data"])
def test_texts_of_many_receivers_are_found_by_an_index(make_node: MakeNode, field: str) -> None:
    """Here and elsewhere, from objects as from records, also while what they ask for changes."""
    near = make_node(transports=["unix"]).create_channel("tagged", Tagged)
    far = make_node(transports=["unix"]).open_channel(near.id)

    def value_of(number: int) -> Any:
        text = "é" * (number % 2) + str(number % 5)
        return text.encode() if field == "data" else text

    made = [
        (near, far)[i % 2].derive(Tagged, where=f"{field} == wanted", wanted=value_of(i)) for i in range(10)
    ]
    sinks = [derived.sink(Tagged) for derived in made]
    source = near.source()
    source.wait_matched(len(sinks), LIMIT_S)
    [fan] = origin_of(source).outlet.branches
    assert isinstance(fan, links.Fan)
    wanted: list[list[int]] = [[] for _ in sinks]
    for i in range(300):
        if i == 100:
            assert background.drain(LIMIT_S)  # by compiled code from here on
        if i in (50, 200):
            made[3].set(wanted=value_of(i), timeout_s=LIMIT_S)
        source.submit(Tagged(i, **{field: value_of(i)}))
        for number, its in enumerate(wanted):
            asked = number if number != 3 or i < 50 else 50 if i < 200 else 200
            if value_of(asked) == value_of(i):
                its.append(i)
    for sink, its in zip(sinks, wanted, strict=True):
        assert [event.id for event in taken(sink, len(its))] == its


def test_parameters_that_are_none_are_refused(both: Both) -> None:
    """Nothing is changed then."""
    hot = both.far.derive(where="temp > limit", limit=3.0)
    with pytest.raises(echo.ExpressionError, match="a parameter of limit, got `limt`"):
        hot.set(limt=4.0)
    with pytest.raises(echo.ExpressionError, match="as `limit`"):
        hot.set(limit="high")
    assert hot.parameters == {"limit": 3.0}
    assert hot.set(limit=4) is not None
    assert hot.parameters == {"limit": 4.0}


def test_nothing_to_derive_is_an_error(both: Both) -> None:
    """As is an expression that does not fit, and a channel without a type."""
    with pytest.raises(echo.ExpressionError, match="a condition, a rate or fields"):
        both.far.derive()
    with pytest.raises(echo.ExpressionError, match="is `temp` meant"):
        both.far.derive(where="tmp > 3")
    with pytest.raises(echo.ChannelError, match="a class for"):
        both.sender.create_channel("any").derive(where="x > 1")
    both.far.close()
    with pytest.raises(echo.ClosedError):
        both.far.derive(where="temp > 1")


def test_a_channel_stays_open_while_what_is_derived_from_it_is(make_node: MakeNode) -> None:
    """The handle of the base may be closed before."""
    near = make_node(transports=["unix"]).create_channel("samples", Sample)
    node = make_node(transports=["unix"])
    far = node.open_channel(near.id)
    hot = far.derive(where="temp > limit", limit=1.0)
    far.close()
    sink = hot.sink(Sample)
    source = near.source()
    source.wait_matched(1, LIMIT_S)
    hot.set(limit=2.0, timeout_s=LIMIT_S)
    source.submit(Sample(1, 1.5))
    source.submit(Sample(2, 2.5))
    assert sink.get(LIMIT_S).id == 2
    hot.close()
    until(lambda: node.statistics().channels <= 1, "the base to be left")


def test_a_derived_channel_that_is_being_closed_is_derived_again(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever derives it waits until it is left, and has an open one."""
    near = make_node(transports=["unix"]).create_channel("samples", Sample)
    node = make_node(transports=["unix"])
    viewed = node.open_channel(near.derive(where="temp > 0").id)
    closed, may_end = membership_of(viewed), threading.Event()
    end = ending.end

    def end_late(membership: Membership, *rest: Any) -> None:
        if membership is closed and closed.is_closing:
            may_end.wait(LIMIT_S)
        end(membership, *rest)

    monkeypatch.setattr(ending, "end", end_late)
    closing = threading.Thread(target=viewed.close)
    closing.start()
    until(lambda: closed.is_closing, "the channel to be closing")
    base = node.open_channel(near.id)
    threading.Timer(0.1, may_end.set).start()
    again = base.derive(Sample, where="temp > 0")
    assert membership_of(again) is not closed
    sink = again.sink(Sample)
    closing.join()
    with near.source() as source:
        source.wait_matched(1, LIMIT_S)
        source.submit(Sample(2, 1.0))
        assert sink.get(LIMIT_S).id == 2


def test_an_interrupt_while_a_channel_is_derived_leaves_no_handle(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the base ends with the handle that the caller has."""
    channel = make_node(transports=["unix"]).create_channel("samples", Sample)
    base = membership_of(channel)

    def interrupt(_: Membership) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(derivations, "tell_who_is_missing", interrupt)
        with pytest.raises(KeyboardInterrupt):
            channel.derive(where="temp > 1")
    assert base.handles == 1
    assert [child.handles for child in base.derived.values()] == [1]
    channel.close()
    assert base.is_closing


def test_what_is_filtered_is_counted_once_where_a_link_comes_back(make_node: MakeNode) -> None:
    """A link that is new counts what does not pass from then on."""
    both = Both((make_node(transports=["unix"]), make_node(transports=["unix"])))
    hot = both.far.derive(where="temp > 3")
    sink = hot.sink(Sample)
    both.submit([1.0] * 10)
    until(lambda: sink.statistics().filtered == 10, "what was filtered to be told")
    derived = membership_of(hot)
    [before] = derived.incoming
    before.link.shut()
    until(lambda: before not in derived.incoming, "the link to be lost")
    until(lambda: len(derived.incoming) == 1, "the link to be back")
    both.submit([1.0, 1.0, 4.0])
    until(lambda: sink.statistics().filtered >= 12, "what was filtered to be told")
    assert sink.get(LIMIT_S).temp == 4.0
    assert sink.statistics().filtered == 12


def test_an_interrupt_while_derived_sources_are_closed_leaves_none(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were not at it yet are closed at once."""
    both = Both((make_node(transports=["unix"]), make_node(transports=["unix"])))
    for i in range(3):
        both.far.derive(where="temp > x", x=float(i)).sink(Sample)
    both.source.wait_matched(3, LIMIT_S)
    derived = list(membership_of(both.near).derived.values())
    assert [len(child.origins) for child in derived] == [1, 1, 1]
    calls = 0
    drained = OutgoingStream.drain

    def interrupt(stream: OutgoingStream, timeout_ns: int) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        return drained(stream, timeout_ns)

    monkeypatch.setattr(OutgoingStream, "drain", interrupt)
    with pytest.raises(KeyboardInterrupt):
        both.source.close()
    assert [len(child.origins) for child in derived] == [0, 0, 0]


def test_the_numbers_of_a_change_are_never_those_of_a_later_one(both: Both) -> None:
    """A source that judges by what was set after it is left out."""
    hot = both.far.derive(where="temp > limit", limit=3.0)
    hot.sink(Sample)
    both.source.wait_matched(1, LIMIT_S)
    descent = membership_of(hot).descent
    assert descent is not None
    assert len(hot.set(limit=4.0, timeout_s=LIMIT_S)) == 1
    first = descent.epoch
    assert len(dict(numbers_of(hot, first))) == 1
    hot.set(limit=5.0, timeout_s=LIMIT_S)
    assert dict(numbers_of(hot, first)) == {}


def numbers_of(hot: DerivedChannel, epoch: derivations.Epoch) -> Iterator[tuple[str, int]]:
    return hot._numbers(epoch)  # pyright: ignore[reportPrivateUsage]


def test_who_comes_is_not_told_of_what_nobody_takes(make_node: MakeNode) -> None:
    """Else it would count its time anew, and what the dead have derived would stay."""
    near, far, third = (make_node(transports=["unix"]) for _ in range(3))
    channel = near.create_channel("samples", Sample)
    source = channel.source()
    deriver = far.open_channel(channel.id)
    hot = deriver.derive(where="temp > 3")
    with hot.sink(Sample):
        source.wait_matched(1, LIMIT_S)
    hot.close()
    [child] = channel._membership.derived.values()  # pyright: ignore[reportPrivateUsage]
    until(lambda: not child.attendance.is_taken, "the receiver to be gone")
    opened = third.open_channel(channel.id)
    late = opened.source(Sample)
    until(lambda: channel.statistics().remote_sources == 1, "the newcomer")
    channel.sink(Sample)
    late.wait_matched(1, LIMIT_S)
    assert not opened._membership.derived  # pyright: ignore[reportPrivateUsage]
    assert late.wanted.fields == {field.name for field in echo.format_of(Sample).fields}
    again = deriver.derive(where="temp > 3")
    again.sink(Sample)
    late.wait_matched(2, LIMIT_S)
    source.wait_matched(2, LIMIT_S)


def test_each_judges_once_whether_it_is_the_first_to_let_an_event_pass(make_node: MakeNode) -> None:
    """What is remembered advances once for each event, beside others that need its record."""
    channel = make_node().create_channel("samples", Sample)
    source = channel.source()
    counts = [7, 3, 5, 2]
    came: list[list[Any]] = [[] for _ in counts]
    for each, count in zip(came, counts, strict=True):
        derived = channel.derive(where=f"count() % {count} == {count - 1}", every=2)
        derived.sink(None, each.append)
    selected = channel.derive(where="count() % 4 == 3", select=["id"])
    rows: list[int] = []
    selected.sink(None, lambda event: rows.append(event.id))
    for i in range(100):
        source.submit(Sample(i, 0.0))
    for each, count in zip(came, counts, strict=True):
        assert [event.id for event in each] == [i for i in range(100) if i % count == count - 1][::2]
    assert rows == [i for i in range(100) if i % 4 == 3]
    assert source.statistics().events == 100
