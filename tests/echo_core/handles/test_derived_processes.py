"""Derived channels over three processes: who derives, who has sources, who has nothing but the id."""

from __future__ import annotations

import pytest

from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor

LINKED = ("shm", "unix", "tcp")

SOURCE = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
source = channel.source(Plain)
source.wait_matched(int(sys.argv[3]), LIMIT_S)
for i in range(20):
    source.submit(Plain(i, float(i)))
source.flush(LIMIT_S)
say("sent")
if hear() == "two":
    source.wait_matched(2, LIMIT_S)
    say("there")
    hear()
source.submit(Plain(4, 4.0))
source.submit(Plain(30, 30.0))
source.flush(LIMIT_S)
say("sent")
hear()
"""

VIEWER = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
sink = channel.sink(Plain)
say("takes")
while True:
    event, info = sink.get_with_info(LIMIT_S)
    say(event.id, info.number)
"""


@pytest.fixture(params=LINKED)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def demand_words(viewer: Actor, *said: str) -> None:
    assert [viewer.hear() for _ in said] == list(said)


def test_three_processes_see_one_stream_and_a_source_that_starts_again(
    make_node: MakeNode, transport: str
) -> None:
    """The viewer has the id alone. What was set counts for a source that comes later, too."""
    base = make_node(transports=[transport]).create_channel("base", Plain)
    hot = base.derive(where="x > limit", limit=16.0)
    with Actor(VIEWER, transport, hot.id) as viewer:
        demand_words(viewer, "takes")
        with Actor(SOURCE, transport, base.id, "1") as source:
            demand_words(viewer, "17 0", "18 1", "19 2")
            source.hear()
            assert list(hot.set(limit=3.0, timeout_s=LIMIT_S).values()) == [3]
            source.tell("go on")
            demand_words(viewer, "4 3", "30 4")
            source.kill()
        with Actor(SOURCE, transport, base.id, "1") as again:
            demand_words(viewer, *(f"{i + 4} {i}" for i in range(16)))
            again.hear()


def test_who_comes_later_takes_part_in_the_same_stream(make_node: MakeNode, transport: str) -> None:
    """Numbers are those of the derived source; what came before is neither lost nor sent."""
    base = make_node(transports=[transport]).create_channel("base", Plain)
    hot = base.derive(where=lambda event: event.x >= 4)
    sink = hot.sink(Plain)
    with Actor(SOURCE, transport, base.id, "1") as source:
        assert [sink.get(LIMIT_S).id for _ in range(16)] == list(range(4, 20))
        source.hear()
        with Actor(VIEWER, transport, hot.id) as viewer:
            demand_words(viewer, "takes")
            source.tell("two")
            source.hear()
            source.tell("go on")
            demand_words(viewer, "4 16", "30 17")
    assert sink.statistics().lost == 0


def test_what_is_derived_from_a_derived_channel_needs_its_id_alone(
    make_node: MakeNode, transport: str
) -> None:
    """Who has no more than that derives from it again, and the source does that too."""
    base = make_node(transports=[transport]).create_channel("base", Plain)
    hot = base.derive(where="x > 10")
    node = make_node(transports=[transport])
    narrower = node.open_channel(hot.id).derive(where="id % limit == 0", limit=4)
    sink = narrower.sink(Plain)
    with Actor(SOURCE, transport, base.id, "1") as source:
        events = [sink.get_with_info(LIMIT_S) for _ in range(2)]
        assert [(event.id, info.number) for event, info in events] == [(12, 0), (16, 1)]
        source.hear()
        assert list(narrower.set(limit=10, timeout_s=LIMIT_S).values()) == [2]
        source.tell("go on")
        assert sink.get(LIMIT_S).id == 30
