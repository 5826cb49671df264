"""Types on channels are what they are called."""

from __future__ import annotations

import dataclasses
import gc
import logging
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.roster.bookkeeping import books
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector, opened

Pair = tuple[echo.Node, echo.Node]


@echo.event
class Motor:
    speed: float
    current: float = 0.0


@echo.event
class Alarm:
    """Whose fields all have defaults."""

    level: int = 0
    text: str = ""


@echo.event
class Heartbeat:
    """With a field that motors have, too."""

    speed: float = 0.0


def renamed(cls: type[Any], name: str, *aliases: str) -> type[Any]:
    """A class of the same fields and another name."""
    fields = dataclasses.fields(cls)
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    hints = {field.name: field.type for field in fields}
    made = type(name, (), {"__annotations__": hints, "__module__": __name__, **defaults})
    return echo.event(aliases=aliases)(made)


def sources_are_known(channel: echo.Channel[Any], count: int) -> None:
    """On this node, of other processes or this one."""
    notices = Collector()
    with channel.watch(notices):
        while sum(isinstance(notice, echo.SourceOpened) for notice in notices.events) < count:
            notices.wait(len(notices.events) + 1)


# ---------------------------------------------------------------------------------------------------
# By name


def test_sink_takes_nothing_of_another_type_although_all_its_fields_have_defaults(pair: Pair) -> None:
    """Nor of one whose fields convert."""
    here, there = opened(pair)
    alarms, beats = Collector(), Collector()
    there.sink(Alarm, alarms)
    there.sink(Heartbeat, beats)
    motors = there.sink(Motor)
    source = here.source(Motor)
    source.wait_matched()
    source.submit(Motor(3.0))
    assert motors.get(LIMIT_S) == Motor(3.0)
    source.flush(LIMIT_S)
    assert source.sinks == 1
    assert (alarms.events, beats.events) == ([], [])


