"""Source control over processes: who requests may die or stand still, and sources may start again."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor

INSTRUMENT = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
source = channel.source(Plain, name="instrument")
resolution = source.parameter("resolution", 64, low=1, high=1024, on_change=lambda value: say("now", value))
say("there")
while hear() == "value":
    say(resolution.value)
"""

DASHBOARD = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
say("open")
while True:
    asked = hear()
    try:
        say(len(channel.request(resolution=int(asked), timeout_s=LIMIT_S)))
    except echo.ChannelError as error:
        say(error)
"""


@pytest.fixture(params=("shm", "unix", "tcp"))
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def until_asked_of(dashboard: Actor, value: int) -> None:
    """Once the dashboard knows of the instrument."""
    said = "0"
    while said == "0":
        dashboard.tell(str(value))
        said = dashboard.hear()
    assert said == "1"


def is_stopped(actor: Actor) -> bool:
    """With all of its threads: the signal has come."""
    states = [
        path.read_text().rpartition(")")[2].split()[0]
        for path in Path(f"/proc/{actor.pid}/task").glob("*/stat")
    ]
    return set(states) == {"T"}


def test_requests_outlive_a_source_and_end_with_who_has_made_them(
    make_node: MakeNode, transport: str
) -> None:
    """Two dashboards and an instrument; each of the three is killed, and started again."""
    base = make_node(transports=[transport]).create_channel("base", Plain)
    with Actor(INSTRUMENT, transport, base.id) as instrument, Actor(DASHBOARD, transport, base.id) as first:
        assert instrument.hear() == "there"
        assert first.hear() == "open"
        until_asked_of(first, 128)
        assert instrument.hear() == "now 128"
        with Actor(DASHBOARD, transport, base.id) as second:
            assert second.hear() == "open"
            until_asked_of(second, 512)
            assert instrument.hear() == "now 512"
            second.kill()
            assert instrument.hear() == "now 128"
        instrument.kill()
        with Actor(INSTRUMENT, transport, base.id) as again:
            assert again.hear() == "there"
            assert again.hear() == "now 128"
            first.tell("4096")
            assert first.hear().startswith(
                "Expected `resolution` from 1 to 1024, got 4096, for `instrument` of"
            )
            first.kill()
            assert again.hear() == "now 64"


def test_a_source_that_does_not_answer_is_named(make_node: MakeNode, transport: str) -> None:
    """The request stands all the same, for when its process goes on."""
    base = make_node(transports=[transport]).create_channel("base", Plain)
    with Actor(INSTRUMENT, transport, base.id) as instrument:
        assert instrument.hear() == "there"
        until(lambda: base.request(resolution=2, timeout_s=LIMIT_S) != [], "the instrument to be known")
        assert instrument.hear() == "now 2"
        instrument.signal(signal.SIGSTOP)
        until(partial(is_stopped, instrument), "the instrument to stand still")
        with pytest.raises(echo.TimedOutError, match=r"an answer from `instrument` of .* within 0\.2 s"):
            base.request(resolution=128, timeout_s=0.2)
        instrument.signal(signal.SIGCONT)
        assert instrument.hear() == "now 128"
        hot: echo.DerivedChannel = base.derive(where="x > 1")
        assert len(hot.request(resolution=256, timeout_s=LIMIT_S)) == 1
        assert instrument.hear() == "now 256"


def test_who_derives_controls_sources_that_it_hears_of_by_others(make_node: MakeNode, transport: str) -> None:
    """Three processes, one of which knows the two others; the derived channel's id alone controls nothing."""
    base = make_node(transports=[transport]).create_channel("base", Plain)
    with Actor(INSTRUMENT, transport, base.id) as instrument:
        assert instrument.hear() == "there"
        far: echo.Channel[Any] = make_node(transports=[transport]).open_channel(base.id)
        hot = far.derive(where="x > 1")
        until(lambda: hot.request(resolution=16, timeout_s=LIMIT_S) != [], "the instrument to be known")
        assert instrument.hear() == "now 16"
        with Actor(DASHBOARD, transport, hot.id) as viewer:
            assert viewer.hear() == "open"
            viewer.tell("32")
            assert "open the one that it is derived from" in viewer.hear()
            instrument.tell("value")
            assert instrument.hear() == "16"
