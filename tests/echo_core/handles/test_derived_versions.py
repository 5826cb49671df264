"""What is derived from sources of several versions: defaults, former names, wider types, what is lacking."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor


@echo.event(name="Shot")
class First:
    id: echo.Int32


@echo.event(name="Shot")
class Second:
    id: int
    temp: echo.Float32


@echo.event(name="Shot")
class Newest:
    """Renamed and widened, with a field that has a default."""

    number: int = echo.field(aliases=("id",))
    heat: float = echo.field(aliases=("temp",))
    humidity: float = 0.5


@echo.event(name="Shot")
class Selected:
    number: int
    humidity: float


@echo.event(name="Shot")
class Textual:
    id: int
    temp: str


class Three:
    """Sources on one node, who derives on another, and on a third one who has the derived id alone."""

    def __init__(self, make_node: MakeNode, transport: str) -> None:
        self.processes = 1 if transport == "process" else 3
        self.near, self.far, self.third = (make_node(transports=[transport]) for _ in range(3))
        self.channel: echo.Channel[Any] = self.near.create_channel("shots")
        self.opened: echo.Channel[Any] = self.far.open_channel(self.channel.id)
        self.here: list[echo.Notice] = []
        self.there: list[echo.Notice] = []
        self.viewed: list[echo.Notice] = []
        self.channel.watch(self.here.append)


@pytest.fixture
def three(make_node: MakeNode, transport: str) -> Three:
    return Three(make_node, transport)


def unreachable(notices: list[echo.Notice]) -> list[echo.Unreachable]:
    return [notice for notice in notices if isinstance(notice, echo.Unreachable)]


def has_one(notices: list[echo.Notice]) -> bool:
    return len(unreachable(notices)) == 1


def test_what_a_source_lacks_takes_the_derivers_default(three: Three) -> None:
    """Also where nothing else is read or selected."""
    humid = three.opened.derive(Newest, where="humidity >= 0.5").sink(First)
    dry = three.opened.derive(Newest, where="humidity > 0.5").sink(First)
    selected = three.opened.derive(Newest, select=["humidity"]).sink(None)
    source = three.channel.source(First)
    source.wait_matched(3, LIMIT_S)
    source.submit(First(7))
    source.flush(LIMIT_S)
    assert humid.get(LIMIT_S) == First(7)
    assert selected.get(LIMIT_S).humidity == 0.5
    until(lambda: dry.statistics().filtered == 1, "what was filtered to be told")
    assert not unreachable(three.here)


def test_former_names_and_wider_types_apply(three: Three) -> None:
    """In conditions, in what is selected and in what is wanted; of events and of records."""
    derived = three.opened.derive(Newest, where="heat > 1", select=["number", "humidity"], name="Shot")
    sink = derived.sink(Selected)
    source = three.channel.source(Second)
    source.wait_matched(1, LIMIT_S)
    assert source.wanted.fields == {"id", "temp"}
    source.submit(Second(2**40, 0.5))
    source.submit(Second(2**40, 1.5))
    source.submit_records(b"".join(map(echo.encoder(Second), [Second(5, 0.0), Second(6, 3.0)])))
    assert [sink.get(LIMIT_S) for _ in range(2)] == [Selected(2**40, 0.5), Selected(6, 0.5)]


LACKING = "`Shot.heat`: the sender has no such field, and it has no default"


def test_a_source_that_lacks_a_field_is_told_of_at_both_ends(
    three: Three, caplog: pytest.LogCaptureFixture
) -> None:
    """By a notice and one line of the log at each, with the field and the way out; other sources go on."""
    old = three.channel.source(First, name="old")
    hot = three.opened.derive(Newest, where="heat > 1")
    hot.watch(three.there.append)
    sink = hot.sink(Second)
    viewer: echo.Channel[Any] = three.third.open_channel(hot.id)
    viewer.watch(three.viewed.append)
    taken = viewer.sink(Second)
    for notices in (three.here, three.there, three.viewed):
        until(partial(has_one, notices), "the notice")
    [here], [there], [viewed] = map(unreachable, (three.here, three.there, three.viewed))
    assert here.peer == "this process"
    assert here.source == there.source == viewed.source == "old"
    for told in (here, there):
        assert LACKING in told.text
        assert "derive by a class that has a default" in told.text
    assert "heat" not in viewed.text
    source = three.channel.source(Second)
    source.wait_matched(2, LIMIT_S)
    source.submit(Second(1, 2.0))
    old.submit(First(2))
    assert sink.get(LIMIT_S) == taken.get(LIMIT_S) == Second(1, 2.0)
    warned = [it for it in caplog.records if "has nothing derived" in it.message]
    assert {it.levelno for it in warned} == {logging.WARNING}
    assert len(warned) == (
        3 if three.processes > 1 else 2
    )  # who comes later is of a process that has said so
    assert old.sinks == 0


def test_a_type_that_does_not_convert_is_told_of_likewise(three: Three) -> None:
    """A later source too, and whoever derives the same hears it once."""
    hot = three.opened.derive(Second, where="temp > 1")
    hot.watch(three.there.append)
    three.channel.source(Textual, name="textual")
    until(lambda: len(unreachable(three.there)) == 1, "the notice")
    assert "`Shot.temp`: `str` is not `float32`" in unreachable(three.there)[0].text


def test_who_comes_to_take_it_later_hears_of_it(three: Three) -> None:
    """And a source that is closed is forgotten."""
    old = three.channel.source(First, name="old")
    hot = three.opened.derive(Newest, where="heat > 1")
    until(lambda: len(unreachable(three.here)) == 1, "the notice")
    again: echo.Channel[Any] = three.third.open_channel(three.channel.id)
    same = again.derive(Newest, where="heat > 1")
    same.watch(three.viewed.append)
    until(lambda: len(unreachable(three.viewed)) == 1, "the notice")
    assert LACKING in unreachable(three.viewed)[0].text
    old.close()

    def is_forgotten() -> bool:
        later: list[echo.Notice] = []
        same.watch(later.append).close()
        return not unreachable(later)

    until(is_forgotten, "the source to be forgotten")
    hot.close()


OLD = """
@echo.event(name="Plain")
class Older:
    id: int
import logging
logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
channel = echo.Node(transports=["unix"]).open_channel(sys.argv[1])
source = channel.source(Older, name="older")
hear()
"""


def test_a_process_of_an_older_version_says_what_it_lacks(make_node: MakeNode) -> None:
    """In its own log, and by the notice of who derives."""
    base = make_node(transports=["unix"]).create_channel("base", Plain)
    notices: list[echo.Notice] = []
    hot = base.derive(where="x > 1")
    hot.watch(notices.append)
    with Actor(OLD, base.id) as old:
        said = old.hear()
        assert said.startswith("channel `base`: source `older` of this process has nothing derived: ")
        assert "`Plain.x`: the sender has no such field, and it has no default" in said
        until(lambda: len(unreachable(notices)) == 1, "the notice")
        assert "`Plain.x`" in unreachable(notices)[0].text
