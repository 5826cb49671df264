"""How channels come to be shared: the table that is executed, and what has changed before an answer."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from echo_core.errors import WireError
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Purpose, Role, prove
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.joining import TRANSITIONS, Input
from echo_core.transports.protocol.link import LinkProtocol
from echo_core.transports.protocol.link_state import ChannelOnLink, ChannelState, Declaration, Heard
from echo_core.transports.protocol.messages import Message, encode
from tests.transports.samples import CHANNEL, KEY, OTHER_KEY, SECRET, Pair, is_shared, on_link, types_of

OTHER = bytes(range(50, 66))


def test_a_channel_that_is_forgotten_while_it_is_wanted_again_is_not_joined() -> None:
    """The peer's LEAVE comes when this node knows the channel no more."""
    pair = Pair().shared()
    channel = pair.near_channel
    pair.near.leave(channel)
    pair.near.join(CHANNEL)
    del pair.declarations[0][CHANNEL]
    near, far = pair.exchange()
    assert near == []
    assert types_of(far) == [messages.Leave]
    assert pair.near.channel(CHANNEL) is None
    assert not channel.is_wanted_again


def test_an_answer_for_whose_formats_there_is_no_room_is_left_again() -> None:
    formats = tuple(str(i).encode() for i in range(limits.MAX_FORMATS + 1))
    pair = Pair(far=Declaration(KEY)).shared()
    for metadata in formats[: limits.MAX_FORMATS]:
        pair.near.offer(pair.near_channel, metadata, "", bytes(16))
    pair.declarations[0][OTHER] = Declaration(KEY, "", formats[-1:])
    pair.declarations[1][OTHER] = Declaration(KEY)
    channel = pair.near.join(OTHER)
    near, far = pair.exchange()
    assert near == [(channel.refusal, channel)]
    assert channel.refusal is not None
    assert channel.refusal.code == messages.Refusal.BUSY
    assert types_of(far)[-1] is messages.Leave
    assert not is_shared(pair.far, OTHER)
    assert is_shared(pair.near)


def test_a_channel_is_one_object_as_long_as_somebody_refers_to_it() -> None:
    """And the link keeps it no longer than it is on the link."""
    pair = Pair().shared()
    channel = pair.near_channel
    pair.far.leave(pair.far_channel)
    pair.exchange()
    assert pair.far.join(CHANNEL) is not channel
    pair.exchange()
    assert pair.near_channel is channel
    pair.near.leave(channel)
    pair.exchange()
    kept = weakref.ref(channel)
    del channel
    gc.collect()
    assert kept() is None
    assert is_shared(pair.shared().near)


def test_a_refusal_is_forgotten_when_the_peer_joins() -> None:
    """What the channel says is the answer to the last JOIN."""
    pair = Pair(near=Declaration(OTHER_KEY))
    channel = pair.near.join(CHANNEL)
    pair.exchange()
    assert channel.refusal is not None
    pair.declarations[0][CHANNEL] = Declaration(KEY)
    pair.far.join(CHANNEL)
    pair.exchange()
    assert channel.is_shared
    assert channel.refusal is None


# ---------------------------------------------------------------------------------------------------
# Every field of the table, executed


class Side:
    """One side whose peer is played by the test."""

    def __init__(self, role: Role) -> None:
        self.declarations = {CHANNEL: Declaration(KEY), OTHER: Declaration(KEY)}
        self.link = LinkProtocol(role=role, secret=SECRET, declaration_of=self.declarations.get)
        self.own_alias, self.peers_alias = role.value, 1 - role.value
        self.channel = ChannelOnLink(CHANNEL)

    def hears(self, message: Message) -> list[Heard]:
        return self.link.receive(message.kind, encode(message))

    def proof(self, purpose: Purpose, alias: int, uid: bytes = CHANNEL) -> bytes:
        return prove(purpose, KEY, SECRET, uid, alias.to_bytes(4, "little"))

    def joins(self) -> None:
        self.channel = self.link.join(CHANNEL)

    def leaves(self) -> None:
        self.link.leave(self.channel)

    def peer_joins(self, uid: bytes = CHANNEL) -> list[Heard]:
        proof = self.proof(Purpose.JOIN, self.peers_alias, uid)
        return self.hears(messages.Join(self.peers_alias, uid, proof))

    def peer_says_joined(self) -> list[Heard]:
        return self.hears(messages.Joined(self.own_alias, self.proof(Purpose.JOINED, self.own_alias)))

    def runs_out_of_formats(self) -> None:
        """For one that the channel has been declared with meanwhile."""
        self.peer_joins(OTHER)
        other = on_link(self.link, OTHER)
        for i in range(limits.MAX_FORMATS):
            self.link.offer(other, str(i).encode(), "", bytes(16))
        self.declarations[CHANNEL] = Declaration(KEY, "", (b"type",))
        self.link.take_frames()

    def bring_to(self, state: ChannelState) -> None:
        if state is not ChannelState.GONE:
            self.joins()
        if state in {ChannelState.SHARED, ChannelState.LEAVING}:
            self.peer_says_joined()
        if state in {ChannelState.ABANDONED, ChannelState.LEAVING}:
            self.leaves()
        self.link.take_frames()
        assert self.channel.state is state


def _declined(side: Side) -> list[Heard]:
    side.declarations[CHANNEL] = Declaration(OTHER_KEY)
    return side.peer_joins()


def _joined_in_vain(side: Side) -> list[Heard]:
    side.runs_out_of_formats()
    return side.peer_says_joined()


def _leave(side: Side) -> list[Heard]:
    """Where the channel is gone: by the alias of a JOIN that was declined."""
    if side.channel.state is not ChannelState.GONE:
        return side.hears(messages.Leave(side.own_alias))
    _declined(side)
    side.link.take_frames()
    return side.hears(messages.Leave(side.peers_alias))


INPUTS: dict[Input, Callable[[Side], list[Heard] | None]] = {
    Input.OWN_JOIN: Side.joins,
    Input.OWN_LEAVE: Side.leaves,
    Input.JOIN: Side.peer_joins,
    Input.JOIN_DECLINED: _declined,
    Input.JOIN_OVERRULED: Side.peer_joins,
    Input.JOINED: Side.peer_says_joined,
    Input.JOINED_IN_VAIN: _joined_in_vain,
    Input.REFUSED: lambda side: side.hears(messages.Refused(side.own_alias, 1, "no")),
    Input.LEAVE: _leave,
}


@pytest.mark.parametrize("state", ChannelState, ids=lambda state: state.name)
@pytest.mark.parametrize("input_", Input, ids=lambda input_: input_.name)
def test_what_happens_is_what_the_table_says(input_: Input, state: ChannelState) -> None:
    """The next state, what the peer is told, what the node hears; or a broken rule."""
    side = Side(Role.INITIATOR if input_ is Input.JOIN_OVERRULED else Role.RESPONDER)
    if input_ is Input.JOIN_OVERRULED and state is ChannelState.GONE:
        return  # then there is nothing to overrule: it is JOIN
    side.bring_to(state)
    step = TRANSITIONS[input_].get(state)
    if step is None:
        with pytest.raises(WireError, match="which is"):
            INPUTS[input_](side)
        return
    heard = INPUTS[input_](side)
    channel = side.link.channel(CHANNEL)
    assert (ChannelState.GONE if channel is None else channel.state) is step.state
    assert [kind for kind, _ in side.link.take_frames()] == [message.kind for message in step.says]
    assert bool(heard) == step.is_heard
