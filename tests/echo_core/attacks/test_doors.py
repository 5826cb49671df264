"""Strangers at the door: those who are slow, silent, wrong or many; nobody inside waits for them."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace

import pytest

import echo_core as echo
from echo_core.roster import peers
from echo_core.roster.ids import ChannelId, Member
from echo_core.roster.neighbours import Neighbours
from echo_core.transports import limits
from echo_core.transports.handshake.exchange import Initiator, Responder
from echo_core.transports.handshake.words import Hello, Identity, read_words, write_words
from echo_core.transports.protocol.messages import Bye
from echo_core.transports.wires import sockets
from tests.echo_core.census import left_behind, settled_census, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import LIMIT_S, HostilePeer, connect, identity
from tests.echo_core.victims import Victim


@pytest.fixture
def victim(make_node: MakeNode) -> Victim:
    return Victim(make_node)


@pytest.fixture(params=["tcp", "unix"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refused(victim: Victim, transport: str, id_: ChannelId, own: Identity) -> str:
    """The code of the refusal that such a peer is told."""
    peer = HostilePeer(connect(victim.id, transport), id_)
    with peer, pytest.raises(echo.RefusedError) as caught:
        _shake_hands(peer, Initiator(own, id_.uid, id_.key, admit=lambda _, __: None))
    victim.demand_delivery()
    return caught.value.code


def _shake_hands(peer: HostilePeer, initiator: Initiator) -> None:
    peer.connection.settimeout(LIMIT_S)
    peer.send(initiator.bytes_to_send())
    while initiator.established is None:
        initiator.receive(peer.connection.recv(initiator.wanted_bytes))
        peer.send(initiator.bytes_to_send())


def test_a_refusal_says_why(victim: Victim, transport: str) -> None:
    id_ = ChannelId.parse(victim.id)
    assert refused(victim, transport, replace(id_, uid=bytes(16)), identity()) == "unknown_channel"
    assert refused(victim, transport, id_, identity(victim.node.id)) == "same_node"
    assert refused(victim, transport, replace(id_, key=bytes(16)), identity()) == "wrong_key"


def test_another_version_is_refused_in_its_own_words(victim: Victim, transport: str) -> None:
    id_ = ChannelId.parse(victim.id)
    with HostilePeer.connected(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.send(write_words(Hello(7, 9, id_.uid, bytes(16), identity(), bytes(32))))
        answer = peer.receive()
    words = read_words(answer)
    assert getattr(words, "code", None) == 1


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", bytes(64), b"ECHO" + b"\xff" * 60])
def test_garbage_is_shown_out(
    victim: Victim, transport: str, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with HostilePeer.connected(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.send(garbage)
        peer.expect_end()
    victim.demand_delivery()
    until(lambda: any("was not let in: Expected" in line for line in list(caplog.messages)), "the log")


def test_slow_strangers_hold_up_nobody(
    victim: Victim, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than may be half-open at once, each with a byte now and then; all are gone when time is up."""
    victim.demand_delivery()
    before = settled_census()
    monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT_S", 0.3)
    strangers = [connect(victim.id, transport) for _ in range(limits.MAX_HALF_OPEN + 20)]
    for byte in (b"E", b"C", b"H"):
        for stranger in strangers:
            try:
                stranger.sendall(byte)
            except ConnectionError:
                continue
        victim.demand_delivery()
    for stranger in strangers:
        stranger.settimeout(LIMIT_S)
        _read_to_the_end(stranger)  # which comes from the other side
        stranger.close()
    victim.demand_only_the_good_link()
    assert left_behind(before) == ""
    monkeypatch.undo()  # who is welcome has the usual time
    with HostilePeer.linked(victim.id, transport) as guest:
        assert guest.secret  # the door is open again


def _read_to_the_end(connection: socket.socket) -> None:
    try:
        while connection.recv(1024):
            pass
    except ConnectionError:
        pass


def test_a_creator_that_never_answers_a_join_is_given_up(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shakes hands as it should, if there is time, and is silent from then on; its link does not stay."""
    monkeypatch.setattr(peers, "_FAREWELL_S", 0.1)
    listener = sockets.listen(sockets.new_unix_address())
    listener.setblocking(True)
    own = identity()
    id_ = ChannelId.new(Member(own.node_id, (sockets.bound_address(listener),)))
    silent: list[socket.socket] = []

    def shake_hands() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # the test is over
                return
            silent.append(connection)
            responder = Responder(own, lambda _: id_.key, admit=lambda _, __: None)
            with contextlib.suppress(echo.EchoError, OSError):
                while responder.established is None:
                    responder.receive(connection.recv(responder.wanted_bytes))
                    connection.sendall(responder.bytes_to_send())

    thread = threading.Thread(target=shake_hands)
    thread.start()
    node = make_node(transports=["unix"])
    for timeout_s in (0.3, 3.0, LIMIT_S):  # the first is enough, unless the machine has other work
        with pytest.raises((echo.TimedOutError, echo.LinkError)) as caught:
            node.open_channel(str(id_), timeout_s=timeout_s)
        until(lambda: not node.statistics().links, "the silent link to be gone")
        assert node.statistics().channels == 0
        if isinstance(caught.value, echo.TimedOutError):
            break
    assert "answer" in str(caught.value) or "the end of the link" in str(caught.value)  # it is tried again
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    for open_socket in (listener, *silent):
        open_socket.close()


@pytest.mark.parametrize("trouble", [ValueError("trouble"), SystemExit("trouble"), GeneratorExit("trouble")])
def test_a_node_that_fails_at_its_door_lets_others_in_all_the_same(
    trouble: BaseException,
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Here with each tick; the failure is logged."""
    ticks = 0

    def fail(*_: object) -> None:
        nonlocal ticks
        ticks += 1
        raise trouble

    monkeypatch.setattr(Neighbours, "_tick", fail)
    channel = make_node(transports=["tcp"]).create_channel("x", Plain)
    until(lambda: ticks >= 2)
    assert make_node(transports=["tcp"]).open_channel(channel.id).name == "x"
    assert "the door of" in caplog.text
    assert "trouble" in caplog.text


def test_a_keyed_link_that_joins_nothing_is_ended(
    victim: Victim, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the time of a handshake for that."""
    monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT_S", 0.3)
    with HostilePeer.linked(victim.id, transport) as idle:
        idle.connection.settimeout(LIMIT_S)
        assert [said for said in idle.messages() if isinstance(said, Bye)]
    victim.demand_only_the_good_link()


def test_keyed_links_that_join_nothing_shut_nobody_out(make_node: MakeNode, transport: str) -> None:
    """They have an eighth of the places between them, of which the oldest goes for a newcomer."""
    node = make_node(transports=[transport], limits=echo.Limits(links=160))
    channel = node.create_channel("x", Plain)
    with contextlib.ExitStack() as crowd:
        for _ in range(100):
            crowd.enter_context(HostilePeer.linked(channel.id, transport))
        assert make_node(transports=[transport]).open_channel(channel.id).name == "x"
        until(lambda: len(node.statistics().links) <= 160 // 8 + 1, "the oldest of them to be gone")
