"""What stands in a segment, as bytes: `docs/log-format.md` is the page of it. Without files."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from echo_core._c import logs as c
from echo_core.errors import LogError
from echo_core.logs import limits
from echo_core.logs.described import StreamKey

HEADER_BYTES = 4096
"""At the start of a segment: the same half twice, so that no flip makes the blocks unreadable."""
BLOCK_HEADER_BYTES = 64
ALIGNMENT = 64
SLICE_BYTES = 16 * 1024
RECORD_ALIGNMENT = 16
SECTOR_BYTES = 4096
VERSION = 1

_MAGIC = b"ECHOLOG\n"
_HALF = HEADER_BYTES // 2
_HEADER = struct.Struct("<8sII16sQQQqq16sQQQI")
_CRC = struct.Struct("<I")


class Kind(IntEnum):
    """What a block is about."""

    FORMAT = 1
    STREAM = 2
    RECORDS = 3
    GAP = 4
    MEMBER = 5
    ACK = 6
    INDEX = 8
    SEAL = 9
    PAD = 10


class Flag(IntEnum):
    """What else a block's header says of it: bits.

    No IntFlag, whose `&` takes 2 us: it is done several times for each block.
    """

    VARIES = 1
    SKIPPABLE = 2
    COLUMNS = 4


class State(IntEnum):
    """What a scan found of some bytes, as native/logs/scanning.h has it: bits. `mended` adds the last."""

    IS_BLOCK = 1
    IS_VERIFIED = 2
    BAD_BODY = 4
    BAD_SLICES = 8
    MENDED = 16
    """Its header was damaged, and is what the index has."""


FOUND = np.dtype(
    [
        ("offset", "=u8"),
        ("end", "=u8"),
        ("state", "=u4"),
        ("bad_slices", "=u4"),
        ("magic", "=u4"),
        ("kind", "u1"),
        ("codec", "u1"),
        ("flags", "=u2"),
        ("stored", "=u4"),
        ("raw", "=u4"),
        ("stream", "=u4"),
        ("format", "=u4"),
        ("first", "=u8"),
        ("count", "=u4"),
        ("marks", "=u4"),
        ("least_time", "=i8"),
        ("greatest_time", "=i8"),
        ("body_crc", "=u4"),
        ("header_crc", "=u4"),
    ]
)
"""One row of what `scan` returns."""
MARK = np.dtype([("index", "<u4"), ("zero", "<u4"), ("time", "<i8")])


@dataclass(frozen=True, slots=True)
class Previous:
    """How the segment before ended, so that one that was cut since is noticed. All zeros: there was none."""

    number: int = 0
    salt: int = 0
    length: int = 0
    crc: int = 0
    """Of its last block's header."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The first 4096 bytes of a segment."""

    log_id: bytes
    number: int
    salt: int
    """Random. With the offset it is part of each block's CRC, so that no block counts elsewhere."""
    epoch: int
    """Random: which run of a writer this is."""
    wall_ns: int
    monotonic_ns: int
    boot_id: bytes
    previous: Previous = Previous()

    def to_bytes(self) -> bytes:
        """Both halves."""
        before = self.previous
        fields = _HEADER.pack(
            _MAGIC,
            VERSION,
            HEADER_BYTES,
            self.log_id,
            self.number,
            self.salt,
            self.epoch,
            self.wall_ns,
            self.monotonic_ns,
            self.boot_id,
            before.number,
            before.salt,
            before.length,
            before.crc,
        )
        half = fields.ljust(_HALF - _CRC.size, b"\0")
        return (half + _CRC.pack(c.crc32c(half))) * 2

    @classmethod
    def from_bytes(cls, data: bytes) -> tuple[SegmentHeader | None, bool]:
        """The header, or None where neither half is right; and whether one of them is not.

        Raises:
            LogError: a version that is not known.
        """
        halves = [data[:_HALF], data[_HALF:HEADER_BYTES]]
        good = [half for half in halves if _is_half(half)]
        if not good:
            return None, True
        (_, version, size, log_id, number, salt, epoch, wall, monotonic, boot, *before) = _HEADER.unpack_from(
            good[0]
        )
        if version != VERSION or size != HEADER_BYTES:
            msg = f"Expected a log of version {VERSION}, got {version}"
            raise LogError(msg, hint="a newer version wrote it")
        header = cls(log_id, number, salt, epoch, wall, monotonic, boot, Previous(*before))
        return header, len(good) < 2 or halves[0] != halves[1]


def _is_half(half: bytes) -> bool:
    return (
        len(half) == _HALF
        and half.startswith(_MAGIC)
        and _CRC.unpack_from(half, _HALF - _CRC.size)[0] == c.crc32c(half[: _HALF - _CRC.size])
    )


