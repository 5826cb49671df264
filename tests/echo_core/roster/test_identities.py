"""Node ids are names that anybody can take: a link is trusted with the channels whose keys it has proven."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import echo_core as echo
from echo_core.transports.handshake.proofs import Purpose, prove
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.messages import Refusal
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import HostilePeer

LIMIT_S = 30.0


@pytest.fixture
def victim(make_node: MakeNode) -> echo.Node:
    return make_node(transports=["tcp"])


@pytest.fixture
def honest(make_node: MakeNode) -> echo.Node:
    return make_node(transports=["tcp"])


@pytest.fixture
def impostor(victim: echo.Node, honest: echo.Node) -> Iterator[HostilePeer]:
    """With channel A's key, linked and joined under the honest process's node id."""
    channel = victim.create_channel("a", Plain)
    with HostilePeer.linked(channel.id, "tcp", honest.id) as impostor:
        impostor.connection.settimeout(LIMIT_S)
        impostor.say(impostor.join(), messages.Declared(0, "", ()))
        until(lambda: channel.statistics().peers == 1)
        yield impostor


def demand_delivery(from_: echo.Channel[Plain], to: echo.Channel[Plain]) -> None:
    source, sink = from_.source(Plain), to.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 0.5))
    assert sink.get(LIMIT_S) == Plain(1, 0.5)


@pytest.mark.usefixtures("impostor")
def test_who_takes_a_node_id_with_one_channels_key_shuts_it_out_of_no_other(
    victim: echo.Node, honest: echo.Node
) -> None:
    """The honest process links to the victim for channel B, under the same name."""
    channel = victim.create_channel("b", Plain)
    opened = honest.open_channel(channel.id, timeout_s=LIMIT_S)
    demand_delivery(channel, opened)
    assert len(victim.statistics().links) == 2


@pytest.mark.parametrize("says", ["nothing", "no", "a wrong proof"])
def test_who_has_taken_a_name_does_not_answer_for_it(
    victim: echo.Node,
    honest: echo.Node,
    impostor: HostilePeer,
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The victim wants to join a channel of the honest process, which it seems to be linked to."""
    caplog.set_level(logging.CRITICAL)
    channel = honest.create_channel("b", Plain)
    if says == "nothing":
        opened = victim.open_channel(channel.id, timeout_s=LIMIT_S)
    else:
        opened = _answered(impostor, says, lambda: victim.open_channel(channel.id, timeout_s=LIMIT_S))
    demand_delivery(channel, opened)


def _answered(impostor: HostilePeer, says: str, call: Callable[[], echo.Channel[Any]]) -> echo.Channel[Any]:
    """What the call returns, whose JOIN the impostor answers."""
    opened: list[echo.Channel[Any]] = []
    thread = threading.Thread(target=lambda: opened.append(call()))
    thread.start()
    asked = next(said for said in impostor.messages() if isinstance(said, messages.Join))
    if says == "no":
        impostor.say(messages.Refused(asked.alias, Refusal.UNKNOWN_CHANNEL, "no such channel"))
    else:
        impostor.say(messages.Joined(asked.alias, bytes(32)))
    thread.join(LIMIT_S)
    return opened[0]


def test_two_channels_of_two_nodes_need_one_link(victim: echo.Node, honest: echo.Node) -> None:
    """Whoever has proven one key proves the next one on the link that is there."""
    for name in ("a", "b"):
        channel = victim.create_channel(name, Plain)
        demand_delivery(channel, honest.open_channel(channel.id, timeout_s=LIMIT_S))
    for name in ("c", "d"):
        channel = honest.create_channel(name, Plain)
        demand_delivery(channel, victim.open_channel(channel.id, timeout_s=LIMIT_S))
    assert len(victim.statistics().links) == len(honest.statistics().links) == 1


def test_a_channel_is_shared_on_one_of_two_links_to_a_node(victim: echo.Node) -> None:
    """Else its events would come twice."""
    first, second = victim.create_channel("a", Plain), victim.create_channel("b", Plain)
    with HostilePeer.linked(first.id, "tcp", bytes([7] * 16)) as one:
        one.say(one.join(), messages.Declared(0, "", ()))
        until(lambda: first.statistics().peers == 1)
        with HostilePeer.linked(second.id, "tcp", one.node_id) as other:
            other.connection.settimeout(LIMIT_S)
            uid, key = one.id.uid, one.id.key
            proof = prove(Purpose.JOIN, key, other.secret, uid, (0).to_bytes(4, "little"))
            other.say(messages.Join(0, uid, proof))
            refused = next(said for said in other.messages() if isinstance(said, messages.Refused))
            assert refused.code == Refusal.DUPLICATE
            assert first.statistics().peers == 1


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_nodes_that_open_channels_of_each_other_at_once_make_one_link(
    make_node: MakeNode, transport: str
) -> None:
    here, there = make_node(transports=[transport]), make_node(transports=[transport])
    for _ in range(5):
        mine, theirs = here.create_channel("mine", Plain), there.create_channel("theirs", Plain)
        opened: list[echo.Channel[Any]] = []

        def join(node: echo.Node, id_: str, opened: list[echo.Channel[Any]] = opened) -> None:
            opened.append(node.open_channel(id_))

        threads = [
            threading.Thread(target=join, args=(here, theirs.id)),
            threading.Thread(target=join, args=(there, mine.id)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [each.statistics().peers for each in (mine, theirs, *opened)] == [1] * 4
        assert [len(node.statistics().links) for node in (here, there)] == [1, 1]
        for channel in (mine, theirs, *opened):
            channel.close()
