"""What is missing in a log, by stream and number: gaps that were recorded, and what damage has taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from echo_core.logs.described import Damage, Gap, Position
from echo_core.logs.reading import LogReader

UNEXPLAINED = "not in the log"


class Missing:
    """All that a reader knows of, by the streams' numbers in it."""

    def __init__(self, gaps: Iterable[Gap], damage: Iterable[Damage]) -> None:
        self._by_stream: dict[int, list[Gap]] = {}
        for gap in (*gaps, *_of_damage(damage)):
            self._by_stream.setdefault(gap.stream, []).append(gap)
        for known in self._by_stream.values():
            known.sort(key=lambda gap: gap.first)

    def all(self) -> Iterator[Gap]:
        """All of it; what has several causes once."""
        for stream in self._by_stream:
            yield from self.behind(stream, 0)

    def begins(self, stream: int, number: int) -> int:
        """From where on all is missing up to this number; the number itself where nothing is."""
        for gap in reversed(self._by_stream.get(stream, ())):
            if gap.last + 1 >= number:
                number = min(number, gap.first)
        return number

    def between(self, stream: int, first: int, last: int, position: Position) -> Iterator[Gap]:
        """Why each of these numbers is missing, in their order; some may not be explained."""
        for gap in self._by_stream.get(stream, ()):
            if gap.last < first or gap.first > last:
                continue
            if gap.first > first:
                yield Gap(stream, first, gap.first - 1, UNEXPLAINED, position)
            yield replace(gap, first=max(first, gap.first), last=min(last, gap.last))
            first = gap.last + 1
        if first <= last:
            yield Gap(stream, first, last, UNEXPLAINED, position)

    def behind(self, stream: int, number: int) -> Iterator[Gap]:
        """What is missing from this number on."""
        for gap in self._by_stream.get(stream, ()):
            if gap.last >= number:
                yield replace(gap, first=max(gap.first, number))
                number = gap.last + 1


class MissingIn:
    """The same of a reader, which learns more while it reads."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._known = -1, -1
        self._missing = Missing((), ())

    def __call__(self) -> Missing:
        gaps, damage = self._reader.gaps, self._reader.damage
        if self._known != (len(gaps), len(damage)):
            self._known = len(gaps), len(damage)
            self._missing = Missing(gaps, damage)
        return self._missing


def _of_damage(damage: Iterable[Damage]) -> Iterator[Gap]:
    for each in damage:
        if each.stream is not None and each.missing is not None:
            position = Position(each.segment, each.end)
            yield Gap(each.stream, *each.missing, f"damage: {each.what}", position)
