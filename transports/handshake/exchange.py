"""The state machine of the handshake, in which both sides prove that they know a channel's key.

    initiator                                        responder
    HELLO    who I am, proof of the key     ------>
                                            <------  WELCOME  who I am, proof of the key     | or REFUSED
    PROOF    proof of the key               ------>                                          | or REFUSED
                                            <------  READY                                   | or REFUSED

Each proof covers all previous messages, so tampering is detected; the nonces make a proof valid for one
handshake only, but for that of HELLO. This one is checked before anything else is read or remembered, so that
whoever has no key costs a hash; who has overheard a HELLO can say it again, and gets no further. Whoever
receives a proof could guess keys against it offline, so keys are random and have 16 bytes or more.

A driver reads exactly `wanted_bytes` from the connection (bytes after READY belong to the link), passes them
to `receive`, and sends what `bytes_to_send` returns. The driver also enforces timeouts and the number of
half-open connections, with the values in limits.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from echo_core.errors import LinkError, RefusedError, WireError, unexpected
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Purpose, Role, check_key, is_proven, prove
from echo_core.transports.handshake.words import (
    HEADER,
    MAGIC,
    UID,
    VERSIONS,
    Hello,
    Identity,
    Proof,
    Ready,
    Refused,
    Welcome,
    Words,
    read_words,
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
    uid: bytes
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


_NO_PROOF = bytes(limits.PROOF_BYTES)
_P = TypeVar("_P", Hello, Welcome)


def proven(words: _P, key: bytes, *said: bytes) -> _P:
    """With the proof at its end, of what was said before it and the message itself."""
    unproven = write_words(words)[: -limits.PROOF_BYTES]
    return replace(words, proof=prove(Purpose[words.word], key, *said, unproven))


Admit = Callable[[Identity, bytes], Refusal | None]  # a peer, and the channel whose key it has proven


_Talk = Generator[type[Words], tuple[Any, bytes], None]


class Handshake:
    """Common to both sides: assemble messages one at a time, check their headers, refuse."""

    def __init__(self, own: Identity, admit: Admit, nonce: bytes | None, talk: _Talk) -> None:
        """`talk` yields which message has to come next, and is sent it, decoded and as bytes."""
        self.established: Established | None = None
        self.is_over = False  # successfully or not
        self._own = own
        self._admit = admit
        self._nonce = nonce or os.urandom(limits.NONCE_BYTES)
        self._received = bytearray()
        self._to_send = b""
        self._said = b""  # all messages so far, of both sides; the input of the proofs
        self._talk = talk
        self._expected = next(talk)

    @property
    def wanted_bytes(self) -> int:
        """How many bytes `receive` needs next; 0 after the end."""
        if self.is_over:
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
        if self.is_over or len(data) > self.wanted_bytes:
            raise unexpected(LinkError, f"at most {self.wanted_bytes} bytes", len(data))
        try:
            if not data:
                msg = f"The peer closed the connection where {self._expected.word} was expected"
                raise LinkError(msg) from EOFError()  # lets callers tell this from other errors
            self._received += data
            self._check_header()
            if self.wanted_bytes == 0:
                message, self._received = bytes(self._received), bytearray()
                self._take(message)
        except (WireError, LinkError):
            self.is_over = True
            raise

    def refuse(self, code: Refusal) -> None:
        """Refuse the peer, at any time before the end. The handshake is over."""
        self._to_send += write_words(Refused(code, _REASONS[code]))
        self.is_over = True

    def _check_header(self) -> None:
        start = bytes(self._received[: len(MAGIC)])
        if not MAGIC.startswith(start):
            raise unexpected(WireError, f"a handshake, which begins with {MAGIC!r}", f"{start!r}")
        if len(self._received) < HEADER.size:
            return
        _, step, size = HEADER.unpack_from(self._received)
        if step not in {self._expected.kind, Refused.kind}:
            raise unexpected(WireError, self._expected.word, f"step {step}")
        if not HEADER.size <= size <= limits.MAX_HANDSHAKE_BYTES:
            limit = limits.MAX_HANDSHAKE_BYTES
            raise unexpected(WireError, f"{self._expected.word} of {HEADER.size} to {limit} bytes", size)

    def _check(self, message: bytes) -> None:
        """What a side demands of a message before it looks at its fields."""

    def _take(self, message: bytes) -> None:
        self._check(message)
        words = read_words(message)
        if isinstance(words, Refused):
            msg = f"The peer refused the link: {words.text}"
            raise RefusedError(msg, code=word_of(words.code))
        with contextlib.suppress(StopIteration):  # it was the last one
            self._expected = self._talk.send((words, message))

    def _say(self, words: Words) -> None:
        data = write_words(words)
        self._said += data
        self._to_send += data

    def _demand(self, is_met: bool, otherwise: Refusal) -> None:
        if not is_met:
            self._refuse(otherwise)

    def _demand_proof(
        self, purpose: Purpose, uid: bytes, key: bytes, peer: Identity, proof: bytes, *unsaid: bytes
    ) -> None:
        """And that the node has nothing against the peer."""
        self._demand(is_proven(proof, purpose, key, self._said, *unsaid), Refusal.WRONG_KEY)
        if refusal := self._admit(peer, uid):
            self._refuse(refusal)

    def _refuse(self, code: Refusal) -> NoReturn:
        self.refuse(code)
        msg = f"The peer was refused: {_REASONS[code]}"
        raise RefusedError(msg, code=word_of(code))

    def _establish(self, role: Role, version: int, peer: Identity, uid: bytes, key: bytes) -> None:
        secret = prove(Purpose.SECRET, key, self._said)
        self.established = Established(role, version, peer, uid, secret)
        self.is_over = True


class Initiator(Handshake):
    """The side that opened the connection."""

    def __init__(
        self, own: Identity, uid: bytes, key: bytes, *, admit: Admit, nonce: bytes | None = None
    ) -> None:
        """`admit` is called before this side sends its proof. Tests pass a nonce."""
        check_key(key)
        super().__init__(own, admit, nonce, self._initiate(uid, key))

    def _initiate(self, uid: bytes, key: bytes) -> _Talk:
        self._say(proven(Hello(LOWEST_VERSION, VERSION, uid, self._nonce, self._own, _NO_PROOF), key))
        welcome, message = yield Welcome
        self._demand(LOWEST_VERSION <= welcome.version <= VERSION, Refusal.VERSION)
        self._demand(welcome.identity.node_id != self._own.node_id, Refusal.SAME_NODE)
        unproven = message[: -limits.PROOF_BYTES]
        self._demand_proof(Purpose.WELCOME, uid, key, welcome.identity, welcome.proof, unproven)
        self._said += message
        self._say(Proof(prove(Purpose.PROOF, key, self._said)))
        yield Ready
        self._establish(Role.INITIATOR, welcome.version, welcome.identity, uid, key)


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
        self.heard = b""  # the proof of HELLO, once it was found to be right
        self._key_of = key_of
        self._key = b""
        super().__init__(own, admit, nonce, self._respond())

    def _check(self, message: bytes) -> None:
        """Of HELLO the versions come first: the meaning of other fields is known only if one is supported."""
        _, step, size = HEADER.unpack_from(message)
        if step != Hello.kind or size < HEADER.size + VERSIONS.size:
            return
        lowest, highest = VERSIONS.unpack_from(message, HEADER.size)
        self._demand(lowest <= VERSION <= highest, Refusal.VERSION)
        key = self._key_of(message[UID])
        if key is None:
            self._refuse(Refusal.UNKNOWN_CHANNEL)
        unproven, proof = message[: -limits.PROOF_BYTES], message[-limits.PROOF_BYTES :]
        self._demand(is_proven(proof, Purpose.HELLO, key, unproven), Refusal.WRONG_KEY)
        self.heard, self._key = proof, key

    def _respond(self) -> _Talk:
        hello, message = yield Hello
        key = self._key
        self._demand(hello.identity.node_id != self._own.node_id, Refusal.SAME_NODE)
        self._said += message
        own = self._own.told_to(hello.identity.host_id)
        self._say(proven(Welcome(VERSION, self._nonce, own, _NO_PROOF), key, self._said))
        proof, message = yield Proof
        self._demand_proof(Purpose.PROOF, hello.uid, key, hello.identity, proof.proof)
        self._said += message
        self._to_send += write_words(Ready())
        self._establish(Role.RESPONDER, VERSION, hello.identity, hello.uid, key)
