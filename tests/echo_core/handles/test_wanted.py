"""What is wanted of a source: fields, rate and share, of all that anybody takes of it."""

from __future__ import annotations

import math
from typing import Any

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode

LIMIT_S = 60.0
NOBODY = echo.Demand()


@echo.event
class Shot:
    id: int
    kind: int
    temp: float
    spectrum: echo.Array[float, 4]


ALL = frozenset({"id", "kind", "temp", "spectrum"})


class Both:
    """A source on one node, and the channel that another one has opened."""

    def __init__(self, pair: tuple[echo.Node, echo.Node], cls: type[Any] = Shot) -> None:
        self.near: echo.Channel[Any] = pair[0].create_channel("shots", cls)
        self.source = self.near.source(cls)
        self.far: echo.Channel[Any] = pair[1].open_channel(self.near.id)

    def wanted(self, sinks: int) -> echo.Demand:
        """Once there are so many."""
        until(lambda: self.source.sinks == sinks, f"{sinks} sinks")
        return self.source.wanted


@pytest.fixture
def both(pair: tuple[echo.Node, echo.Node]) -> Both:
    return Both(pair)


def test_nothing_is_wanted_of_a_source_without_sinks(both: Both) -> None:
    """A derived channel that nobody takes wants nothing either."""
    both.far.derive(where="temp > 1")
    assert both.source.wanted == NOBODY
    assert not both.source.wanted
    assert "spectrum" not in both.source.wanted.fields


def test_whoever_takes_whole_events_wants_all_fields_of_each(both: Both) -> None:
    """Here and elsewhere, and no longer than that."""
    here = both.near.sink(Shot)
    assert both.source.wanted == echo.Demand(ALL, math.inf, 1.0)
    here.close()
    assert both.source.wanted == NOBODY
    there = both.far.sink(Shot)
    assert both.wanted(1) == echo.Demand(ALL, math.inf, 1.0)
    there.close()
    assert both.wanted(0) == NOBODY


def test_derivations_want_what_they_read_and_select_at_their_rate(both: Both) -> None:
    """Of several the union of fields, and the highest rate and share."""
    slow = both.far.derive(where="temp > 1", select=["id"], every=10, min_interval_s=2.0).sink(None)
    assert both.wanted(1) == echo.Demand(frozenset({"temp", "id"}), 0.5, 0.1)
    quick = both.far.derive(select=["kind"], min_interval_s=0.25, where="kind > 0").sink(None)
    assert both.wanted(2) == echo.Demand(frozenset({"temp", "id", "kind"}), 4.0, 1.0)
    quick.close()
    assert both.wanted(1) == echo.Demand(frozenset({"temp", "id"}), 0.5, 0.1)
    slow.close()
    assert both.wanted(0) == NOBODY


def test_a_derivation_that_passes_events_as_they_are_wants_all_fields(both: Both) -> None:
    """What is thinned out may still be anything."""
    sink = both.far.derive(every=4).sink(Shot)
    assert both.wanted(1) == echo.Demand(ALL, math.inf, 0.25)
    sink.close()


def test_what_is_derived_again_wants_the_fields_of_both_alone(both: Both) -> None:
    """The one between takes nothing for itself; shares multiply, and the lower rate counts."""
    hot = both.far.derive(where="temp > 1", every=2, min_interval_s=0.1)
    sink = hot.derive(select=["id"], where="kind == 3", every=5, min_interval_s=0.5).sink(None)
    assert both.wanted(1) == echo.Demand(frozenset({"temp", "kind", "id"}), 2.0, 0.1)
    whole = hot.sink(Shot)
    assert both.wanted(2) == echo.Demand(ALL, 10.0, 0.5)
    sink.close()
    whole.close()


def test_fields_are_called_as_the_source_calls_them(make_node: MakeNode) -> None:
    """Whoever derives may know them by a later name."""

    @echo.event(name="Shot")
    class Renamed:
        number: int = echo.field(aliases=("id",))
        heat: float = echo.field(aliases=("temp",))
        humidity: float = 0.5

    nodes = make_node(transports=["unix"]), make_node(transports=["unix"])
    both = Both(nodes)
    untyped: echo.Channel[Any] = nodes[0].create_channel("untyped")
    source = untyped.source(Shot)
    far: echo.Channel[Any] = nodes[1].open_channel(untyped.id)
    sink = far.derive(Renamed, where="heat > humidity", select=["number"]).sink(None)
    source.wait_matched(1, LIMIT_S)
    assert source.wanted.fields == {"temp", "id"}
    source.submit(Shot(7, 1, 0.25, [0.0] * 4))
    source.submit(Shot(8, 1, 0.75, [0.0] * 4))
    assert sink.get(LIMIT_S).number == 8
    assert both.source.wanted == NOBODY


def test_what_is_wanted_is_put_together_only_where_it_changes(both: Both) -> None:
    """Whoever asks for each event gets the same object."""
    assert both.source.wanted is both.source.wanted
    both.near.sink(Shot)
    first = both.source.wanted
    assert first is both.source.wanted
    both.near.sink(Shot)
    assert both.source.wanted == first


def test_nothing_is_wanted_of_who_is_lost_or_closed(make_node: MakeNode) -> None:
    """Its node ends, or the source itself."""
    near, far = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = near.create_channel("events", Plain)
    source = channel.source()
    far.open_channel(channel.id).derive(Plain, where="x > 1").sink(Plain)
    source.wait_matched(1, LIMIT_S)
    assert source.wanted
    far.close(0.0)
    until(lambda: source.wanted == NOBODY, "the demand to end")
    channel.sink(Plain)
    assert source.wanted
    source.close()
    assert source.wanted == NOBODY
