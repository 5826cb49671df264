"""All that one side of a link remembers: channels, streams and formats, and frames on their way to the peer.

Channels and streams are one object each, which a node may hold. The tables find them by the numbers of the
wire, and hold each table's limit. What may happen to a channel is decided in joining.py, and what may be said
of a stream in receiving.py.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from echo_core.errors import LinkError, RefusedError, WireError, unexpected
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Role, check_key
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.messages import Message, Refusal, Refused, word_of


class ChannelState(enum.Enum):
    """Of a channel on one link, as one side sees it."""

    GONE = "not on the link"
    JOINING = "own JOIN is not answered"
    ABANDONED = "own JOIN is not answered, and own LEAVE is sent"
    SHARED = "joined by both"
    LEAVING = "own LEAVE is sent, the peer's is awaited"


class StreamState(enum.Enum):
    """Of a stream whose channel is on the link."""

    OPEN = "own source, offered"
    CLOSED = "own source: own CLOSED is sent, the peer's RELEASED is awaited"
    UNATTACHED = "the peer's source: own ATTACH has never told of a sink"
    ATTACHED = "the peer's source: its events may come"
    ENDING = "the peer's source: its CLOSED has come, own RELEASED is not sent yet"


@dataclass(slots=True, eq=False, weakref_slot=True)
class ChannelOnLink:
    """One channel on one link: the same object, also when it has left the link and comes back."""

    uid: bytes
    alias: int = 0  # changes with each JOIN
    state: ChannelState = ChannelState.GONE
    is_declared: bool = False  # the peer has said what it knows, since the channel is shared
    is_wanted_again: bool = False  # joined anew as soon as it is left
    name: str = ""  # what the peer has declared
    types: tuple[bytes, ...] = ()
    refusal: Refused | None = None  # of the last JOIN
    own_streams: set[OwnStream] = field(default_factory=set["OwnStream"])
    peer_streams: set[PeerStream] = field(default_factory=set["PeerStream"])
    members: set[bytes] = field(default_factory=set[bytes])  # that the peer has told of
    owner: Any = None  # the node's own; the protocol never looks at it

    @property
    def is_shared(self) -> bool:
        """Whether both sides have joined it."""
        return self.state is ChannelState.SHARED

    def clear(self) -> None:
        """It is off the link; of a refusal the node may still want to hear."""
        self.own_streams.clear()
        self.peer_streams.clear()
        self.members.clear()
        self.is_declared, self.name, self.types = False, "", ()


@dataclass(slots=True, eq=False)
class OwnStream:
    """A source of this side."""

    number: int
    channel: ChannelOnLink
    is_closed: bool = False
    asked: int = -1  # the number of the last Ask
    acked: tuple[int, int] = (-1, 0)  # of the last Ack: number, and level
    owner: Any = None

    @property
    def state(self) -> StreamState:
        return StreamState.CLOSED if self.is_closed else StreamState.OPEN

    @property
    def is_open(self) -> bool:
        """Whether this side may still speak of it."""
        return not self.is_closed and self.channel.is_shared and self in self.channel.own_streams


@dataclass(slots=True, eq=False)
class PeerStream:
    """A source of the peer's."""

    number: int
    channel: ChannelOnLink
    metadata: bytes
    name: str
    source_id: bytes
    keep: int = 0  # events for sinks that come later
    times: bool = False  # its frames say when their events were submitted
    keys: int = 0  # not 0: it keeps so many events for each value of `per`, and at most of so many values
    per: str = ""
    was_attached: bool = False
    is_closed: bool = False  # the peer has said so, and waits for RELEASED
    sequence: int = 0  # behind what was kept, at the last STARTED
    sinks: int = 0  # as the peer was last told
    starts: int = 0  # that may still come: one for each time that it was told of first sinks
    owner: Any = None

    @property
    def state(self) -> StreamState:
        if self.is_closed:
            return StreamState.ENDING
        return StreamState.ATTACHED if self.was_attached else StreamState.UNATTACHED

    @property
    def is_open(self) -> bool:
        """Whether this side may still speak of it."""
        return self.channel.is_shared and self in self.channel.peer_streams


