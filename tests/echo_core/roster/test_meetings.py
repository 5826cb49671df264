"""Links between members: made where one has something for the other, and made again when they are lost."""

from __future__ import annotations

import logging

import pytest

import echo_core as echo
from echo_core.roster.ids import ChannelId
from tests.echo_core.census import peers_of, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode

LIMIT_S = 60.0


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_a_link_that_is_lost_between_two_members_comes_back(
    make_node: MakeNode, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Though both have another one, to the creator; the loss and the return are told, and logged."""
    caplog.set_level(logging.INFO, "echo_core")
    creator, sender, receiver = (make_node(transports=[transport]) for _ in range(3))
    id_ = creator.create_channel("test", Plain).id
    source, there = sender.open_channel(id_).source(Plain), receiver.open_channel(id_)
    sink = there.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    told: list[echo.Notice] = []
    there.watch(told.append)
    [peer] = [peer for peer in peers_of(sender) if peer.node_id == receiver.id]
    peer.link.shut()
    until(
        lambda: [type(notice) for notice in told].count(echo.PeerJoined) == 3, "the link to be back", LIMIT_S
    )
    source.wait_matched(1, LIMIT_S)
    sink.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 2.0))
    assert sink.get(LIMIT_S) == Plain(1, 2.0)
    assert [type(notice) for notice in told].count(echo.PeerLeft) == 1
    assert there.statistics().missing == 0
    assert any("is back" in line for line in caplog.messages)


def test_who_is_found_under_another_name_is_told_why_the_handshake_ends(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """It happens where processes start at once: nothing of it is to be seen in the log."""
    caplog.set_level(logging.INFO, "echo_core")
    here, there = (make_node(transports=["tcp"]) for _ in range(2))
    channel = here.create_channel("test", Plain)
    there.open_channel(channel.id)
    [membership] = there._home.memberships.values()  # pyright: ignore[reportPrivateUsage]
    neighbours = there._neighbours  # pyright: ignore[reportPrivateUsage]
    addresses = ChannelId.parse(channel.id).addresses
    neighbours.join(membership, bytes(16), addresses, ["tcp"], LIMIT_S)
    assert not any("was not let in" in line for line in caplog.messages)
    assert len(here.statistics().links) == 1
    assert here.statistics().handshakes_failed == 0


def test_only_who_has_something_for_others_is_linked_to_them(make_node: MakeNode) -> None:
    """Ten sinks and a source: one link each to the creator, and one to the source."""
    creator, sender, *receivers = (make_node(transports=["unix"]) for _ in range(12))
    id_ = creator.create_channel("test", Plain).id
    source = sender.open_channel(id_).source(Plain)
    channels = [node.open_channel(id_) for node in receivers]
    for channel in channels:
        channel.sink(Plain)
    source.wait_matched(10, LIMIT_S)
    assert [len(node.statistics().links) for node in receivers] == [2] * 10
    until(lambda: all(channel.statistics().members == 11 for channel in channels), "all to be known", LIMIT_S)
    assert [channel.statistics().missing for channel in channels] == [0] * 10


def test_members_go_on_without_their_creator(make_node: MakeNode) -> None:
    """They find another one that tells of newcomers."""
    creator, first, second, third = (make_node(transports=["unix"]) for _ in range(4))
    id_ = creator.create_channel("test", Plain).id
    opened = first.open_channel(id_)
    other = second.open_channel(id_)
    until(lambda: opened.statistics().members == 2, "the other to be known", LIMIT_S)
    creator.close()
    until(lambda: opened.statistics().peers == 1, "a link to the other", LIMIT_S)
    newcomer = third.open_channel(other.id)
    newcomer.source(Plain)
    opened.sink(Plain).wait_matched(1, LIMIT_S)
