"""Messages: the payloads of control frames.

A message is its fields in order, without gaps. The annotation of a field says how it is written (fields.py).
What a message does, and when it may come: receiving.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, ClassVar, get_type_hints

from echo_core.errors import WireError
from echo_core.transports import fields, limits
from echo_core.transports.fields import Codec, read_fields, write_fields
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


# --- the fields ---

NAME = fields.text(limits.MAX_NAME_BYTES)
REASON = fields.text(limits.MAX_REASON_BYTES)
ADDRESSES = fields.many(fields.text(limits.MAX_ADDRESS_BYTES), limits.MAX_ADDRESSES)

Uint32 = Annotated[int, fields.U32]
Uint64 = Annotated[int, fields.U64]
AlignedUint64 = Annotated[int, fields.ALIGNED_U64]
ChannelId = Annotated[bytes, fields.fixed(limits.CHANNEL_ID_BYTES)]
NodeId = Annotated[bytes, fields.fixed(limits.NODE_ID_BYTES)]
Proof = Annotated[bytes, fields.fixed(limits.PROOF_BYTES)]
Metadata = Annotated[bytes, fields.blob(limits.MAX_METADATA_BYTES)]
Name = Annotated[str, NAME]
Reason = Annotated[str, REASON]
Report = Annotated[str, fields.text(limits.MAX_REPORT_BYTES)]
Addresses = Annotated[tuple[str, ...], ADDRESSES]
Types = Annotated[tuple[int, ...], fields.many(fields.U32, limits.MAX_TYPES)]

# --- the messages ---

MESSAGES_BY_KIND: dict[int, type[Message]] = {}


class Message:
    """Its class is named as its kind is."""

    __slots__ = ()
    kind: ClassVar[Kind]

    def __init_subclass__(cls) -> None:
        """A class with slots is made twice, and the second is the one that stays."""
        cls.kind = Kind[cls.__name__.upper()]
        MESSAGES_BY_KIND[cls.kind] = cls


@dataclass(frozen=True, slots=True)
class Loan(Message):
    """Records of a stream that lie in memory which the sender shares."""

    stream: Uint32
    block: Uint32
    size_bytes: Uint64


@dataclass(frozen=True, slots=True)
class Gap(Message):
    """So many events of the stream were dropped at this place."""

    stream: Uint32
    events: AlignedUint64


@dataclass(frozen=True, slots=True)
class Join(Message):
    """The sender wants to share a channel, which both shall call `alias` on this link."""

    alias: Uint32
    channel_id: ChannelId
    proof: Proof


@dataclass(frozen=True, slots=True)
class Joined(Message):
    """The answer to Join: the channel is shared, and the sender knows its key too."""

    alias: Uint32
    proof: Proof


@dataclass(frozen=True, slots=True)
class Refused(Message):
    """The other answer to Join."""

    alias: Uint32
    code: Uint32
    text: Reason


@dataclass(frozen=True, slots=True)
class Declared(Message):
    """What the sender knows of the channel; `types` are numbers of formats, none where it knows of none."""

    alias: Uint32
    name: Name
    types: Types


@dataclass(frozen=True, slots=True)
class Leave(Message):
    """The sender's last word on a channel; the other side answers with its own."""

    alias: Uint32


@dataclass(frozen=True, slots=True)
class Member(Message):
    """Another node has joined the channel and can be reached there; without addresses: it is gone."""

    alias: Uint32
    node_id: NodeId
    addresses: Addresses


@dataclass(frozen=True, slots=True)
class Format(Message):
    """What the sender will mean by a format's number, from 0 on in order; once per link."""

    number: Uint32
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Source(Message):
    """The sender has a source on the channel; its events will come as `stream`."""

    stream: Uint32
    alias: Uint32
    format: Uint32
    name: Name


@dataclass(frozen=True, slots=True)
class Attach(Message):
    """The receiver of a stream has so many sinks for it; with none it wants no events."""

    stream: Uint32
    sinks: Uint32


@dataclass(frozen=True, slots=True)
class Started(Message):
    """Events flow from here on, the next one being number `sequence` of the source."""

    stream: Uint32
    sequence: AlignedUint64


@dataclass(frozen=True, slots=True)
class Closed(Message):
    """The source is closed; this stands behind its last event."""

    stream: Uint32


@dataclass(frozen=True, slots=True)
class Released(Message):
    """The receiver's last word on a closed stream, whose number is free again."""

    stream: Uint32


@dataclass(frozen=True, slots=True)
class Dropped(Message):
    """So many of the stream's events were dropped at a sink, since this was last told."""

    stream: Uint32
    events: AlignedUint64


@dataclass(frozen=True, slots=True)
class Unreachable(Message):
    """A sink of the receiver has a type that cannot be reached from the source's; the text says why."""

    stream: Uint32
    text: Report


@dataclass(frozen=True, slots=True)
class Flush(Message):
    """The sender wants to know when all before this was handed over."""

    number: Uint64


@dataclass(frozen=True, slots=True)
class Flushed(Message):
    """The answer to the Flush of that number."""

    number: Uint64


@dataclass(frozen=True, slots=True)
class Bye(Message):
    """The sender's last frame."""

    code: Uint32
    text: Reason


def _codecs(message: type[Message]) -> dict[str, Codec]:
    hints = get_type_hints(message, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if name != "kind"}


_FIELDS = {message: _codecs(message) for message in MESSAGES_BY_KIND.values()}


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
