"""Frames as native/core/frames.h draws them, written and scanned in Python: an oracle for the C.

`size` (of the payload) and `stream` are little-endian uint32; the payload is padded with zeros to a multiple
of 8. A frame begins at a multiple of 8, so a payload does too, and a record can be read in place.
"""

from __future__ import annotations

import struct

from echo_core.errors import WireError

HEADER = struct.Struct("<II")
ALIGNMENT = 8


def frame_bytes(payload_bytes: int) -> int:
    """How many bytes a frame with such a payload takes."""
    return HEADER.size + payload_bytes + -payload_bytes % ALIGNMENT


def write_frame(stream: int, payload: bytes) -> bytes:
    """One frame."""
    return HEADER.pack(len(payload), stream) + payload + bytes(-len(payload) % ALIGNMENT)


def scan(data: bytes, limit: int) -> tuple[list[tuple[int, bytes]], int]:
    """The complete frames at the start of `data`, as (stream, payload), and how many bytes they take."""
    frames: list[tuple[int, bytes]] = []
    position = 0
    while len(data) - position >= HEADER.size:
        size, stream = HEADER.unpack_from(data, position)
        _check_header(size, stream, limit)
        if len(data) - position < frame_bytes(size):
            break
        payload = position + HEADER.size
        frames.append((stream, data[payload : payload + size]))
        position += frame_bytes(size)
    return frames, position


def _check_header(size: int, stream: int, limit: int) -> None:
    if stream == 0:
        msg = "Expected a frame's stream or kind, got 0"
        raise WireError(msg)
    if size > limit:
        msg = f"Expected a frame of at most {limit} bytes, got {size} (stream {stream})"
        raise WireError(msg)
