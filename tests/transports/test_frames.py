"""Frames: headers, padding, and a scanner that takes what is there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core._c import links
from echo_core.errors import WireError
from tests.transports.frames import ALIGNMENT, HEADER, frame_bytes, scan, write_frame

Scan = Callable[[bytes, int], tuple[list[tuple[int, bytes]], int]]
SCANNERS: list[Scan] = [scan, links.scan]
LIMIT = 200

frames = st.lists(st.tuples(st.integers(1, 2**32 - 1), st.binary(max_size=LIMIT)), max_size=8)


def test_a_frame_is_its_header_its_payload_and_zeros() -> None:
    """Drawn in frames.h."""
    assert write_frame(64, b"abc").hex(" ") == "03 00 00 00 40 00 00 00 61 62 63 00 00 00 00 00"
    assert write_frame(2**32 - 1, b"").hex(" ") == "00 00 00 00 ff ff ff ff"


@pytest.mark.parametrize("scanner", SCANNERS)
@given(frames, st.binary(max_size=7))
def test_frames_come_back(scanner: Scan, written: list[tuple[int, bytes]], rest: bytes) -> None:
    """All that are complete, and where they end."""
    data = b"".join(write_frame(*frame) for frame in written)
    assert len(data) == sum(frame_bytes(len(payload)) for _, payload in written)
    assert scanner(data + rest, LIMIT) == (written, len(data))


@pytest.mark.parametrize("scanner", SCANNERS)
@given(frames, st.integers(0, 10_000))
def test_a_part_of_a_frame_waits_for_the_rest(
    scanner: Scan, written: list[tuple[int, bytes]], cut: int
) -> None:
    """In whatever pieces bytes arrive, the same frames come out."""
    data = b"".join(write_frame(*frame) for frame in written)
    first, used = scanner(data[:cut], LIMIT)
    second, _ = scanner(data[used:], LIMIT)
    assert first + second == written
    assert used % ALIGNMENT == 0


@pytest.mark.parametrize("scanner", SCANNERS)
def test_a_payload_may_be_as_large_as_the_limit_and_no_larger(scanner: Scan) -> None:
    """And the header alone is enough to refuse it."""
    assert scanner(write_frame(64, bytes(LIMIT - 1)), LIMIT)[0] == [(64, bytes(LIMIT - 1))]
    assert scanner(write_frame(64, bytes(LIMIT)), LIMIT)[0] == [(64, bytes(LIMIT))]
    with pytest.raises(WireError):
        scanner(write_frame(64, bytes(LIMIT + 1))[: HEADER.size], LIMIT)


@pytest.mark.parametrize("scanner", SCANNERS)
def test_stream_0_is_refused(scanner: Scan) -> None:
    """Zeroed memory is no frame."""
    with pytest.raises(WireError):
        scanner(bytes(8), LIMIT)


@pytest.mark.parametrize("scanner", SCANNERS)
@given(st.binary(max_size=100))
def test_any_bytes_are_frames_or_a_wire_error(scanner: Scan, data: bytes) -> None:
    """Nothing else comes of them."""
    try:
        found, used = scanner(data, LIMIT)
    except WireError:
        return
    assert used == sum(frame_bytes(len(payload)) for _, payload in found) <= len(data)
