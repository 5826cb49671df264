"""Resuming: where sources elsewhere were when their links were lost, so that what never came is counted."""

from __future__ import annotations

from echo_core.streams.incoming import IncomingStream

_MAX_REMEMBERED = 4096  # sources; a peer may offer any number


class Resuming:
    """Of one channel. A source is known again by its id, which outlives a link."""

    __slots__ = ("_next_numbers",)

    def __init__(self) -> None:
        self._next_numbers: dict[bytes, int] = {}  # by the ids of sources

    def remember(self, stream: IncomingStream) -> None:
        """Its link is lost. Of too many the oldest is forgotten."""
        if len(self._next_numbers) >= _MAX_REMEMBERED:
            del self._next_numbers[next(iter(self._next_numbers))]
        self._next_numbers[stream.told.source_id] = stream.sequence

    def ask_for_missed(self, stream: IncomingStream) -> None:
        """Of a source that is back it wants what is kept from there on."""
        stream.first = self._next_numbers.get(stream.told.source_id, 0)

    def note_start(self, stream: IncomingStream) -> None:
        """What the source has submitted since then, and has not kept, never came."""
        missing = stream.sequence - self._next_numbers.pop(stream.told.source_id, stream.sequence)
        if missing > 0:
            stream.count_lost(missing)
