"""Resuming: where sinks were in sources elsewhere when their links were lost.

When a source is back, it sends all that it keeps, for sinks that come later, too: those that were there pass
over what they have had. What it has not kept never came, which is counted as long as one of them is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from echo_core.streams.incoming import IncomingStream
from echo_core.streams.targets import Target

_MAX_REMEMBERED = 4096  # sources; a peer may offer any number


class _Left(NamedTuple):
    """A source as its link was lost."""

    next_number: int
    had: dict[Target, int]  # sinks, and below which number they have had its events


class Resuming:
    """Of one channel. A source is known again by its id, which outlives a link."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: dict[bytes, _Left] = {}  # by the ids of sources

    def remember(self, stream: IncomingStream) -> None:
        """Its link is lost. Without sinks nothing is missed; of too many sources the oldest is forgotten."""
        if not (had := stream.numbers_of_sinks()):
            return
        if len(self._left) >= _MAX_REMEMBERED:
            del self._left[next(iter(self._left))]
        self._left[stream.told.source_id] = _Left(stream.sequence, had)

    def remembers(self, target: Target) -> bool:
        """Whether it has had events of a source whose link is lost."""
        return any(target in left.had for left in self._left.values())

    def forget(self, target: Target) -> None:
        """The sink is closed."""
        for source_id, left in list(self._left.items()):
            left.had.pop(target, None)
            if not left.had:
                del self._left[source_id]

    def had_of(self, stream: IncomingStream) -> Mapping[Target, int]:
        """Sinks that have had events of a source which is back, below a number."""
        left = self._left.get(stream.told.source_id)
        return left.had if left is not None else {}

    def note_start(self, stream: IncomingStream) -> None:
        """What the source has submitted since then, and has not kept, never came.

        Of what is kept by key that was followed by others.
        """
        left = self._left.pop(stream.told.source_id, None)
        if left is not None and stream.sequence > left.next_number and not stream.told.keys:
            stream.count_lost(stream.sequence - left.next_number)
