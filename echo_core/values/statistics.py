"""What long-lived objects say of themselves: counts since they were made, and what waits now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """`size_bytes` are those of the records that were made for sinks elsewhere and of other classes, or were
    submitted as arrays: an event that is only handed over by reference has none. `dropped` counts events once
    for every process that did not get them, `dropped_at_sinks` those that sinks, here and elsewhere, had no
    room for. `confirmed` are, once for every other process, those that its sinks have finished with: handled,
    taken, or dropped themselves; `unconfirmed` those that were sent, and not confirmed when their link ended.
    `kept` were sent again to other processes that came later; where they are kept by the values of a field,
    nothing is kept any more of `forgotten_keys` values. `filtered` are, of a derived source, the events of
    the one that it is derived from which did not pass while anybody took what does: they are neither its
    events nor dropped. For each other process confirmed, dropped and unconfirmed are in the end all that was
    kept for it and submitted to it."""

    events: int
    size_bytes: int
    kept: int
    forgotten_keys: int
    dropped: int
    dropped_at_sinks: int
    confirmed: int
    unconfirmed: int
    queued_events: int
    queued_bytes: int
    local_sinks: int
    remote_sinks: int
    filtered: int


@dataclass(frozen=True, slots=True)
class SinkStatistics:
    """`size_bytes` are those of records as they came; what varies in size and came by reference has none, but
    where its record's size had to be known, for a queue or for sinks elsewhere. `lost` never came: sources
    had dropped it. `dropped` came and found no room, or was left of an array when the sink was closed.
    `filtered` are those of the sources behind a derived channel that have not passed since the sink came,
    as told four times a second: they were not lost. `judged_here` of the `sources` are in processes that do
    not know of derived channels, so that their events come here first: then `lost` has events of theirs that
    might not have passed. `slow` counts calls of the handler that took a second
    or more. `queued_events` and `queued_bytes` wait in the sink's queue; events in an array count one by
    one. Of the events that came as records, `compiled` were decoded by native code, `interpreted` by Python
    code: until what is compiled is ready, and where only Python has the words."""

    events: int
    size_bytes: int
    lost: int
    dropped: int
    failures: int
    slow: int
    queued_events: int
    queued_bytes: int
    sources: int
    judged_here: int
    compiled: int
    interpreted: int
    filtered: int


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Of the channel in this process and node. What is counted includes the sources and sinks here that are
    closed, once for each: an event that two sinks take is received twice.

    `members` are the other nodes on the channel that are known, and `missing` those of them that should be
    linked to this one and are not: who has sources has to be linked to who has sinks, and everybody to one
    member that tells of the others.

    `peers`, `remote_sources` and `remote_sinks` are at the other ends of links, of which nodes of one
    process need none. A sink there counts once for each source here whose events it takes: a link does not
    tell which it is.

    Of the events of sources here, `dropped` were dropped before links, `dropped_at_sinks` by sinks, here and
    elsewhere; `confirmed` and `unconfirmed` are as of a source. For sinks here, `lost` never came, and
    `dropped_here` came and was dropped. What is queued waits at either. On a derived channel `filtered` are
    the events that sources here did not let pass, and those that did not here of sources elsewhere:
    `judged_here` of the `remote_sources` are in processes that do not know of derived channels."""

    sources: int
    sinks: int
    peers: int
    members: int
    missing: int
    remote_sources: int
    judged_here: int
    remote_sinks: int
    submitted_events: int
    submitted_bytes: int
    dropped: int
    dropped_at_sinks: int
    confirmed: int
    unconfirmed: int
    received_events: int
    received_bytes: int
    lost: int
    dropped_here: int
    queued_events: int
    queued_bytes: int
    filtered: int


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """Of the link to one process; `wire` is how its bytes go. Events are `dropped` or queued before it;
    `queued_bytes` also counts what is about to be written. The process has finished with those that are
    `confirmed`; `unconfirmed` were sent, by sources that have left the link since."""

    peer: str
    wire: str
    channels: int
    sent_frames: int
    sent_bytes: int
    received_frames: int
    received_bytes: int
    writes: int
    reads: int
    queued_events: int
    queued_bytes: int
    dropped: int
    confirmed: int
    unconfirmed: int


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """Of a node: its links, and what has been refused or lost so far. `members` and `missing` are the sums of
    those of its channels."""

    channels: int
    members: int
    missing: int
    links: tuple[LinkStatistics, ...]
    links_lost: int
    handshakes_failed: int


class Place(NamedTuple):
    """The end of a block in a log: of which file, and where in it."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class RecorderStatistics:
    """`events` have come into the log's memory, from `streams` sources that there are now; `size_bytes` are
    those of their records. Of these `written_events`, and `written_bytes` of all, are in files up to
    `written`, and on the disk up to `synced`; `staged_bytes` of memory hold the rest. `dropped` found no room
    there. `missing` never came: they were dropped on the way, or a link was lost. `kept_events` are those of
    the last seconds, while the recorder `is_waiting` for its trigger. `is_full`: the disk has no room, and
    what comes is dropped once memory is used up, until there is some; `failure` is what the disk has said
    where it has failed, and nothing is recorded any more."""

    events: int
    size_bytes: int
    streams: int
    missing: int
    dropped: int
    staged_bytes: int
    written_events: int
    written_bytes: int
    written: Place
    synced: Place
    kept_events: int
    is_waiting: bool
    is_full: bool
    failure: str | None


@dataclass(frozen=True, slots=True)
class PlayerStatistics:
    """`events` have left, `size_bytes` are those of their records. `late` left more than 10 ms after they
    were due, `most_late_s` by so much at most. `lost` were dropped by sinks, once for each; `missing` were
    never recorded, and `damaged` are not what their type allows, so that they were not played. `rounds` is
    how often playing has begun again, `time_s` when the event that comes next was recorded; None: there is
    none."""

    events: int
    size_bytes: int
    late: int
    most_late_s: float
    lost: int
    missing: int
    damaged: int
    rounds: int
    time_s: float | None
    is_paused: bool
