"""Proofs that a process knows a channel's key, which itself never travels: keyed BLAKE2b.

Each purpose has a name of its own inside the hash, so that what was said for one purpose proves nothing for
another. In a handshake each side has its purpose, and on a link an alias tells whose it is: no proof can
be sent back to who made it.
"""

from __future__ import annotations

import enum
import hashlib
import hmac

from echo_core.errors import LinkError
from echo_core.transports.limits import MAX_KEY_BYTES, MIN_KEY_BYTES, PROOF_BYTES


class Role(enum.Enum):
    """Which side of a link: the initiator made the connection."""

    INITIATOR = 0
    RESPONDER = 1


class Purpose(enum.Enum):
    """What is proven; the values are BLAKE2b's `person`, at most 16 bytes."""

    WELCOME = b"echo welcome"
    PROOF = b"echo proof"
    SECRET = b"echo secret"
    JOIN = b"echo join"
    JOINED = b"echo joined"


def check_key(key: bytes) -> None:
    """LinkError for a key that is too short to be a secret, or too long to be one of BLAKE2b."""
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        msg = f"Expected a key of {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes, got {len(key)}"
        raise LinkError(msg)


def prove(purpose: Purpose, key: bytes, *said: bytes) -> bytes:
    """The proof that who said this knows the key."""
    words = b"".join(said)
    return hashlib.blake2b(words, digest_size=PROOF_BYTES, key=key, person=purpose.value).digest()


def is_proven(proof: bytes, purpose: Purpose, key: bytes, *said: bytes) -> bool:
    """Whether that is the proof; takes the same time wherever it differs."""
    return hmac.compare_digest(proof, prove(purpose, key, *said))
