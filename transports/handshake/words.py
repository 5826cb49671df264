"""The messages of the handshake and their encoding.

    0          4          6          8                    size
    │ "ECHO"   │ step     │ size     │ fields of the step │     little-endian; at most 4 KiB in all

HELLO and REFUSED have the same form in every version, so that two versions can agree or refuse. fields.py
encodes the fields; exchange.py defines the order of the messages.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from echo_core.errors import WireError
from echo_core.transports import limits
from echo_core.transports.fields import U16, U32, Codec, Reader, fixed, read_fields, write_fields
from echo_core.transports.protocol.messages import ADDRESSES, NAME, REASON

MAGIC = b"ECHO"
HEADER = struct.Struct("<4sHH")
_VERSIONS = struct.Struct("<HH")  # the first fields of HELLO


class Step(enum.IntEnum):
    """The kind of a message."""

    HELLO = 1
    WELCOME = 2
    PROOF = 3
    READY = 4
    REFUSED = 5


class Feature(enum.IntFlag):
    """Optional abilities of a side; readers ignore unknown bits."""

    SHARED_MEMORY = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a side announces about itself."""

    node_id: bytes
    process_id: int
    host_id: bytes
    max_payload: int = limits.DEFAULT_PAYLOAD_BYTES  # largest payload of a frame that it accepts
    features: int = 0
    name: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def can_share_memory(self) -> bool:
        """Whether it accepts file descriptors of shared memory over a Unix socket."""
        return bool(self.features & Feature.SHARED_MEMORY)


_IDENTITY: dict[str, Codec] = {
    "node_id": fixed(limits.NODE_ID_BYTES),
    "host_id": fixed(limits.HOST_ID_BYTES),
    "process_id": U32,
    "max_payload": U32,
    "features": U32,
    "name": NAME,
    "addresses": ADDRESSES,
}


def _read_identity(reader: Reader) -> Identity:
    identity = Identity(**{name: codec.read(reader) for name, codec in _IDENTITY.items()})
    if identity.max_payload < limits.MIN_PAYLOAD_BYTES:
        msg = f"Expected a limit of {limits.MIN_PAYLOAD_BYTES} bytes or more, got {identity.max_payload}"
        raise WireError(msg)
    return identity


_IDENTITY_CODEC = Codec(lambda identity: write_fields(_IDENTITY, identity), _read_identity)


@dataclass(frozen=True, slots=True)
class Hello:
    """The initiator's first message."""

    lowest: int
    highest: int
    channel_id: bytes
    nonce: bytes
    identity: Identity


@dataclass(frozen=True, slots=True)
class Welcome:
    """The responder's answer. Its proof covers HELLO and all bytes before the proof."""

    version: int
    nonce: bytes
    identity: Identity
    proof: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """The initiator's proof, which covers HELLO and WELCOME."""

    proof: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """Frames follow, in both directions."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Either side refuses; the last message."""

    code: int
    text: str


Words = Hello | Welcome | Proof | Ready | Refused

_FIELDS: dict[type[Words], dict[str, Codec]] = {
    Hello: {
        "lowest": U16,
        "highest": U16,
        "channel_id": fixed(limits.CHANNEL_ID_BYTES),
        "nonce": fixed(limits.NONCE_BYTES),
        "identity": _IDENTITY_CODEC,
    },
    Welcome: {
        "version": U16,
        "nonce": fixed(limits.NONCE_BYTES),
        "identity": _IDENTITY_CODEC,
        "proof": fixed(limits.PROOF_BYTES),
    },
    Proof: {"proof": fixed(limits.PROOF_BYTES)},
    Ready: {},
    Refused: {"code": U32, "text": REASON},
}
_STEPS: dict[type[Words], Step] = {
    Hello: Step.HELLO,
    Welcome: Step.WELCOME,
    Proof: Step.PROOF,
    Ready: Step.READY,
    Refused: Step.REFUSED,
}
_WORDS_BY_STEP = {step: words for words, step in _STEPS.items()}


def write_words(words: Words) -> bytes:
    """Encode a message."""
    fields = write_fields(_FIELDS[type(words)], words)
    return HEADER.pack(MAGIC, _STEPS[type(words)], HEADER.size + len(fields)) + fields


def read_words(message: bytes) -> Words:
    """Decode a message; WireError if it is malformed."""
    _, step, _ = HEADER.unpack_from(message)
    words = _WORDS_BY_STEP[Step(step)]
    return words(**read_fields(_FIELDS[words], message[HEADER.size :], where=words.__name__))


def versions_of(hello: bytes) -> tuple[int, int] | None:
    """The range of versions in a HELLO of any version; None if it is too short."""
    if len(hello) < HEADER.size + _VERSIONS.size:
        return None
    lowest, highest = _VERSIONS.unpack_from(hello, HEADER.size)
    return lowest, highest
