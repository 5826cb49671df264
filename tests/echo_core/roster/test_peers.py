"""Links from the inside: what ends one, and what must not."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from dataclasses import make_dataclass, replace
from typing import Any

import pytest

import echo_core as echo
from echo_core._c import links
from echo_core.roster import hearing, peers
from echo_core.roster.ids import ChannelId
from echo_core.transports import limits
from echo_core.transports.handshake.exchange import Responder
from echo_core.transports.handshake.proofs import Purpose, prove
from echo_core.transports.handshake.words import Feature
from echo_core.transports.protocol import messages
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain, Story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import HostilePeer, identity
from tests.native.link_ends import open_files
from tests.transports.samples import member as told_of

LIMIT_S = 30.0


def test_a_thread_that_ends_in_the_midst_leaves_no_dead_link(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever ends it: both sides know, and the next channel gets another one."""
    caplog.set_level(logging.CRITICAL)
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("test", Plain)
    opened = there.open_channel(channel.id)
    sink = opened.sink(Plain)
    source = channel.source()
    source.wait_matched(1, LIMIT_S)

    def leave(*_: object) -> None:
        raise GeneratorExit

    with monkeypatch.context() as patched:
        patched.setattr(hearing, "_follow", leave)
        source.close()
        until(lambda: not there.statistics().links and not here.statistics().links)
    assert sink.sources == 0
    assert source.sinks == 0
    assert there.open_channel(here.create_channel("other", Plain).id).statistics().peers == 1


