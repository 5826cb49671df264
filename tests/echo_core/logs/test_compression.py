"""Logs that are compressed."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from echo_core._c import logs as c
from echo_core.errors import LogError, WireError
from echo_core.formats.format import Format
from echo_core.logs.compression import Codec, columns_of, decompressed
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.logs import NAMED, PARTICLE, key_of, numbered, particles, segments_of


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_log_has_the_same_records(codec: str, tmp_path: Path) -> None:
    """Of a fixed size and others, in less than half of the space."""
    pytest.importorskip({"lz4": "lz4.block", "zstd": "zstandard"}[codec])
    names = [(number, bytes([number % 7]) * 1000) for number in range(500)]
    sent = particles(50_000)
    for compress in (None, codec):
        with LogWriter(tmp_path / f"{compress}.echolog", compress=compress) as log:
            assert log.stream(key_of(1), PARTICLE).append_batch(sent, sequence=0)
            stream = log.stream(key_of(2), NAMED)
            for number, record in names:
                assert stream.append(record, sequence=number)
    with LogReader(tmp_path / f"{codec}.echolog") as reader:
        found = numbered(reader)
        assert b"".join(record for _, record in found[0]) == sent.tobytes()
        assert found[1] == names
        assert not reader.damage
    (plain,), (small,) = (segments_of(tmp_path / f"{it}.echolog") for it in (None, codec))
    assert small.stat().st_size < plain.stat().st_size / 2


def test_bytes_that_cannot_be_decompressed_are_damage(tmp_path: Path) -> None:
    """A flip costs its block, and is told."""
    pytest.importorskip("zstandard")
    path = tmp_path / "a.echolog"
    with LogWriter(path, compress="zstd") as log:
        log.stream(key_of(), PARTICLE).append_batch(particles(100_000), sequence=0)
    (file,) = segments_of(path)
    data = bytearray(file.read_bytes())
    data[40_000] ^= 1
    file.write_bytes(data)
    with LogReader(path) as reader:
        (damage,) = reader.verify()
        assert damage.missing is not None
        first, last = damage.missing
        there = [number for number, _ in numbered(reader)[0]]
        assert there == [number for number in range(100_000) if not first <= number <= last]


def test_a_frame_that_says_that_it_becomes_more_is_not_decompressed() -> None:
    """Whatever the block says: a few bytes may be gigabytes of zeros."""
    zstandard = pytest.importorskip("zstandard")
    frame = memoryview(zstandard.ZstdCompressor().compress(bytes(64 * 1024 * 1024)))
    tracemalloc.start()
    with pytest.raises(WireError, match="Expected a frame of 1000 bytes, got one of 67108864"):
        decompressed(Codec.ZSTD, 0, frame, 1000)
    assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    tracemalloc.stop()


def test_a_frame_need_not_say_what_it_becomes() -> None:
    """It is bounded by what the block says."""
    zstandard = pytest.importorskip("zstandard")
    silent = zstandard.ZstdCompressor(write_content_size=False)
    assert decompressed(Codec.ZSTD, 0, memoryview(silent.compress(bytes(1000))), 1000) == bytes(1000)
    with pytest.raises(WireError):
        decompressed(Codec.ZSTD, 0, memoryview(silent.compress(bytes(10_000_000))), 1000)


def test_a_codec_has_to_be_known_and_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to have it."""
    with pytest.raises(LogError, match='Expected "lz4", "zstd" or None, got \'gzip\''):
        LogWriter(tmp_path / "a.echolog", compress="gzip")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(LogError, match=r"pip install 'echo-core\[logs\]'"):
        LogWriter(tmp_path / "a.echolog", compress="zstd")
    assert not (tmp_path / "a.echolog").exists()


@pytest.mark.parametrize("columns", [(1,), (8, 8, 8), (1, 2, 4, 8, 3, 6), (24,), (23, 1)])
def test_columns_become_records_again(columns: tuple[int, ...]) -> None:
    """Each column has its bytes of all records, one behind another."""
    size = sum(columns)
    data = np.random.default_rng(1).bytes(size * 1000)
    turned = c.to_columns(data, columns)
    assert c.from_columns(turned, columns) == data
    rows = np.frombuffer(data, np.uint8).reshape(-1, size)
    starts = np.cumsum((0, *columns))
    parts = [rows[:, start:stop].tobytes() for start, stop in pairwise(starts)]
    assert turned == b"".join(parts)


def test_columns_cover_a_record() -> None:
    """Its fields, elements of small arrays, and what is between."""
    nested = np.dtype(
        [("a", "<i2"), ("b", "<f8"), ("c", "<i4", (3,)), ("d", "S20"), ("e", [("x", "u1"), ("y", "<i8")])],
        align=True,
    )
    format_ = Format.from_dtype(nested, name="Nested")
    columns = columns_of(format_)
    assert sum(columns) == format_.size_bytes
    assert columns[:6] == (2, 6, 8, 4, 4, 4)
    assert columns_of(NAMED) == ()


@pytest.mark.parametrize("columns", [(), (0,), (5,), (1 << 40,), (1,) * 2000])
def test_columns_that_do_not_fit_are_refused(columns: tuple[int, ...]) -> None:
    """Whoever has made them up."""
    with pytest.raises((ValueError, OverflowError)):
        c.to_columns(bytes(24), columns)
