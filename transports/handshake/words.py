"""What is said in a handshake: its messages, and how they look as bytes.

    0          4          6          8                    size
    │ "ECHO"   │ step     │ size     │ fields of the step │     little-endian; at most 4 KiB in all

HELLO and REFUSED look the same in every version: they are what two versions understand of each other. How
fields are written: fields.py. When what is said: handshake.py.
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
_VERSIONS = struct.Struct("<HH")  # what HELLO's fields begin with


class Step(enum.IntEnum):
    """What a message of a handshake is."""

    HELLO = 1
    WELCOME = 2
    PROOF = 3
    READY = 4
    REFUSED = 5


class Feature(enum.IntFlag):
    """What a side can do; bits that a reader does not know are passed over."""

    SHARED_MEMORY = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What one side says of itself."""

    node_id: bytes
    process_id: int
    host_id: bytes
    max_payload: int = limits.DEFAULT_PAYLOAD_BYTES  # of the frames that it takes
    features: int = 0
    name: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def can_share_memory(self) -> bool:
        """Whether its side of a Unix socket takes descriptors of memory."""
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
    """The initiator's first words."""

    lowest: int
    highest: int
    channel_id: bytes
    nonce: bytes
    identity: Identity


@dataclass(frozen=True, slots=True)
class Welcome:
    """The responder's answer; its proof is of HELLO and of all that stands before the proof."""

    version: int
    nonce: bytes
    identity: Identity
    proof: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """The initiator's proof, of HELLO and WELCOME."""

    proof: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """Frames follow, in both directions."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Either side says no, and nothing follows."""

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
    """One message of a handshake."""
    fields = write_fields(_FIELDS[type(words)], words)
    return HEADER.pack(MAGIC, _STEPS[type(words)], HEADER.size + len(fields)) + fields


def read_words(message: bytes) -> Words:
    """The message; WireError for bytes that are none."""
    _, step, _ = HEADER.unpack_from(message)
    words = _WORDS_BY_STEP[Step(step)]
    return words(**read_fields(_FIELDS[words], message[HEADER.size :], where=words.__name__))


def versions_of(hello: bytes) -> tuple[int, int] | None:
    """The lowest and the highest version of a HELLO in any version; None where it is too short to tell."""
    if len(hello) < HEADER.size + _VERSIONS.size:
        return None
    lowest, highest = _VERSIONS.unpack_from(hello, HEADER.size)
    return lowest, highest
