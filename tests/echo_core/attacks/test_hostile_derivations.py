"""Peers with the right key that send derivations which are none: each costs itself its link alone."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

import echo_core as echo
from echo_core._c.links import Fan
from echo_core.codegen.expressions.deriving import derive
from echo_core.codegen.expressions.limits import MAX_CONSTANT_BYTES
from echo_core.roster import derivations
from echo_core.roster.attendance import LEAP
from echo_core.roster.ids import ChannelId
from echo_core.transports.limits import MAX_DERIVED_DEPTH, MAX_EPOCH, MAX_PARAMETER_BYTES
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.messages import Message
from tests.echo_core.census import origin_of, until
from tests.echo_core.channel_events import Reading1, Story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import STREAM, HostilePeer
from tests.echo_core.victims import LIMIT_S, Victim
from tests.transports.frames import write_frame

SALT = bytes(16)
HOT = derive(
    echo.format_of(Reading1).record,
    where="temperature > limit and id in (1, 2)",
    select={"id": "id", "twice": "temperature * 2"},
    parameters={"limit": 3.0},
).derivation
TREE = HOT.to_bytes()
VALUES = derivations.packed(HOT, HOT.values)


@pytest.fixture
def victim(make_node: MakeNode) -> Victim:
    return Victim(make_node)


@pytest.fixture(params=["tcp", "unix"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def frame(message: Message) -> bytes:
    return write_frame(message.kind, messages.encode(message))


def told(tree: bytes, salt: bytes = SALT) -> bytes:
    return frame(messages.Derive(0, salt, "hot", tree))


def attack(victim: Victim, transport: str, what: bytes) -> None:
    """The link is gone then."""
    with HostilePeer.linked(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.join_and_offer(Reading1)
        peer.send(what)
        peer.expect_end()


BROKEN: dict[str, Callable[[bytes], bytes]] = {  # of the id of a channel that TREE derives
    "a tree that is cut off": lambda _: told(TREE[:-1]),
    "nothing": lambda _: told(b""),
    "bytes that follow": lambda _: told(TREE + b"\0"),
    "another version": lambda _: told(b"\2" + TREE[1:]),
    "rates without a condition": lambda _: told(
        derive(echo.format_of(Reading1).record, select=["id"], every=3, parameters={}).derivation.to_bytes()
    ),
    "parameters that are none": lambda uid: (
        told(TREE) + frame(messages.Adjust(0, uid, 1, bytes(16), b"\1\0\0\0x"))
    ),
    "too few parameters": lambda uid: told(TREE) + frame(messages.Adjust(0, uid, 1, bytes(16), b"")),
    "parameters of no epoch": lambda uid: told(TREE) + frame(messages.Adjust(0, uid, 0, bytes(16), VALUES)),
    "parameters of an epoch that nothing can follow": lambda uid: (
        told(TREE) + frame(messages.Adjust(0, uid, 2**64 - 1, bytes(16), VALUES))
    ),
    "a judgement of no stream": lambda _: frame(messages.Judged(STREAM + 7, 1, bytes(16), 0, 0)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_derivation_that_is_none_costs_its_peer_the_link(
    victim: Victim, transport: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The good link goes on, and what was derived rightly before stays as it was."""
    uid = ChannelId.parse(victim.id).derived(SALT, TREE).uid
    attack(victim, transport, BROKEN[what](uid))
    victim.demand_only_the_good_link()
    assert len([line for line in caplog.messages if "lost" in line]) == 1


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_parameters_are_set_to_as_many_bytes_as_a_derivation_may_have(more: int) -> None:
    """By a peer, and by whoever derives."""
    size = MAX_CONSTANT_BYTES + more
    hot = derive(echo.format_of(Story).record, where="title == wanted", parameters={"wanted": ""})
    told = derivations.packed(hot.derivation, ("x" * size,))
    assert len(told) <= MAX_PARAMETER_BYTES + max(0, more)
    if more <= 0:
        assert derivations.unpacked(hot.derivation, told) == ("x" * size,)
        assert hot.with_values({"wanted": "x" * size}).value_of("wanted") == "x" * size
        return
    with pytest.raises(echo.WireError, match="at most 4096 bytes"):
        derivations.unpacked(hot.derivation, told)
    with pytest.raises(echo.ExpressionError, match="at most 4096 bytes"):
        hot.with_values({"wanted": "x" * size})


def test_changed_and_truncated_trees_cost_their_peers_no_more_than_links(
    victim: Victim,
) -> None:
    """At places by chance; whether they are refused one by one says codegen's own test."""
    chance = random.Random(5)
    for _ in range(40):
        tree = bytearray(TREE)
        at = chance.randrange(len(tree))
        tree[at] ^= 1 << chance.randrange(8)
        data = bytes(tree if chance.random() < 0.7 else TREE[:at])
        with HostilePeer.linked(victim.id, "unix") as peer:
            peer.join_and_offer(Reading1)
            peer.send(told(data) + frame(messages.Ping()))
    victim.demand_only_the_good_link()


