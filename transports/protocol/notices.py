"""Notices: what a LinkProtocol tells its node.

A channel is named by its id, a source by its stream: the peer's in Source.. and Stream.., the node's own in
Sink.. notices.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelShared:
    """Both sides have joined and proven it: time to tell of one's members and to offer one's sources."""

    channel_id: bytes


@dataclass(frozen=True, slots=True)
class ChannelDeclared:
    """What the peer knows of a shared channel: metadata of its types, none where it knows of none."""

    channel_id: bytes
    name: str
    types: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JoinRefused:
    """The peer does not share the channel; `code` is a Refusal, or a number of a later version's."""

    channel_id: bytes
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class ChannelLeft:
    """The peer has left; its streams were closed before this, and the node's own sources have lost it."""

    channel_id: bytes


@dataclass(frozen=True, slots=True)
class MemberTold:
    """Another node of the channel can be reached there; without addresses: it is gone."""

    channel_id: bytes
    node_id: bytes
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceOffered:
    """The peer has a source."""

    channel_id: bytes
    stream: int
    metadata: bytes
    name: str


@dataclass(frozen=True, slots=True)
class StreamStarted:
    """The stream's next event is number `sequence` of its source."""

    stream: int
    sequence: int


@dataclass(frozen=True, slots=True)
class StreamGap:
    """The source's side has dropped so many events at this place."""

    stream: int
    events: int


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """The peer's source is closed; no event of it will come."""

    stream: int


@dataclass(frozen=True, slots=True)
class SinksAttached:
    """The peer has so many sinks for the node's own source; where it had none: call `start`."""

    stream: int
    sinks: int


@dataclass(frozen=True, slots=True)
class SinkDropped:
    """So many events of the node's own source were dropped at a sink of the peer's."""

    stream: int
    events: int


@dataclass(frozen=True, slots=True)
class SinkUnreachable:
    """A sink of the peer's cannot take what the node's own source sends, and why."""

    stream: int
    text: str


@dataclass(frozen=True, slots=True)
class SourceReleased:
    """The peer says no more of the node's own source, which is closed; its stream may be another's now."""

    stream: int


@dataclass(frozen=True, slots=True)
class FlushAsked:
    """The peer waits for `answer_flush` once all that came before is handed over."""

    number: int


@dataclass(frozen=True, slots=True)
class FlushAnswered:
    """All that was sent before the `flush` of this number is handed over."""

    number: int


@dataclass(frozen=True, slots=True)
class PeerSaidBye:
    """The peer ends the link; `code` is a Farewell, or a number of a later version's."""

    code: int
    text: str


Notice = (
    ChannelShared
    | ChannelDeclared
    | JoinRefused
    | ChannelLeft
    | MemberTold
    | SourceOffered
    | StreamStarted
    | StreamGap
    | StreamClosed
    | SinksAttached
    | SinkDropped
    | SinkUnreachable
    | SourceReleased
    | FlushAsked
    | FlushAnswered
    | PeerSaidBye
)
