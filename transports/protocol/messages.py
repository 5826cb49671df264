"""Messages: the payloads of control frames, and their one table.

A message is its fields in order, without gaps. `_FIELDS` says what each field is, and fields.py how it is
written. What a message does, and when it may come: receiving.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from echo_core.errors import WireError
from echo_core.transports import fields, limits
from echo_core.transports.fields import PADDING, U32, U64, ZERO, Codec, read_fields, write_fields
from echo_core.transports.protocol.frames import Kind


class Refusal(enum.IntEnum):
    """Why somebody says no; a reader takes numbers that it does not know as they are."""

    VERSION = 1
    WRONG_KEY = 2
    UNKNOWN_CHANNEL = 3
    DUPLICATE = 4
    BUSY = 5
    SAME_NODE = 6
    CLOSING = 7


def word_of(code: int) -> str:
    """A Refusal as users read it; a number of a later version as it is."""
    return Refusal(code).name.lower() if code in set(Refusal) else str(code)


class Farewell(enum.IntEnum):
    """Why somebody ends a link."""

    CLOSING = 1
    UNUSED = 2


# --- the messages ---


@dataclass(frozen=True, slots=True)
class Loan:
    """Records of a stream that lie in memory which the sender shares."""

    kind: ClassVar[Kind] = Kind.LOAN
    stream: int
    block: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Gap:
    """So many events of the stream were dropped at this place."""

    kind: ClassVar[Kind] = Kind.GAP
    stream: int
    events: int


@dataclass(frozen=True, slots=True)
class Join:
    """The sender wants to share a channel, which both shall call `alias` on this link."""

    kind: ClassVar[Kind] = Kind.JOIN
    alias: int
    channel_id: bytes
    proof: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to Join: the channel is shared, and the sender knows its key too."""

    kind: ClassVar[Kind] = Kind.JOINED
    alias: int
    proof: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """The other answer to Join."""

    kind: ClassVar[Kind] = Kind.REFUSED
    alias: int
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Declared:
    """What the sender knows of the channel; `types` are numbers of formats, none where it knows of none."""

    kind: ClassVar[Kind] = Kind.DECLARED
    alias: int
    name: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """The sender's last word on a channel; the other side answers with its own."""

    kind: ClassVar[Kind] = Kind.LEAVE
    alias: int


@dataclass(frozen=True, slots=True)
class Member:
    """Another node has joined the channel and can be reached there; without addresses: it is gone."""

    kind: ClassVar[Kind] = Kind.MEMBER
    alias: int
    node_id: bytes
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Format:
    """What the sender will mean by a format's number, from 0 on in order; once per link."""

    kind: ClassVar[Kind] = Kind.FORMAT
    number: int
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Source:
    """The sender has a source on the channel; its events will come as `stream`."""

    kind: ClassVar[Kind] = Kind.SOURCE
    stream: int
    alias: int
    format: int
    name: str


@dataclass(frozen=True, slots=True)
class Attach:
    """The receiver of a stream has so many sinks for it; with none it wants no events."""

    kind: ClassVar[Kind] = Kind.ATTACH
    stream: int
    sinks: int


@dataclass(frozen=True, slots=True)
class Started:
    """Events flow from here on, the next one being number `sequence` of the source."""

    kind: ClassVar[Kind] = Kind.STARTED
    stream: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The source is closed; this stands behind its last event."""

    kind: ClassVar[Kind] = Kind.CLOSED
    stream: int


@dataclass(frozen=True, slots=True)
class Released:
    """The receiver's last word on a closed stream, whose number is free again."""

    kind: ClassVar[Kind] = Kind.RELEASED
    stream: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """So many of the stream's events were dropped at a sink, since this was last told."""

    kind: ClassVar[Kind] = Kind.DROPPED
    stream: int
    events: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A sink of the receiver has a type that cannot be reached from the source's; the text says why."""

    kind: ClassVar[Kind] = Kind.UNREACHABLE
    stream: int
    text: str


@dataclass(frozen=True, slots=True)
class Flush:
    """The sender wants to know when all before this was handed over."""

    kind: ClassVar[Kind] = Kind.FLUSH
    number: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """The answer to the Flush of that number."""

    kind: ClassVar[Kind] = Kind.FLUSHED
    number: int


@dataclass(frozen=True, slots=True)
class Bye:
    """The sender's last frame."""

    kind: ClassVar[Kind] = Kind.BYE
    code: int
    text: str


Message = (
    Loan
    | Gap
    | Join
    | Joined
    | Refused
    | Declared
    | Leave
    | Member
    | Format
    | Source
    | Attach
    | Started
    | Closed
    | Released
    | Dropped
    | Unreachable
    | Flush
    | Flushed
    | Bye
)

NAME = fields.text(limits.MAX_NAME_BYTES)
REASON = fields.text(limits.MAX_REASON_BYTES)
ADDRESSES = fields.many(fields.text(limits.MAX_ADDRESS_BYTES), limits.MAX_ADDRESSES)

# --- the table ---

_FIELDS: dict[type[Message], dict[str, Codec]] = {
    Loan: {"stream": U32, "block": U32, "size_bytes": U64},
    Gap: {"stream": U32, PADDING: ZERO, "events": U64},
    Join: {
        "alias": U32,
        "channel_id": fields.fixed(limits.CHANNEL_ID_BYTES),
        "proof": fields.fixed(limits.PROOF_BYTES),
    },
    Joined: {"alias": U32, "proof": fields.fixed(limits.PROOF_BYTES)},
    Refused: {"alias": U32, "code": U32, "text": REASON},
    Declared: {"alias": U32, "name": NAME, "types": fields.many(U32, limits.MAX_TYPES)},
    Leave: {"alias": U32},
    Member: {"alias": U32, "node_id": fields.fixed(limits.NODE_ID_BYTES), "addresses": ADDRESSES},
    Format: {"number": U32, "metadata": fields.blob(limits.MAX_METADATA_BYTES)},
    Source: {"stream": U32, "alias": U32, "format": U32, "name": NAME},
    Attach: {"stream": U32, "sinks": U32},
    Started: {"stream": U32, PADDING: ZERO, "sequence": U64},
    Closed: {"stream": U32},
    Released: {"stream": U32},
    Dropped: {"stream": U32, PADDING: ZERO, "events": U64},
    Unreachable: {"stream": U32, "text": fields.text(limits.MAX_REPORT_BYTES)},
    Flush: {"number": U64},
    Flushed: {"number": U64},
    Bye: {"code": U32, "text": REASON},
}

MESSAGES_BY_KIND: dict[int, type[Message]] = {message.kind: message for message in _FIELDS}


def encode(message: Message) -> bytes:
    """A message's payload; EncodeError for a value that its field cannot hold."""
    return write_fields(_FIELDS[type(message)], message)


def decode(kind: int, payload: bytes) -> Message:
    """The message of a control frame; WireError for bytes that are none."""
    message = MESSAGES_BY_KIND.get(kind)
    if message is None:
        msg = f"Expected a kind of control frame from 1 to {max(MESSAGES_BY_KIND)}, got {kind}"
        raise WireError(msg)
    return message(**read_fields(_FIELDS[message], payload, where=message.__name__))
