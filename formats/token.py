"""The identity of a format: a hash of its metadata, the same wherever the layout was declared."""

from __future__ import annotations

import hashlib
from typing import Self

from echo_core.errors import WireError, unexpected

TOKEN_BYTES = 16


class Token(bytes):
    """128 bits of BLAKE2b; prints as 32 hexadecimal digits."""

    __slots__ = ()

    def __new__(cls, data: bytes) -> Self:
        if len(data) != TOKEN_BYTES:
            raise unexpected(WireError, f"a token of {TOKEN_BYTES} bytes", len(data))
        return super().__new__(cls, data)

    @classmethod
    def of(cls, metadata: bytes) -> Token:
        """The token of the format that this metadata describes."""
        hashed = hashlib.blake2b(metadata, digest_size=TOKEN_BYTES, person=b"echo-format-1")
        return cls(hashed.digest())

    @property
    def short(self) -> str:
        """The first digits, for messages."""
        return self.hex()[:8]

    def __str__(self) -> str:
        return self.hex()

    def __repr__(self) -> str:
        return f"Token({self.hex()})"
