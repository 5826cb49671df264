"""What happens to a log on its way: no flip and no cut gives a wrong value, and each is told."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from echo_core._c import logs as c
from echo_core.errors import LogError
from echo_core.logs.described import Level
from echo_core.logs.layout import FOUND, HEADER_BYTES, SLICE_BYTES, SegmentHeader, State
from echo_core.logs.reading import LogReader
from echo_core.logs.scanning import Rows, scan
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.logs import NAMED, PARTICLE, key_of, numbered, particles, segments_of

GOOD = State.IS_BLOCK | State.IS_VERIFIED


def write(path: Path) -> None:
    """64 KiB: a block of two slices, many small ones of both kinds, gaps."""
    with LogWriter(path, level=Level.SYNCED) as log:
        fixed, varying = log.stream(key_of(1), PARTICLE), log.stream(key_of(2), NAMED)
        fixed.append_batch(particles(1400), sequence=0)
        log.sync()
        for turn in range(6):
            fixed.append_batch(particles(100, 1400 + 100 * turn), sequence=1400 + 100 * turn)
            varying.append(bytes([turn]) * 300, sequence=2 * turn)
            varying.append(bytes([turn]) * 77, sequence=2 * turn + 1)
            log.sync()
        fixed.gap(2000, 2010, "told")


@cache
def segment(folder: Path) -> bytes:
    """A log of one segment."""
    path = folder / "whole.echolog"
    write(path)
    (file,) = segments_of(path)
    return file.read_bytes()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return segment(tmp_path_factory.mktemp("damage"))


def salt_of(data: bytes) -> int:
    header, _ = SegmentHeader.from_bytes(data)
    assert header is not None
    return header.salt


def rows_of(data: bytes) -> Rows:
    return scan(data, salt_of(data), end=len(data), verify=True).rows


@pytest.mark.once
def test_every_flip_of_a_block_is_found(data: bytes) -> None:
    """All half a million; one in a slice costs that slice alone."""
    changed, salt, rows = bytearray(data), salt_of(data), rows_of(data)
    assert len(data) > 64 << 10
    assert (rows["state"] == GOOD).all()
    for row in rows:
        start, end = int(row["offset"]), int(row["end"])
        for at in range(start, end):
            for bit in range(8):
                changed[at] ^= 1 << bit
                state, _ = c.verify(changed, start, end, salt)
                assert state != GOOD
                changed[at] ^= 1 << bit
    assert changed == data


@pytest.mark.once
def test_every_flip_of_a_header_is_found(data: bytes) -> None:
    """The other half is right, and the same."""
    whole, _ = SegmentHeader.from_bytes(data)
    changed = bytearray(data[:HEADER_BYTES])
    for at in range(HEADER_BYTES):
        changed[at] ^= 1 << at % 8
        assert SegmentHeader.from_bytes(bytes(changed)) == (whole, True)
        changed[at] ^= 1 << at % 8


@pytest.mark.once
def test_every_cut_leaves_whole_blocks(data: bytes) -> None:
    """All that were before it, and nothing more."""
    salt, rows = salt_of(data), rows_of(data)
    ends = rows["end"].tolist()
    for size in range(HEADER_BYTES, len(data)):
        whole = int(np.searchsorted(ends, size, side="right"))
        start = ends[whole - 1] if whole else HEADER_BYTES
        assert c.scan(data, start, size, salt, True, 10) == (b"", start)


@pytest.mark.parametrize("step", [997])
def test_what_a_flip_costs_is_told_and_nothing_else_is_lost(data: bytes, step: int, tmp_path: Path) -> None:
    """Of each event it is known that it is there and right, or is missing."""
    path = tmp_path / "a.echolog"
    path.mkdir()
    file = path / "0000000001.seg"
    file.write_bytes(data)
    with LogReader(path) as reader:
        whole = {stream: dict(events) for stream, events in numbered(reader).items()}
    rows = rows_of(data)
    for at in range(0, len(data), step):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        file.write_bytes(changed)
        with LogReader(path) as reader:
            found = {stream: dict(events) for stream, events in numbered(reader).items()}
            missing = {
                (gap.stream, number)
                for gap in reader.gaps
                if gap.cause == "damage"
                for number in range(gap.first, gap.last + 1)
            }
            lost = {
                (stream, number) for stream, them in whole.items() for number in them.keys() - found[stream]
            }
            assert all(
                whole[stream][number] == it for stream, them in found.items() for number, it in them.items()
            )
            assert missing == lost
            assert reader.damage or reader.is_torn
            row = rows[max(0, int(np.searchsorted(rows["offset"], at, side="right")) - 1)]
            if at >= HEADER_BYTES and row["count"] == 1400 and at > row["offset"] + 200:
                assert 0 < len(lost) <= SLICE_BYTES // 24 + 2


def test_a_block_counts_in_its_place_alone(data: bytes) -> None:
    """Not moved, not copied, not of another segment, and not within another's payload."""
    salt, rows = salt_of(data), rows_of(data)
    row = rows[5]
    block = data[int(row["offset"]) : int(row["end"])]
    for offset in (int(row["offset"]) + 64, HEADER_BYTES, len(data)):
        moved = bytearray(data.ljust(offset + len(block), b"\0"))
        moved[offset : offset + len(block)] = block
        assert c.verify(moved, offset, len(moved), salt)[0] == 0
    assert c.verify(data, int(row["offset"]), len(data), salt ^ 1)[0] == 0
    inner = c.compose_block(salt, 128, 3, b"", count=1, marks=bytes(16))
    outer = c.compose_block(salt, 0, 10, inner)
    found, end = c.scan(outer, 0, len(outer), salt, True, 10)
    assert (len(found), end) == (FOUND.itemsize, len(outer))


