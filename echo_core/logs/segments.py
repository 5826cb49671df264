"""One segment as it is written: where the next block goes, what it has so far, and its end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from echo_core._c import logs as c
from echo_core.logs import limits
from echo_core.logs.described import Position
from echo_core.logs.disk import Disk
from echo_core.logs.folders import segment_path
from echo_core.logs.indexes import parts_of_index
from echo_core.logs.layout import (
    BLOCK_HEADER_BYTES,
    HEADER_BYTES,
    SECTOR_BYTES,
    Flag,
    Kind,
    Previous,
    Seal,
    SegmentHeader,
)

# An index repeats 64 bytes of each block, and has 16 for each range. There is none where blocks are so small
# that it would be more than this part of the segment; ranges are the first that it goes without.
_INDEX_SHARE = 64
_INDEX_BYTES = BLOCK_HEADER_BYTES + 16 * c.MAX_RANGED  # of a block, at most
_END_ROOM = 8192  # for the seal


class Clock(Protocol):
    """What time it is."""

    def wall_ns(self) -> int: ...
    def monotonic_ns(self) -> int: ...


class SystemClock:
    """That of this machine."""

    def wall_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


def boot_id() -> bytes:
    """Which run of the system this is: monotonic times compare within one."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return bytes(16)
    return bytes.fromhex(text.strip().replace("-", ""))


@dataclass(frozen=True, slots=True)
class Declared:
    """A block that a segment has to have, so that it can be read alone."""

    kind: Kind
    payload: bytes
    stream: int = 0
    format: int = 0
    time: int = 0
    flags: int = 0


class Segment:
    """A file that is written to, from one place to the next. Used by one thread at a time."""

    def __init__(self, disk: Disk, folder: Path, header: SegmentHeader, declared: Iterable[Declared]) -> None:
        """Creates it. Its header and what it declares are written, and synced by `settle`."""
        self._disk = disk
        self._folder = folder
        self._headers: list[bytes] = []
        self._ranges: list[bytes] = []
        self._chain = 0
        self._crc = 0
        self.header = header
        self.events = 0
        self.blocks = 0
        self.offset = HEADER_BYTES
        start = [header.to_bytes()]
        start += [self._composed(each) for each in declared]
        self.has_records = False
        self.is_sealed = False
        self._start = self.offset
        self.fd = self._created(segment_path(folder, header.number), b"".join(start))

    def _created(self, path: Path, start: bytes) -> int:
        fd = self._disk.create(path)
        try:
            self._disk.write(fd, start, 0)
        except OSError:
            self._disk.close(fd)
            self._disk.remove(path)  # or it would be in the way of another try
            raise
        return fd

    @property
    def position(self) -> Position:
        """The end of what is written."""
        return Position(self.header.number, self.offset)

    def settle(self) -> None:
        """The file, and that it is there, are on the disk."""
        self._disk.sync(self.fd)
        self._disk.sync_folder(self._folder)

    @property
    def index_bytes(self) -> int:
        """What an index takes, at most, that has some blocks more."""
        return min((self.blocks + 1024) * _INDEX_BYTES, self.offset // _INDEX_SHARE) + 4096

    def has_room_for_blocks(self) -> bool:
        """Whether a batch, an index and a seal stay within the number of blocks that readers take."""
        return self.blocks + 1024 < limits.MAX_BLOCKS

    def batch(self, staging: c.Staging, size: int) -> c.Batch | None:
        """What is staged and fits into a segment of some size; into an empty one the first in any case.

        Where declarations alone take most of that, so much again follows them, or each segment would hold
        nothing but the declarations of the next.
        """
        end = max(size - self.index_bytes, self._start + size // 2) - _END_ROOM
        if self.is_sealed:
            return None
        return staging.take(self.header.salt, self.offset, end, not self.has_records)

    def write(self, batch: c.Batch) -> None:
        """Appends a batch that was composed for this place. OSError: nothing has changed."""
        self._disk.write(self.fd, batch, self.offset)
        self._count(batch.headers(), batch.size)
        self._ranges.append(batch.ranges())
        self.events += batch.events
        self.has_records = True

    def pad(self) -> None:
        """To the end of a sector, so that none which is synced is written again."""
        rest = -self.offset % SECTOR_BYTES
        while rest > 0:
            # A block without a payload has 64 bytes; one with a payload has 128, and the payload.
            size = rest - 2 * BLOCK_HEADER_BYTES if rest > 2 * BLOCK_HEADER_BYTES else 0
            block = c.compose_block(
                self.header.salt, self.offset, Kind.PAD, bytes(size), flags=Flag.SKIPPABLE
            )
            self._disk.write(self.fd, block, self.offset)
            self._count(block[:BLOCK_HEADER_BYTES], len(block))
            rest -= len(block)

    def seal(self, fields: Mapping[int, tuple[int, ...]]) -> None:
        """Its last blocks. `fields`: by a format's number, where those are that have ranges.

        OSError: it has none, which readers take as well.
        """
        if self.is_sealed:
            return
        end = list(self._index(fields))
        seal = Seal(self.events, self.blocks, self.offset if end else 0, self._chain)
        offset = self.offset + sum(map(len, end))
        end.append(
            c.compose_block(self.header.salt, offset, Kind.SEAL, seal.to_bytes(), flags=Flag.SKIPPABLE)
        )
        self._disk.write(self.fd, b"".join(end), self.offset)
        self.is_sealed = True
        for block in end:
            self._count(block[:BLOCK_HEADER_BYTES], len(block))

    def _index(self, fields: Mapping[int, tuple[int, ...]]) -> Iterator[bytes]:
        headers, ranges = b"".join(self._headers), b"".join(self._ranges)
        if len(headers) * _INDEX_SHARE > self.offset:
            return
        if (len(headers) + len(ranges)) * _INDEX_SHARE > self.offset:
            ranges = b""
        offset = self.offset
        for part in parts_of_index(headers, ranges, fields):
            block = c.compose_block(
                self.header.salt,
                offset,
                Kind.INDEX,
                part.payload,
                flags=Flag.SKIPPABLE,
                first=part.first,
                count=part.count,
            )
            offset += len(block)
            yield block

    def close(self) -> None:
        self._disk.close(self.fd)

    def as_previous(self) -> Previous:
        """What the next segment says of this one."""
        return Previous(self.header.number, self.header.salt, self.offset, self._crc)

    def _composed(self, each: Declared) -> bytes:
        block = c.compose_block(
            self.header.salt,
            self.offset,
            each.kind,
            each.payload,
            stream=each.stream,
            format_number=each.format,
            flags=each.flags,
            time=each.time,
            greatest_time=each.time,
        )
        self._count(block[:BLOCK_HEADER_BYTES], len(block))
        return block

    def _count(self, headers: bytes, size: int) -> None:
        self._headers.append(headers)
        self._chain = c.crc32c(headers, self._chain)
        self._crc = int.from_bytes(headers[-4:], "little")
        self.blocks += len(headers) // BLOCK_HEADER_BYTES
        self.offset += size


def new_header(clock: Clock, *, log_id: bytes, number: int, epoch: int, previous: Previous) -> SegmentHeader:
    """Of a segment that begins now."""
    return SegmentHeader(
        log_id=log_id,
        number=number,
        salt=secrets.randbits(64),
        epoch=epoch,
        wall_ns=clock.wall_ns(),
        monotonic_ns=clock.monotonic_ns(),
        boot_id=boot_id(),
        previous=previous,
    )