@pytest.mark.parametrize("address", ["tcp://[::1%\0x]:80", f"tcp://{'a' * 100}:80", "tcp://..:80"])
def test_addresses_that_nobody_could_have_stop_no_meeting(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    """A peer tells of more such members than there are threads to link to them."""
    caplog.set_level(logging.CRITICAL)
    here, second, third = (make_node(transports=["tcp"]) for _ in range(3))
    with HostilePeer.linked(here.create_channel("attacked", Plain).id, "tcp") as peer:
        told = [told_of(secrets.token_bytes(16), address) for _ in range(20)]
        peer.say(peer.join(), messages.Declared(0, "", ()), *told, messages.Flush(1))
        next(said for said in peer.messages() if isinstance(said, messages.Flushed))
        id_ = second.create_channel("other", Plain).id
        members = [node.open_channel(id_) for node in (third, here)]
        members[0].source(Plain)
        members[1].sink(Plain)
        until(lambda: all(member.statistics().peers == 2 for member in members))


def test_a_sink_that_fails_to_take_a_source_ends_no_link(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Arrays are of records of one size."""
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("test")
    opened = there.open_channel(channel.id)
    opened.sink(None, print, batch=True)
    other = opened.sink(Story)
    source = channel.source(Story)
    source.wait_matched(1, LIMIT_S)
    assert other.sources == 1
    assert there.statistics().links_lost == here.statistics().links_lost == 0
    assert [line for line in caplog.messages if "cannot take events" in line]


def test_a_link_that_is_full_of_formats_refuses_sources_and_gets_another_beside_it_for_channels(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """What it carries already goes on."""
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    classes: list[type[Any]] = [
        make_dataclass(f"E{i}", [(f"f{i}", int)]) for i in range(limits.MAX_FORMATS + 1)
    ]
    opened = [
        there.open_channel(here.create_channel("full", *classes[first : first + limits.MAX_TYPES]).id)
        for first in range(0, limits.MAX_FORMATS, limits.MAX_TYPES)
    ]
    one_more = here.create_channel("one more", classes[-1])
    assert len(there.statistics().links) == 1
    there.open_channel(one_more.id)
    assert len(there.statistics().links) == 2
    loose = here.create_channel("loose")
    loose.source(classes[-1])
    there.open_channel(loose.id)
    assert opened[-1].statistics().peers == 1
    assert len([line for line in caplog.messages if "cannot be offered" in line]) == 1


def test_a_member_that_does_not_say_all_is_given_up(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """It has proven the key, and then does not tell what it knows of the channel."""
    caplog.set_level(logging.CRITICAL)
    node = make_node(transports=["tcp"], limits=echo.Limits(connect_s=0.3))
    first, second = node.create_channel("first", Plain), node.create_channel("second", Plain)
    id_, uid = secrets.token_bytes(16), ChannelId.parse(second.id)
    silent = HostilePeer.linked(first.id, "tcp", id_)
    with silent, HostilePeer.linked(second.id, "tcp") as other:
        silent.say(silent.join(), messages.Declared(0, "", ()))
        second.sink(Plain)
        other.say(other.join(), messages.Declared(0, "", ()), told_of(id_, "tcp://127.0.0.1:1"))
        asked = next(said for said in silent.messages() if isinstance(said, messages.Join))
        proof = prove(Purpose.JOINED, uid.key, silent.secret, asked.uid, asked.alias.to_bytes(4, "little"))
        silent.say(messages.Joined(asked.alias, proof))
        next(said for said in silent.messages() if isinstance(said, messages.Leave))
        until(lambda: second.statistics().peers == 1)
        second.source()


def test_a_member_that_is_asked_for_a_channel_that_is_closed_meanwhile_keeps_no_link(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not lost either: who has left need not be told of who stays."""
    node = make_node(transports=["tcp"], limits=echo.Limits(connect_s=LIMIT_S))
    first, second = node.create_channel("first", Plain), node.create_channel("second", Plain)
    id_, uid = secrets.token_bytes(16), ChannelId.parse(second.id)
    member = HostilePeer.linked(first.id, "tcp", id_)
    with member, HostilePeer.linked(second.id, "tcp") as other:
        member.say(member.join(), messages.Declared(0, "", ()))
        second.sink(Plain)
        told = told_of(id_, "tcp://127.0.0.1:1")
        other.say(other.join(), messages.Declared(0, "", ()), told)
        asked = next(said for said in member.messages() if isinstance(said, messages.Join))
        second.close()
        alias = asked.alias.to_bytes(4, "little")
        proof = prove(Purpose.JOINED, uid.key, member.secret, asked.uid, alias)
        member.say(messages.Joined(asked.alias, proof), messages.Leave(asked.alias), messages.Flush(1))
        next(said for said in member.messages() if isinstance(said, messages.Flushed))
        first.close()
        assert [said for said in member.messages() if isinstance(said, messages.Bye)]
    assert "cannot be reached" not in caplog.text


def test_a_member_of_a_channel_that_is_closed_during_the_handshake_keeps_no_link(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    channel = make_node(transports=["tcp"]).create_channel("test", Plain)
    id_, own = ChannelId.parse(channel.id), identity()
    with socket.create_server(("127.0.0.1", 0)) as listener, HostilePeer.linked(channel.id, "tcp") as peer:
        channel.sink(Plain)
        told = told_of(own.node_id, f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        peer.say(peer.join(), messages.Declared(0, "", ()), told)
        connection, _ = listener.accept()
        channel.close()
        with HostilePeer(connection, id_) as met:
            responder = Responder(own, lambda _: id_.key, admit=lambda _, __: None)
            while responder.established is None:
                responder.receive(connection.recv(responder.wanted_bytes))
                connection.sendall(responder.bytes_to_send())
            assert [said for said in met.messages() if isinstance(said, messages.Bye)]
    assert "cannot be reached" not in caplog.text


def test_a_link_that_carries_nothing_ends_with_that_reason(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_FAREWELL_S", 0.1)  # the hostile one does not end it
    channel = make_node(transports=["tcp"]).create_channel("test", Plain)
    with HostilePeer.linked(channel.id, "tcp") as peer:
        peer.say(peer.join(), messages.Declared(0, "", ()), messages.Leave(0))
        said = [said for said in peer.messages() if isinstance(said, messages.Bye)]
        assert [bye.code for bye in said] == [messages.Farewell.UNUSED]


@pytest.mark.parametrize("shares_pool", [True, False])
def test_memory_is_shared_as_the_page_says(make_node: MakeNode, *, shares_pool: bool) -> None:
    """Two bytes and descriptors from each side; a pool is offered, or none."""
    channel = make_node(transports=["shm"]).create_channel("test", Plain)
    own = replace(identity(), features=Feature.SHARED_MEMORY)
    pool = links.Pool(block_bytes=1 << 16, blocks=1)
    ring = links.ring_memory(1 << 16)
    with HostilePeer.connected(channel.id, "unix") as peer:
        peer.shake_hands(own)
        descriptors = [ring, pool.fileno()] if shares_pool else [ring]
        socket.send_fds(peer.connection, [bytes([shares_pool, 0])], descriptors)
        memo, received, _, _ = socket.recv_fds(peer.connection, 2, 2)
        assert memo == bytes([1, 0])
        assert len(received) == 1
        for descriptor in (ring, *received):
            os.close(descriptor)
    pool.close()


@pytest.mark.parametrize("fails", ["who starts", "who is asked"])
def test_a_link_that_cannot_be_made_takes_no_part_of_the_pool(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    """Each such part is held with a descriptor of the other process; there are 63."""
    caplog.set_level(logging.CRITICAL)
    broken = echo.Limits()
    object.__setattr__(broken, "stall_s", 0.0)  # a link refuses it, as it would fail for want of memory
    ours, theirs = (broken, None) if fails == "who starts" else (None, broken)
    id_ = make_node(transports=["shm"], limits=theirs).create_channel("test", Plain).id
    node = make_node(transports=["shm"], limits=ours)

    def held() -> int:
        return len([name for name in open_files() if "pidfd" in name])

    before = held()
    for _ in range(3):
        with pytest.raises((ValueError, echo.LinkError, echo.TimedOutError)):
            node.open_channel(id_, timeout_s=0.3)
    until(lambda: held() <= before, "what was held for links to be let go")
