"""LogReader: a log as its files are, whoever wrote them, while a writer may be at work.

A segment is read to the size that its file has, and a block counts when its checksums are right. What
follows the last good block of a segment is torn: its writer was stopped while it wrote. Where a good block
follows bad bytes, these are damage. Neither is an error by itself; both are counted.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np

from echo_core._c import logs as c
from echo_core.errors import LogError, WireError
from echo_core.formats.format import Format
from echo_core.logs import limits
from echo_core.logs.blocks import Block, Extent
from echo_core.logs.catalogue import Catalogue, Contents, Counted
from echo_core.logs.described import (
    Acknowledgement,
    Damage,
    Gap,
    Member,
    Position,
    StreamInfo,
)
from echo_core.logs.folders import Folder
from echo_core.logs.indexes import index_of, mended
from echo_core.logs.layout import HEADER_BYTES, Kind, SegmentHeader, State
from echo_core.logs.rows import block_of, extent_of, rows_between
from echo_core.logs.salvage import good_records, runs_of
from echo_core.logs.scanning import Rows, Scan, map_file, read_header, scan, without_torn_tail

_IS_BAD = State.BAD_BODY | State.BAD_SLICES


@dataclass(slots=True, eq=False)
class _Segment:
    """One file, as far as it was read."""

    header: SegmentHeader | None
    contents: Contents
    fd: int | None
    """Open while more may come."""
    end: int = HEADER_BYTES
    """Of what is verified, or at least has right headers."""
    size: int = 0
    """Of the file, when it was looked at."""
    is_ended: bool = False


class LogReader:
    """Reads a log.

    Arguments:
        path: its folder.
        on_damage: "report" delivers all else and tells in `damage` and `gaps`; "raise" raises LogError.

    Raises:
        LogError: there is no log, or one of a version that is not known.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, on_damage: Literal["report", "raise"] = "report"
    ) -> None:
        self._segments: list[_Segment] = []  # these first: `close` may come at any time
        self._folder: Folder | None = None
        self._watch: c.Watch | None = None
        if on_damage not in ("report", "raise"):
            msg = f'Expected "report" or "raise", got {on_damage!r}'
            raise LogError(msg, path="on_damage")
        self.path = Path(path)
        self._raises = on_damage == "raise"
        self._catalogue = Catalogue()
        self._torn = 0
        self._folder = Folder(self.path)
        self.refresh()
        if not self._segments:
            msg = "Expected a log, got a folder without a segment"
            raise LogError(msg, path=str(self.path))

    # --- what there is

    @property
    def formats(self) -> tuple[Format, ...]:
        """All that its streams have."""
        return self._catalogue.formats

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        """Each with what was found of it so far."""
        return tuple(stream.info() for stream in self._catalogue.streams)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Events that are not there."""
        return tuple(self._catalogue.gaps)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Bytes that are not what was written, as far as they were looked at: `verify` looks at all."""
        return tuple(self._catalogue.damage)

    @property
    def losses(self) -> int:
        """How many `gaps` and `damage` there are, without looking at any."""
        return len(self._catalogue.gaps) + len(self._catalogue.damage)

    def losses_from(self, gaps: int, damage: int) -> tuple[list[Gap], list[Damage]]:
        """Those behind so many of each."""
        return self._catalogue.gaps[gaps:], self._catalogue.damage[damage:]

    @property
    def members(self) -> tuple[Member, ...]:
        return tuple(self._catalogue.members)

    @property
    def acknowledgements(self) -> tuple[Acknowledgement, ...]:
        """The last of each consumer."""
        return tuple(self._catalogue.acknowledgements.values())

    @property
    def torn_bytes(self) -> int:
        """Behind the last good blocks of segments that were broken off."""
        return self._torn + sum(each.size - each.end for each in self._segments[-1:])

    @property
    def is_torn(self) -> bool:
        """Whether a writer was stopped while it wrote, or is writing right now."""
        return self.torn_bytes > 0

    @property
    def end(self) -> Position:
        """Of what was read so far."""
        last = self._segments[-1]
        return Position(last.contents.number, last.end)

    def settled(self, place: Position) -> Position:
        """The same place, or the end of its segment where that has ended and no records lie in between.

        Of the end one can say that all was read, when the segment is no longer there.
        """
        segment = next((it for it in self._segments if it.contents.number == place.segment), None)
        if segment is None or not len(rows := segment.contents.rows):
            return place
        behind = rows[np.searchsorted(rows["end"], place.offset, "right") :]
        is_ended = segment.is_ended or rows[-1]["kind"] == Kind.SEAL
        if not is_ended or place.offset >= segment.end or (behind["kind"] == Kind.RECORDS).any():
            return place
        return Position(place.segment, segment.end)

    @property
    def log_id(self) -> bytes:
        """16 bytes of its own, as its segments say; empty where none has a header."""
        return next((it.header.log_id for it in self._segments if it.header is not None), b"")

    @property
    def _files(self) -> Folder:
        assert self._folder is not None
        return self._folder

    @property
    def first_segment(self) -> int:
        """The number of the oldest segment that is there."""
        return self._segments[0].contents.number

    # --- what is new

    def refresh(self) -> bool:
        """Reads what was added since; whether that was anything.

        Raises:
            LogError: another log is in its place; or damage, where it raises.
        """
        before = self.end if self._segments else None
        if before is None or self._has_changed(before.segment):
            self._look_for_segments(0 if before is None else before.segment)
        if self._segments and not self._segments[-1].is_ended:
            self._read_on(self._segments[-1], None)
        self._files.demand_in_place()  # at last: what was replaced may be on its way to be removed
        return bool(self._segments) and self.end != before

    def _has_changed(self, last: int) -> bool:
        """Whether there are others. Retention begins with the oldest: while one is there, so is the next."""
        return self._files.has(last + 1) or not self._files.has(last)

    def _look_for_segments(self, last: int) -> None:
        numbers = self._files.numbers()
        for i, number in enumerate(numbers):
            if number > last:
                self._add_segment(number, numbers[i + 1 :])
        there = set(numbers)
        self._segments = [
            each for each in self._segments if each.contents.number in there or not each.is_ended
        ]

    def _add_segment(self, number: int, later: list[int]) -> None:
        fd = self._files.open(number)
        if fd is None:
            return  # retention was faster
        header, is_damaged = read_header(fd)
        size = os.fstat(fd).st_size
        if header is None and not (later and (size > HEADER_BYTES or self._is_followed(number, later))):
            os.close(fd)  # it is being made, or its maker was stopped: nothing counts on it
            return
        if self._segments:
            self._end_last(header)
        salt = header.salt if header is not None else 0
        contents = Contents(number, salt)
        segment = _Segment(header, contents, fd, size=size)
        self._segments.append(segment)
        if header is None or header.number != number:
            self._damaged(Damage(number, 0, size, "a segment without a header"))
            os.close(fd)
            segment.fd, segment.is_ended, segment.end = None, True, size
        elif is_damaged:
            self._damaged(Damage(number, 0, HEADER_BYTES, "half of a segment's header"))

    def _is_followed(self, number: int, later: list[int]) -> bool:
        """Whether a later segment says that it was begun behind this one, so that this one had a header."""
        for each in later:
            fd = self._files.open(each)
            if fd is None:
                continue
            try:
                header, _ = read_header(fd)
            finally:
                os.close(fd)
            if header is not None:
                return header.previous.number >= number
        return False

    def _end_last(self, following: SegmentHeader | None) -> None:
        """The next segment is there, and says where the last one ended."""
        segment = self._segments[-1]
        if segment.is_ended or segment.header is None:
            return
        before = following.previous if following is not None else None
        is_of_it = before is not None and before.number == segment.contents.number
        end = before.length if before is not None and is_of_it else None
        self._read_on(segment, end)
        if end is not None and segment.end < end:
            what = f"{end - segment.end} bytes that were there when the next segment was begun"
            self._damaged(Damage(segment.contents.number, segment.end, end, what))
        self._torn += max(0, segment.size - max(segment.end, end or 0))
        segment.is_ended = True
        if segment.fd is not None:
            os.close(segment.fd)
            segment.fd = None

    def _read_on(self, segment: _Segment, end: int | None) -> None:
        """Takes what a file has behind what was read, up to where it ends, if that is known."""
        if segment.fd is None or segment.header is None:
            return
        size = os.fstat(segment.fd).st_size
        segment.size = size
        until = min(size if end is None else min(size, end), limits.MAX_SEGMENT_BYTES)
        if until <= segment.end:
            return
        data = map_file(segment.fd, until)
        contents = segment.contents
        found = scan(data, contents.salt, start=segment.end, end=until, verify=False, had=len(contents.rows))
        if end is None and not _is_sealed(found, size):
            # It may have been broken off anywhere: what is behind the last good block was never promised.
            found = without_torn_tail(
                scan(data, contents.salt, start=segment.end, end=until, verify=True, had=len(contents.rows))
            )
        if found.is_too_many:
            what = f"more than {limits.MAX_BLOCKS} blocks"
            self._damaged(Damage(contents.number, found.end, until, what))
        contents.add(self._mended(contents, found.rows, data))
        segment.end = found.end
        known = len(self._catalogue.damage)
        self._catalogue.add(contents, data, found.end)
        self._raise_new(known)

    def _mended(self, contents: Contents, rows: Rows, data: mmap.mmap) -> Rows:
        """New rows of a segment, by its index where that has just come."""
        if contents.index is None and len(rows) and rows["kind"][-1] == Kind.SEAL:
            every = np.concatenate((contents.rows, rows))
            contents.index = index_of(every, data, contents.salt)
        return rows if contents.index is None else mended(rows, contents.index, data, contents.salt)

    def wait(self, timeout_s: float) -> bool:
        """Waits until something is added; False: the time was up. What is added is read."""
        if self._watch is None:  # kept: the system takes some 20 ms to close one
            self._watch = c.Watch(os.fspath(self.path))
        until = time.monotonic() + timeout_s
        while not self.refresh():
            left = until - time.monotonic()
            if left <= 0 or not self._watch.wait(left):
                return False
        return True

    # --- records

    def blocks(
        self,
        *,
        streams: Collection[int] | None = None,
        since: Position | None = None,
        until: Position | None = None,
        chosen: Callable[[Extent], bool] | None = None,
        verify: bool = True,
    ) -> Iterator[Block]:
        """The records that were read so far, in the order in which they were written.

        Arguments:
            streams: numbers of those that are wanted. None: all.
            since, until: ends of blocks. Those behind the first come, up to the second.
            chosen: whether a block is wanted, by what its header says; it is asked when the one before was
                taken. Of others nothing is read.
            verify: look at the checksums of records, too. Without it nothing is read but what is used.

        Raises:
            LogError: what followed `since` has been removed; or damage, where it raises.
        """
        for segment in self._between(since, until):
            yield from self._blocks_of(segment, streams, since, until, chosen, verify)

    def extents(self, *, since: Position | None = None, until: Position | None = None) -> Iterator[Extent]:
        """What the headers of blocks say of the same records; nothing else is read.

        Raises:
            LogError: what followed `since` has been removed.
        """
        for segment in self._between(since, until):
            for index, stream in rows_between(segment.contents, since, until):
                yield extent_of(segment.contents, index, stream)

    def _between(self, since: Position | None, until: Position | None) -> list[_Segment]:
        if since is not None:
            self._check_since(since)
        first = 0 if since is None else since.segment
        return [
            segment
            for segment in self._segments
            if first <= segment.contents.number
            and (until is None or segment.contents.number <= until.segment)
        ]

    def _check_since(self, since: Position) -> None:
        first = self._segments[0]
        if since.segment >= first.contents.number:
            return
        before = first.header.previous if first.header is not None else None
        if before is None or (before.number, before.length) != (since.segment, since.offset):
            msg = f"Expected a position from segment {first.contents.number} on, got {since.segment}"
            raise LogError(
                msg,
                path=str(self.path),
                hint="retention has removed what follows it",
            )

    def _blocks_of(
        self,
        segment: _Segment,
        streams: Collection[int] | None,
        since: Position | None,
        until: Position | None,
        chosen: Callable[[Extent], bool] | None,
        verify: bool,
    ) -> Iterator[Block]:
        contents = segment.contents
        data: mmap.mmap | None = None
        for index, stream in rows_between(contents, since, until):
            if streams is not None and stream.number not in streams:
                continue
            if chosen is not None and not chosen(extent_of(contents, index, stream)):
                continue
            if data is None:
                data = self._mapped(segment)
                if data is None:
                    return
            yield from self._parts(segment, index, stream, data, verify)

    def _mapped(self, segment: _Segment) -> mmap.mmap | None:
        """The file up to what is verified; None: retention has removed it. LogError: it went with its log."""
        fd = self._files.open(segment.contents.number) if segment.fd is None else segment.fd
        if fd is None:
            self._files.demand_in_place()
            return None
        try:
            if os.fstat(fd).st_size < segment.end:
                what = "bytes that were there when the log was opened"
                self._damaged(Damage(segment.contents.number, 0, segment.end, what))
                return None
            return map_file(fd, segment.end)
        finally:
            if fd != segment.fd:
                os.close(fd)

    def _parts(
        self, segment: _Segment, index: int, stream: Counted, data: mmap.mmap, verify: bool
    ) -> Iterator[Block]:
        row = segment.contents.rows[index]
        if data.size() < int(row["end"]):  # memory of a file that is behind its end must not be touched
            self._cut(segment, row, stream, data)
        if verify and not int(row["state"]) & State.IS_VERIFIED:
            self._verify(segment, row, stream, data)
        if int(row["state"]) & State.BAD_BODY:
            return
        try:
            block = block_of(segment.contents.number, row, stream, data)
        except WireError:  # the checksums are right: somebody has made it up
            row["state"] |= State.BAD_BODY
            self._lost(segment, row, stream, data)
            return
        if not int(row["state"]) & _IS_BAD:
            yield block
            return
        for start, stop in runs_of(good_records(row, data, stream.format)):
            yield block.part(start, stop)

    def _cut(self, segment: _Segment, row: np.void, stream: Counted, data: mmap.mmap) -> None:
        """Somebody has made the file shorter meanwhile."""
        if not int(row["state"]) & State.BAD_BODY:
            row["state"] |= State.IS_VERIFIED | State.BAD_BODY
            self._lost(segment, row, stream, data, "records that were there when the log was opened")

    def _verify(self, segment: _Segment, row: np.void, stream: Counted, data: mmap.mmap) -> None:
        contents = segment.contents
        state, bad = c.verify(data, int(row["offset"]), segment.end, contents.salt)
        # What had a header when it was found and has none now was changed since.
        row["state"] = state or int(State.IS_BLOCK | State.IS_VERIFIED | State.BAD_BODY)
        row["bad_slices"] = bad
        if int(row["state"]) & _IS_BAD:
            self._lost(segment, row, stream, data)

    def _lost(
        self,
        segment: _Segment,
        row: np.void,
        stream: Counted,
        data: mmap.mmap,
        what: str = "records whose checksum is wrong",
    ) -> None:
        known = len(self._catalogue.damage)
        self._catalogue.lost(stream, segment.contents.number, row, data, what)
        self._raise_new(known)

    # --- damage

    def verify(self) -> tuple[Damage, ...]:
        """Looks at all checksums that were not looked at yet; all damage that is known then."""
        for _ in self.blocks(verify=True):
            pass
        return self.damage

    def _damaged(self, damage: Damage) -> None:
        known = len(self._catalogue.damage)
        self._catalogue.damage.append(damage)
        self._raise_new(known)

    def _raise_new(self, known: int) -> None:
        if self._raises and len(self._catalogue.damage) > known:
            first = self._catalogue.damage[known]
            msg = f"Expected what was written, got {first.what}"
            raise LogError(
                msg,
                path=f"{self.path}, segment {first.segment}, bytes {first.start} to {first.end}",
                hint='on_damage="report" delivers all else',
            )

    # --- the end

    def close(self) -> None:
        """Lets go of files. Blocks that somebody still has stay readable."""
        for segment in self._segments:
            if segment.fd is not None:
                os.close(segment.fd)
                segment.fd = None
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._folder is not None:
            self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _is_sealed(found: Scan, size: int) -> bool:
    """Whether a segment's last block is its seal, so that records need no look before somebody wants them."""
    return len(found.rows) > 0 and found.rows["kind"][-1] == Kind.SEAL and found.end == size
