"""How a channel comes to be shared on a link, what both say of it, and how it is left.

A channel's state, which each side keeps for itself:

    state      own JOIN    own LEAVE     JOINED      REFUSED   LEAVE                JOIN
    none       -> JOINING                                                           -> SHARED, says JOINED
    JOINING                -> ABANDONED  -> SHARED   -> none                        see below
    ABANDONED                            -> LEAVING  -> none                        see below
    SHARED                 -> LEAVING                          -> none, says LEAVE
    LEAVING                                                    -> none

What has no entry is a WireError. Where both send JOIN for one channel, the initiator's counts: it ignores the
other's, and the responder forgets its own. Between its own LEAVE and the peer's, a side ignores what still
comes for the channel and its streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from echo_core.errors import LinkError, WireError
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Purpose, Role, check_key, is_proven, prove
from echo_core.transports.protocol import messages, notices
from echo_core.transports.protocol.link_state import (
    UNANSWERED,
    ChannelState,
    LinkState,
    SharedChannel,
    refuse,
)
from echo_core.transports.protocol.messages import Refusal

OnChannel = (
    messages.Joined
    | messages.Refused
    | messages.Declared
    | messages.Leave
    | messages.Member
    | messages.Source
)
_JOINED_ONCE = frozenset({ChannelState.SHARED, ChannelState.LEAVING})

# In which states of its channel a message may come.
_LEGAL: dict[type[OnChannel], frozenset[ChannelState]] = {
    messages.Joined: UNANSWERED,
    messages.Refused: UNANSWERED,
    messages.Declared: _JOINED_ONCE,
    messages.Leave: _JOINED_ONCE,
    messages.Member: _JOINED_ONCE,
    messages.Source: _JOINED_ONCE,
}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a node knows of a channel: its key, and for the peer its name and the metadata of its types."""

    key: bytes
    name: str = ""
    types: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        """What could not be told to a peer is refused here."""
        check_key(self.key)
        messages.encode(messages.Declared(0, self.name, tuple(range(len(self.types)))))
        for metadata in self.types:
            messages.encode(messages.Format(0, metadata))