def test_channels_derived_too_deep_are_left_out(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Who has the id alone cannot know how deep the channel is, and keeps its link."""
    node = make_node(transports=["unix"])
    near = node.create_channel("deep", Reading1)
    source, channel = near.source(), near
    for i in range(MAX_DERIVED_DEPTH):
        channel = channel.derive(where="id != x", x=i - 9)
    far = make_node(transports=["unix"]).open_channel(channel.id)
    sink = far.sink(Reading1)
    far.derive(Reading1, where="temperature > 0").sink(Reading1)
    until(lambda: any("beyond channels that are derived 8 deep" in it for it in caplog.messages), "the log")
    source.wait_matched(1, LIMIT_S)
    source.submit(Reading1(7, 1.0))
    assert sink.get(LIMIT_S).id == 7
    assert not any("lost" in line for line in caplog.messages)


def test_channels_beyond_what_one_may_have_are_left_out(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that have ended do not count, so a link lasts however many were derived in its time."""
    monkeypatch.setattr(derivations, "MAX_DERIVED", 3)
    near = make_node(transports=["unix"]).create_channel("many", Reading1)
    with HostilePeer.linked(near.id, "unix") as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.say(peer.join(), messages.Declared(0, "", ()))
        for i in range(8):
            peer.send(told(TREE, struct.pack("<QQ", i, 0)))
        peer.say(messages.Flush(1))
        came = joins_until_flushed(peer)
        assert len(came) == 3
        assert len([line for line in caplog.messages if "beyond 3 channels" in line]) == 1
        monkeypatch.setattr(derivations, "UNUSED_S", 0.0)
        derived = near._membership.derived  # pyright: ignore[reportPrivateUsage]
        until(lambda: not derived, "what nobody takes to end")
        monkeypatch.undo()
        peer.send(told(TREE, struct.pack("<QQ", 9, 0)))
        peer.say(messages.Flush(2))
        assert len(joins_until_flushed(peer)) == 1


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_as_many_channels_are_derived_for_a_peer_as_one_may_have(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """All of one shape, so as many rows are judged together; the one beyond is no row."""
    monkeypatch.setattr(derivations, "MAX_DERIVED", 9)
    near = make_node(transports=["unix"]).create_channel("many", Reading1)
    source = near.source()
    with HostilePeer.linked(near.id, "unix") as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.say(peer.join(), messages.Declared(0, "", ()))
        for i in range(9 + more):
            peer.send(told(TREE, struct.pack("<QQ", i, 0)))
        peer.say(messages.Flush(1))
        assert len(joins_until_flushed(peer)) == min(9, 9 + more)
        origin = origin_of(source)
        assert len(origin.branchings) == min(9, 9 + more)
        [fan] = origin.outlet.branches
        assert isinstance(fan, Fan)
        assert fan.branches == len(origin.branchings)


def joins_until_flushed(peer: HostilePeer) -> list[messages.Join]:
    joins: list[messages.Join] = []
    for said in peer.messages():
        if isinstance(said, messages.Flushed):
            return joins
        if isinstance(said, messages.Join):
            joins.append(said)
    raise AssertionError


def test_an_epoch_that_nobody_can_have_come_to_is_ignored(make_node: MakeNode) -> None:
    """Honest changes go on counting, here and where others judge."""
    node = make_node(transports=["unix"])
    near: echo.Channel[Reading1] = node.create_channel("attacked", Reading1)
    source = near.source()
    hot = make_node(transports=["unix"]).open_channel(near.id).derive(where="temperature > limit", limit=3.0)
    sink = hot.sink(Reading1)
    source.wait_matched(1, LIMIT_S)
    uid = ChannelId.parse(hot.id).uid
    with HostilePeer.linked(near.id, "unix") as peer:
        peer.say(peer.join(), messages.Declared(0, "", ()))
        for epoch in (LEAP, MAX_EPOCH):
            peer.say(messages.Adjust(0, uid, epoch, b"\xff" * 16, b"\x08\0\0\0" + struct.pack("<d", 1e9)))
        peer.say(messages.Flush(1))
        assert any(isinstance(said, messages.Flushed) for said in peer.messages())
    assert len(hot.set(limit=1.0, timeout_s=LIMIT_S)) == 1
    source.submit(Reading1(1, 0.5))
    source.submit(Reading1(2, 2.0))
    assert sink.get(LIMIT_S).id == 2
