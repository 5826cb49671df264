"""What one side of a link remembers: channels, streams and formats, each table with its limits.

Nothing here decides what may happen when: joining.py does for channels, protocol.py for all else.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from echo_core.errors import LinkError, WireError
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Role
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.frames import FIRST_STREAM
from echo_core.transports.protocol.messages import Message
from echo_core.transports.protocol.notices import Notice


class ChannelState(enum.Enum):
    """Of a channel on one link, as one side sees it; a channel without state is not on the link."""

    JOINING = "own JOIN is not answered"
    ABANDONED = "own JOIN is not answered, and own LEAVE is sent"
    SHARED = "joined by both"
    LEAVING = "own LEAVE is sent, the peer's is awaited"


UNANSWERED = frozenset({ChannelState.JOINING, ChannelState.ABANDONED})


@dataclass(slots=True, eq=False)
class SharedChannel:
    """One channel on one link."""

    channel_id: bytes
    alias: int
    state: ChannelState
    is_declared: bool = False  # the peer has said what it knows
    is_wanted_again: bool = False  # joined anew as soon as it is left
    own_streams: set[int] = field(default_factory=set[int])
    peer_streams: set[int] = field(default_factory=set[int])
    members: set[bytes] = field(default_factory=set[bytes])  # that the peer has told of


@dataclass(slots=True, eq=False)
class OwnStream:
    """A source of this side."""

    channel: SharedChannel
    is_closed: bool = False  # own CLOSED is sent, the peer's RELEASED is awaited


@dataclass(slots=True, eq=False)
class PeerStream:
    """A source of the peer's."""

    channel: SharedChannel
    was_attached: bool = False
    sequence: int = 0  # at the last STARTED


class ChannelTable:
    """The channels on a link, by alias and by id. The initiator's aliases are even, the responder's odd."""

    def __init__(self, role: Role) -> None:
        self._by_alias: dict[int, SharedChannel] = {}
        self._by_id: dict[bytes, SharedChannel] = {}
        self._next_alias = role.value
        self._parity = role.value
        self._next_peer_alias = 1 - role.value

    def __len__(self) -> int:
        return len(self._by_alias)

    def __iter__(self) -> Iterator[SharedChannel]:
        return iter(self._by_alias.values())

    def of_alias(self, alias: int) -> SharedChannel | None:
        return self._by_alias.get(alias)

    def of_id(self, channel_id: bytes) -> SharedChannel | None:
        return self._by_id.get(channel_id)

    def add_own(self, channel_id: bytes) -> SharedChannel:
        """A channel with the next alias of this side."""
        if len(self) >= limits.MAX_CHANNELS:
            msg = f"A link carries at most {limits.MAX_CHANNELS} channels"
            raise LinkError(msg)
        channel = self._add(channel_id, self._next_alias, ChannelState.JOINING)
        self._next_alias += 2
        return channel

    def add_peers(self, channel_id: bytes, alias: int) -> SharedChannel:
        """A channel that the peer has joined, with an alias that was taken by `use_peer_alias`."""
        return self._add(channel_id, alias, ChannelState.SHARED)

    def _add(self, channel_id: bytes, alias: int, state: ChannelState) -> SharedChannel:
        channel = SharedChannel(channel_id, alias, state)
        self._by_alias[alias] = self._by_id[channel_id] = channel
        return channel

    def remove(self, channel: SharedChannel) -> None:
        del self._by_alias[channel.alias], self._by_id[channel.channel_id]

    def use_peer_alias(self, alias: int) -> None:
        """A peer numbers upwards, and no number twice."""
        if alias % 2 == self._parity or alias < self._next_peer_alias:
            msg = f"Expected an alias of {self._next_peer_alias} or more, in steps of 2, got {alias}"
            raise WireError(msg)
        self._next_peer_alias = alias + 2

    def was_peer_alias(self, alias: int) -> bool:
        """Whether the peer has ever used it."""
        return alias % 2 != self._parity and alias < self._next_peer_alias


