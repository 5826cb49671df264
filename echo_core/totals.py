"""What the sources and sinks of a channel have counted in one node; those that are closed included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from echo_core.sinks import Sink
from echo_core.sources import Source
from echo_core.statistics import ChannelStatistics, SinkStatistics, SourceStatistics


class Totals:
    """So that they never fall. All of it is called with the books open."""

    def __init__(self) -> None:
        self._past: Counter[str] = Counter()
        self._ending: list[Source[Any]] = []  # closed, but what they have queued may yet be dropped

    def keep_sink(self, sink: Sink[Any]) -> None:
        """It takes no more events."""
        _add_sink(self._past, sink.statistics())

    def keep_source(self, source: Source[Any]) -> None:
        """It sends no more events."""
        self._ending.append(source)
        self.settle()

    def settle(self) -> None:
        """Lets go of sources that nothing is left of."""
        settled = [source for source in self._ending if source.is_settled]
        self._ending = [source for source in self._ending if source not in settled]
        for source in settled:
            _add_source(self._past, source.statistics())

    def statistics(
        self, sources: Sequence[Source[Any]], sinks: Sequence[Sink[Any]], *, peers: int, remote_sources: int
    ) -> ChannelStatistics:
        """With those that are open."""
        self.settle()
        total = self._past.copy()
        sending = [source.statistics() for source in (*sources, *self._ending)]
        taking = [sink.statistics() for sink in sinks]
        waiting: list[SourceStatistics | SinkStatistics] = [*sending, *taking]
        for sent in sending:
            _add_source(total, sent)
        for taken in taking:
            _add_sink(total, taken)
        return ChannelStatistics(
            sources=len(sources),
            sinks=len(sinks),
            peers=peers,
            remote_sources=remote_sources,
            remote_sinks=sum(source.remote_sinks for source in sources),
            submitted_events=total["submitted_events"],
            submitted_bytes=total["submitted_bytes"],
            dropped=total["dropped"],
            dropped_at_sinks=total["dropped_at_sinks"],
            received_events=total["received_events"],
            received_bytes=total["received_bytes"],
            lost=total["lost"],
            dropped_here=total["dropped_here"],
            queued_events=sum(each.queued_events for each in waiting),
            queued_bytes=sum(each.queued_bytes for each in waiting),
        )


def _add_source(total: Counter[str], sent: SourceStatistics) -> None:
    total["submitted_events"] += sent.events
    total["submitted_bytes"] += sent.size_bytes
    total["dropped"] += sent.dropped
    total["dropped_at_sinks"] += sent.dropped_at_sinks


def _add_sink(total: Counter[str], taken: SinkStatistics) -> None:
    total["received_events"] += taken.events
    total["received_bytes"] += taken.size_bytes
    total["lost"] += taken.lost
    total["dropped_here"] += taken.dropped
