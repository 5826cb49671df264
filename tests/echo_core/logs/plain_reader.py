"""A reader of logs that was written from docs/log-format.md, and takes the standard library alone."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = struct.Struct("<IBBHIIIIQIIqqII")
FORMAT, STREAM, RECORDS, GAP, SEAL = 1, 2, 3, 4, 9
KNOWN = (1, 2, 3, 4, 5, 6, 8, 9, 10)
VARIES, SKIPPABLE = 1, 2
SLICE = 16384


def _table() -> list[int]:
    table: list[int] = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = _table()


def crc32c(data: bytes, crc: int = 0) -> int:
    """By one byte at a time."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def up(size: int, multiple: int) -> int:
    """Rounded up."""
    return -(-size // multiple) * multiple


@dataclass
class Block:
    """A block whose header is right."""

    offset: int
    data: bytes
    crc: int = 0

    def __post_init__(self) -> None:
        fields = BLOCK.unpack_from(self.data, self.offset)
        _, self.kind, self.codec, self.flags, self.stored, self.raw, self.stream, self.format = fields[:8]
        self.first, self.count, self.mark_count, self.time, _, self.body_crc, self.header_crc = fields[8:]
        self.slices = self.offset + 64 + 16 * self.mark_count
        slices = up(up(self.stored, 64), SLICE) // SLICE
        self.ends = self.slices + 4 * slices
        ends = 4 * self.count if self.flags & VARIES else 0
        self.payload = self.offset + up(self.ends + ends - self.offset, 64)
        self.end = self.payload + up(self.stored, 64)

    def is_body_right(self) -> bool:
        return crc32c(self.data[self.offset + 64 : self.payload]) == int(self.body_crc)

    def bad_slices(self) -> list[int]:
        """Where in the payload they begin."""
        starts = range(self.payload, self.end, SLICE)
        wanted = struct.unpack_from(f"<{len(starts)}I", self.data, self.slices)
        parts = (self.data[start : min(start + SLICE, self.end)] for start in starts)
        sums = map(crc32c, parts)
        return [i * SLICE for i, (a, b) in enumerate(zip(wanted, sums, strict=True)) if a != b]

    def is_right(self) -> bool:
        return self.is_body_right() and not self.bad_slices()

    def records(self, size: int) -> Iterator[tuple[int, int, bytes]]:
        """Number, time and bytes of each that is right."""
        if self.codec or not self.is_body_right():
            return
        bad = self.bad_slices()
        marks = [
            struct.unpack_from("<IIq", self.data, self.offset + 64 + 16 * i) for i in range(self.mark_count)
        ]
        start = 0
        for i in range(self.count):
            if self.flags & VARIES:
                start = up(start, 16)
                (end,) = struct.unpack_from("<I", self.data, self.ends + 4 * i)
            else:
                end = start + self.raw // self.count
            if not any(start < at + SLICE and end > at for at in bad):
                time = [time for index, _, time in marks if index <= i][-1]
                yield self.first + i, time, self.data[self.payload + start : self.payload + end]
            start = end


@dataclass
class Log:
    events: dict[tuple[bytes, bytes], list[tuple[int, int, bytes]]] = field(
        default_factory=dict[tuple[bytes, bytes], list[tuple[int, int, bytes]]]
    )
    """Number, time and record, by the payload of STREAM and the format's metadata."""
    gaps: list[tuple[bytes, int, int, str]] = field(default_factory=list[tuple[bytes, int, int, str]])
    damage: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Segment, start, end."""
    torn: int = 0
    """Bytes."""


def block_at(data: bytes, offset: int, end: int, salt: int) -> Block | None:
    """The block there, if its header is right."""
    if end - offset < 64 or data[offset : offset + 4] != b"EBLK":
        return None
    (crc,) = struct.unpack_from("<I", data, offset + 60)
    if crc32c(struct.pack("<QQ", salt, offset) + data[offset : offset + 60]) != crc:
        return None
    block = Block(offset, data)
    return block if block.end <= end else None


def blocks_of(data: bytes, end: int, salt: int) -> Iterator[Block | tuple[int, int]]:
    """Blocks, and bytes between them that are none."""
    at = 4096
    while at < end:
        block = block_at(data, at, end, salt)
        if block is not None:
            yield block
            at = block.end
            continue
        behind = at + 64
        while behind < end and not ((found := block_at(data, behind, end, salt)) and found.is_right()):
            behind = found.end if found else behind + 64
        if behind >= end:
            return
        yield at, behind
        at = behind


def header_of(data: bytes) -> tuple[int, int, int, int] | None:
    """Number, salt, and the number and length of the segment before."""
    for half in (data[:2048], data[2048:4096]):
        if len(half) == 2048 and struct.unpack_from("<I", half, 2044)[0] == crc32c(half[:2044]):
            magic, version, number, salt = struct.unpack_from("<8sI20xQQ", half)
            assert (magic, version) == (b"ECHOLOG\n", 1)
            before, _, length = struct.unpack_from("<QQQ", half, 88)
            return number, salt, before, length
    return None


def read_log(folder: Path) -> Log:
    """All of it."""
    log = Log()
    files = [file.read_bytes() for file in sorted(folder.glob("*.seg"), key=lambda file: int(file.stem))]
    headers = [header_of(file) for file in files]
    while headers and headers[-1] is None:
        log.torn += len(files.pop())
        headers.pop()
    for i, (data, header) in enumerate(zip(files, headers, strict=True)):
        following = headers[i + 1] if i + 1 < len(headers) else None
        if header is None:
            continue
        end = len(data)
        if following is not None and following[2] == header[0]:
            end = min(end, following[3])
        read_segment(log, header[0], data, end, header[1], following is None)
    return log


def read_segment(log: Log, number: int, data: bytes, end: int, salt: int, is_last: bool) -> None:
    """One segment."""
    found = list(blocks_of(data, end, salt))
    is_sealed = (
        bool(found) and isinstance(found[-1], Block) and found[-1].kind == 9 and found[-1].end == len(data)
    )
    while is_last and not is_sealed and found and not (isinstance(found[-1], Block) and found[-1].is_right()):
        found.pop()
    read_to = 4096
    formats: dict[int, bytes] = {}
    streams: dict[int, tuple[bytes, bytes]] = {}
    for block in found:
        read_to = block.end if isinstance(block, Block) else block[1]
        if not isinstance(block, Block):
            log.damage.append((number, *block))
            continue
        if not block.is_right() or (block.kind not in KNOWN and not block.flags & SKIPPABLE):
            log.damage.append((number, block.offset, block.end))
        payload = data[block.payload : block.payload + block.stored]
        if block.kind == RECORDS and block.stream in streams:
            log.events[streams[block.stream]] += block.records(block.raw // block.count)
        elif not block.is_right():
            continue
        elif block.kind == FORMAT:
            formats.setdefault(block.format, payload)
        elif block.kind == STREAM:
            key = streams.setdefault(block.stream, (payload, formats[block.format]))
            log.events.setdefault(key, [])
        elif block.kind == GAP:
            (last,) = struct.unpack_from("<Q", payload)
            log.gaps.append((streams[block.stream][0], block.first, last, payload[8:].decode()))
    log.torn += len(data) - read_to
