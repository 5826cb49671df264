"""The sources of this process that a peer knows of, found by stream, by source and by channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from echo_core import _links
from echo_core.sources import Source


@dataclass(slots=True, eq=False)
class Outgoing:
    """One of them. Its route is kept while there are no sinks: what is queued there comes first."""

    source: Source[Any]
    uid: bytes
    stream: int
    route: _links.Route | None = None
    is_flowing: bool = False
    flushed_at: int = 0  # the source's events that are known to have arrived, if this route had them to carry


class OutgoingSources:
    """A source that is closed stays until the peer has released its stream."""

    def __init__(self) -> None:
        self._by_stream: dict[int, Outgoing] = {}
        self._by_source: dict[Source[Any], Outgoing] = {}
        self._by_channel: dict[bytes, dict[int, Outgoing]] = {}

    def add(self, outgoing: Outgoing) -> None:
        self._by_stream[outgoing.stream] = self._by_source[outgoing.source] = outgoing
        self._by_channel.setdefault(outgoing.uid, {})[outgoing.stream] = outgoing

    def of_stream(self, stream: int) -> Outgoing | None:
        return self._by_stream.get(stream)

    def of_source(self, source: Source[Any]) -> Outgoing | None:
        return self._by_source.get(source)

    def on_channel(self, uid: bytes) -> list[Outgoing]:
        return list(self._by_channel.get(uid, {}).values())

    def all(self) -> list[Outgoing]:
        return list(self._by_stream.values())

    def remove(self, outgoing: Outgoing) -> None:
        if self._by_stream.pop(outgoing.stream, None) is None:
            return
        del self._by_source[outgoing.source]
        on_channel = self._by_channel[outgoing.uid]
        del on_channel[outgoing.stream]
        if not on_channel:
            del self._by_channel[outgoing.uid]
