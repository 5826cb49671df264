"""Records of logs into a new one, as they lie, with their times."""

from __future__ import annotations

import heapq
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from echo_core.errors import LogError, unexpected
from echo_core.logs.declarations import StreamWriter
from echo_core.logs.described import Gap, Member, StreamInfo, StreamKey
from echo_core.logs.views.batches import Batch
from echo_core.logs.writing import LogWriter

if TYPE_CHECKING:
    from echo_core.logs.views.log import Log
    from echo_core.logs.views.views import View

_AT_ONCE_BYTES = 1 << 20  # of records for which room is waited for
_ROOM_S = 60.0  # how long the disk may take to make it
_LEFT_OUT = "left out"

Piece = Batch | Gap


class Copy:
    """A new log that records are copied to. Use it as a context manager.

    Numbers stay as they are, and what is not copied is a gap. `is_renumbered`: they begin anew at 0, in an
    epoch of their own, as those of a derived channel do.
    """

    def __init__(self, path: str | os.PathLike[str], *, is_renumbered: bool = False) -> None:
        if Path(path).exists():
            raise unexpected(LogError, "a path where nothing is", "one where something is", path=str(path))
        self.events = 0
        self._writer = LogWriter(path)
        self._is_renumbered = is_renumbered
        self._epoch = secrets.randbits(64)
        self._next: dict[StreamKey, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add_members(self, members: Iterable[Member]) -> None:
        """What members of channels did."""
        for each in members:
            self._writer.member(each.channel, each.member, each.activity, each.name, time_ns=each.time_ns)

    def add(self, piece: Piece, stream: StreamInfo) -> None:
        """A batch of this stream, or a gap. What is there already is left out."""
        if isinstance(piece, Batch):
            self._add_batch(piece, stream)
        elif not self._is_renumbered:
            self._add_gap(stream, piece.first, piece.last, piece.cause)

    def _add_batch(self, batch: Batch, stream: StreamInfo) -> None:
        for first, last in batch.runs(_AT_ONCE_BYTES):
            number, count = int(batch.sequences[first]), last - first
            expected = self._next.get(stream.key, 0 if self._is_renumbered else number)
            if self._is_renumbered:
                number = expected
            elif number > expected:
                self._add_gap(stream, expected, number - 1, _LEFT_OUT)
            first += min(max(expected - number, 0), count)
            if first < last:
                self._append(batch, stream, first, last, number + count - (last - first))
            self._next[stream.key] = max(expected, number + count)

    def _append(self, batch: Batch, stream: StreamInfo, first: int, last: int, number: int) -> None:
        """Rows of one time, whose numbers follow each other."""
        writer, time_ns = self._writer_of(stream), int(batch.times_ns[first])
        if stream.format.is_fixed:
            size = stream.format.size_bytes
            data = batch.data[first * size : last * size]
            self._make_room(data.nbytes)
            self._demand(writer.append_batch(data, sequence=number, time_ns=time_ns))
        else:
            for i, record in enumerate(batch.records(first, last)):
                self._make_room(record.nbytes)
                self._demand(writer.append(record, sequence=number + i, time_ns=time_ns))
        self.events += last - first

    def _make_room(self, size_bytes: int) -> None:
        if not self._writer.wait_room(size_bytes, _ROOM_S):
            self._demand(False)

    def _demand(self, is_taken: bool) -> None:
        if not is_taken:
            why = self._writer.statistics().failure or f"none within {_ROOM_S:g} s"
            raise unexpected(LogError, "room for what is copied", why, path=str(self._writer.path))

    def _add_gap(self, stream: StreamInfo, first: int, last: int, cause: str) -> None:
        first = max(first, self._next.get(stream.key, 0))
        if first <= last:
            self._writer_of(stream).gap(first, last, cause)
            self._next[stream.key] = last + 1

    def _writer_of(self, stream: StreamInfo) -> StreamWriter:
        key = replace(stream.key, epoch=self._epoch) if self._is_renumbered else stream.key
        return self._writer.stream(key, stream.format)


def copy_view(view: View[Any], path: str | os.PathLike[str]) -> int:
    """What a view takes, as it lies in its log: not as the class has it. Returns how many events."""
    log = view.log
    streams = {stream.number: stream for stream in log.streams}
    with Copy(path, is_renumbered=bool(view.selection.conditions)) as copy:
        copy.add_members(log.members)
        for piece in view.pieces():
            copy.add(piece, streams[_stream_number(piece)])
    return copy.events


def merge(logs: Sequence[Log], path: str | os.PathLike[str]) -> int:
    """All of these logs in one, block by block in the order of their times. Returns how many events."""
    with Copy(path) as copy:
        for log in logs:
            copy.add_members(log.members)
        timed = [_timed(log) for log in logs]
        for _, piece, stream in heapq.merge(*timed, key=lambda each: each[0]):
            copy.add(piece, stream)
    return copy.events


def _timed(log: Log) -> Iterator[tuple[int, Piece, StreamInfo]]:
    """Each with its time; a gap goes before what follows it."""
    streams = {stream.number: stream for stream in log.streams}
    gaps: list[Gap] = []
    time_ns = 0
    for piece in log[None].pieces():
        if isinstance(piece, Gap):
            gaps.append(piece)
            continue
        time_ns = int(piece.times_ns[0])
        for gap in gaps:
            yield time_ns, gap, streams[gap.stream]
        gaps = []
        yield time_ns, piece, streams[piece.stream.number]
    for gap in gaps:
        yield time_ns, gap, streams[gap.stream]


def _stream_number(piece: Piece) -> int:
    return piece.stream.number if isinstance(piece, Batch) else piece.stream
