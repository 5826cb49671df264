"""The state machine of the handshake, in which both sides prove that they know a channel's key.

    initiator                                        responder
    HELLO    who I am, which channel's key  ------>
                                            <------  WELCOME  who I am, proof of the key     | or REFUSED
    PROOF    proof of the key               ------>                                          | or REFUSED
                                            <------  READY                                   | or REFUSED

Each proof covers all previous messages, so tampering is detected; the nonces make a proof valid for one
handshake only. Whoever receives a proof could guess keys against it offline, so keys are random and have 16
bytes or more.

A driver reads exactly `wanted_bytes` from the connection (bytes after READY belong to the link), passes them
to `receive`, and sends what `bytes_to_send` returns. The driver also enforces timeouts and the number of
half-open connections, with the values in limits.py.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from echo_core.errors import LinkError, RefusedError, WireError
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Purpose, Role, check_key, is_proven, prove
from echo_core.transports.handshake.words import (
    HEADER,
    MAGIC,
    Hello,
    Identity,
    Proof,
    Ready,
    Refused,
    Step,
    Welcome,
    Words,
    read_words,
    versions_of,
    write_words,
)
from echo_core.transports.protocol.messages import Refusal, word_of

VERSION = 1  # the only one so far
LOWEST_VERSION = 1


@dataclass(frozen=True, slots=True)
class Established:
    """The result of a successful handshake."""

    role: Role
    version: int
    peer: Identity
    channel_id: bytes
    secret: bytes  # part of the proofs by which channels are joined on the link


_REASONS = {
    Refusal.VERSION: f"it speaks versions {LOWEST_VERSION} to {VERSION}",
    Refusal.WRONG_KEY: "the key is not that of the channel",
    Refusal.UNKNOWN_CHANNEL: "it does not know the channel",
    Refusal.DUPLICATE: "there is a link already",
    Refusal.BUSY: "it has too many links",
    Refusal.SAME_NODE: "it is the same node",
    Refusal.CLOSING: "it is closing",
}


def duplicate(own_id: bytes, peer_id: bytes, *, is_linked: bool, is_proving: bool) -> Refusal | None:
    """Decide which link remains if two nodes connect to each other at the same time.

    For callers' `admit` functions. `is_linked`: there is a link to the peer. `is_proving`: another attempt of
    this node has sent PROOF to the peer; a responder then refuses if its own node id is the smaller one. An
    initiator passes `is_linked=True` in either case.
    """
    return Refusal.DUPLICATE if is_linked or (is_proving and own_id < peer_id) else None


Admit = Callable[[Identity], Refusal | None]


class Handshake(abc.ABC):
    """Common to both sides: assemble messages one at a time, check their headers, refuse."""

    def __init__(self, own: Identity, first: Step) -> None:
        self.established: Established | None = None
        self._own = own
        self._expected = first
        self._received = bytearray()
        self._to_send = b""
        self._said = b""  # all messages so far, of both sides; the input of the proofs
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the handshake has ended, successfully or not."""
        return self._is_over

    @property
    def wanted_bytes(self) -> int:
        """How many bytes `receive` needs next; 0 after the end."""
        if self._is_over:
            return 0
        if len(self._received) < HEADER.size:
            return HEADER.size - len(self._received)
        _, _, size = HEADER.unpack_from(self._received)
        return int(size) - len(self._received)

    def bytes_to_send(self) -> bytes:
        """Bytes to send, also after an error. Each byte is returned once."""
        data, self._to_send = self._to_send, b""
        return data

    def receive(self, data: bytes) -> None:
        """Process at most `wanted_bytes` bytes from the peer; empty data means the end of the connection.

        WireError: the peer violates the protocol. RefusedError: one of the two sides refuses. LinkError: the
        connection has ended.
        """
        if self._is_over or len(data) > self.wanted_bytes:
            msg = f"Expected at most {self.wanted_bytes} bytes, got {len(data)}"
            raise LinkError(msg)
        try:
            if not data:
                msg = f"The peer closed the connection where {self._expected.name} was expected"
                raise LinkError(msg) from EOFError()  # lets callers tell this from other errors
            self._collect(data)
        except (WireError, LinkError):
            self._is_over = True
            raise

    def refuse(self, code: Refusal) -> None:
        """Refuse the peer, at any time before the end. The handshake is over."""
        self._to_send += write_words(Refused(code, _REASONS[code]))
        self._is_over = True

    def _collect(self, data: bytes) -> None:
        self._received += data
        self._check_header()
        if self.wanted_bytes == 0:
            message = bytes(self._received)
            self._received.clear()
            self._take(message)

    def _take(self, message: bytes) -> None:
        _, step, _ = HEADER.unpack_from(message)
        if step == Step.HELLO:
            self._check_versions(message)
        words = read_words(message)
        if isinstance(words, Refused):
            _raise_refused(words)
        self._accept(words, message)

    def _check_versions(self, hello: bytes) -> None:
        """Checked before the other fields: their meaning is known only if the version is supported."""
        versions = versions_of(hello)
        if versions is not None and not versions[0] <= VERSION <= versions[1]:
            self._refuse(Refusal.VERSION)

    def _check_header(self) -> None:
        start = bytes(self._received[: len(MAGIC)])
        if not MAGIC.startswith(start):
            msg = f"Expected a handshake, which begins with {MAGIC!r}, got {start!r}"
            raise WireError(msg)
        if len(self._received) < HEADER.size:
            return
        _, step, size = HEADER.unpack_from(self._received)
        if step not in {self._expected, Step.REFUSED}:
            msg = f"Expected {self._expected.name}, got step {step}"
            raise WireError(msg)
        if not HEADER.size <= size <= limits.MAX_HANDSHAKE_BYTES:
            limit = limits.MAX_HANDSHAKE_BYTES
            msg = f"Expected {self._expected.name} of {HEADER.size} to {limit} bytes, got {size}"
            raise WireError(msg)

    @abc.abstractmethod
    def _accept(self, words: Words, message: bytes) -> None:
        """Process a message of the expected step."""

    def _say(self, words: Words) -> None:
        data = write_words(words)
        self._said += data
        self._to_send += data

    def _refuse(self, code: Refusal) -> NoReturn:
        self.refuse(code)
        msg = f"The peer was refused: {_REASONS[code]}"
        raise RefusedError(msg, code=word_of(code))

    def _establish(self, role: Role, version: int, peer: Identity, channel_id: bytes, key: bytes) -> None:
        secret = prove(Purpose.SECRET, key, self._said)
        self.established = Established(role, version, peer, channel_id, secret)
        self._is_over = True


