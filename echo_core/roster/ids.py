"""Channel ids: the text by which a channel is found and joined.

    echo1:<base64url of what follows, without padding>

    0     16    32     48                       n - 4   n
    | uid | key | node | addresses, a line each | check |

`uid` names the channel, `key` proves that one may join, `node` is its creator's, who listens at the
addresses, of which a reader passes over kinds that it does not know. `check` (BLAKE2b of all before it) tells
a text that was cut off. Whoever has the text can join: it is passed on like a password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass
from typing import cast

from echo_core.errors import ChannelError, unexpected
from echo_core.transports.addresses import Address, known_addresses

_PREFIX = "echo1:"
_UID, _KEY, _NODE, _CHECK = 16, 16, 16, 4
_FIXED = _UID + _KEY + _NODE
_MAX_TEXT = 4096
_PLAIN = str.maketrans("-_+/", "+/!!")  # b64decode's own `altchars` lets + and / pass, and 3.15 warns of that


@dataclass(frozen=True, slots=True)
class ChannelId:
    """What a channel's text says."""

    uid: bytes
    key: bytes
    node: bytes
    addresses: tuple[Address, ...]

    @classmethod
    def new(cls, node: bytes, addresses: tuple[Address, ...]) -> ChannelId:
        return cls(secrets.token_bytes(_UID), secrets.token_bytes(_KEY), node, addresses)

    def __str__(self) -> str:
        lines = "\n".join(map(str, self.addresses)).encode()
        said = self.uid + self.key + self.node + lines
        return _PREFIX + base64.urlsafe_b64encode(said + _check(said)).rstrip(b"=").decode()

    def __repr__(self) -> str:
        """Without the key, which has no place in a log."""
        return f"ChannelId({self.uid.hex()[:8]} at {', '.join(map(str, self.addresses)) or 'no address'})"

    @classmethod
    def parse(cls, text: str) -> ChannelId:
        if not isinstance(cast("object", text), str):
            raise unexpected(ChannelError, "a channel id", f"{text!r}", hint="it is a text: `channel.id`")
        if not text.startswith(_PREFIX):
            version, colon, _ = text.partition(":")
            hint = "another version of the id" if colon and version.startswith("echo") else "ids begin so"
            raise unexpected(
                ChannelError, f"a channel id that begins with `{_PREFIX}`", f"{text[:16]!r}", hint=hint
            )
        said = _decoded(text)
        if len(said) < _FIXED + _CHECK or _check(said[:-_CHECK]) != said[-_CHECK:]:
            raise unexpected(
                ChannelError,
                "a whole channel id",
                f"{len(text)} characters whose check is wrong",
                hint="was it cut off, or changed?",
            )
        try:
            lines = said[_FIXED:-_CHECK].decode().splitlines()
        except UnicodeDecodeError as error:
            msg = f"Expected a channel id with addresses: {error}"
            raise ChannelError(msg) from None
        key, node = said[_UID : _UID + _KEY], said[_UID + _KEY : _FIXED]
        return cls(said[:_UID], key, node, tuple(known_addresses(lines)))


def _decoded(text: str) -> bytes:
    payload = text[len(_PREFIX) :].strip()
    if len(payload) > _MAX_TEXT:
        raise unexpected(ChannelError, f"a channel id of at most {_MAX_TEXT} characters", len(payload))
    try:
        return base64.b64decode(payload.translate(_PLAIN) + "=" * (-len(payload) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise unexpected(
            ChannelError, "a channel id of letters, digits, `-` and `_`", "other characters or a cut-off one"
        ) from None


def _check(said: bytes) -> bytes:
    return hashlib.blake2b(said, digest_size=_CHECK, person=b"echo-channel-1").digest()
