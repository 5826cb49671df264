"""A peer that is written by hand: it shakes hands with the right key, and then says whatever a test wants."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import echo_core as echo
from echo_core.roster.ids import ChannelId
from echo_core.transports.addresses import UnixAddress
from echo_core.transports.handshake.exchange import Initiator
from echo_core.transports.handshake.proofs import Purpose, prove
from echo_core.transports.handshake.words import Identity
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.messages import Message
from echo_core.transports.wires import sockets
from tests.transports.frames import scan, write_frame

LIMIT_S = 30.0
STREAM = 64

Change = Callable[[int, bytes], bytes]
"""From the position of some bytes in all that is sent, and those bytes, to what is sent instead."""


def unchanged(position: int, data: bytes) -> bytes:
    return data


def identity(node_id: bytes | None = None) -> Identity:
    return Identity(
        node_id=node_id or secrets.token_bytes(16),
        process_id=os.getpid(),
        host_id=sockets.host_id(),
        name="hostile",
    )


def connect(uid: str, transport: str) -> socket.socket:
    """A bare connection to the creator of a channel."""
    addresses = ChannelId.parse(uid).addresses
    address = next(it for it in addresses if isinstance(it, UnixAddress) == (transport == "unix"))
    return sockets.connect(address, LIMIT_S)


@dataclass
class HostilePeer:
    """One connection to a channel's creator."""

    connection: socket.socket
    id: ChannelId
    change: Change = unchanged
    sent: int = 0
    secret: bytes = b""
    alias: int = 0
    is_cut: bool = False
    node_id: bytes | None = None

    @classmethod
    def connected(cls, uid: str, transport: str, change: Change = unchanged) -> Self:
        return cls(connect(uid, transport), ChannelId.parse(uid), change)

    @classmethod
    def linked(cls, uid: str, transport: str, node_id: bytes | None = None) -> Self:
        """A peer whose handshake is over."""
        peer = cls.connected(uid, transport)
        peer.node_id = node_id
        peer.shake_hands()
        return peer

    def send(self, data: bytes) -> None:
        """What the change makes of it; a shorter text is the last that is sent."""
        changed = self.change(self.sent, data)
        self.sent += len(data)
        if changed and not self.is_cut:
            self.connection.sendall(changed)
        self.is_cut = self.is_cut or len(changed) < len(data)

    def shake_hands(self, own: Identity | None = None) -> None:
        """Errors of the other side's are raised, or end the connection."""
        self.finish(self.initiator(own))

    def initiator(self, own: Identity | None = None) -> Initiator:
        """A handshake that has not begun."""
        own = own or identity(self.node_id)
        return Initiator(own, self.id.uid, self.id.key, admit=lambda _, __: None)

    def finish(self, initiator: Initiator) -> None:
        """The rest of a handshake."""
        while True:
            self.send(initiator.bytes_to_send())
            if self.is_cut:
                raise ConnectionAbortedError
            if initiator.established is not None:
                self.secret = initiator.established.secret
                return
            initiator.receive(self.connection.recv(initiator.wanted_bytes))

    def say(self, *said: Message) -> None:
        for message in said:
            self.send(write_frame(message.kind, messages.encode(message)))

    def join(self, alias: int = 0) -> messages.Join:
        proof = prove(Purpose.JOIN, self.id.key, self.secret, self.id.uid, alias.to_bytes(4, "little"))
        return messages.Join(alias, self.id.uid, proof)

    def join_and_offer(self, cls: type[Any], stream: int = STREAM) -> None:
        """On the channel, with a source of events of that class; the other side's sinks attach at once."""
        self.say(
            self.join(),
            messages.Declared(0, "", ()),
            messages.Format(0, echo.format_of(cls).metadata),
            messages.Source(stream, 0, 0, 0, bytes(16), "hostile"),
            messages.Started(stream, 0, 0),
        )

    def messages(self) -> Iterator[Message]:
        """What the other side says, until its end; records are passed over."""
        received = b""
        while data := self.receive():
            received += data
            frames, used = scan(received, 1 << 30)
            received = received[used:]
            yield from (messages.decode(kind, payload) for kind, payload in frames if kind < STREAM)

    def receive(self) -> bytes:
        """What has come; nothing: the connection is over. TimeoutError: it is neither."""
        try:
            return self.connection.recv(1 << 16)
        except ConnectionError:
            return b""

    def expect_end(self) -> None:
        """The other side ends the connection by itself."""
        while self.receive():
            pass

    def shut_sending(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
