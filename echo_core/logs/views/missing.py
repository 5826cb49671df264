"""What is missing in a log, by stream and number: gaps that were recorded, and what damage has taken."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace

from echo_core.logs.described import Damage, Gap, Position
from echo_core.logs.reading import LogReader

UNEXPLAINED = "not in the log"


class Missing:
    """All that a reader knows of, by the streams' numbers in it: runs that do not overlap, in order."""

    def __init__(self, gaps: Iterable[Gap], damage: Iterable[Damage]) -> None:
        by_stream: dict[int, list[Gap]] = {}
        for gap in (*gaps, *_of_damage(damage)):
            by_stream.setdefault(gap.stream, []).append(gap)
        self._by_stream = {stream: list(_apart(known)) for stream, known in by_stream.items()}

    def all(self) -> Iterator[Gap]:
        """All of it; what has several causes once."""
        return itertools.chain.from_iterable(self._by_stream.values())

    def begins(self, stream: int, number: int) -> int:
        """From where on all is missing up to this number; the number itself where nothing is."""
        known = self._by_stream.get(stream, [])
        for i in range(bisect_left(known, number, key=_first) - 1, -1, -1):
            if known[i].last + 1 < number:
                break
            number = known[i].first
        return number

    def between(self, stream: int, first: int, last: int, position: Position) -> Iterator[Gap]:
        """Why each of these numbers is missing, in their order; some may not be explained."""
        for gap in self.behind(stream, first):
            if gap.first > last:
                break
            if gap.first > first:
                yield Gap(stream, first, gap.first - 1, UNEXPLAINED, position)
            yield replace(gap, last=min(last, gap.last))
            first = gap.last + 1
        if first <= last:
            yield Gap(stream, first, last, UNEXPLAINED, position)

    def behind(self, stream: int, number: int) -> Iterator[Gap]:
        """What is missing from this number on."""
        known = self._by_stream.get(stream, [])
        for i in range(bisect_left(known, number, key=_last), len(known)):
            yield replace(known[i], first=max(known[i].first, number))


def _first(gap: Gap) -> int:
    return gap.first


def _last(gap: Gap) -> int:
    return gap.last


def _apart(gaps: list[Gap]) -> Iterator[Gap]:
    """In order, and without what an earlier one has."""
    number = 0
    for gap in sorted(gaps, key=_first):
        if gap.last >= number:
            yield replace(gap, first=max(gap.first, number))
            number = gap.last + 1


class MissingIn:
    """The same of a reader, which learns more while it reads."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._known = -1
        self._missing = Missing((), ())

    def __call__(self) -> Missing:
        known = self._reader.losses
        if self._known != known:
            self._missing, self._known = Missing(self._reader.gaps, self._reader.damage), known
        return self._missing


def _of_damage(damage: Iterable[Damage]) -> Iterator[Gap]:
    for each in damage:
        if each.stream is not None and each.missing is not None:
            position = Position(each.segment, each.end)
            yield Gap(each.stream, *each.missing, f"damage: {each.what}", position)
