"""Sources and sinks of formats whose classes are elsewhere."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest

import echo_core as echo
from tests.echo_core.channel_events import Other, Plain, Reading1, Story, reading, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S

Pair = tuple[echo.Node, echo.Node]


def met(cls: type[Any], abi: str = "native") -> echo.Format:
    """The format as another process knows it."""
    return echo.Format.from_metadata(echo.format_of(cls, abi=abi).metadata)


@pytest.mark.parametrize("abi", ["native", "s390x", "i386"])
@pytest.mark.parametrize("event", [reading(3), story(4)], ids=lambda event: type(event).__name__)
def test_a_source_of_a_format_takes_reflected_events(pair: Pair, event: Any, abi: str) -> None:
    """They arrive as the class whose format it is, in the layout that the format has."""
    here, there = pair
    cls: Any = event.__class__
    format_ = met(cls, abi)
    with here.create_channel("x") as channel, there.open_channel(channel.id, timeout_s=LIMIT_S) as opened:
        reflected, sink = opened.sink(None), opened.sink(cls)
        source = channel.source(format_)
        source.wait_matched(2, LIMIT_S)
        source.submit(echo.decoder(None, sender=format_)(echo.encoder(cls, abi=abi)(event)))
        assert sink.get(LIMIT_S) == event
        source.submit(reflected.get(LIMIT_S))
        assert sink.get(LIMIT_S) == event


def test_a_source_of_a_format_takes_events_of_a_class_with_that_format(make_node: MakeNode) -> None:
    """Whichever class it is, also the one that the format was declared with."""
    channel = make_node().create_channel("x")
    for format_ in (met(Reading1), echo.format_of(Reading1)):
        sink, source = channel.sink(Reading1), channel.source(format_)
        source.submit(Reading1(1, 2.0))
        assert sink.get(LIMIT_S) == Reading1(1, 2.0)
        sink.close()
        source.close()


def test_what_is_no_event_of_the_format_is_refused_by_what_would_be(make_node: MakeNode) -> None:
    """Also where no sink is there to take it."""
    source = make_node().create_channel("x").source(met(Reading1))
    for event, name in ((Plain(1, 2.0), "Plain"), (Other("a"), "Other"), (3, "int")):
        expected = rf"Expected an event of the format of `Reading1`, got `{name}`: .*record_class\(\)"
        with pytest.raises(echo.EncodeTypeError, match=expected):
            source.submit(event)
    assert source.statistics().events == 0


def test_a_value_that_the_format_cannot_hold_is_refused_by_its_field(make_node: MakeNode) -> None:
    source = make_node().create_channel("x").source(met(Plain))
    with pytest.raises(echo.EncodeError, match=r"`Plain\.id`"):
        source.submit(source.format.record_class()(id=1 << 80, x=1.0))


def test_records_of_a_format_are_taken_as_before(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x")
    sink, source = channel.sink(Plain), channel.source(met(Plain))
    source.submit_records(echo.encoder(Plain)(Plain(1, 2.0)))
    assert sink.get(LIMIT_S) == Plain(1, 2.0)


def test_reflected_events_pickle_and_copy(make_node: MakeNode) -> None:
    """What comes back is of the same class, and equal."""
    channel = make_node(transports=["unix"]).create_channel("x")
    opened = make_node(transports=["unix"]).open_channel(channel.id, timeout_s=LIMIT_S)
    sink, source = opened.sink(None), channel.source(Story)
    source.wait_matched(timeout_s=LIMIT_S)
    source.submit(story(4))
    event = sink.get(LIMIT_S)
    for again in (pickle.loads(pickle.dumps(event)), copy.copy(event), copy.deepcopy(event)):
        assert type(again) is type(event)
        assert again == event
        assert again is not event


_LOAD = """
import pickle, sys
event, again = pickle.load(sys.stdin.buffer)
assert type(event) is type(again) and event == again
print(event)
"""


def test_a_pickled_event_is_understood_by_a_process_that_never_had_its_format() -> None:
    """Such as a worker of a pool."""
    encoded = echo.encoder(Story, abi="s390x")(story(4))
    event = echo.decoder(None, sender=met(Story, "s390x"))(encoded)
    data = pickle.dumps([event, copy.copy(event)])
    ended = subprocess.run([sys.executable, "-c", _LOAD], input=data, capture_output=True, check=True)
    assert ended.stdout.decode().strip() == str(event)
