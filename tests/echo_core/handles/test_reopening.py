"""Opening a channel again: by who has it open already, and by who has closed it."""

from __future__ import annotations

import logging
import socket
from dataclasses import replace

import pytest

import echo_core as echo
from echo_core.roster.ids import ChannelId, Member
from echo_core.roster.places import Transport
from echo_core.transports.addresses import TcpAddress
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode

LIMIT_S = 30.0
Pair = tuple[echo.Node, echo.Node]


def alone(pair: Pair) -> echo.Channel[Plain]:
    """On a channel whose creator, the first node, has closed it."""
    created = pair[0].create_channel("test", Plain)
    opened = pair[1].open_channel(created.id)
    created.close()
    until(lambda: opened.statistics().peers == 0, "the creator to be gone")
    return opened


def demand_delivery(opened: echo.Channel[Plain], again: echo.Channel[Plain]) -> None:
    sink = again.sink(Plain)
    opened.source(Plain).submit(Plain(1, 2.0))
    assert sink.get(LIMIT_S) == Plain(1, 2.0)


def test_what_is_open_has_another_handle_when_the_creator_has_closed_it(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    opened = alone(pair)
    again = pair[1].open_channel(opened.id)
    assert again.types == opened.types
    demand_delivery(opened, again)
    opened.close()
    with again.source(Plain):
        assert again.statistics().sources == 1
    assert not caplog.records


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_what_is_open_has_another_handle_when_the_creator_is_nowhere(
    make_node: MakeNode, transport: Transport
) -> None:
    creator, node = make_node(transports=[transport]), make_node(transports=[transport])
    opened = node.open_channel(creator.create_channel("test", Plain).id)
    creator.close()
    until(lambda: opened.statistics().peers == 0, "the creator to be gone")
    demand_delivery(opened, node.open_channel(opened.id))


def test_what_is_open_is_opened_with_the_right_key_only(pair: Pair) -> None:
    opened = alone(pair)
    with pytest.raises(echo.RefusedError) as caught:
        pair[1].open_channel(str(replace(ChannelId.parse(opened.id), key=bytes(16))))
    assert caught.value.code == "wrong_key"


def test_a_creator_that_says_nothing_is_not_taken_for_gone(make_node: MakeNode) -> None:
    """It may be back: who has lost it is told so, and keeps the handle that is there."""
    creator, node = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    opened = node.open_channel(creator.create_channel("test", Plain).id)
    creator.close()
    until(lambda: opened.statistics().peers == 0, "the creator to be gone")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        moved = replace(ChannelId.parse(opened.id), members=(Member(creator.id, (TcpAddress(host, port),)),))
        with pytest.raises(echo.LinkError, match=r"timed out|in time"):
            node.open_channel(str(moved), timeout_s=0.2)
    demand_delivery(opened, opened)


@pytest.mark.parametrize("transport", [["unix"], ["tcp"], ["process", "shm", "unix", "tcp"]])
def test_what_its_creator_has_closed_is_unknown_to_it(
    make_node: MakeNode, transport: list[Transport], caplog: pytest.LogCaptureFixture
) -> None:
    """It asks nobody, as it could ask only itself."""
    caplog.set_level(logging.INFO, "echo_core")
    node = make_node(transports=transport)
    with node.create_channel("test", Plain) as created:
        pass
    with pytest.raises(echo.RefusedError, match="closed it") as caught:
        node.open_channel(created.id)
    assert caught.value.code == "unknown_channel"
    assert node.statistics().handshakes_failed == 0
    assert not caplog.records


def test_what_its_creator_has_closed_is_met_again_in_its_process(make_node: MakeNode) -> None:
    creator, other = make_node(transports=["process"]), make_node(transports=["process"])
    created = creator.create_channel("test", Plain)
    opened = other.open_channel(created.id)
    created.close()
    demand_delivery(opened, creator.open_channel(opened.id))