# --- payloads


class _Reader:
    """Takes values off a payload; LogError where it is too short."""

    def __init__(self, data: memoryview | bytes) -> None:
        self.rest = bytes(data)

    def take(self, size: int) -> bytes:
        taken, self.rest = self.rest[:size], self.rest[size:]
        if len(taken) < size:
            msg = f"Expected {size} bytes more, got {len(taken)}"
            raise LogError(msg)
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def text(self) -> str:
        size = self.number(2)
        if size > limits.MAX_NAME_BYTES:
            msg = f"Expected at most {limits.MAX_NAME_BYTES} bytes of a name, got {size}"
            raise LogError(msg)
        return decoded(self.take(size))

    def end(self) -> None:
        if self.rest:
            msg = f"Expected the end, got {len(self.rest)} bytes more"
            raise LogError(msg)


def decoded(data: bytes) -> str:
    """UTF-8; LogError."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        msg = "Expected UTF-8, got other bytes"
        raise LogError(msg) from None


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) > limits.MAX_NAME_BYTES:
        msg = f"Expected at most {limits.MAX_NAME_BYTES} bytes of a name, got {len(data)}"
        raise LogError(msg)
    return len(data).to_bytes(2, "little") + data


def stream_payload(key: StreamKey) -> bytes:
    """Channel (16), source (16), epoch (8), and the names of channel, node and source (2 + n each)."""
    names = _text(key.channel_name) + _text(key.node) + _text(key.source_name)
    return key.channel + key.source + key.epoch.to_bytes(8, "little") + names


def read_stream(payload: memoryview | bytes) -> StreamKey:
    """What `stream_payload` wrote. LogError."""
    reader = _Reader(payload)
    channel, source, epoch = reader.take(16), reader.take(16), reader.number(8)
    key = StreamKey(channel, reader.text(), reader.text(), source, reader.text(), epoch)
    reader.end()
    return key


def read_gap(payload: memoryview | bytes) -> tuple[int, str]:
    """The last number (8), and the cause. LogError."""
    reader = _Reader(payload)
    last = reader.number(8)
    if len(reader.rest) > limits.MAX_CAUSE_BYTES:
        msg = f"Expected at most {limits.MAX_CAUSE_BYTES} bytes of a cause"
        raise LogError(msg)
    return last, decoded(reader.rest)


def member_payload(channel: bytes, member: bytes, activity: str, name: str) -> bytes:
    """Channel (16), member (16), and the texts of what it did and of its name (2 + n each)."""
    return channel + member + _text(activity) + _text(name)


def read_member(payload: memoryview | bytes) -> tuple[bytes, bytes, str, str]:
    """What `member_payload` wrote. LogError."""
    reader = _Reader(payload)
    member = reader.take(16), reader.take(16), reader.text(), reader.text()
    reader.end()
    return member


def acknowledgement_payload(consumer: str, watermarks: Mapping[int, int]) -> bytes:
    """The consumer (2 + n), then for each stream its number (4), zeros (4) and the watermark (8)."""
    rows = (struct.pack("<IIQ", stream, 0, mark) for stream, mark in watermarks.items())
    return _text(consumer) + b"".join(rows)


def read_acknowledgement(payload: memoryview | bytes) -> tuple[str, dict[int, int]]:
    """What `acknowledgement_payload` wrote. LogError."""
    reader = _Reader(payload)
    consumer = reader.text()
    if len(reader.rest) % 16 or len(reader.rest) > 16 * limits.MAX_STREAMS:
        msg = f"Expected watermarks of 16 bytes, got {len(reader.rest)} bytes"
        raise LogError(msg)
    return consumer, {stream: mark for stream, _, mark in struct.iter_unpack("<IIQ", reader.rest)}


@dataclass(frozen=True, slots=True)
class Seal:
    """The last block of a segment that was ended, not broken off."""

    events: int
    blocks: int
    """Before this one."""
    index: int
    """Where the first block of the index begins; 0: there is none."""
    chain: int
    """The CRC of the headers of all blocks before the index."""

    def to_bytes(self) -> bytes:
        """Events, blocks, index (8 each), chain (4)."""
        return struct.pack("<QQQI", self.events, self.blocks, self.index, self.chain)

    @classmethod
    def from_bytes(cls, payload: memoryview | bytes) -> Seal:
        """What `to_bytes` wrote. LogError."""
        if len(payload) != 28:
            msg = f"Expected a seal of 28 bytes, got {len(payload)}"
            raise LogError(msg)
        return cls(*struct.unpack("<QQQI", payload))