class Initiator(Handshake):
    """The side that opened the connection."""

    def __init__(
        self, own: Identity, channel_id: bytes, key: bytes, *, admit: Admit, nonce: bytes | None = None
    ) -> None:
        """`admit` is called before this side sends its proof. Tests pass a nonce."""
        super().__init__(own, Step.WELCOME)
        check_key(key)
        self._channel_id = channel_id
        self._key = key
        self._admit = admit
        self._welcome: Welcome | None = None
        nonce = nonce or os.urandom(limits.NONCE_BYTES)
        self._say(Hello(LOWEST_VERSION, VERSION, channel_id, nonce, own))

    def _accept(self, words: Words, message: bytes) -> None:
        if isinstance(words, Welcome):
            self._accept_welcome(words, message)
        elif self._welcome is not None:
            welcome = self._welcome
            self._establish(Role.INITIATOR, welcome.version, welcome.identity, self._channel_id, self._key)

    def _accept_welcome(self, welcome: Welcome, message: bytes) -> None:
        if not LOWEST_VERSION <= welcome.version <= VERSION:
            self._refuse(Refusal.VERSION)
        if welcome.identity.node_id == self._own.node_id:
            self._refuse(Refusal.SAME_NODE)
        unproven = message[: -limits.PROOF_BYTES]
        if not is_proven(welcome.proof, Purpose.WELCOME, self._key, self._said, unproven):
            self._refuse(Refusal.WRONG_KEY)
        if refusal := self._admit(welcome.identity):
            self._refuse(refusal)
        self._said += message
        self._welcome = welcome
        self._say(Proof(prove(Purpose.PROOF, self._key, self._said)))
        self._expected = Step.READY


class Responder(Handshake):
    """The side that accepted the connection."""

    def __init__(
        self,
        own: Identity,
        key_of: Callable[[bytes], bytes | None],
        *,
        admit: Admit,
        nonce: bytes | None = None,
    ) -> None:
        """`key_of` looks up a channel's key; `admit` is called after the peer's proof. Tests pass a nonce."""
        super().__init__(own, Step.HELLO)
        self._key_of = key_of
        self._admit = admit
        self._nonce = nonce or os.urandom(limits.NONCE_BYTES)
        self._hello: Hello | None = None
        self._key = b""

    def _accept(self, words: Words, message: bytes) -> None:
        if isinstance(words, Hello):
            self._accept_hello(words, message)
        elif isinstance(words, Proof) and self._hello is not None:
            self._accept_proof(self._hello, words, message)

    def _accept_hello(self, hello: Hello, message: bytes) -> None:
        if hello.identity.node_id == self._own.node_id:
            self._refuse(Refusal.SAME_NODE)
        key = self._key_of(hello.channel_id)
        if key is None:
            self._refuse(Refusal.UNKNOWN_CHANNEL)
        self._key, self._hello = key, hello
        self._said += message
        blank = Welcome(VERSION, self._nonce, self._own, bytes(limits.PROOF_BYTES))
        unproven = write_words(blank)[: -limits.PROOF_BYTES]
        proof = prove(Purpose.WELCOME, key, self._said, unproven)
        self._say(Welcome(VERSION, self._nonce, self._own, proof))
        self._expected = Step.PROOF

    def _accept_proof(self, hello: Hello, proof: Proof, message: bytes) -> None:
        if not is_proven(proof.proof, Purpose.PROOF, self._key, self._said):
            self._refuse(Refusal.WRONG_KEY)
        if refusal := self._admit(hello.identity):
            self._refuse(refusal)
        self._said += message
        self._to_send += write_words(Ready())
        self._establish(Role.RESPONDER, VERSION, hello.identity, hello.channel_id, self._key)


def _raise_refused(refused: Refused) -> NoReturn:
    text = refused.text if refused.text.isprintable() else repr(refused.text)
    msg = f"The peer refused the link: {text}"
    raise RefusedError(msg, code=word_of(refused.code))