class OwnStreams:
    """This side's sources. A number is used again when the peer has released it: tables stay dense."""

    def __init__(self) -> None:
        self._streams: dict[int, OwnStream] = {}
        self._free: list[int] = []

    def get(self, stream: int) -> OwnStream | None:
        return self._streams.get(stream)

    def free_number(self) -> int:
        """The number that the next `add` is to use."""
        if len(self._streams) >= limits.MAX_STREAMS:
            msg = f"A link carries at most {limits.MAX_STREAMS} sources of one side"
            raise LinkError(msg)
        return self._free[0] if self._free else FIRST_STREAM + len(self._streams)

    def add(self, stream: int, channel: SharedChannel) -> None:
        if self._free:
            heapq.heappop(self._free)
        self._streams[stream] = OwnStream(channel)
        channel.own_streams.add(stream)

    def remove(self, stream: int) -> None:
        self._streams.pop(stream).channel.own_streams.remove(stream)
        heapq.heappush(self._free, stream)


class PeerStreams:
    """The peer's sources."""

    def __init__(self) -> None:
        self._streams: dict[int, PeerStream] = {}

    def get(self, stream: int) -> PeerStream | None:
        return self._streams.get(stream)

    def add(self, stream: int, channel: SharedChannel) -> None:
        if not FIRST_STREAM <= stream < FIRST_STREAM + limits.MAX_STREAMS:
            last = FIRST_STREAM + limits.MAX_STREAMS - 1
            msg = f"Expected a stream from {FIRST_STREAM} to {last}, got {stream}"
            raise WireError(msg)
        if stream in self._streams:
            msg = f"Expected a stream that is free, got {stream}, which is in use"
            raise WireError(msg)
        self._streams[stream] = PeerStream(channel)
        channel.peer_streams.add(stream)

    def remove(self, stream: int) -> None:
        self._streams.pop(stream).channel.peer_streams.remove(stream)


class FormatTable:
    """Metadata by number, of one direction; it only grows, and says when it is full."""

    def __init__(self, error: type[LinkError | WireError]) -> None:
        self._error = error  # whose fault it is when there are too many
        self._metadata: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._metadata)

    def number_of(self, metadata: bytes) -> int | None:
        return self._numbers.get(metadata)

    def metadata_of(self, number: int) -> bytes:
        if number >= len(self._metadata):
            msg = f"Expected the number of a format, below {len(self._metadata)}, got {number}"
            raise self._error(msg)
        return self._metadata[number]

    def has_room_for(self, metadata: Iterable[bytes]) -> bool:
        """Whether all of them could be added; those that are there already need no room."""
        added = set(metadata) - self._numbers.keys()
        are_few = len(self) + len(added) <= limits.MAX_FORMATS
        return are_few and self._bytes + sum(map(len, added)) <= limits.MAX_LINK_METADATA_BYTES

    def add(self, metadata: bytes) -> int:
        if len(self._metadata) >= limits.MAX_FORMATS:
            msg = f"A link carries at most {limits.MAX_FORMATS} formats of one side"
            raise self._error(msg)
        if len(metadata) > limits.MAX_LINK_METADATA_BYTES - self._bytes:
            msg = f"A link carries at most {limits.MAX_LINK_METADATA_BYTES} bytes of one side's metadata"
            raise self._error(msg)
        self._bytes += len(metadata)
        self._metadata.append(metadata)
        return self._numbers.setdefault(metadata, len(self._metadata) - 1)


class LinkState:
    """All of it, and what is on its way: frames to the peer, notices to the node."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.channels = ChannelTable(role)
        self.own_streams = OwnStreams()
        self.peer_streams = PeerStreams()
        self.own_formats = FormatTable(LinkError)
        self.peer_formats = FormatTable(WireError)
        self.frames: list[tuple[int, bytes]] = []
        self.notices: list[Notice] = []

    def send(self, message: Message) -> None:
        """To the peer."""
        self.frames.append((message.kind, messages.encode(message)))

    def tell(self, notice: Notice) -> None:
        """The node."""
        self.notices.append(notice)

    def format_number(self, metadata: bytes) -> int:
        """The number by which the peer knows it; it is sent where the peer does not."""
        number = self.own_formats.number_of(metadata)
        if number is None:
            number = self.own_formats.add(metadata)
            self.send(messages.Format(number, metadata))
        return number

    def forget(self, channel: SharedChannel) -> None:
        """The channel and its streams are gone on both sides."""
        for stream in list(channel.own_streams):
            self.own_streams.remove(stream)
        for stream in list(channel.peer_streams):
            self.peer_streams.remove(stream)
        self.channels.remove(channel)


def refuse(expected: str, got: int) -> NoReturn:
    """A peer has said what has no place."""
    msg = f"Expected {expected}, got {got}"
    raise WireError(msg)
