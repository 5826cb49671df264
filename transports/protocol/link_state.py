"""All that one side of a link remembers, and the frames on their way to the peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from echo_core.errors import LinkError, WireError
from echo_core.transports.handshake.proofs import Role
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.formats import Declaration, FormatTable
from echo_core.transports.protocol.messages import Message
from echo_core.transports.protocol.streams import (
    ChannelOnLink,
    ChannelTable,
    OwnStream,
    OwnStreams,
    PeerStream,
    PeerStreams,
)

About = ChannelOnLink | OwnStream | PeerStream


class Heard(NamedTuple):
    """What the peer has said, and about what; None: about the link."""

    message: Message
    about: About | None


class LinkState:
    """Read and changed by the commands of link.py, by joining.py and by receiving.py."""

    def __init__(
        self, role: Role, secret: bytes, declaration_of: Callable[[bytes], Declaration | None]
    ) -> None:
        self.role = role
        self.secret = secret
        self.declaration_of = declaration_of
        self.channels = ChannelTable(role)
        self.own_streams = OwnStreams()
        self.peer_streams = PeerStreams()
        self.own_formats = FormatTable(LinkError)
        self.peer_formats = FormatTable(WireError)
        self.flushes: set[int] = set()  # own, not answered yet
        self.frames: list[tuple[int, bytes]] = []
        self.has_said_bye = False
        self.has_heard_bye = False

    def send(self, message: Message) -> None:
        """To the peer."""
        self.frames.append((message.kind, messages.encode(message)))

    def format_number(self, metadata: bytes) -> int:
        """The number by which the peer knows it; it is sent where the peer does not."""
        number = self.own_formats.number_of(metadata)
        if number is None:
            number = self.own_formats.add(metadata)
            self.send(messages.Format(number, metadata))
        return number

    def forget(self, channel: ChannelOnLink) -> None:
        """The channel and its streams are gone on both sides."""
        for own in list(channel.own_streams):
            self.own_streams.remove(own)
        for peers in list(channel.peer_streams):
            self.peer_streams.remove(peers)
        self.channels.remove(channel)
        channel.clear()
