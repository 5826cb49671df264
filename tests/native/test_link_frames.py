"""Frames as C finds them in bytes, held to a scanner in Python."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core._c.links import scan
from echo_core.errors import WireError

Frame = tuple[int, bytes]

frames = st.lists(st.tuples(st.integers(1, 2**32 - 1), st.binary(max_size=40)), max_size=8)


def frame_bytes(stream: int, payload: bytes) -> bytes:
    """Header, payload, and zeros up to a multiple of 8."""
    return struct.pack("<II", len(payload), stream) + payload + bytes(-len(payload) % 8)


def plain_scan(data: bytes) -> tuple[list[Frame], int]:
    """What scan answers, without a limit."""
    found: list[Frame] = []
    at = 0
    while at + 8 <= len(data):
        size, stream = struct.unpack_from("<II", data, at)
        end = at + 8 + (size + 7) // 8 * 8
        if end > len(data):
            break
        found.append((stream, data[at + 8 : at + 8 + size]))
        at = end
    return found, at


@given(frames, st.integers(0, 100))
def test_frames_are_found_up_to_the_one_that_is_cut_off(sent: list[Frame], missing: int) -> None:
    data = b"".join(frame_bytes(*frame) for frame in sent)
    data = data[: max(0, len(data) - missing)]
    assert scan(data, 2**32 - 1) == plain_scan(data)


@given(frames)
def test_all_frames_are_found_in_a_buffer_of_any_kind(sent: list[Frame]) -> None:
    data = b"".join(frame_bytes(*frame) for frame in sent)
    assert scan(memoryview(bytearray(data)), 40) == (sent, len(data))


@given(st.binary(max_size=64), st.integers(0, 2**32 - 1))
def test_any_bytes_are_frames_or_a_wire_error(data: bytes, limit: int) -> None:
    try:
        found, consumed = scan(data, limit)
    except WireError:
        return
    assert (found, consumed) == plain_scan(data)
    assert all(len(payload) <= limit for _, payload in found)


def test_payload_at_the_limit_is_taken_and_one_above_it_is_refused() -> None:
    assert scan(frame_bytes(64, bytes(9)), 10)[0] == [(64, bytes(9))]
    assert scan(frame_bytes(64, bytes(10)), 10)[0] == [(64, bytes(10))]
    with pytest.raises(WireError, match="at most 10 bytes, and a stream, got 11 and 64"):
        scan(frame_bytes(64, bytes(11)), 10)


def test_size_is_refused_before_the_payload_has_come() -> None:
    with pytest.raises(WireError):
        scan(struct.pack("<II", 2**32 - 1, 64), 2**31)


def test_stream_0_is_refused() -> None:
    with pytest.raises(WireError):
        scan(frame_bytes(0, b""), 10)