def test_type_of_another_name_is_no_business_of_a_sink(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """On a channel without types: no refusal, no warning, no notice."""
    here, there = opened(pair)
    notices = Collector()
    there.watch(notices)
    source, sink = here.source(Motor), there.sink(Alarm)
    sources_are_known(there, 1)
    assert not sink.refusals
    with pytest.raises(echo.TimedOutError):
        source.wait_matched(1, 0.0)
    books.settle(LIMIT_S)
    assert not [notice for notice in notices.events if isinstance(notice, echo.Unreachable)]
    assert not caplog.records


def test_sink_takes_what_is_called_as_a_former_name_of_its_class(pair: Pair) -> None:
    here, there = opened(pair)
    drive = renamed(Motor, "Drive", "Motor")
    source, sink = here.source(Motor), there.sink(drive)
    source.wait_matched()
    source.submit(Motor(2.0, 1.0))
    assert sink.get(LIMIT_S) == drive(2.0, 1.0)


def test_sink_takes_what_was_once_called_as_its_class(pair: Pair) -> None:
    here, there = opened(pair)
    drive = renamed(Motor, "Drive", "Motor")
    source, sink = here.source(drive), there.sink(Motor)
    source.wait_matched()
    source.submit(drive(2.0, 1.0))
    assert sink.get(LIMIT_S) == Motor(2.0, 1.0)


def test_event_is_known_by_the_name_that_it_is_given(pair: Pair) -> None:
    @echo.event(name="Motor")
    class Engine:
        speed: float

    here, there = opened(pair)
    source, sink = here.source(Motor), there.sink(Engine)
    source.wait_matched()
    source.submit(Motor(2.0))
    assert sink.get(LIMIT_S) == Engine(2.0)


def test_dataclass_is_known_by_the_names_that_it_is_given(pair: Pair) -> None:
    @echo.named("Engine", aliases=("Motor",))
    @dataclass
    class Plain:
        speed: float

    here, there = opened(pair)
    source, sink = here.source(Motor), there.sink(Plain)
    source.wait_matched()
    source.submit(Motor(2.0))
    assert sink.get(LIMIT_S) == Plain(2.0)


def test_types_that_were_one_before_it_was_split_are_two(pair: Pair) -> None:
    """Their aliases are the same; names have to meet names."""
    pump, valve = renamed(Motor, "Pump", "Motor"), renamed(Motor, "Valve", "Motor")
    here, there = opened(pair)
    here.source(pump)
    sink = there.sink(valve)
    sources_are_known(there, 1)
    assert sink.sources == 0


def test_names_need_a_common_field(pair: Pair) -> None:
    @echo.event(name="Motor")
    class Other:
        state: int = 0

    here, there = opened(pair)
    here.source(Motor)
    sink = there.sink(Other)
    with pytest.raises(echo.IncompatibleError, match="no field of one is a field of the other"):
        sink.wait_matched(1, LIMIT_S)
    assert [report.sender for report in sink.refusals] == ["Motor"]


def test_two_sources_of_one_name_may_have_two_shapes(pair: Pair) -> None:
    """The sink refuses one of them and takes the other."""

    @echo.event(name="Motor")
    class Other:
        speed: str

    here, there = opened(pair)
    sink = there.sink(Motor)
    good, bad = here.source(Motor), here.source(Other)
    good.wait_matched()
    with pytest.raises(echo.IncompatibleError):
        bad.wait_matched(1, LIMIT_S)
    good.submit(Motor(1.0))
    assert sink.get(LIMIT_S) == Motor(1.0)
    assert len(sink.refusals) == 1


def test_sink_of_anything_takes_every_name(pair: Pair) -> None:
    here, there = opened(pair)
    sink = there.sink(None)
    for event in (Motor(1.0), Alarm(1, "x")):
        source: echo.Source[Any] = here.source(type(event))
        source.wait_matched()
        source.submit(event)
        assert type(sink.get(LIMIT_S)).__name__ == type(event).__name__


# ---------------------------------------------------------------------------------------------------
# By shape


def test_shape_alone_decides_where_it_is_asked_for(pair: Pair) -> None:
    here, there = opened(pair)
    source, sink = here.source(Motor), there.sink(Heartbeat, match="shape")
    source.wait_matched()
    source.submit(Motor(2.0))
    assert sink.get(LIMIT_S) == Heartbeat(2.0)


def test_shape_that_is_asked_for_has_to_fit(pair: Pair) -> None:
    here, there = opened(pair)
    here.source(Motor)
    sink = there.sink(Alarm, match="shape")
    with pytest.raises(echo.IncompatibleError, match="no field of one is a field of the other"):
        sink.wait_matched(1, LIMIT_S)


def test_match_is_by_name_or_by_shape(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x")
    wrong: Any = "size"
    with pytest.raises(echo.ChannelError, match="one of name, shape as match, got 'size'"):
        channel.sink(Motor, match=wrong)


def test_numpy_records_without_a_name_are_known_by_their_shape(pair: Pair) -> None:
    here, there = opened(pair)
    dtype = np.dtype([("speed", "<f8"), ("current", "<f8")])
    source = here.source(echo.Format.from_dtype(dtype))
    motors, alarms = there.sink(Motor), there.sink(Alarm)
    source.wait_matched()
    source.submit_array(np.array([(1.0, 2.0)], dtype))
    assert motors.get(LIMIT_S) == Motor(1.0, 2.0)
    with pytest.raises(echo.IncompatibleError):
        alarms.wait_matched(1, LIMIT_S)


def test_numpy_records_with_a_name_are_known_by_it(pair: Pair) -> None:
    here, there = opened(pair)
    dtype = np.dtype([("speed", "<f8")])
    here.source(echo.Format.from_dtype(dtype, name="Pump"))
    sink = there.sink(Motor)
    sources_are_known(there, 1)
    assert (sink.sources, sink.refusals) == (0, ())


def test_c_struct_is_known_by_its_name(pair: Pair) -> None:
    here, there = opened(pair)
    source = here.source(echo.Format.from_c("struct Motor { double speed; };"))
    sink = there.sink(Motor)
    source.wait_matched()
    source.submit_records(np.array([4.0]).tobytes())
    assert sink.get(LIMIT_S) == Motor(4.0)


def test_class_that_was_made_for_a_format_has_its_name(pair: Pair) -> None:
    """A relay's sink of a reflected class takes what the class was made for, and nothing else."""
    here, there = opened(pair)
    made = echo.Format.from_metadata(echo.format_of(Motor).metadata).record_class()
    sink = there.sink(made)
    source, other = here.source(Motor), here.source(Heartbeat)
    source.wait_matched()
    source.submit(Motor(5.0))
    assert sink.get(LIMIT_S).speed == 5.0
    with pytest.raises(echo.TimedOutError):
        other.wait_matched(1, 0.0)


# ---------------------------------------------------------------------------------------------------
# Who waits in vain is told


def test_who_waits_for_a_type_of_another_name_is_told_what_there_is(pair: Pair) -> None:
    here, there = opened(pair)
    here.source(Motor, name="pump")
    here.source(Heartbeat)
    sink = there.sink(Alarm)
    sources_are_known(there, 2)
    said = r"are 0 \(not called `Alarm`: `Motor` by `pump` of .+, `Heartbeat` by `Heartbeat` of .+\) within"
    with pytest.raises(echo.TimedOutError, match=said):
        sink.wait_matched(1, 0.01)


def test_who_waits_in_vain_is_told_of_some_of_many_sources(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x")
    kept = [channel.source(Motor, name=f"motor{i}") for i in range(100)]
    sink = channel.sink(Alarm)
    with pytest.raises(echo.TimedOutError, match="`motor3` of this process and 96 more"):
        sink.wait_matched(1, 0.01)
    assert len(kept) == 100


def test_type_of_a_similar_name_is_logged_once(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    here, there = opened(pair)
    motorr = renamed(Motor, "Motorr")
    there.sink(motorr)
    kept = [here.source(Motor, name="pump") for _ in range(2)]
    sources_are_known(there, 2)
    said = "a sink of `Motorr` takes nothing of `pump` of"
    assert len([line for line in caplog.messages if said in line]) == 1
    assert "whose events are called `Motor`" in caplog.text
    assert len(kept) == 2


def test_types_of_one_channel_may_have_similar_names(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """It was declared with both: neither is the other one misspelt."""
    motorr = renamed(Motor, "Motorr")
    channel = make_node().create_channel("x", Motor, motorr)
    sink = channel.sink(motorr)
    source = channel.source(Motor)
    with pytest.raises(echo.TimedOutError):
        sink.wait_matched(1, 0.01)
    assert "takes nothing" not in caplog.text
    source.close()


# ---------------------------------------------------------------------------------------------------
# Fields that look alike


@echo.event(name="Motor")
class Misspelled:
    speed: float
    curent: float = 0.0


def test_default_of_a_misspelled_field_is_said_once(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """In the log, to who watches, and by the sink itself, with both names."""
    here, there = opened(pair)
    notices = Collector()
    there.watch(notices)
    sink = there.sink(Motor)
    kept = [here.source(Misspelled, name="pump") for _ in range(2)]
    sources_are_known(there, 2)
    sink.wait_matched(2, LIMIT_S)
    books.settle(LIMIT_S)
    told = [notice for notice in notices.events if isinstance(notice, echo.LookalikeField)]
    assert [(notice.source, notice.field, notice.lookalike) for notice in told] == [
        ("pump", "Motor.current", "curent")
    ]
    said = [line for line in caplog.messages if "`Motor.current` takes its default" in line]
    assert len(said) == 1
    assert "has `curent` instead, which is ignored" in said[0]
    assert caplog.records[0].levelno == logging.WARNING
    (report,) = sink.comparisons
    assert [(entry.path, entry.lookalike) for entry in report.lookalikes] == [("Motor.current", "curent")]
    assert len(kept) == 2


def test_strict_sink_refuses_a_misspelled_field(pair: Pair) -> None:
    here, there = opened(pair)
    source = here.source(Misspelled)
    sink = there.sink(Motor, strict=True)
    with pytest.raises(echo.IncompatibleError, match=r"Motor\.current.*`curent`, which is ignored"):
        sink.wait_matched(1, LIMIT_S)
    with pytest.raises(echo.IncompatibleError, match=r"Motor\.current.*`curent`, which is ignored"):
        source.wait_matched(1, LIMIT_S)
    assert [entry.lookalike for entry in sink.refusals[0].refused] == ["curent"]


def test_strict_sink_is_refused_by_a_channel_of_a_misspelled_type(pair: Pair) -> None:
    _, there = opened(pair, Misspelled)
    with pytest.raises(echo.IncompatibleError, match=r"`curent`, which is ignored"):
        there.sink(Motor, strict=True)


def test_strict_sink_takes_what_was_spelled_well(pair: Pair) -> None:
    """Other defaults are no mistake."""

    @echo.event(name="Motor")
    class More:
        speed: float
        state: int = 7

    here, there = opened(pair)
    source, sink = here.source(Motor), there.sink(More, strict=True)
    source.wait_matched()
    source.submit(Motor(1.0, 2.0))
    assert sink.get(LIMIT_S) == More(1.0, 7)


def test_comparisons_are_with_the_formats_that_feed_a_sink(pair: Pair) -> None:
    """Each once; those of sources that are gone are not kept."""
    here, there = opened(pair)
    sink = there.sink(Motor)
    first, second, other = here.source(Motor), here.source(Motor), here.source(Misspelled)
    sink.wait_matched(3, LIMIT_S)
    assert len(sink.comparisons) == 2
    assert all(report.is_accepted for report in sink.comparisons)
    for source in (first, second, other):
        source.close()
    books.wait_for(lambda: not sink.sources, LIMIT_S, lambda: "sources to go")
    assert not sink.comparisons


def test_lookalikes_that_are_told_are_bounded(make_node: MakeNode, caplog: pytest.LogCaptureFixture) -> None:
    """A peer may offer any number of formats."""
    channel = make_node().create_channel("x")
    wide = echo.Format.from_dtype(np.dtype([("id", "<f8"), *((f"velue{i}", "<f8") for i in range(200))]))
    names = {f"value{i}": 0.0 for i in range(200)}
    fields = {"id": float, **dict.fromkeys(names, float)}
    cls: Any = echo.event(type("Many", (), {"__annotations__": fields, "__module__": __name__, **names}))
    channel.sink(cls)
    kept = channel.source(wide)
    assert kept.sinks == 1
    assert len([line for line in caplog.messages if "takes its default" in line]) == 64


# ---------------------------------------------------------------------------------------------------
# Channels that were declared with types


def test_sink_of_another_name_is_refused_with_the_names_and_ways_out(pair: Pair) -> None:
    _, there = opened(pair, Motor)
    with pytest.raises(echo.IncompatibleError) as caught:
        there.sink(Heartbeat)
    assert "Expected a type of channel `test`: `Motor`, got `Heartbeat`" in str(caught.value)
    assert "`@echo.event(aliases=('Motor',))`" in str(caught.value)
    assert 'match="shape"' in str(caught.value)
    there.sink(Heartbeat, match="shape")
    there.sink(renamed(Motor, "Drive", "Motor"))


def test_source_of_another_name_is_refused_with_the_names(pair: Pair) -> None:
    _, there = opened(pair, Motor)
    with pytest.raises(echo.IncompatibleError, match=r"channel `test`: `Motor`, got `Heartbeat`"):
        there.source(Heartbeat)


def test_source_without_a_class_is_refused_where_there_are_several_types(pair: Pair) -> None:
    here, there = opened(pair, Motor, Alarm)
    for channel in (here, there):
        with pytest.raises(echo.ChannelError, match="one of the types of channel `test`: `Motor`, `Alarm`"):
            channel.source()


def test_sink_is_not_told_of_the_other_types_of_its_channel(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither by refusals nor in the log, whoever came first."""
    here, there = opened(pair, Motor, Alarm, Heartbeat)
    before = there.sink(Alarm)
    kept: list[echo.Source[Any]] = [here.source(Motor), here.source(Heartbeat)]
    sources_are_known(there, 2)
    after = there.sink(Alarm)
    assert (before.refusals, after.refusals) == ((), ())
    assert not caplog.records
    assert len(kept) == 2


def test_channel_takes_both_versions_of_a_type_whichever_it_was_declared_with(pair: Pair) -> None:
    """The creator's version does not pin the channel: here one side requires what the other does not have."""

    @echo.event(name="Motor")
    class More:
        speed: float
        state: int

    for created, other in ((Motor, More), (More, Motor)):
        _, there = opened(pair, created)
        for cls in (created, other):
            there.source(cls)
            there.sink(cls)


def test_channel_refuses_what_converts_in_no_direction(pair: Pair) -> None:
    @echo.event(name="Motor")
    class Other:
        speed: str

    _, there = opened(pair, Motor)
    for make in (there.source, there.sink):
        with pytest.raises(echo.IncompatibleError, match="fits channel `test` of `Motor`"):
            make(Other)


# ---------------------------------------------------------------------------------------------------
# Classes that were declared again


def again(cls: type[Any]) -> type[Any]:
    """What a notebook's cell makes that is run once more."""
    return renamed(cls, cls.__name__)


def test_class_that_was_declared_again_is_the_same_to_its_sinks(pair: Pair) -> None:
    """They get events of the class that they asked for."""
    here, there = opened(pair, Motor)
    before = there.sink(Motor)
    newer = again(Motor)
    source = here.source(newer)
    source.wait_matched()
    source.submit(newer(1.0, 2.0))
    event = before.get(LIMIT_S)
    assert (type(event), event) == (Motor, Motor(1.0, 2.0))


def test_class_that_was_declared_again_is_the_same_to_its_sources(pair: Pair) -> None:
    """Sinks by reference get instances of their class, too; each of the two classes may come at any time."""
    here, there = opened(pair, Motor)
    source = here.source()
    sinks: list[echo.Sink[Any]] = [there.sink(Motor), here.sink(Motor)]
    source.wait_matched(2)
    newer, newest = again(Motor), again(Motor)
    for i, cls in enumerate((newer, Motor, newest, newer)):
        source.submit(cls(float(i)))
        for sink in sinks:
            event = sink.get(LIMIT_S)
            assert (type(event), event) == (Motor, Motor(float(i)))
    assert source.statistics().events == 4


def test_class_that_was_declared_again_otherwise_is_refused(make_node: MakeNode) -> None:
    @echo.event(name="Motor")
    class Other:
        speed: float

    source = make_node().create_channel("x").source(Motor)
    for event in (Other(1.0), renamed(Motor, "Drive")(1.0), 5, None):
        with pytest.raises(echo.EncodeTypeError):
            source.submit(event)  # type: ignore[arg-type]  # pyright: ignore
    assert source.statistics().events == 0


def test_dataclass_with_lists_that_was_declared_again_is_the_same(make_node: MakeNode) -> None:
    def declared() -> type[Any]:
        @dataclass
        class Story:
            title: str
            tags: list[str]

        return Story

    first, second = declared(), declared()
    channel = make_node().create_channel("x", first)
    source, sink = channel.source(), channel.sink(first)
    source.submit(second("a", ["b", "c"]))
    assert sink.get(LIMIT_S) == first("a", ["b", "c"])


def test_values_of_a_class_that_was_declared_again_are_checked(make_node: MakeNode) -> None:
    def declared() -> type[Any]:
        @dataclass
        class Level:
            level: echo.Int8

        return Level

    first, second = declared(), declared()
    channel = make_node().create_channel("x", first)
    source, sink = channel.source(), channel.sink(first)
    with pytest.raises(echo.EncodeError, match=r"Level\.level"):
        source.submit(second(1000))
    source.submit(second(100))
    assert sink.get(LIMIT_S) == first(100)


def test_source_keeps_one_class_that_was_declared_again(make_node: MakeNode) -> None:
    """A cell may be run any number of times."""
    source = make_node().create_channel("x").source(Motor)
    classes: list[weakref.ref[type[Any]]] = []
    for _ in range(20):
        cls = again(Motor)
        source.submit(cls(1.0))
        classes.append(weakref.ref(cls))
    gc.collect()
    assert sum(kept() is not None for kept in classes) <= 2
