"""What happens on a channel beside events: who comes and goes, what cannot be understood, what was lost."""

from __future__ import annotations

from dataclasses import dataclass

from echo_core.formats.compare import Report
from echo_core.formats.format import Format


@dataclass(frozen=True, slots=True)
class Notice:
    """The root of all notices; `peer` says in words which process it is about."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerJoined(Notice):
    """Another process is on the channel, and linked to this one."""


@dataclass(frozen=True, slots=True)
class PeerLeft(Notice):
    """Another process has left the channel, or its link was lost: `reason` is empty where it said goodbye."""

    reason: str


@dataclass(frozen=True, slots=True)
class SourceOpened(Notice):
    """A process offers events of this format."""

    name: str
    format: Format


@dataclass(frozen=True, slots=True)
class SourceClosed(Notice):
    """No more will come from a source."""

    name: str
    format: Format


@dataclass(frozen=True, slots=True)
class Unreachable(Notice):
    """A sink here, or (without a report of ours) one of the peer, cannot take a source's events."""

    source: str
    text: str
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class EventsLost(Notice):
    """So many events of a source were dropped: before they were sent, or before a sink took them."""

    source: str
    events: int
