"""Messages: the payloads of control frames.

A message is its fields in order, without gaps. The annotation of a field says how it is written (fields.py).
C code reads and writes LOAN, GAP and CREDIT too, writes STARTED, reads ASK and writes its answers
(native/core/frames.h).
What a message does, and when it may come: receiving.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, ClassVar

from echo_core.errors import WireError, unexpected
from echo_core.transports import fields, limits
from echo_core.values.parameters import MAX_CHOICE_BYTES, MAX_CHOICES


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


class Standing(enum.IntFlag):
    """How a member stands to a channel; readers ignore unknown bits."""

    SENDS = 1
    TAKES = 2
    HOLDS = 4
    LEFT = 8


# --- the fields ---

Uint16 = Annotated[int, fields.U16]
Uint32 = Annotated[int, fields.U32]
Uint64 = Annotated[int, fields.U64]
AlignedUint64 = Annotated[int, fields.ALIGNED_U64]
Count = Annotated[int, fields.COUNT]
Flag = Annotated[bool, fields.FLAG]
Uid = Annotated[bytes, fields.fixed(limits.UID_BYTES)]
NodeId = Annotated[bytes, fields.fixed(limits.NODE_ID_BYTES)]
SourceId = Annotated[bytes, fields.fixed(limits.SOURCE_ID_BYTES)]
HostId = Annotated[bytes, fields.fixed(limits.HOST_ID_BYTES)]
Salt = Annotated[bytes, fields.fixed(limits.UID_BYTES)]
Tree = Annotated[bytes, fields.blob(limits.MAX_DERIVATION_BYTES)]
Values = Annotated[bytes, fields.blob(limits.MAX_PARAMETER_BYTES)]
Word = Annotated[bytes, fields.fixed(8)]
Choices = Annotated[tuple[str, ...], fields.many(fields.words(MAX_CHOICE_BYTES), MAX_CHOICES)]
Nonce = Annotated[bytes, fields.fixed(limits.NONCE_BYTES)]
ProofBytes = Annotated[bytes, fields.fixed(limits.PROOF_BYTES)]
Metadata = Annotated[bytes, fields.blob(limits.MAX_METADATA_BYTES)]
Name = Annotated[str, fields.words(limits.MAX_NAME_BYTES)]
Reason = Annotated[str, fields.words(limits.MAX_REASON_BYTES)]
Report = Annotated[str, fields.words(limits.MAX_REPORT_BYTES, keep="\n")]
Addresses = Annotated[
    tuple[str, ...], fields.many(fields.text(limits.MAX_ADDRESS_BYTES), limits.MAX_ADDRESSES)
]
Types = Annotated[tuple[int, ...], fields.many(fields.U32, limits.MAX_TYPES)]

# --- the messages ---


class Message(fields.Message):
    """The payload of a control frame."""

    __slots__ = ()
    by_kind: ClassVar[dict[int, type[Message]]] = {}


@dataclass(frozen=True, slots=True)
class Loan(Message, kind=1):
    """Records of a stream that lie in memory which the sender shares."""

    stream: Uint32
    block: Uint32
    size_bytes: Uint64


@dataclass(frozen=True, slots=True)
class Gap(Message, kind=2):
    """So many events of the stream were dropped at this place."""

    stream: Uint32
    events: AlignedUint64


@dataclass(frozen=True, slots=True)
class Join(Message, kind=3):
    """The sender wants to share a channel, which both shall call `alias` on this link."""

    alias: Uint32
    uid: Uid
    proof: ProofBytes


@dataclass(frozen=True, slots=True)
class Joined(Message, kind=4):
    """The answer to Join: the channel is shared, and the sender knows its key too."""

    alias: Uint32
    proof: ProofBytes


@dataclass(frozen=True, slots=True)
class Refused(Message, kind=5):
    """The other answer to Join."""

    alias: Uint32
    code: Uint32
    text: Reason


@dataclass(frozen=True, slots=True)
class Declared(Message, kind=6):
    """What the sender knows of the channel; `types` are numbers of formats, none where it knows of none."""

    alias: Uint32
    name: Name
    types: Types


@dataclass(frozen=True, slots=True)
class Leave(Message, kind=7):
    """The sender's last word on a channel; the other side answers with its own."""

    alias: Uint32


