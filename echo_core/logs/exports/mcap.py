"""The MCAP container, version 0: chunks of messages with their indexes, and a summary at the end.

What viewers ask for is written: chunks that are not compressed, with checksums, an index of each, statistics.
The specification is at https://mcap.dev/spec.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

Array_ = np.ndarray[Any, Any]

MAGIC = b"\x89MCAP0\r\n"

_HEADER, _FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _MESSAGE_INDEX, _CHUNK_INDEX = range(1, 9)
_STATISTICS, _DATA_END = 0x0B, 0x0F
_CHUNK_BYTES = 4 << 20  # a chunk is closed behind the messages with which it reaches this
_MAX_NS = 2**64 - 1

_INDEX_ENTRY = np.dtype([("time", "<u8"), ("offset", "<u8")])


def _head(data_size: int) -> np.dtype[Any]:
    """A message of so many bytes: opcode, size of the rest, channel, sequence, two times, data."""
    names = ["op", "size", "channel", "number", "logged", "published", "data"]
    formats = ["u1", "<u8", "<u2", "<u4", "<u8", "<u8", f"V{data_size}"]
    return np.dtype(list(zip(names, formats, strict=True)))


@dataclass(slots=True)
class _Chunk:
    """Messages that are not in the file yet, and of each channel their times and places among them."""

    parts: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    index: dict[int, list[Array_]] = field(default_factory=dict[int, list[Array_]])


class McapWriter:
    """Writes to a file from its start. `close` completes it, without which a reader has to search it."""

    def __init__(self, file: BinaryIO, profile: str) -> None:
        self._file = file
        self._at = 0
        self._schemas: list[bytes] = []
        self._channels: list[bytes] = []
        self._chunk_indexes: list[bytes] = []
        self._counts: Counter[int] = Counter()
        self._first_ns, self._last_ns = _MAX_NS, 0
        self._chunk = _Chunk()
        self._write(MAGIC)
        self._record(_HEADER, _text(profile) + _text("echo_core"))

    def schema(self, name: str, encoding: str, text: str) -> int:
        """Says what messages are; its number."""
        number = len(self._schemas) + 1
        data = struct.pack("<H", number) + _text(name) + _text(encoding) + _blob(text.encode())
        self._schemas.append(data)
        self._record(_SCHEMA, data)
        return number

    def channel(self, topic: str, schema: int, encoding: str, metadata: Mapping[str, str]) -> int:
        """Says where messages are from; its number."""
        number = len(self._channels)
        pairs = b"".join(_text(key) + _text(value) for key, value in metadata.items())
        data = struct.pack("<HH", number, schema) + _text(topic) + _text(encoding) + _blob(pairs)
        self._channels.append(data)
        self._record(_CHANNEL, data)
        return number

    def rows(self, channel: int, numbers: Array_, times_ns: Array_, head: bytes, data: Array_) -> None:
        """Messages of one size, each with `head` before an element of `data`."""
        dtype = _head(len(head) + data.dtype.itemsize)
        rows = np.empty(len(data), dtype)
        rows["op"], rows["size"], rows["channel"] = _MESSAGE, dtype.itemsize - 9, channel
        rows["number"] = numbers.astype(np.uint32)
        rows["logged"] = rows["published"] = _times(times_ns)
        content = rows["data"].view([("head", f"V{len(head)}"), ("data", data.dtype)])
        content["head"], content["data"] = np.void(head), data
        places = np.arange(len(data), dtype=np.uint64) * dtype.itemsize
        self._add(channel, _times(times_ns), places, rows.tobytes())

    def messages(self, channel: int, numbers: Array_, times_ns: Array_, messages: Iterable[bytes]) -> None:
        """Messages of any size."""
        parts, places, at = list[bytes](), list[int](), 0
        times = _times(times_ns)
        for number, time, data in zip(numbers.tolist(), times.tolist(), messages, strict=True):
            head = struct.pack("<HIQQ", channel, number & 0xFFFFFFFF, time, time)
            part = struct.pack("<BQ", _MESSAGE, len(head) + len(data)) + head + data
            places.append(at)
            parts.append(part)
            at += len(part)
        self._add(channel, times, np.array(places, np.uint64), b"".join(parts))

    def _add(self, channel: int, times: Array_, places: Array_, data: bytes) -> None:
        chunk = self._chunk
        index = np.empty(len(times), _INDEX_ENTRY)
        index["time"], index["offset"] = times, places + np.uint64(chunk.size)
        chunk.index.setdefault(channel, []).append(index)
        chunk.parts.append(data)
        chunk.size += len(data)
        self._counts[channel] += len(times)
        if chunk.size >= _CHUNK_BYTES:
            self._close_chunk()

    def _close_chunk(self) -> None:
        chunk, self._chunk = self._chunk, _Chunk()
        if not chunk.parts:
            return
        index_by_channel = {channel: np.concatenate(parts) for channel, parts in chunk.index.items()}
        times = np.concatenate([index["time"] for index in index_by_channel.values()])
        first, last = int(times.min()), int(times.max())
        self._first_ns, self._last_ns = min(self._first_ns, first), max(self._last_ns, last)
        data, start = b"".join(chunk.parts), self._at
        bounds = struct.pack("<QQ", first, last)
        checked = struct.pack("<QI", len(data), zlib.crc32(data))
        self._record(_CHUNK, bounds + checked + _text("") + struct.pack("<Q", len(data)), data)
        size, indexes = self._at - start, self._at
        places = b""
        for channel, index in index_by_channel.items():
            places += struct.pack("<HQ", channel, self._at)
            ordered = index[np.argsort(index["time"], kind="stable")]
            self._record(_MESSAGE_INDEX, struct.pack("<H", channel) + _blob(ordered.tobytes()))
        entry = bounds + struct.pack("<QQ", start, size) + _blob(places)
        entry += struct.pack("<Q", self._at - indexes) + _text("") + struct.pack("<QQ", len(data), len(data))
        self._chunk_indexes.append(entry)

    def close(self) -> None:
        """Completes the file, which stays open."""
        self._close_chunk()
        self._record(_DATA_END, struct.pack("<I", 0))
        start = self._at
        for opcode, records in (
            (_SCHEMA, self._schemas),
            (_CHANNEL, self._channels),
            (_STATISTICS, [self._statistics()]),
            (_CHUNK_INDEX, self._chunk_indexes),
        ):
            for data in records:
                self._record(opcode, data)
        self._record(_FOOTER, struct.pack("<QQI", start, 0, 0))
        self._write(MAGIC)

    def _statistics(self) -> bytes:
        counts = b"".join(struct.pack("<HQ", channel, count) for channel, count in self._counts.items())
        total = self._counts.total()
        first = self._first_ns if total else 0
        known = len(self._schemas), len(self._channels), 0, 0, len(self._chunk_indexes)
        return struct.pack("<QHIIIIQQ", total, *known, first, self._last_ns) + _blob(counts)

    def _record(self, opcode: int, *parts: bytes) -> None:
        self._write(struct.pack("<BQ", opcode, sum(map(len, parts))))
        for part in parts:
            self._write(part)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._at += len(data)


def _times(times_ns: Array_) -> Array_:
    """Times before 1970 cannot be said."""
    return np.maximum(times_ns, 0).astype(np.uint64)


def _text(text: str) -> bytes:
    return _blob(text.encode())


def _blob(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data
