"""Frames: what a link carries once the handshake is over.

    0        4        8                            8 + size
    │ size   │ stream │ payload                    │ zeros up to a multiple of 8 │

`size` (of the payload) and `stream` are little-endian uint32. A stream from FIRST_STREAM on: records of one
source, in its layout; for records of fixed size any number of them side by side. Below: a kind of control
frame, whose payload is a message (messages.py). Stream 0 is never sent. A frame begins at a multiple of 8,
counted from the first byte behind the handshake, so a payload does too, and a record can be read in place.

Links scan frames in C (native/core/frames.c); `scan` is what that is held to.
"""

from __future__ import annotations

import enum
import struct

from echo_core.errors import WireError

HEADER = struct.Struct("<II")
ALIGNMENT = 8
FIRST_STREAM = 64


class Kind(enum.IntEnum):
    """The kinds of control frames; LOAN and GAP are written and read in C (native/core/frames.h)."""

    LOAN = 1
    GAP = 2
    JOIN = 3
    JOINED = 4
    REFUSED = 5
    DECLARED = 6
    LEAVE = 7
    MEMBER = 8
    FORMAT = 9
    SOURCE = 10
    ATTACH = 11
    STARTED = 12
    CLOSED = 13
    RELEASED = 14
    DROPPED = 15
    UNREACHABLE = 16
    FLUSH = 17
    FLUSHED = 18
    BYE = 19


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