class Joining:
    """The channels of one link."""

    def __init__(
        self, state: LinkState, secret: bytes, declaration_of: Callable[[bytes], Declaration | None]
    ) -> None:
        self._state = state
        self._secret = secret
        self._declaration_of = declaration_of

    def join(self, channel_id: bytes) -> None:
        """Ends in ChannelShared or JoinRefused, if the channel is not shared already."""
        channel = self._state.channels.of_id(channel_id)
        if channel is None:
            self._send_join(channel_id)
        elif channel.state not in {ChannelState.JOINING, ChannelState.SHARED}:
            channel.is_wanted_again = True

    def leave(self, channel_id: bytes) -> None:
        """No notice of this channel or its streams comes after this; routes must be closed before."""
        channel = self._state.channels.of_id(channel_id)
        if channel is None:
            return
        channel.is_wanted_again = False
        if channel.state is ChannelState.JOINING:
            channel.state = ChannelState.ABANDONED
            self._state.send(messages.Leave(channel.alias))
        elif channel.state is ChannelState.SHARED:
            channel.state = ChannelState.LEAVING
            self._state.send(messages.Leave(channel.alias))

    def channel_of(self, message: OnChannel) -> SharedChannel:
        """The channel that a message is about; WireError where it may not come."""
        channel = self._state.channels.of_alias(message.alias)
        if channel is None or channel.state not in _LEGAL[type(message)]:
            state = channel.state.name.lower() if channel else "unknown"
            msg = f"Expected no {message.kind.name} for channel {message.alias}, which is {state}"
            raise WireError(msg)
        return channel

    def accept_join(self, join: messages.Join) -> None:
        self._state.channels.use_peer_alias(join.alias)
        present = self._state.channels.of_id(join.channel_id)
        if present is not None and present.state not in UNANSWERED:
            refuse("a JOIN of a channel that is not joined", join.alias)
        if present is None:
            self._answer_join(join, is_own_void=False)
        elif self._state.role is Role.RESPONDER:
            self._state.channels.remove(present)
            is_wanted = present.state is ChannelState.JOINING or present.is_wanted_again
            self._answer_join(join, is_own_void=is_wanted)

    def _answer_join(self, join: messages.Join, *, is_own_void: bool) -> None:
        declaration = self._declaration_of(join.channel_id)
        refusal = self._refusal_of(join, declaration)
        if declaration is None or refusal is not None:
            code, text = refusal or (Refusal.UNKNOWN_CHANNEL, "")
            self._state.send(messages.Refused(join.alias, code, text))
            if is_own_void:
                self._state.tell(notices.JoinRefused(join.channel_id, code, text))
            return
        channel = self._state.channels.add_peers(join.channel_id, join.alias)
        proof = self._proof(Purpose.JOINED, declaration.key, channel)
        self._state.send(messages.Joined(join.alias, proof))
        self._share(channel, declaration)

    def _refusal_of(self, join: messages.Join, declaration: Declaration | None) -> tuple[Refusal, str] | None:
        if declaration is None:
            return Refusal.UNKNOWN_CHANNEL, "this node does not know the channel"
        if not is_proven(join.proof, Purpose.JOIN, declaration.key, *self._said(join.channel_id, join.alias)):
            return Refusal.WRONG_KEY, "the key is not that of the channel"
        if len(self._state.channels) >= limits.MAX_CHANNELS:
            return Refusal.BUSY, f"a link carries at most {limits.MAX_CHANNELS} channels"
        return self._shortage_of(declaration)

    def _shortage_of(self, declaration: Declaration) -> tuple[Refusal, str] | None:
        """What could not be declared is not shared."""
        if not self._state.own_formats.has_room_for(declaration.types):
            return Refusal.BUSY, "the link has no room for the formats of the channel"
        return None

    def accept_joined(self, joined: messages.Joined) -> None:
        channel = self.channel_of(joined)
        if channel.state is ChannelState.ABANDONED:
            channel.state = ChannelState.LEAVING
            return
        declaration = self._declaration_of(channel.channel_id)
        if declaration is None:
            channel.state = ChannelState.LEAVING
            self._state.send(messages.Leave(channel.alias))
            return
        said = self._said(channel.channel_id, channel.alias)
        if not is_proven(joined.proof, Purpose.JOINED, declaration.key, *said):
            refuse("a proof of the channel's key in JOINED", joined.alias)
        shortage = self._shortage_of(declaration)
        if shortage is not None:
            channel.state = ChannelState.LEAVING
            self._state.send(messages.Leave(channel.alias))
            self._state.tell(notices.JoinRefused(channel.channel_id, *shortage))
            return
        channel.state = ChannelState.SHARED
        self._share(channel, declaration)

    def _share(self, channel: SharedChannel, declaration: Declaration) -> None:
        numbers = tuple([self._state.format_number(metadata) for metadata in declaration.types])
        self._state.send(messages.Declared(channel.alias, declaration.name, numbers))
        self._state.tell(notices.ChannelShared(channel.channel_id))

    def accept_refused(self, refused: messages.Refused) -> None:
        channel = self.channel_of(refused)
        if channel.state is ChannelState.JOINING:
            self._state.tell(notices.JoinRefused(channel.channel_id, refused.code, refused.text))
        self._forget(channel)

    def accept_leave(self, leave: messages.Leave) -> None:
        channel = self._state.channels.of_alias(leave.alias)
        if channel is None and self._state.channels.was_peer_alias(leave.alias):
            return  # it was refused, or did not count, while the LEAVE was under way
        channel = self.channel_of(leave)
        if channel.state is ChannelState.SHARED:
            self._state.send(messages.Leave(channel.alias))
            self._state.notices += [notices.StreamClosed(stream) for stream in sorted(channel.peer_streams)]
            self._state.tell(notices.ChannelLeft(channel.channel_id))
        self._forget(channel)

    def _forget(self, channel: SharedChannel) -> None:
        self._state.forget(channel)
        if channel.is_wanted_again and self._declaration_of(channel.channel_id) is not None:
            self._send_join(channel.channel_id)

    def _send_join(self, channel_id: bytes) -> None:
        declaration = self._declaration_of(channel_id)
        if declaration is None:
            msg = f"Expected the id of a channel that this node knows, got {channel_id.hex()}"
            raise LinkError(msg)
        channel = self._state.channels.add_own(channel_id)
        proof = self._proof(Purpose.JOIN, declaration.key, channel)
        self._state.send(messages.Join(channel.alias, channel_id, proof))

    def _proof(self, purpose: Purpose, key: bytes, channel: SharedChannel) -> bytes:
        return prove(purpose, key, *self._said(channel.channel_id, channel.alias))

    def _said(self, channel_id: bytes, alias: int) -> tuple[bytes, ...]:
        return self._secret, channel_id, alias.to_bytes(4, "little")

    def accept_declared(self, declared: messages.Declared) -> None:
        channel = self.channel_of(declared)
        if channel.is_declared:
            refuse("DECLARED once", declared.alias)
        channel.is_declared = True
        types = tuple([self._state.peer_formats.metadata_of(number) for number in declared.types])
        if channel.state is ChannelState.SHARED:
            self._state.tell(notices.ChannelDeclared(channel.channel_id, declared.name, types))

    def accept_member(self, member: messages.Member) -> None:
        channel = self.channel_of(member)
        if member.addresses:
            channel.members.add(member.node_id)
        else:
            channel.members.discard(member.node_id)
        if len(channel.members) > limits.MAX_MEMBERS:
            refuse(f"at most {limits.MAX_MEMBERS} members", member.alias)
        if channel.state is ChannelState.SHARED:
            self._state.tell(notices.MemberTold(channel.channel_id, member.node_id, member.addresses))
