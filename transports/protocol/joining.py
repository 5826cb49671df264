"""How a channel comes to be shared on a link, what both say of it, and how it is left.

Each side keeps a state for each channel. TRANSITIONS says where every input leads from every state; `_step`
executes it, and docs/link-protocol.md has the same table, which a test holds to this one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from echo_core.errors import RefusedError, WireError, unexpected
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Purpose, Role, is_proven, prove
from echo_core.transports.protocol.link_state import (
    ChannelOnLink,
    ChannelState,
    Declaration,
    Heard,
    LinkState,
    frame_of,
)
from echo_core.transports.protocol.messages import (
    Closed,
    Declared,
    Join,
    Joined,
    Leave,
    Message,
    Refusal,
    Refused,
    word_of,
)

GONE, JOINING, ABANDONED, SHARED, LEAVING = ChannelState


class Input(enum.Enum):
    """What moves a channel from one state to another; the values are for readers of the table."""

    OWN_JOIN = "the node joins"
    OWN_LEAVE = "the node leaves"
    JOIN = "JOIN comes, and is accepted"
    JOIN_DECLINED = "JOIN comes, and is not accepted"
    JOIN_OVERRULED = "JOIN comes to the initiator, which has sent its own"
    JOINED = "JOINED comes"
    JOINED_IN_VAIN = "JOINED comes, but the channel cannot be shared any more"
    REFUSED = "REFUSED comes"
    LEAVE = "LEAVE comes"


class Step(NamedTuple):
    """What an input does to a channel."""

    state: ChannelState  # the next one
    says: tuple[type[Message], ...] = ()  # to the peer
    is_heard: bool = False  # by the node


_SHARES = Step(SHARED, says=(Joined, Declared), is_heard=True)

# What has no entry may not happen: a command never does it, and of a peer it is a WireError.
TRANSITIONS: dict[Input, dict[ChannelState, Step]] = {
    Input.OWN_JOIN: {
        GONE: Step(JOINING, says=(Join,)),
        JOINING: Step(JOINING),
        ABANDONED: Step(ABANDONED),  # is_wanted_again remembers it
        SHARED: Step(SHARED),
        LEAVING: Step(LEAVING),  # likewise
    },
    Input.OWN_LEAVE: {
        GONE: Step(GONE),
        JOINING: Step(ABANDONED, says=(Leave,)),
        ABANDONED: Step(ABANDONED),
        SHARED: Step(LEAVING, says=(Leave,)),
        LEAVING: Step(LEAVING),
    },
    Input.JOIN: {GONE: _SHARES, JOINING: _SHARES, ABANDONED: _SHARES},
    Input.JOIN_DECLINED: {
        GONE: Step(GONE, says=(Refused,)),
        JOINING: Step(GONE, says=(Refused,), is_heard=True),
        ABANDONED: Step(GONE, says=(Refused,)),
    },
    Input.JOIN_OVERRULED: {JOINING: Step(JOINING), ABANDONED: Step(ABANDONED)},
    Input.JOINED: {JOINING: Step(SHARED, says=(Declared,), is_heard=True), ABANDONED: Step(LEAVING)},
    Input.JOINED_IN_VAIN: {JOINING: Step(LEAVING, says=(Leave,), is_heard=True), ABANDONED: Step(LEAVING)},
    Input.REFUSED: {JOINING: Step(GONE, is_heard=True), ABANDONED: Step(GONE)},
    Input.LEAVE: {
        GONE: Step(GONE),  # of a JOIN of the peer's that was declined or overruled
        SHARED: Step(GONE, says=(Leave,), is_heard=True),
        LEAVING: Step(GONE),
    },
}


def states_of(*inputs: Input) -> frozenset[ChannelState]:
    """In which states one of these can happen."""
    return frozenset(state for input_ in inputs for state in TRANSITIONS[input_])


def _step(link: LinkState, channel: ChannelOnLink, input_: Input, message: Message | None) -> list[Heard]:
    """Moves a channel as the table has it. `message` is what the node hears, where it does.

    A Step that says a message of the same type says this one: the refusal of a JOIN, the echo of LEAVE.
    """
    before, step = channel.state, TRANSITIONS[input_][channel.state]
    for said in step.says:
        word = message if message is not None and type(message) is said else _WORDS[said](link, channel)
        frame = frame_of(word)
        link.frames += [frame]  # no call from here on: Ctrl-C finds it said, and the next state, or neither
        channel.state = step.state
    channel.state = step.state
    if isinstance(message, Refused) and step.is_heard:
        channel.refusal = message
    if step.state is SHARED:
        channel.refusal, channel.is_wanted_again = None, False
    if step.state is GONE is not before:
        _forget(link, channel)
    return [Heard(message, channel)] if step.is_heard and message is not None else []


def _forget(link: LinkState, channel: ChannelOnLink) -> None:
    link.forget(channel)
    if channel.is_wanted_again:
        channel.is_wanted_again = False
        if link.declaration_of(channel.uid) is not None:
            join(link, channel.uid)


# --- what this side wants ---


def join(link: LinkState, uid: bytes) -> ChannelOnLink:
    """Asks the peer to share a channel, at once or as soon as the peer has left it."""
    channel = link.channels.of_id(uid)
    channel.refusal = None
    if channel.state is GONE:
        _declaration(link, channel)
        link.channels.add_own(channel)
    channel.is_wanted_again = channel.state in {ABANDONED, LEAVING}
    _step(link, channel, Input.OWN_JOIN, None)
    return channel


def leave(link: LinkState, channel: ChannelOnLink) -> None:
    channel.is_wanted_again = False
    _step(link, channel, Input.OWN_LEAVE, None)


# --- what the peer says; receiving.py has found the channel, and that the message may come in its state ---


def accept_join(link: LinkState, join_: Join, channel: ChannelOnLink) -> list[Heard]:
    link.channels.use_peer_alias(join_.alias)
    if channel.state is not GONE and link.role is Role.INITIATOR:
        return _step(link, channel, Input.JOIN_OVERRULED, join_)
    refused = _refusal_of(link, join_, channel)
    if refused is not None:
        return _step(link, channel, Input.JOIN_DECLINED, refused)
    link.channels.add(channel, join_.alias)
    return _step(link, channel, Input.JOIN, join_)


def accept_joined(link: LinkState, joined: Joined, channel: ChannelOnLink) -> list[Heard]:
    declaration = link.declaration_of(channel.uid)
    if declaration is None:
        return _step(link, channel, Input.JOINED_IN_VAIN, None)
    said = _said(link, channel.uid, channel.alias)
    # The key of an abandoned channel may be another by now.
    if channel.state is JOINING and not is_proven(joined.proof, Purpose.JOINED, declaration.key, *said):
        raise unexpected(WireError, "a proof of the channel's key in JOINED", joined.alias)
    shortage = _shortage_of(link, channel.alias, declaration)
    if shortage is not None:
        return _step(link, channel, Input.JOINED_IN_VAIN, shortage)
    return _step(link, channel, Input.JOINED, joined)


def accept_refused(link: LinkState, refused: Refused, channel: ChannelOnLink) -> list[Heard]:
    return _step(link, channel, Input.REFUSED, refused)


def accept_leave(link: LinkState, leave_: Leave, channel: ChannelOnLink) -> list[Heard]:
    """The node hears that the peer's streams are closed, unless it has, before that the peer has left."""
    streams = sorted(channel.peer_streams, key=lambda stream: stream.number) if channel.is_shared else []
    closed = [Heard(Closed(stream.number), stream) for stream in streams if not stream.is_closed]
    return closed + _step(link, channel, Input.LEAVE, leave_)


