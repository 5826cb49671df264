"""Two that hold one channel on different hosts, where no seat keeps them apart: one of them gives way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

import pytest

import echo_core as echo
from echo_core.roster.ids import ChannelId
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.networks import Cable, Host, two_hosts
from tests.echo_core.processes import Actor
from tests.echo_core.roster.test_opening import demand_delivery

ON_A_HOST = """
import logging, warnings
address, name = sys.argv[1:]
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.WARNING)
warnings.simplefilter("ignore", echo.PlaintextWarning)
node = echo.Node(name, host=address)
told = threading.Event()
def tell(notice):
    if isinstance(notice, echo.HeldTwice):
        say("gives way" if notice.gives_way else "goes on", notice.peer)
        told.set()
"""
HOLDER = """
channel = node.create_channel("test", Plain, identity=hear() or None)
channel.watch(tell)
say(channel.identity)
say(channel.id)
sink = channel.sink(Plain)
others = hear()
if others:
    node.open_channel(others, timeout_s=LIMIT_S)
with channel.source(Plain) as source:
    source.wait_matched(2, LIMIT_S)
    source.submit(Plain(1, 2.0))
    sink.get(LIMIT_S), sink.get(LIMIT_S)
    told.wait(LIMIT_S)
    say("has both")
    hear()
"""
MEMBER = """
identity, id_ = hear(), hear()
opened = node.open_channel(id_, timeout_s=LIMIT_S)
opened.watch(tell)
sink = opened.sink(Plain)
sink.wait_matched(1, LIMIT_S)
try:
    node.create_channel("test", Plain, identity=identity)
except echo.RefusedError as error:
    say(error.code, error)
hear()
"""


@pytest.fixture
def cable() -> Iterator[Cable]:
    with two_hosts() as laid:
        yield laid


def _on_host(host: Host, script: str, name: str) -> Actor:
    return Actor(ON_A_HOST + script, host.ipv4, name, namespace=host.namespace)


def _node_of(id_: str) -> bytes:
    return ChannelId.parse(id_).members[0].node


def _hear_until(actor: Actor, beginning: str) -> tuple[str, list[str]]:
    """The line that begins so, and those before it."""
    before: list[str] = []
    while not (line := actor.hear()).startswith(beginning):
        before.append(line)
    return line, before


def test_of_two_holders_on_two_hosts_one_gives_way_and_both_are_told(cable: Cable) -> None:
    """Once, with the names and addresses of both; events of both go on."""
    with (
        _on_host(cable.left, HOLDER, "left") as left,
        _on_host(cable.right, HOLDER, "right") as right,
    ):
        left.tell("")
        identity, left_id = left.hear(), left.hear()
        right.tell(identity)
        assert right.hear() == identity
        right_id = right.hear()
        left.tell("")
        right.tell(left_id)
        said: dict[str, list[str]] = {}
        for name, actor in (("left", left), ("right", right)):
            said[name] = _hear_until(actor, "has both")[1]
        smaller = "left" if _node_of(left_id) < _node_of(right_id) else "right"
        for name, lines in said.items():
            warnings = [line for line in lines if "held by two nodes" in line]
            notices = [line for line in lines if line.startswith(("gives way", "goes on"))]
            assert [len(warnings), len(notices)] == [1, 1], lines
            assert notices[0].startswith("goes on" if name == smaller else "gives way")
            assert all(host.ipv4 in warnings[0] for host in (cable.left, cable.right))
            assert "`left`" in warnings[0]
            assert "`right`" in warnings[0]
        for actor in (left, right):
            actor.tell("")


def test_who_is_linked_to_a_holder_on_another_host_is_refused_and_told_who_it_is(cable: Cable) -> None:
    with (
        _on_host(cable.left, HOLDER, "left") as holder,
        _on_host(cable.right, MEMBER, "right") as member,
    ):
        holder.tell("")
        identity, id_ = holder.hear(), holder.hear()
        holder.tell("")
        member.tell(identity)
        member.tell(id_)
        refusal, before = _hear_until(member, "held ")
        assert "node `left` at " in refusal
        assert cable.left.ipv4 in refusal
        assert not before
        member.tell("")


def _two_holders(make_node: MakeNode) -> tuple[list[echo.Node], list[echo.Channel[Plain]]]:
    """The first has no seat, as nobody has asked for its identity."""
    nodes = [make_node(transports=["tcp"]) for _ in range(2)]
    first = nodes[0].create_channel("test", Plain)
    second = nodes[1].create_channel("test", Plain, identity=str(ChannelId.parse(first.id).identity))
    return nodes, [first, second]


def _holds(node: echo.Node, channel: echo.Channel[Plain]) -> bool:
    return ChannelId.parse(channel.id).members[0].node == node.id


def test_who_gives_way_goes_on_as_a_member_and_can_hold_the_channel_later(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    nodes, channels = _two_holders(make_node)
    told: list[tuple[int, echo.HeldTwice]] = []

    def note(which: int, notice: echo.Notice) -> None:
        if isinstance(notice, echo.HeldTwice):
            told.append((which, notice))

    for which, channel in enumerate(channels):
        channel.watch(partial(note, which))
    with caplog.at_level(logging.WARNING, "echo_core"):
        nodes[1].open_channel(channels[0].id)
        until(lambda: len(told) == 2, "both to be told")
    keeps = min((0, 1), key=lambda which: nodes[which].id)
    assert {which: notice.gives_way for which, notice in told} == {keeps: False, 1 - keeps: True}
    assert sum("held by two nodes" in record.getMessage() for record in caplog.records) == 2
    assert [_holds(nodes[keeps], channel) for channel in channels] == [True, True]
    demand_delivery(*channels)
    identity = channels[0].identity
    with pytest.raises(echo.RefusedError) as caught:
        nodes[1 - keeps].create_channel("test", Plain, identity=identity)
    assert caught.value.code == "held"
    nodes[keeps].close()
    again = nodes[1 - keeps].create_channel("test", Plain, identity=identity)
    assert _holds(nodes[1 - keeps], again)


def test_who_gives_way_does_so_once_and_its_links_may_come_and_go(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    nodes, channels = _two_holders(make_node)
    nodes[1].open_channel(channels[0].id)
    until(lambda: len(_warnings(caplog)) == 2, "both to be told")
    for _ in range(3):
        third = make_node(transports=["tcp"])
        demand_delivery(channels[0], third.open_channel(channels[1].id))
        third.close()
    assert len(_warnings(caplog)) == 2


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "held by two nodes" in line]
