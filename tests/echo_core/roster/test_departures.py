"""How loudly it is said that somebody could not be linked to: who has just left is nobody's fault."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import echo_core as echo
from echo_core.roster.ids import ChannelId
from echo_core.transports.handshake.exchange import Responder
from echo_core.transports.handshake.words import Feature
from echo_core.transports.protocol import messages
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import HostilePeer, identity
from tests.transports.samples import member

LIMIT_S = 30.0

Answer = Callable[[socket.socket], None]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        yield server


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that was somebody's; nobody else gets it meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield address_of(bound)


def address_of(bound: socket.socket) -> str:
    return "tcp://{}:{}".format(*bound.getsockname())


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang_up(connection: socket.socket) -> None:
    assert connection.recv(1 << 16)  # else it would be a reset


def know_nothing(connection: socket.socket) -> None:
    responder = Responder(identity(), lambda _: None, admit=lambda _, __: None)
    with contextlib.suppress(echo.RefusedError):
        while True:
            responder.receive(connection.recv(responder.wanted_bytes))
    connection.sendall(responder.bytes_to_send())


def speak_otherwise(connection: socket.socket) -> None:
    assert connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def tells_of(node: echo.Node, *addresses: str) -> HostilePeer:
    """A member of one of the node's channels that says where another one is."""
    channel = node.create_channel("company", Plain)
    channel.sink(Plain)
    peer = HostilePeer.linked(channel.id, "tcp")
    peer.say(peer.join(), messages.Declared(0, "", ()), member(bytes(16), *addresses))
    return peer


def level_of(text: str, caplog: pytest.LogCaptureFixture) -> int:
    """Of the one record that says so."""
    until(lambda: any(text in line for line in list(caplog.messages)), "the log")
    [record] = [record for record in caplog.records if text in record.getMessage()]
    return record.levelno


@pytest.fixture
def node(make_node: MakeNode, caplog: pytest.LogCaptureFixture) -> echo.Node:
    caplog.set_level(logging.INFO, "echo_core")
    return make_node(transports=["tcp", "unix"], limits=echo.Limits(connect_s=LIMIT_S))


def test_a_member_that_is_nowhere_any_more_is_no_warning(
    node: echo.Node, nobody: str, caplog: pytest.LogCaptureFixture
) -> None:
    with tells_of(node, "unix:@echo-that-has-gone", nobody):
        assert level_of("cannot be reached: ", caplog) == logging.INFO


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (reset, logging.INFO),
        (hang_up, logging.INFO),
        (know_nothing, logging.INFO),
        (speak_otherwise, logging.WARNING),
    ],
)
def test_a_member_that_goes_while_it_is_spoken_to_is_no_warning(
    node: echo.Node, listener: socket.socket, answer: Answer, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What is no member at all is one."""
    with tells_of(node, address_of(listener)):
        connection, _ = listener.accept()
        with connection:
            answer(connection)
        assert level_of("cannot be reached: ", caplog) == level


@pytest.mark.parametrize("is_first", [True, False])
def test_silence_at_one_of_the_addresses_is_warned_of(
    make_node: MakeNode,
    listener: socket.socket,
    nobody: str,
    caplog: pytest.LogCaptureFixture,
    *,
    is_first: bool,
) -> None:
    node, silent = make_node(transports=["tcp"], limits=echo.Limits(connect_s=0.5)), address_of(listener)
    with tells_of(node, *([silent, nobody] if is_first else [nobody, silent])):
        assert level_of("cannot be reached: ", caplog) == logging.WARNING


def test_who_asks_for_a_channel_that_is_gone_is_no_warning(
    node: echo.Node, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    channel = node.create_channel("gone")
    channel.close()
    with pytest.raises(echo.RefusedError):
        make_node(transports=["tcp"]).open_channel(channel.id)
    assert level_of("was not let in", caplog) == logging.INFO
    assert node.statistics().handshakes_failed == 1


@pytest.mark.parametrize("is_abrupt", [True, False])
def test_a_guest_that_goes_again_is_no_warning(
    node: echo.Node, caplog: pytest.LogCaptureFixture, *, is_abrupt: bool
) -> None:
    with HostilePeer.connected(node.create_channel("x").id, "tcp") as peer:
        peer.send(b"E")  # who says nothing is not even handed over
        if is_abrupt:
            reset(peer.connection)
    assert level_of("was not let in", caplog) == logging.INFO


def test_a_guest_that_goes_before_it_shares_memory_is_no_warning(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "echo_core")
    channel = make_node(transports=["shm"]).create_channel("x")
    with HostilePeer.connected(channel.id, "unix") as peer:
        peer.shake_hands(replace(identity(), features=Feature.SHARED_MEMORY))
    assert level_of("was not let in", caplog) == logging.INFO


def test_a_guest_with_another_key_is_warned_of(
    node: echo.Node, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    id_ = replace(ChannelId.parse(node.create_channel("x").id), key=bytes(16))
    with pytest.raises(echo.RefusedError):
        make_node(transports=["tcp"]).open_channel(str(id_))
    assert level_of("was not let in", caplog) == logging.WARNING
