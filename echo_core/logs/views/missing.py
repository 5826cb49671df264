"""What is missing in a log, by stream and number: gaps that were recorded, and what damage has taken."""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace

from echo_core.logs.described import Damage, Gap, Position
from echo_core.logs.reading import LogReader

UNEXPLAINED = "not in the log"


class Missing:
    """All that a reader knows of, by the streams' numbers in it: runs that do not overlap, in order."""

    def __init__(self, gaps: Iterable[Gap] = (), damage: Iterable[Damage] = ()) -> None:
        self._by_stream: dict[int, list[Gap]] = {}
        self.add(gaps, damage)

    def add(self, gaps: Iterable[Gap], damage: Iterable[Damage]) -> None:
        """More of it; what is known already stays as it is, and of several causes it is the first."""
        for gap in sorted((*gaps, *_of_damage(damage)), key=_first):
            known = self._by_stream.setdefault(gap.stream, [])
            at = bisect_left(known, gap.first, key=_last)  # of the first that ends there or behind
            behind = bisect_right(known, gap.last, at, key=_first)
            known[at:behind] = _with(known[at:behind], gap)

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
        for gap in self._within(stream, first, last):
            if gap.first > first:
                yield Gap(stream, first, gap.first - 1, UNEXPLAINED, position)
            yield gap
            first = gap.last + 1
        if first <= last:
            yield Gap(stream, first, last, UNEXPLAINED, position)

    def behind(self, stream: int, number: int) -> Iterator[Gap]:
        """What is missing from this number on."""
        return self._within(stream, number, _MOST)

    def _within(self, stream: int, first: int, last: int) -> Iterator[Gap]:
        """Of a copy: more may be added meanwhile."""
        known = self._by_stream.get(stream, [])
        at = bisect_left(known, first, key=_last)
        part = known[at : bisect_right(known, last, at, key=_first)]
        return (replace(gap, first=max(gap.first, first), last=min(gap.last, last)) for gap in part)


_MOST = 2**64


def _first(gap: Gap) -> int:
    return gap.first


def _last(gap: Gap) -> int:
    return gap.last


def _with(known: list[Gap], gap: Gap) -> list[Gap]:
    """Those, which it touches, and what they leave of it between them."""
    made: list[Gap] = []
    number = gap.first
    for each in known:
        if each.first > number:
            made.append(replace(gap, first=number, last=each.first - 1))
        made.append(each)
        number = each.last + 1
    if number <= gap.last:
        made.append(replace(gap, first=number))
    return made


class MissingIn:
    """The same of a reader, which learns more while it reads."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._missing = Missing()
        self._gaps = self._damage = 0  # how many of both are in there
        self._adding = threading.Lock()

    def __call__(self) -> Missing:
        if self._reader.losses > self._gaps + self._damage:
            with self._adding:
                gaps, damage = self._reader.losses_from(self._gaps, self._damage)
                self._missing.add(gaps, damage)
                self._gaps += len(gaps)
                self._damage += len(damage)
        return self._missing


def _of_damage(damage: Iterable[Damage]) -> Iterator[Gap]:
    for each in damage:
        if each.stream is not None and each.missing is not None:
            position = Position(each.segment, each.end)
            yield Gap(each.stream, *each.missing, f"damage: {each.what}", position)