@pytest.mark.parametrize("size", [0, 1, 63, 100, 2047, 2048, 4095])
def test_a_last_segment_without_a_header_does_not_count(data: bytes, size: int, tmp_path: Path) -> None:
    """Its maker was stopped; the log ends before it."""
    path = tmp_path / "a.echolog"
    path.mkdir()
    (path / "0000000001.seg").write_bytes(data)
    (path / "0000000002.seg").write_bytes(bytes(size))
    with LogReader(path) as reader:
        assert reader.end.segment == 1
        assert not reader.damage
    (path / "0000000001.seg").unlink()
    with pytest.raises(LogError, match="without a segment"):
        LogReader(path)


def test_a_segment_in_between_without_a_header_is_damage(data: bytes, tmp_path: Path) -> None:
    """The others are read."""
    path = tmp_path / "a.echolog"
    write(path)
    (path / "0000000002.seg").write_bytes(bytes(10_000))
    with LogWriter(path) as log:
        log.stream(key_of(3), PARTICLE).append_batch(particles(5), sequence=0)
    with LogReader(path) as reader:
        assert [(damage.segment, damage.what) for damage in reader.verify()] == [
            (2, "a segment without a header")
        ]
        assert len(numbered(reader)[2]) == 5


def test_a_segment_that_was_cut_to_nothing_is_damage(tmp_path: Path) -> None:
    """The next one names it."""
    path = tmp_path / "a.echolog"
    for _ in range(3):
        write(path)
    segments_of(path)[1].write_bytes(b"")
    with LogReader(path) as reader:
        assert [(damage.segment, damage.what) for damage in reader.damage] == [
            (2, "a segment without a header")
        ]


def test_a_segment_that_was_cut_since_is_damage(tmp_path: Path) -> None:
    """The next one says where it ended."""
    path = tmp_path / "a.echolog"
    write(path)
    write(path)
    first = segments_of(path)[0]
    first.write_bytes(first.read_bytes()[:-1000])
    with LogReader(path) as reader:
        (damage,) = reader.damage
        assert damage.segment == 1
        assert "were there when the next segment was begun" in damage.what


def test_a_reader_that_is_to_raise_says_where(tmp_path: Path) -> None:
    """The segment and the bytes."""
    path = tmp_path / "a.echolog"
    write(path)
    (file,) = segments_of(path)
    data = bytearray(file.read_bytes())
    data[20_000] ^= 1
    file.write_bytes(data)
    with LogReader(path, on_damage="raise") as reader, pytest.raises(LogError, match="segment 1, bytes"):
        list(reader.blocks())
    with LogReader(path, on_damage="raise") as reader:
        assert sum(block.count for block in reader.blocks(verify=False)) == 2012


def test_sums_are_those_of_the_table() -> None:
    """CRC-32C by the CPU's instruction, for all small sizes, some large ones, and in parts."""
    data = np.random.default_rng(1).bytes(70_000)
    assert c.crc32c(b"123456789") == c.crc32c_by_table(b"123456789") == 0xE3069283
    for size in [*range(2000), *range(16_300, 16_500), 65_536, 70_000]:
        assert c.crc32c(data[:size]) == c.crc32c_by_table(data[:size])
        assert c.crc32c(data[size:], c.crc32c(data[:size])) == c.crc32c_by_table(data)


def test_a_file_that_is_cut_while_it_is_read_costs_what_was_cut_off(tmp_path: Path) -> None:
    """From the next block on: memory behind the end of a file would end the process."""
    path = tmp_path / "a.echolog"
    with LogWriter(path, level=Level.VOLATILE) as log:
        log.stream(key_of(1), PARTICLE).append_batch(particles(200_000), sequence=0)
    (file,) = segments_of(path)
    with LogReader(path) as reader:
        blocks = reader.blocks()
        first = next(blocks)
        with file.open("r+b") as opened:
            opened.truncate(HEADER_BYTES + 3_000_000)
        kept = [first, *blocks]
        behind = kept[-1].last_sequence + 1
        assert sum(block.count for block in kept) == behind
        assert 50_000 < behind < 150_000
        assert {each.what for each in reader.damage} == {"records that were there when the log was opened"}
        assert [(gap.first, gap.last) for gap in reader.gaps][-1][1] == 199_999
        assert sum(gap.last - gap.first + 1 for gap in reader.gaps) == 200_000 - behind
        assert sum(block.count for block in reader.blocks()) in (0, behind)