@dataclass(frozen=True, slots=True)
class Member(Message, kind=8):
    """What the sender knows of a node on the channel, itself or another one.

    The node counts up `version` when something of it changes. `standing` has the bits of Standing.
    """

    alias: Uint32
    node_id: NodeId
    version: Uint64
    standing: Uint32
    host_id: HostId
    name: Name
    addresses: Addresses


@dataclass(frozen=True, slots=True)
class Format(Message, kind=9):
    """What the sender will mean by a format's number, from 0 on in order; once per link."""

    number: Uint32
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Source(Message, kind=10):
    """The sender has a source on the channel; its events will come as `stream`.

    `source_id` is the same on every link: by it a receiver knows the source again. It keeps so many events
    for sinks that come later; where `keys` is not 0, so many of each value of the field `per`, and of at most
    so many values. `times` is 1 where its frames and loans say when their events were submitted.
    """

    stream: Uint32
    alias: Uint32
    format: Uint32
    keep: Uint32
    source_id: SourceId
    name: Name
    times: Flag = False
    keys: Uint32 = 0
    per: Name = ""


@dataclass(frozen=True, slots=True)
class Attach(Message, kind=11):
    """The receiver of a stream has so many sinks for it; with none it wants no events.

    It takes so many events, and bytes of records, in all, before it grants more (Credit). Of the events that
    are kept it wants those from number `first` on.
    """

    stream: Uint32
    sinks: Uint32
    first: Uint64
    limit_events: Count
    limit_bytes: Count


@dataclass(frozen=True, slots=True)
class Started(Message, kind=12):
    """Events flow from here on, the next one being number `sequence` of the source.

    What follows up to `kept` numbers further was kept.
    """

    stream: Uint32
    kept: AlignedUint64
    sequence: Uint64


@dataclass(frozen=True, slots=True)
class Closed(Message, kind=13):
    """The source is closed; this stands behind its last event."""

    stream: Uint32


@dataclass(frozen=True, slots=True)
class Released(Message, kind=14):
    """The receiver's last word on a closed stream, whose number is free again."""

    stream: Uint32


@dataclass(frozen=True, slots=True)
class Dropped(Message, kind=15):
    """So many of the stream's events were dropped at a sink, since this was last told."""

    stream: Uint32
    events: AlignedUint64


@dataclass(frozen=True, slots=True)
class Unreachable(Message, kind=16):
    """A sink of the receiver has a type that cannot be reached from the source's; the text says why."""

    stream: Uint32
    text: Report


@dataclass(frozen=True, slots=True)
class Flush(Message, kind=17):
    """The sender wants to know when all before this was handed over."""

    number: Uint64


@dataclass(frozen=True, slots=True)
class Flushed(Message, kind=18):
    """The answer to the Flush of that number."""

    number: Uint64


@dataclass(frozen=True, slots=True)
class Bye(Message, kind=19):
    """The sender's last frame."""

    code: Uint32
    text: Reason


@dataclass(frozen=True, slots=True)
class Credit(Message, kind=20):
    """How much of a stream its receiver has finished with, and how much it takes in all.

    Counts begin with the stream, and never fall: while both counts of what was sent are below the limit,
    another frame may go.
    """

    stream: Uint32
    done_events: AlignedUint64
    done_bytes: Uint64
    limit_events: Count
    limit_bytes: Count


@dataclass(frozen=True, slots=True)
class Ping(Message, kind=21):
    """Nothing: it has the other host's kernel confirm that it is there."""


