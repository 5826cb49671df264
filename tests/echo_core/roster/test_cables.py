"""Cables: hosts that vanish without a word, and come back; two network namespaces stand for them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.networks import Cable, two_hosts
from tests.echo_core.processes import Actor

STALL_S = 4.0
SLACK_S = 3.0  # for a busy machine; the system's own patience would be minutes

_NODE = """
import logging, warnings
from queue import SimpleQueue
warnings.simplefilter("ignore", echo.PlaintextWarning)  # which is not about this
lines = []
class Lines(logging.Handler):
    def emit(self, record):
        lines.append((record.levelname, record.getMessage()))
logging.getLogger("echo_core").addHandler(Lines())
logging.getLogger("echo_core").setLevel(logging.INFO)
host, stall_s, is_busy = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "busy"
node = echo.Node("test", transports=["tcp"], host=host, limits=echo.Limits(stall_s=stall_s))
told = SimpleQueue()
def await_told(kind):
    while not isinstance(notice := told.get(timeout=LIMIT_S), kind):
        pass
    return notice
"""

_CREATOR = (
    _NODE
    + """
channel = node.create_channel("test", Plain)
source = channel.source(Plain)
channel.watch(told.put)
say(channel.id)
source.wait_matched(1, LIMIT_S)
is_over = threading.Event()
def submit():
    while not is_over.wait(0.01):
        source.submit(Plain(1, 2.0))
threading.Thread(target=submit).start() if is_busy else None
await_told(echo.PeerJoined)
say("joined")
hear()
say("lost", await_told(echo.PeerLeft).reason)
await_told(echo.PeerJoined)
source.wait_matched(1, LIMIT_S)
source.submit(Plain(1, 2.0))
is_over.set()
say("back")
hear()
say([level for level, text in lines if text.startswith("link to")])
hear()
node.close(0.0)
"""
)

_MEMBER = (
    _NODE
    + """
channel = node.open_channel(sys.argv[4], timeout_s=LIMIT_S)
sink = channel.sink(Plain)
channel.watch(told.put)
sink.wait_matched(1, LIMIT_S)
await_told(echo.PeerJoined)
say("joined")
hear()
reason = await_told(echo.PeerLeft).reason
while sink.statistics().queued_events:  # the next event is one that came by the new link
    sink.get(LIMIT_S)
say("lost", reason)
await_told(echo.PeerJoined)
sink.get(LIMIT_S)
say("back")
hear()
say([level for level, text in lines if text.startswith("link to")])
hear()
node.close(0.0)
"""
)


@pytest.fixture
def cable() -> Iterator[Cable]:
    with two_hosts() as made:
        yield made


@pytest.mark.parametrize("traffic", ["idle", "busy"])
def test_a_pulled_cable_is_noticed_within_stall_s_and_the_link_comes_back_with_it(
    cable: Cable, traffic: str
) -> None:
    """Both ends are told of the loss and the return, and log each once, as WARNING and INFO."""
    left, right = cable.left, cable.right
    with Actor(_CREATOR, left.ipv4, str(STALL_S), traffic, namespace=left.namespace) as creator:
        id_ = creator.hear()
        with Actor(_MEMBER, right.ipv4, str(STALL_S), traffic, id_, namespace=right.namespace) as member:
            both = (creator, member)
            assert [actor.hear() for actor in both] == ["joined"] * 2
            cable.pull()
            for actor in both:
                actor.tell("pulled")
            limit = time.monotonic() + STALL_S + SLACK_S
            for actor in both:
                assert actor.hear(limit - time.monotonic()).startswith("lost ")
            cable.plug_in()
            assert [actor.hear() for actor in both] == ["back"] * 2
            for actor in both:
                actor.tell("tell")
                assert actor.hear() == "['WARNING', 'INFO']"
            for actor in both:
                actor.tell("end")
                actor.demand_quiet_end()


def test_a_quiet_link_by_tcp_sends_something_from_time_to_time(make_node: MakeNode) -> None:
    """By a Unix socket it need not: there the system tells of a process that is gone."""

    def sent_frames(node: echo.Node) -> int:
        return node.statistics().links[0].sent_frames

    def link(transport: str) -> echo.Node:
        creator, member = (
            make_node(transports=[transport], limits=echo.Limits(stall_s=0.4)) for _ in range(2)
        )
        opened = member.open_channel(creator.create_channel("test", Plain).id)
        until(lambda: opened.statistics().members == 1, "the creator to be known")
        return member

    by_tcp, by_unix = link("tcp"), link("unix")
    of_tcp, of_unix = sent_frames(by_tcp), sent_frames(by_unix)
    until(lambda: sent_frames(by_tcp) >= of_tcp + 6, "the link to be kept busy")
    assert sent_frames(by_unix) <= of_unix + 1  # what was still to be said when it was linked
