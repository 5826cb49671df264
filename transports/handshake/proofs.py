"""Proofs that a process knows a channel's key, which is never sent: keyed BLAKE2b.

The purpose is part of the hash, so a proof for one purpose is invalid for another. This prevents reflection
attacks: in a handshake the two sides have different purposes, and on a link the alias in the proof belongs to
one side.
"""

from __future__ import annotations

import enum
import hashlib
import hmac

from echo_core.errors import LinkError, unexpected
from echo_core.transports.limits import MAX_KEY_BYTES, MIN_KEY_BYTES, PROOF_BYTES


class Role(enum.Enum):
    """The side of a link: the initiator opened the connection."""

    INITIATOR = 0
    RESPONDER = 1


class Purpose(enum.Enum):
    """What a proof is for. The values are BLAKE2b's `person` parameter, of at most 16 bytes."""

    HELLO = b"echo hello"
    WELCOME = b"echo welcome"
    PROOF = b"echo proof"
    SECRET = b"echo secret"
    JOIN = b"echo join"
    JOINED = b"echo joined"


def check_key(key: bytes) -> None:
    """Raise LinkError for a key that is too short to be secure, or too long for BLAKE2b."""
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise unexpected(LinkError, f"a key of {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes", len(key))


def prove(purpose: Purpose, key: bytes, *said: bytes) -> bytes:
    """The keyed hash of these bytes, which only a process with the key can compute."""
    words = b"".join(said)
    return hashlib.blake2b(words, digest_size=PROOF_BYTES, key=key, person=purpose.value).digest()


def is_proven(proof: bytes, purpose: Purpose, key: bytes, *said: bytes) -> bool:
    """Whether the proof is right, compared in constant time."""
    return hmac.compare_digest(proof, prove(purpose, key, *said))