@dataclass(frozen=True, slots=True)
class Derive(Message, kind=22):
    """There is a channel that is derived from this one: whoever has sources here has others there.

    Its id and key follow from those of this channel, the salt and the derivation, which is one of those of
    codegen/expressions/wire.py.
    """

    alias: Uint32
    salt: Salt
    name: Name
    derivation: Tree


@dataclass(frozen=True, slots=True)
class Adjust(Message, kind=23):
    """Other parameters of a channel that is derived from this one: those of the highest epoch count.

    Of one epoch those count of the highest node id. `uid` is that of the derived channel.
    """

    alias: Uint32
    uid: Uid
    epoch: Uint64
    node_id: NodeId
    values: Values


@dataclass(frozen=True, slots=True)
class Judged(Message, kind=24):
    """By which parameters the sender judges what comes as a derived stream, from event `number` of it on.

    And how many events of the source that it is derived from have not passed by now.
    """

    stream: Uint32
    epoch: AlignedUint64
    node_id: NodeId
    number: Uint64
    filtered: Count


@dataclass(frozen=True, slots=True)
class Parameter(Message, kind=25):
    """A source of the sender's has a parameter: of `type` 1 bool, 2 int, 4 float or 5 text.

    Words are int64, float64, 0 or 1, or for a text its place among `choices`. Of what several ask for the
    greatest value counts, or the least where `is_least` is 1; the default, where nobody asks.
    """

    stream: Uint32
    type: Uint32
    is_least: Flag
    default: Word
    low: Word
    high: Word
    name: Name
    choices: Choices


@dataclass(frozen=True, slots=True)
class Request(Message, kind=26):
    """For which value of a parameter the receiver of a stream asks from now on; for none if `is_asked` is 0.

    Requests of a stream are numbered from 1 on.
    """

    stream: Uint32
    is_asked: Flag
    number: Uint64
    value: Word
    name: Name


@dataclass(frozen=True, slots=True)
class Requested(Message, kind=27):
    """The answer to the Request of that number, and to those before it: the source knows."""

    stream: Uint32
    number: AlignedUint64


@dataclass(frozen=True, slots=True)
class Underivable(Message, kind=28):
    """On a derived channel: a source of the sender's has nothing there; the text says why."""

    alias: Uint32
    source_id: SourceId
    name: Name
    text: Report


@dataclass(frozen=True, slots=True)
class Ask(Message, kind=29):
    """What has become of all that came of the stream by now, of its events from number `first` on?"""

    stream: Uint32
    number: AlignedUint64
    first: Uint64


class Level(enum.IntEnum):
    """How far the sinks of a stream have come."""

    RECEIVED = 1
    HANDLED = 2


@dataclass(frozen=True, slots=True)
class Ack(Message, kind=30):
    """The answer to the Ask of that number, and to those before it: as RECEIVED, if need be, then as HANDLED.

    What is handled is on a disk, too, of events from number `stored` on; of none, where that is 2**64 - 1.
    """

    stream: Uint32
    level: Uint32
    number: Uint64
    stored: Uint64


class Missing(enum.IntEnum):
    """Why a sink does not have events."""

    DROPPED = 1
    FAILED = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class Missed(Message, kind=31):
    """A sink does not have the stream's events from number `first` to `last`. Comes before their Ack."""

    stream: Uint32
    why: Uint32
    first: Uint64
    last: Uint64


@dataclass(frozen=True, slots=True)
class Handled(Message, kind=32):
    """Sinks are done with the stream's events below that number, before all is that was asked for."""

    stream: Uint32
    below: AlignedUint64


def encode(message: Message) -> bytes:
    """A message's payload; EncodeError for a value that its field cannot hold."""
    return fields.write_fields(message)


def decode(kind: int, payload: bytes) -> Message:
    """The message of a control frame; WireError for bytes that are none."""
    message = Message.by_kind.get(kind)
    if message is None:
        raise unexpected(WireError, f"a kind of control frame from 1 to {max(Message.by_kind)}", kind)
    return fields.read_fields(message, payload)
