"""Catalogue: what a log's blocks say of its streams, without their records.

Segments may come in any state, and each declares what it uses. So a stream is known by its key and format,
whatever its number is in a segment, and what does not fit is damage, never an error.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from echo_core._c import logs as c
from echo_core.errors import EchoError, LogError
from echo_core.formats.format import Format
from echo_core.logs import layout, limits
from echo_core.logs.blocks import Parts
from echo_core.logs.described import (
    Acknowledgement,
    Damage,
    Gap,
    Member,
    Position,
    StreamInfo,
    StreamKey,
)
from echo_core.logs.indexes import Index
from echo_core.logs.layout import BLOCK_HEADER_BYTES, FOUND, Flag, Kind, State
from echo_core.logs.salvage import missing_of
from echo_core.logs.scanning import Rows


@dataclass(slots=True, eq=False)
class Counted:
    """A stream, and what was found of it."""

    number: int
    key: StreamKey
    format: Format
    first: int | None = None
    last: int | None = None
    events: int = 0
    expected: int | None = None
    """The number of the event that would come next."""
    damage_seen: int = 0
    """How much damage there was when its last block came."""

    def info(self) -> StreamInfo:
        return StreamInfo(self.number, self.key, self.format, self.first, self.last, self.events)


@dataclass(slots=True, eq=False)
class Contents:
    """One segment: its blocks, and what it has declared so far."""

    number: int
    salt: int
    streams: list[Counted | None] = field(default_factory=list[Counted | None])
    """Of each row that has records which can be read."""
    formats: dict[int, Format] = field(default_factory=dict[int, Format])
    declared: dict[int, tuple[Counted, int]] = field(default_factory=dict[int, tuple[Counted, int]])
    """Streams by their numbers there, each with the number of its format."""
    index: Index | None = None
    """Once the segment has been ended."""

    _room: Rows = field(default_factory=lambda: np.empty(0, FOUND))
    _count: int = 0

    @property
    def rows(self) -> Rows:
        """Its blocks, and bytes that are none."""
        return self._room[: self._count]

    def add(self, rows: Rows) -> None:
        """More of them, behind those that there are. Room doubles, as a reader may add them one by one."""
        count = self._count + len(rows)
        if count > len(self._room):
            room = np.empty(max(count, 2 * len(self._room)), FOUND)
            room[: self._count] = self.rows
            self._room = room
        self._room[self._count : count] = rows
        self._count = count


class Catalogue:
    """Of a whole log."""

    def __init__(self) -> None:
        self.streams: list[Counted] = []
        self.gaps: list[Gap] = []
        self.damage: list[Damage] = []
        self.members: list[Member] = []
        self.acknowledgements: dict[str, Acknowledgement] = {}
        self._formats: dict[bytes, Format] = {}
        self._by_key: dict[tuple[StreamKey, bytes], Counted] = {}

    @property
    def formats(self) -> tuple[Format, ...]:
        """All that are declared, in the order in which they came."""
        return tuple(self._formats.values())

    def add(self, contents: Contents, data: mmap.mmap | bytes, end: int) -> None:
        """Reads the rows that are new in a segment's contents."""
        start = len(contents.streams)
        for row in contents.rows[start:]:
            state = int(row["state"])
            stream = None
            if state & State.MENDED:
                self._header_damaged(contents.number, row)
            if not state & State.IS_BLOCK:
                self._damaged(contents.number, row, "bytes that are no block")
            elif row["kind"] == Kind.RECORDS:
                stream = self._records(contents, row, data)
            else:
                self._other(contents, row, data, end)
            contents.streams.append(stream)

    # --- records

    def _records(self, contents: Contents, row: np.void, data: mmap.mmap | bytes) -> Counted | None:
        found = contents.declared.get(int(row["stream"]))
        what = None
        if found is None:
            what = f"records of stream {row['stream']}, which is not declared"
        elif found[1] != row["format"]:
            what = f"records of format {row['format']} in a stream of format {found[1]}"
        elif not _is_sized(row, found[0].format):
            what = f"records that are not of the size of {found[0].format.name or 'their format'}"
        if found is None or what is not None:
            self._damaged(contents.number, row, what or "")
            return None
        self._count(found[0], contents.number, row)
        if int(row["state"]) & (State.BAD_BODY | State.BAD_SLICES):
            self.lost(found[0], contents.number, row, data)
        return found[0]

    def _count(self, stream: Counted, segment: int, row: np.void) -> None:
        first, count = int(row["first"]), int(row["count"])
        last = first + count - 1
        position = Position(segment, int(row["offset"]))
        if stream.expected is not None and first > stream.expected:
            cause = "damage" if len(self.damage) > stream.damage_seen else "not recorded"
            self.gaps.append(Gap(stream.number, stream.expected, first - 1, cause, position))
        stream.damage_seen = len(self.damage)
        stream.expected = last + 1
        stream.events += count
        stream.first = first if stream.first is None else min(stream.first, first)
        stream.last = last if stream.last is None else max(stream.last, last)

    def lost(
        self,
        stream: Counted,
        segment: int,
        row: np.void,
        data: mmap.mmap | bytes,
        what: str = "records whose checksum is wrong",
    ) -> None:
        """Notes which events of a damaged block there are no more."""
        position = Position(segment, int(row["end"]))
        for first, last in missing_of(row, data, stream.format):
            stream.events -= last - first + 1
            self.gaps.append(Gap(stream.number, first, last, "damage", position))
            start, end = int(row["offset"]), int(row["end"])
            self.damage.append(Damage(segment, start, end, what, stream.number, (first, last)))
        stream.damage_seen = len(self.damage)

    # --- the rest

    def _other(self, contents: Contents, row: np.void, data: mmap.mmap | bytes, end: int) -> None:
        state = int(row["state"])
        if not state & State.IS_VERIFIED:
            state, _ = c.verify(data, int(row["offset"]), end, contents.salt)
        if state & ~State.MENDED != State.IS_BLOCK | State.IS_VERIFIED:
            self._damaged(contents.number, row, f"{_kind_name(row)} whose checksum is wrong")
            return
        read = self._readers.get(int(row["kind"]))
        if read is None:
            if not int(row["flags"]) & Flag.SKIPPABLE:
                self._damaged(contents.number, row, f"a block of kind {row['kind']}, which is not known")
            return
        parts = Parts(
            int(row["offset"]), int(row["marks"]), int(row["stored"]), int(row["count"]), int(row["flags"])
        )
        payload = bytes(data[parts.payload : parts.payload + int(row["stored"])])
        try:
            read(self, contents, row, payload)
        except EchoError as error:
            self._damaged(contents.number, row, f"{_kind_name(row)}: {error}")

    def _format(self, contents: Contents, row: np.void, payload: bytes) -> None:
        number = int(row["format"])
        known = self._formats.get(payload)
        if known is None:
            known = Format.from_metadata(payload)
            self._formats[payload] = known
        if contents.formats.setdefault(number, known) != known:
            msg = f"Expected one format {number}, got another"
            raise LogError(msg)
        if len(contents.formats) > limits.MAX_FORMATS:
            msg = f"Expected at most {limits.MAX_FORMATS} formats"
            raise LogError(msg)

    def _stream(self, contents: Contents, row: np.void, payload: bytes) -> None:
        number, of_format = int(row["stream"]), int(row["format"])
        found = contents.formats.get(of_format)
        if found is None:
            msg = f"Expected a format that is declared, got {of_format}"
            raise LogError(msg)
        key = layout.read_stream(payload)
        identity = key, found.metadata
        if len(contents.declared) >= limits.MAX_STREAMS and number not in contents.declared:
            msg = f"Expected at most {limits.MAX_STREAMS} streams"
            raise LogError(msg)
        stream = self._by_key.get(identity)
        if stream is None:
            stream = Counted(len(self.streams), key, found)
            self.streams.append(stream)
            self._by_key[identity] = stream
        if contents.declared.setdefault(number, (stream, of_format)) != (stream, of_format):
            msg = f"Expected one stream {number}, got another"
            raise LogError(msg)

    def _gap(self, contents: Contents, row: np.void, payload: bytes) -> None:
        found = contents.declared.get(int(row["stream"]))
        if found is None:
            msg = f"Expected a stream that is declared, got {row['stream']}"
            raise LogError(msg)
        stream, first = found[0], int(row["first"])
        last, cause = layout.read_gap(payload)
        if last < first:
            msg = f"Expected numbers that ascend, got {first} to {last}"
            raise LogError(msg)
        self.gaps.append(Gap(stream.number, first, last, cause, Position(contents.number, int(row["end"]))))
        if stream.expected is None or last >= stream.expected >= first:
            stream.expected = last + 1

    def _member(self, contents: Contents, row: np.void, payload: bytes) -> None:
        channel, member, activity, name = layout.read_member(payload)
        self.members.append(Member(channel, member, activity, name, int(row["least_time"])))

    def _acknowledge(self, contents: Contents, row: np.void, payload: bytes) -> None:
        consumer, by_number = layout.read_acknowledgement(payload)
        before = self.acknowledgements.get(consumer)
        marks = dict(before.watermarks) if before is not None else {}
        for number, mark in by_number.items():
            found = contents.declared.get(number)
            if found is None:
                msg = f"Expected a stream that is declared, got {number}"
                raise LogError(msg)
            marks[found[0].key] = mark
        self.acknowledgements[consumer] = Acknowledgement(
            consumer, tuple(marks.items()), int(row["least_time"])
        )

    def _skip(self, contents: Contents, row: np.void, payload: bytes) -> None:
        """What only helps to read faster."""

    _readers: dict[int, Callable[[Catalogue, Contents, np.void, bytes], None]] = {  # noqa: RUF012
        Kind.FORMAT: _format,
        Kind.STREAM: _stream,
        Kind.GAP: _gap,
        Kind.MEMBER: _member,
        Kind.ACK: _acknowledge,
        Kind.INDEX: _skip,
        Kind.SEAL: _skip,
        Kind.PAD: _skip,
    }

    def _header_damaged(self, segment: int, row: np.void) -> None:
        """Nothing is lost by that."""
        start = int(row["offset"])
        what = f"the header of {_kind_name(row)}, which the index has as well"
        self.damage.append(Damage(segment, start, start + BLOCK_HEADER_BYTES, what))

    def _damaged(self, segment: int, row: np.void, what: str) -> None:
        self.damage.append(Damage(segment, int(row["offset"]), int(row["end"]), what))


def _kind_name(row: np.void) -> str:
    kind = int(row["kind"])
    return f"a block {Kind(kind).name}" if kind in set(Kind) else f"a block of kind {kind}"


def _is_sized(row: np.void, format_: Format) -> bool:
    """Whether records vary as their format says, and have its size."""
    is_varying = bool(int(row["flags"]) & Flag.VARIES)
    size = format_.size_bytes if format_.is_fixed else 0
    return is_varying == (size == 0) and (is_varying or int(row["count"]) * size == int(row["raw"]))
