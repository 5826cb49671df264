"""Which records of a log are asked for: streams by their names, times, numbers, conditions. Pure data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from echo_core.codegen.expressions.predicates import Expression
from echo_core.errors import FormatError, unexpected
from echo_core.formats.format import Format
from echo_core.formats.leaves import EPOCH
from echo_core.logs.described import Position, StreamKey

Rows = slice | np.ndarray[Any, Any]  # of a block: those in between, or these
Time = dt.datetime | np.datetime64 | int

_END = 2**63 - 1  # of times
_NUMBERS = 2**64


def time_ns(time: Time) -> int:
    """Nanoseconds since the epoch, of a datetime with a time zone, a numpy time, or such a number itself."""
    given: object = time
    if isinstance(given, dt.datetime) and given.utcoffset() is not None:
        return (given - EPOCH) // dt.timedelta(microseconds=1) * 1000
    if isinstance(given, np.datetime64) and not np.isnat(given):
        return int(given.astype("M8[ns]").astype(np.int64))
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return int(given)
    raise unexpected(
        FormatError,
        "a datetime with a time zone, a numpy.datetime64, or ns since the epoch as int",
        f"{time!r}",
    )


def _shown_time(time_ns: int) -> str:
    """As people read it, to the nanosecond where that matters; None for no bound."""
    if abs(time_ns) == _END:
        return "None"
    return np.datetime_as_string(np.datetime64(time_ns, "ns")).rstrip("0").rstrip(".") + "Z"


class Numbers(NamedTuple):
    """Of one source, or of all where it is empty: from `start` on, before `stop`."""

    source: str
    start: int
    stop: int


class Bounds(NamedTuple):
    """The first and the last number of a stream that are taken."""

    first: int
    last: int


class Condition(NamedTuple):
    """An expression with the values of its parameters."""

    expression: Expression
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """All that is given must hold of a record that is taken; times are `start_ns` and later, before
    `stop_ns`.
    """

    types: tuple[frozenset[str | bytes], ...] = ()
    """Names, and metadata of formats: one of each group."""
    channels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    start_ns: int = -_END
    stop_ns: int = _END
    numbers: tuple[Numbers, ...] = ()
    conditions: tuple[Condition, ...] = ()
    since: Position | None = None
    until: Position | None = None

    def __str__(self) -> str:
        """As it was asked for."""
        parts = [f".types({self.types_in_words})"] if self.types else []
        parts += [f".channel({name!r})" for name in self.channels]
        parts += [f".source({name!r})" for name in self.sources]
        if self.is_timed:
            parts.append(f".between({_shown_time(self.start_ns)}, {_shown_time(self.stop_ns)})")
        parts += [f".sequences({it.source!r}, {it.start}, {it.stop})" for it in self.numbers]
        parts += [f".where({it.expression!r})" for it in self.conditions]
        return "".join(parts)

    def between(self, start: Time | None, stop: Time | None) -> Selection:
        """The part of it that lies between two times."""
        start_ns = self.start_ns if start is None else max(self.start_ns, time_ns(start))
        stop_ns = self.stop_ns if stop is None else min(self.stop_ns, time_ns(stop))
        return replace(self, start_ns=start_ns, stop_ns=stop_ns)

    @property
    def is_timed(self) -> bool:
        """Whether times matter."""
        return (self.start_ns, self.stop_ns) != (-_END, _END)

    @property
    def takes_whole_streams(self) -> bool:
        """Whether each event of a stream that is taken is taken."""
        return not (self.is_timed or self.numbers or self.conditions or self.is_part)

    @property
    def is_part(self) -> bool:
        """Whether it is of a part of the log, behind `since` and up to `until`."""
        return self.since is not None or self.until is not None

    def takes(self, key: StreamKey, format_: Format) -> bool:
        """Whether anything of a stream may be taken."""
        return (
            self.is_of_types(format_)
            and all(_is_called(channel, key.channel_name, key.channel) for channel in self.channels)
            and all(_is_called(source, key.source_name, key.source) for source in self.sources)
            and all(is_of(each.source, key) for each in self.numbers)
        )

    def is_of_types(self, format_: Format) -> bool:
        """Whether events of a format may be taken."""
        return all(format_.name in group or format_.metadata in group for group in self.types)

    @property
    def types_in_words(self) -> str:
        """Their names."""
        named = {
            each if isinstance(each, str) else Format.from_metadata(each).name
            for group in self.types
            for each in group
        }
        return ", ".join(f"`{name}`" for name in sorted(named))

    def may_hold(self, first_ns: int, last_ns: int) -> bool:
        """Whether anything between two times, both included, may be taken."""
        return first_ns < self.stop_ns and last_ns >= self.start_ns

    def bounds(self, key: StreamKey) -> Bounds:
        """The numbers of a stream that may be taken."""
        of_it = [each for each in self.numbers if is_of(each.source, key)]
        first = max((each.start for each in of_it), default=0)
        return Bounds(first, min((each.stop for each in of_it), default=_NUMBERS) - 1)

    def rows(self, bounds: Bounds, numbers: np.ndarray[Any, Any], times: Callable[[], Any]) -> Rows:
        """Which records of a block are taken by their numbers and times; conditions are judged later.

        `times` is asked for where they matter.
        """
        mask: Any = None
        if bounds.first > int(numbers[0]) or bounds.last < int(numbers[-1]):
            mask = (numbers >= bounds.first) & (numbers <= bounds.last)
        if self.is_timed:
            each_ns = times()
            timed = (each_ns >= self.start_ns) & (each_ns < self.stop_ns)
            mask = timed if mask is None else mask & timed
        return slice(0, len(numbers)) if mask is None else _as_rows(mask)


def _as_rows(mask: np.ndarray[Any, Any]) -> Rows:
    """A run of rows is a slice, so that nothing has to be gathered."""
    rows = np.flatnonzero(mask)
    if not len(rows):
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


def is_of(source: str, key: StreamKey) -> bool:
    """Whether a stream is of a source of that name or id; of an empty name every one is."""
    return not source or _is_called(source, key.source_name, key.source)


def _is_called(text: str, name: str, identity: bytes) -> bool:
    return text in (name, identity.hex())