class ChannelTable(dict[int, ChannelOnLink]):
    """What is on the link by alias; all by id. The initiator's aliases are even, the responder's odd."""

    def __init__(self, role: Role) -> None:
        super().__init__()
        # Weak: a channel that has left the link is kept by the node alone.
        self._by_id: WeakValueDictionary[bytes, ChannelOnLink] = WeakValueDictionary()
        self._next_alias = role.value
        self._next_peer_alias = 1 - role.value

    def of_id(self, uid: bytes) -> ChannelOnLink:
        """The one object of a channel, which may be off the link."""
        channel = self._by_id.get(uid)
        if channel is None:
            channel = self._by_id[uid] = ChannelOnLink(uid)
        return channel

    def of_alias(self, alias: int) -> ChannelOnLink | None:
        """What is meant by an alias; None where it never was one."""
        channel = self.get(alias)
        if channel is None and alias % 2 == self._next_peer_alias % 2 and alias < self._next_peer_alias:
            return ChannelOnLink(b"", alias)  # the peer's JOIN did not come to anything, or is long over
        return channel

    def add_own(self, channel: ChannelOnLink) -> None:
        """Gives a channel the next alias of this side."""
        if len(self) >= limits.MAX_CHANNELS:
            msg = f"A link carries at most {limits.MAX_CHANNELS} channels"
            raise RefusedError(msg, code=word_of(Refusal.BUSY))
        self.add(channel, self._next_alias)
        self._next_alias += 2

    def use_peer_alias(self, alias: int) -> None:
        """A peer numbers upwards, and no number twice."""
        if alias % 2 != self._next_peer_alias % 2 or alias < self._next_peer_alias:
            raise unexpected(WireError, f"an alias of {self._next_peer_alias} or more, in steps of 2", alias)
        self._next_peer_alias = alias + 2

    def add(self, channel: ChannelOnLink, alias: int) -> None:
        """Gives a channel an alias instead of the one that it may have."""
        self.remove(channel)
        channel.alias = alias
        self[alias] = channel

    def remove(self, channel: ChannelOnLink) -> None:
        if self.get(channel.alias) is channel:
            del self[channel.alias]


class OwnStreams(dict[int, OwnStream]):
    """This side's sources. A number is used again when the peer has released it: tables stay dense."""

    def __init__(self) -> None:
        super().__init__()
        self._free: list[int] = []

    def free_number(self) -> int:
        """The number that the next stream to be added must have."""
        if len(self) >= limits.MAX_STREAMS:
            msg = f"A link carries at most {limits.MAX_STREAMS} sources of one side"
            raise LinkError(msg)
        return self._free[0] if self._free else limits.FIRST_STREAM + len(self)

    def add(self, stream: OwnStream) -> None:
        if self._free:
            heapq.heappop(self._free)
        self[stream.number] = stream
        stream.channel.own_streams.add(stream)

    def remove(self, stream: OwnStream) -> None:
        del self[stream.number]
        stream.channel.own_streams.remove(stream)
        heapq.heappush(self._free, stream.number)


