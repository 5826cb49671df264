"""What is counted of a channel in one node: by the sources and sinks that are there, and by those that were.

Called with the books open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeVar

from echo_core.streams.origins import Origin
from echo_core.streams.targets import Target
from echo_core.values.statistics import ChannelStatistics, SinkStatistics, SourceStatistics

_Each = TypeVar("_Each", SourceStatistics, SinkStatistics)


class Counts:
    """They never fall: what a closed source or sink has counted is added up."""

    __slots__ = ("_ending", "_filtered", "_gone_sinks", "_gone_sources")

    def __init__(self) -> None:
        self._ending: list[Origin] = []  # closed, but what they have queued may yet be dropped
        self._gone_sources = _sum(SourceStatistics, [])
        self._gone_sinks = _sum(SinkStatistics, [])
        self._filtered = 0  # on receipt, of sources that are gone

    @property
    def ending(self) -> tuple[Origin, ...]:
        """Closed sources whose counts may still grow."""
        return tuple(self._ending)

    def add_sink(self, target: Target) -> None:
        """It is closed."""
        self._gone_sinks = _sum(SinkStatistics, [self._gone_sinks, target.statistics()])

    def add_source(self, origin: Origin) -> None:
        """Likewise; what it has queued is on its way."""
        self._ending.append(origin)
        self.settle()

    def add_filtered(self, events: int) -> None:
        """A source elsewhere is gone, of which so many were filtered here."""
        self._filtered += events

    def settle(self) -> None:
        """Lets go of closed sources that nothing is left of."""
        settled = [origin for origin in self._ending if origin.is_settled]
        self._ending = [origin for origin in self._ending if origin not in settled]
        if settled:
            gone = [self._gone_sources, *(origin.statistics() for origin in settled)]
            self._gone_sources = _sum(SourceStatistics, gone)

    def of_channel(
        self,
        origins: Sequence[Origin],
        targets: Sequence[Target],
        relayed: Sequence[Origin],
        *,
        peers: int,
        members: int,
        missing: int,
        remote_sources: int,
    ) -> ChannelStatistics:
        """With the sources and sinks that are here, and how many processes and sources are elsewhere.

        `relayed`: sources elsewhere that are derived from on receipt.
        """
        judged_here = sum(origin.local.is_there for origin in relayed)
        self.settle()
        sending = [origin.statistics() for origin in (*origins, *self._ending)]
        taking = [target.statistics() for target in targets]
        waiting: list[SourceStatistics | SinkStatistics] = [*sending, *taking]
        sent = _sum(SourceStatistics, [self._gone_sources, *sending])
        taken = _sum(SinkStatistics, [self._gone_sinks, *taking])
        return ChannelStatistics(
            sources=len(origins),
            sinks=len(targets),
            peers=peers,
            members=members,
            missing=missing,
            remote_sources=remote_sources + judged_here,
            judged_here=judged_here,
            remote_sinks=sum(origin.remote_sinks for origin in origins),
            submitted_events=sent.events,
            submitted_bytes=sent.size_bytes,
            dropped=sent.dropped,
            dropped_at_sinks=sent.dropped_at_sinks,
            confirmed=sent.confirmed,
            unconfirmed=sent.unconfirmed,
            received_events=taken.events,
            received_bytes=taken.size_bytes,
            lost=taken.lost,
            dropped_here=taken.dropped,
            queued_events=sum(each.queued_events for each in waiting),
            queued_bytes=sum(each.queued_bytes for each in waiting),
            filtered=sent.filtered + self._filtered + sum(origin.local.filtered for origin in relayed),
        )


def _sum(cls: type[_Each], counts: Sequence[_Each]) -> _Each:
    """Field by field."""
    return cls(**{each.name: sum(getattr(count, each.name) for count in counts) for each in fields(cls)})