def _refusal_of(link: LinkState, join_: Join, channel: ChannelOnLink) -> Refused | None:
    declaration = link.declaration_of(join_.uid)
    if declaration is None:
        return Refused(join_.alias, Refusal.UNKNOWN_CHANNEL, "this node does not know the channel")
    said = _said(link, join_.uid, join_.alias)
    if not is_proven(join_.proof, Purpose.JOIN, declaration.key, *said):
        return Refused(join_.alias, Refusal.WRONG_KEY, "the key is not that of the channel")
    if refusal := link.admit(join_.uid):
        return Refused(join_.alias, refusal, "the channel is shared on another link")
    if channel.state is GONE and len(link.channels) >= limits.MAX_CHANNELS:
        return Refused(join_.alias, Refusal.BUSY, f"a link carries at most {limits.MAX_CHANNELS} channels")
    return _shortage_of(link, join_.alias, declaration)


def _shortage_of(link: LinkState, alias: int, declaration: Declaration) -> Refused | None:
    """What could not be declared is not shared."""
    if not link.own_formats.has_room_for(declaration.types):
        return Refused(alias, Refusal.BUSY, "the link has no room for the formats of the channel")
    return None


# --- what is said of a channel ---


def _declaration(link: LinkState, channel: ChannelOnLink) -> Declaration:
    declaration = link.declaration_of(channel.uid)
    if declaration is None:
        msg = f"Expected the id of a channel that this node knows, got {channel.uid.hex()}"
        raise RefusedError(msg, code=word_of(Refusal.UNKNOWN_CHANNEL))
    return declaration


def _proof(link: LinkState, purpose: Purpose, channel: ChannelOnLink) -> bytes:
    key = _declaration(link, channel).key
    return prove(purpose, key, *_said(link, channel.uid, channel.alias))


def _said(link: LinkState, uid: bytes, alias: int) -> tuple[bytes, ...]:
    return link.secret, uid, alias.to_bytes(4, "little")


def _declared(link: LinkState, channel: ChannelOnLink) -> Declared:
    """Formats that the peer does not know yet are sent before it."""
    declaration = _declaration(link, channel)
    numbers = tuple([link.format_number(metadata) for metadata in declaration.types])
    return Declared(channel.alias, declaration.name, numbers)


# How each message is made that a Step says of its own.
_WORDS: dict[type[Message], Callable[[LinkState, ChannelOnLink], Message]] = {
    Join: lambda link, channel: Join(channel.alias, channel.uid, _proof(link, Purpose.JOIN, channel)),
    Joined: lambda link, channel: Joined(channel.alias, _proof(link, Purpose.JOINED, channel)),
    Declared: _declared,
    Leave: lambda _, channel: Leave(channel.alias),
}
