"""The messages of the handshake and their encoding.

    0          4          6          8                    size
    │ "ECHO"   │ step     │ size     │ fields of the step │     little-endian; at most 4 KiB in all

HELLO and REFUSED have the same form in every version, so that two versions can agree or refuse. fields.py
encodes the fields; exchange.py defines the order of the messages.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from echo_core.errors import WireError, unexpected
from echo_core.transports import fields, limits
from echo_core.transports.addresses import usable
from echo_core.transports.protocol.messages import (
    Addresses,
    HostId,
    Name,
    NodeId,
    Nonce,
    ProofBytes,
    Reason,
    Uid,
    Uint16,
    Uint32,
)

MAGIC = b"ECHO"
HEADER = struct.Struct("<4sHH")
VERSIONS = struct.Struct("<HH")  # the first fields of HELLO
UID = slice(HEADER.size + VERSIONS.size, HEADER.size + VERSIONS.size + limits.UID_BYTES)  # in HELLO


class Feature(enum.IntFlag):
    """Optional abilities of a side; readers ignore unknown bits."""

    SHARED_MEMORY = 1
    DERIVED_CHANNELS = 2  # it understands DERIVE, ADJUST and JUDGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a side announces about itself."""

    node_id: NodeId
    host_id: HostId
    process_id: Uint32
    max_payload: Uint32 = limits.DEFAULT_PAYLOAD_BYTES  # largest payload of a frame that it accepts
    features: Uint32 = 0
    name: Name = ""
    addresses: Addresses = ()

    @property
    def can_share_memory(self) -> bool:
        """Whether it accepts file descriptors of shared memory over a Unix socket."""
        return bool(self.features & Feature.SHARED_MEMORY)

    @property
    def knows_derived_channels(self) -> bool:
        """Whether it may be told of channels that are derived."""
        return bool(self.features & Feature.DERIVED_CHANNELS)

    def told_to(self, host_id: bytes) -> Identity:
        """What a host may know of it: no addresses that mean nothing there."""
        return replace(self, addresses=usable(self.addresses, self.host_id, host_id))


def _read_identity(reader: fields.Reader) -> Identity:
    identity = Identity(**{name: codec.read(reader) for name, codec in fields.CODECS[Identity].items()})
    if identity.max_payload < limits.MIN_PAYLOAD_BYTES:
        raise unexpected(
            WireError, f"a limit of {limits.MIN_PAYLOAD_BYTES} bytes or more", identity.max_payload
        )
    return identity


IdentityFields = Annotated[Identity, fields.Codec(fields.write_fields, _read_identity)]


class Words(fields.Message):
    """A message of the handshake; its kind is the step."""

    __slots__ = ()
    by_kind: ClassVar[dict[int, type[Words]]] = {}


@dataclass(frozen=True, slots=True)
class Hello(Words, kind=1):
    """The initiator's first message. Its proof covers all bytes before it."""

    lowest: Uint16
    highest: Uint16
    uid: Uid
    nonce: Nonce
    identity: IdentityFields
    proof: ProofBytes


@dataclass(frozen=True, slots=True)
class Welcome(Words, kind=2):
    """The responder's answer. Its proof covers HELLO and all bytes before the proof."""

    version: Uint16
    nonce: Nonce
    identity: IdentityFields
    proof: ProofBytes


@dataclass(frozen=True, slots=True)
class Proof(Words, kind=3):
    """The initiator's proof, which covers HELLO and WELCOME."""

    proof: ProofBytes


@dataclass(frozen=True, slots=True)
class Ready(Words, kind=4):
    """Frames follow, in both directions."""


@dataclass(frozen=True, slots=True)
class Refused(Words, kind=5):
    """Either side refuses; the last message."""

    code: Uint32
    text: Reason


def write_words(words: Words) -> bytes:
    """Encode a message."""
    data = fields.write_fields(words)
    return HEADER.pack(MAGIC, words.kind, HEADER.size + len(data)) + data


def read_words(message: bytes) -> Words:
    """Decode a message; WireError if it is malformed."""
    _, step, _ = HEADER.unpack_from(message)
    return fields.read_fields(Words.by_kind[step], message[HEADER.size :])