class PeerStreams(dict[int, PeerStream]):
    """The peer's sources, which the peer numbers."""

    def add(self, stream: PeerStream) -> None:
        number = stream.number
        if not limits.FIRST_STREAM <= number < limits.FIRST_STREAM + limits.MAX_STREAMS:
            last = limits.FIRST_STREAM + limits.MAX_STREAMS - 1
            raise unexpected(WireError, f"a stream from {limits.FIRST_STREAM} to {last}", number)
        if number in self:
            raise unexpected(WireError, "a stream that is free", f"{number}, which is in use")
        self[number] = stream
        stream.channel.peer_streams.add(stream)

    def remove(self, stream: PeerStream) -> None:
        del self[stream.number]
        stream.channel.peer_streams.remove(stream)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a node knows of a channel: its key, and for the peer its name and the metadata of its types."""

    key: bytes
    name: str = ""
    types: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        """Refuses what could not be told to a peer."""
        check_key(self.key)
        messages.encode(messages.Declared(0, self.name, tuple(range(len(self.types)))))
        for metadata in self.types:
            messages.encode(messages.Format(0, metadata))


class FormatTable(list[bytes]):
    """Metadata by number, of one direction; it only grows, and says when it is full."""

    def __init__(self, error: type[LinkError | WireError]) -> None:
        super().__init__()
        self._error = error  # whose fault it is when there are too many
        self.numbers: dict[bytes, int] = {}  # by metadata
        self._bytes = 0

    def metadata_of(self, number: int) -> bytes:
        if number >= len(self):
            raise unexpected(self._error, f"the number of a format, below {len(self)}", number)
        return self[number]

    def has_room_for(self, metadata: Iterable[bytes]) -> bool:
        """Whether all of them could be added; those that are there already need no room."""
        added = set(metadata) - self.numbers.keys()
        are_few = len(self) + len(added) <= limits.MAX_FORMATS
        return are_few and self._bytes + sum(map(len, added)) <= limits.MAX_LINK_METADATA_BYTES

    def add(self, metadata: bytes) -> int:
        if len(self) >= limits.MAX_FORMATS:
            msg = f"A link carries at most {limits.MAX_FORMATS} formats of one side"
            raise self._error(msg)
        if len(metadata) > limits.MAX_LINK_METADATA_BYTES - self._bytes:
            msg = f"A link carries at most {limits.MAX_LINK_METADATA_BYTES} bytes of one side's metadata"
            raise self._error(msg)
        self._bytes += len(metadata)
        self.append(metadata)
        return self.numbers.setdefault(metadata, len(self) - 1)


About = ChannelOnLink | OwnStream | PeerStream


class Heard(NamedTuple):
    """What the peer has said, and about what; None: about the link."""

    message: Message
    about: About | None


class LinkState:
    """Read and changed by the commands of link.py, by joining.py and by receiving.py."""

    def __init__(
        self,
        role: Role,
        secret: bytes,
        declaration_of: Callable[[bytes], Declaration | None],
        admit: Callable[[bytes], Refusal | None],
    ) -> None:
        self.role = role
        self.secret = secret
        self.declaration_of = declaration_of
        self.admit = admit
        self.channels = ChannelTable(role)
        self.own_streams = OwnStreams()
        self.peer_streams = PeerStreams()
        self.own_formats = FormatTable(LinkError)
        self.peer_formats = FormatTable(WireError)
        self.flushes: set[int] = set()  # own, not answered yet
        self.peer_flushes: set[int] = set()  # likewise the peer's
        self.frames: list[tuple[int, bytes]] = []
        self.has_said_bye = False
        self.has_heard_bye = False

    def send(self, message: Message) -> None:
        """To the peer."""
        self.frames.append(frame_of(message))

    def format_number(self, metadata: bytes) -> int:
        """The number by which the peer knows it; it is sent where the peer does not."""
        number = self.own_formats.numbers.get(metadata)
        if number is None:
            number = self.own_formats.add(metadata)
            self.send(messages.Format(number, metadata))
        return number

    def forget(self, channel: ChannelOnLink) -> None:
        """The channel and its streams are gone on both sides."""
        for own in list(channel.own_streams):
            self.own_streams.remove(own)
        for peers in list(channel.peer_streams):
            self.peer_streams.remove(peers)
        self.channels.remove(channel)
        channel.clear()


def frame_of(message: Message) -> tuple[int, bytes]:
    """As it is sent."""
    return message.kind, messages.encode(message)
