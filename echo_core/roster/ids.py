"""Channel ids: the text by which a channel is found and joined.

    echo1:<base64url of what follows, without padding>

    0     16    32             n - 4   n          a member:
    | uid | key | members      | check |          0      16     32     34
                                                  | node | host | size | addresses, a line each |

`uid` names the channel, `key` proves that one may join. Up to four members follow, each with its node's id,
its host's (zeros: not known), the size of its addresses (16 bits, little-endian) and these, of which a reader
passes over kinds that it does not know, and over what means nothing on another host than the member's.
`check` (BLAKE2b of all before it) tells a text that was cut off. Whoever has the text can join: it
is passed on like a password.

That of a derived channel begins with `echo1-derived:`: whoever has it takes what comes there, and can put no
sources on it, which follow those of the channel that it is derived from.

An id without members is the channel's *identity*, which outlives whoever has created it. It leads to the
channel's *seat*, an abstract Unix address that follows from `uid` by a hash: all users of a host can see it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import struct
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from echo_core.errors import ChannelError, unexpected
from echo_core.transports.addresses import (
    UNKNOWN_HOST,
    Address,
    UnixAddress,
    crosses_hosts,
    known_addresses,
)

SIDE_SEATS = 3  # on a host, for one channel
SEAT_PREFIX = "echo-seat-"  # of the abstract addresses of all seats
MAX_NAMED = 4  # members, in one id

_PREFIX, _DERIVED_PREFIX = "echo1:", "echo1-derived:"
_UID, _KEY, _NODE, _HOST, _CHECK = 16, 16, 16, 16, 4
_FIXED = _UID + _KEY
_MEMBER = struct.Struct(f"<{_NODE}s{_HOST}sH")
_MAX_TEXT = 12 * 1024  # four members of as many addresses as a node may have
_PLAIN = str.maketrans("-_+/", "+/!!")  # b64decode's own `altchars` lets + and / pass, and 3.15 warns of that


class Member(NamedTuple):
    """A node on a channel, and where it listens."""

    node: bytes
    addresses: tuple[Address, ...]
    host: bytes = UNKNOWN_HOST

    def seen_from(self, host: bytes) -> Member:
        """With those addresses alone that lead to it from a host."""
        if self.host in {host, UNKNOWN_HOST}:
            return self
        return self._replace(addresses=tuple(filter(crosses_hosts, self.addresses)))


@dataclass(frozen=True, slots=True)
class ChannelId:
    """What a channel's text says."""

    uid: bytes
    key: bytes
    members: tuple[Member, ...] = ()
    is_derived: bool = False  # it grants what comes there, and no sources

    @classmethod
    def new(cls, *members: Member) -> ChannelId:
        return cls(secrets.token_bytes(_UID), secrets.token_bytes(_KEY), members)

    @property
    def identity(self) -> ChannelId:
        """The same channel, whoever is on it."""
        return replace(self, members=())

    def derived(self, salt: bytes, derivation: bytes) -> ChannelId:
        """Of a channel that is derived: who has this id can compute it, and not the other way round."""
        uid, key = (
            hashlib.blake2b(salt + derivation, digest_size=_KEY, key=key, person=person).digest()
            for key, person in ((self.uid, b"echo-derived-uid"), (self.key, b"echo-derived-key"))
        )
        return ChannelId(uid, key, is_derived=True)

    @property
    def seat(self) -> UnixAddress:
        """Where the one node listens that holds the channel on a host; the address does not tell the id."""
        return self._seat(b"echo-seat")

    @property
    def side_seats(self) -> tuple[UnixAddress, ...]:
        """Where other members of the host listen, for who finds its holder silent."""
        return tuple(self._seat(b"echo-side-seat %d" % number) for number in range(SIDE_SEATS))

    def _seat(self, person: bytes) -> UnixAddress:
        return UnixAddress(
            f"{SEAT_PREFIX}{hashlib.blake2b(self.uid, digest_size=16, person=person).hexdigest()}"
        )

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Of all members."""
        return tuple(address for member in self.members for address in member.addresses)

    def __str__(self) -> str:
        said = self.uid + self.key + b"".join(map(_written, self.members))
        prefix = _DERIVED_PREFIX if self.is_derived else _PREFIX
        return prefix + base64.urlsafe_b64encode(said + _check(said)).rstrip(b"=").decode()

    def __repr__(self) -> str:
        """Without the key, which has no place in a log."""
        return f"ChannelId({self.uid.hex()[:8]} at {', '.join(map(str, self.addresses)) or 'its seat'})"

    @classmethod
    def parse(cls, text: str) -> ChannelId:
        if not isinstance(cast("object", text), str):
            raise unexpected(ChannelError, "a channel id", f"{text!r}", hint="it is a text: `channel.id`")
        is_derived = text.startswith(_DERIVED_PREFIX)
        if not (is_derived or text.startswith(_PREFIX)):
            version, colon, _ = text.partition(":")
            hint = "another version of the id" if colon and version.startswith("echo") else "ids begin so"
            raise unexpected(
                ChannelError, f"a channel id that begins with `{_PREFIX}`", f"{text[:16]!r}", hint=hint
            )
        said = _decoded(text.partition(":")[2])
        if len(said) < _FIXED + _CHECK or _check(said[:-_CHECK]) != said[-_CHECK:]:
            raise unexpected(
                ChannelError,
                "a whole channel id",
                f"{len(text)} characters whose check is wrong",
                hint="was it cut off, or changed?",
            )
        return cls(said[:_UID], said[_UID:_FIXED], _members(said[_FIXED:-_CHECK]), is_derived)


def _written(member: Member) -> bytes:
    lines = "\n".join(map(str, member.addresses)).encode()
    return _MEMBER.pack(member.node, member.host, len(lines)) + lines


def _members(said: bytes) -> tuple[Member, ...]:
    found: list[Member] = []
    while said and len(found) < MAX_NAMED:
        try:
            node, host, size = _MEMBER.unpack_from(said)
            lines = said[_MEMBER.size : _MEMBER.size + size].decode().splitlines()
        except (struct.error, UnicodeDecodeError) as error:
            msg = f"Expected a channel id with members and their addresses: {error}"
            raise ChannelError(msg) from None
        found.append(Member(node, tuple(known_addresses(lines)), host))
        said = said[_MEMBER.size + size :]
    return tuple(found)


def _decoded(text: str) -> bytes:
    payload = text.strip()
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
