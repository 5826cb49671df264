"""What happens on a channel beside events: who comes and goes, what cannot be understood, what was lost."""

from __future__ import annotations

from dataclasses import dataclass

from echo_core.formats.comparing.compare import Report
from echo_core.formats.format import Format

HERE = "this process"  # as a notice's peer


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
class Unlinked(Notice):
    """A member of the channel that has to be linked to this process cannot be.

    `reason` says why, and the way out. Told once for each member, and again when the reason changes.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class HeldTwice(Notice):
    """Another node held the channel as this one did, on another host; told once for each.

    One of the two gives way: what it has open on the channel goes on, and only the other one holds it.
    """

    gives_way: bool  # whether this node has


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
class LookalikeField(Notice):
    """A sink's field takes its default, while the source has one of a similar name, which is ignored.

    `field` is the sink's, such as `Particle.temperature`, and `lookalike` the source's. Told once.
    """

    source: str
    field: str
    lookalike: str
    report: Report


@dataclass(frozen=True, slots=True)
class EventsLost(Notice):
    """So many events of a source were dropped: before they were sent, or before a sink took them.

    `is_unconfirmed`: or they were under way when the link to `peer` was lost, and nobody knows whether they
    were handled there.
    """

    source: str
    events: int
    is_unconfirmed: bool = False


@dataclass(frozen=True, slots=True)
class HandlerSlow(Notice):
    """A handler here has been at work for so long by now, on an event of `peer`, or of any."""

    handler: str
    seconds: float
