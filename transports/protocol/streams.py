"""What is on a link: channels, own streams, the peer's streams. Each is one object, which a node may hold.

The tables below find these objects by the numbers of the wire, and hold each table's limit. What may happen
to a channel is decided in joining.py, what may be said of a stream in receiving.py.
"""

from __future__ import annotations

import enum
import heapq
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from echo_core.errors import LinkError, RefusedError, WireError
from echo_core.formats.faults import unexpected
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Role
from echo_core.transports.protocol.messages import Refusal, Refused, word_of


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


@dataclass(slots=True, eq=False, weakref_slot=True)
class ChannelOnLink:
    """One channel on one link: the same object, also when it has left the link and comes back."""

    channel_id: bytes
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
    was_attached: bool = False
    sequence: int = 0  # at the last STARTED
    owner: Any = None

    @property
    def state(self) -> StreamState:
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

    def of_id(self, channel_id: bytes) -> ChannelOnLink:
        """The one object of a channel, which may be off the link."""
        channel = self._by_id.get(channel_id)
        if channel is None:
            channel = self._by_id[channel_id] = ChannelOnLink(channel_id)
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
