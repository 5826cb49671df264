"""What is just within a limit is written and read; what is just beyond is refused, or lost and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from echo_core._c import logs as c
from echo_core.errors import LogError
from echo_core.formats.format import Format
from echo_core.logs import limits
from echo_core.logs.described import Rotate
from echo_core.logs.layout import HEADER_BYTES
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.logs import NAMED, PARTICLE, key_of, numbered, particles, segments_of


def test_c_and_python_have_the_same_limits() -> None:
    """Both are asked."""
    assert (c.BLOCK_BYTES, c.MAX_BLOCK_BYTES, c.MAX_EVENT_BYTES) == (
        limits.BLOCK_BYTES,
        limits.MAX_BLOCK_BYTES,
        limits.MAX_EVENT_BYTES,
    )


@pytest.mark.once
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_largest_event(more: int, tmp_path: Path) -> None:
    """One beyond it is lost, and counted."""
    size = limits.MAX_EVENT_BYTES + more
    with LogWriter(tmp_path / "a.echolog") as log:
        stream = log.stream(key_of(), NAMED)
        assert stream.append(bytes(size), sequence=0) == (more <= 0)
        assert stream.lost == (more > 0)
        log.sync()
        assert stream.append(b"small", sequence=1)
    with LogReader(tmp_path / "a.echolog") as reader:
        assert [(number, len(record)) for number, record in numbered(reader)[0]] == [(0, size), (1, 5)][
            more > 0 :
        ]
        assert [(gap.first, gap.last) for gap in reader.gaps] == [(0, 0)] * (more > 0)


@pytest.mark.once
def test_what_follows_an_event_that_is_too_large_keeps_its_number(tmp_path: Path) -> None:
    """It lies behind the gap, not behind the events from before it."""
    with LogWriter(tmp_path / "a.echolog") as log:
        stream = log.stream(key_of(), NAMED)
        assert stream.append(b"before", sequence=0)
        assert not stream.append(bytes(limits.MAX_EVENT_BYTES + 1), sequence=1)
        assert stream.append(b"behind", sequence=2)
    with LogReader(tmp_path / "a.echolog") as reader:
        assert numbered(reader)[0] == [(0, b"before"), (2, b"behind")]
        assert [(gap.first, gap.last, gap.cause) for gap in reader.gaps] == [(1, 1, "log full")]


@pytest.mark.once
def test_a_sync_tells_of_an_event_that_is_too_large(tmp_path: Path) -> None:
    """Also where nothing else has come of its stream."""
    with LogWriter(tmp_path / "a.echolog") as log:
        log.stream(key_of(), NAMED).append(bytes(limits.MAX_EVENT_BYTES + 1), sequence=0)
        log.sync()
        with LogReader(tmp_path / "a.echolog") as reader:
            assert [(gap.first, gap.last) for gap in reader.gaps] == [(0, 0)]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_full_block(more: int, tmp_path: Path) -> None:
    """What does not fit begins the next one."""
    size = limits.BLOCK_BYTES - 16 + more
    with LogWriter(tmp_path / "a.echolog") as log:
        stream = log.stream(key_of(), NAMED)
        for number, record in enumerate((bytes(16), bytes(size), b"x")):
            assert stream.append(record, sequence=number, time_ns=1)
    with LogReader(tmp_path / "a.echolog") as reader:
        counts = [block.count for block in reader.blocks()]
        assert counts == ([2, 1] if more <= 0 else [1, 1, 1])
        assert [len(record) for _, record in numbered(reader)[0]] == [16, size, 1]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_longest_names(more: int, tmp_path: Path) -> None:
    """In bytes, not in letters."""
    name = "é" * (limits.MAX_NAME_BYTES // 2 - 1) + "x" * (2 + more)
    if more > 0:
        with pytest.raises(LogError, match="at most 4096 bytes, got 4097"):
            replace(key_of(), node=name)
        return
    key = replace(key_of(), channel_name=name, node=name, source_name=name)
    with LogWriter(tmp_path / "a.echolog") as log:
        log.stream(key, PARTICLE)
    with LogReader(tmp_path / "a.echolog") as reader:
        assert [stream.key for stream in reader.streams] == [key]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_longest_cause(more: int, tmp_path: Path) -> None:
    """Of a gap."""
    cause = "x" * (limits.MAX_CAUSE_BYTES + more)
    with LogWriter(tmp_path / "a.echolog") as log:
        stream = log.stream(key_of(), PARTICLE)
        if more > 0:
            with pytest.raises(ValueError, match="at most 1024 bytes, got 1025"):
                stream.gap(0, 1, cause)
            return
        stream.gap(0, 1, cause)
    with LogReader(tmp_path / "a.echolog") as reader:
        assert [gap.cause for gap in reader.gaps] == [cause]


def test_the_most_formats(tmp_path: Path) -> None:
    """One more is refused, until streams are closed and a segment is behind them."""
    path = tmp_path / "a.echolog"
    with LogWriter(path, rotate=Rotate(bytes=1 << 20)) as log:
        writers = [log.stream(key_of(), format_of(n)) for n in range(limits.MAX_FORMATS)]
        with pytest.raises(LogError, match="at most 1024 formats"):
            log.stream(key_of(), format_of(limits.MAX_FORMATS))
        log.close_stream(writers[0])
        log.sync()
        log.stream(key_of(2), format_of(1)).append_batch(particles(50_000), sequence=0)
        log.sync()
        log.stream(key_of(), format_of(limits.MAX_FORMATS))
    with LogReader(path) as reader:
        assert len(reader.formats) == limits.MAX_FORMATS + 1
        assert not reader.damage


@pytest.mark.parametrize("size", [limits.MIN_STAGED_BYTES - 1, limits.MIN_STAGED_BYTES])
def test_the_least_memory(size: int, tmp_path: Path) -> None:
    """A block has to fit."""
    if size < limits.MIN_STAGED_BYTES:
        with pytest.raises(LogError, match="max_staged_bytes"):
            LogWriter(tmp_path / "a.echolog", max_staged_bytes=size)
        return
    with LogWriter(tmp_path / "a.echolog", max_staged_bytes=size) as log:
        stream = log.stream(key_of(), PARTICLE)
        for first in range(0, 100_000, 10_000):
            assert log.wait_room(240_000, 30)
            assert stream.append_batch(particles(10_000, first), sequence=first)
    with LogReader(tmp_path / "a.echolog") as reader:
        assert len(numbered(reader)[0]) == 100_000


def format_of(number: int) -> Format:
    """One of many, of 24 bytes."""
    return Format.from_dtype(PARTICLE.dtype, name=f"Particle{number}")


@pytest.mark.parametrize("most", [9, 10, 11])
def test_the_most_streams(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader takes as many as a writer may declare, and says of more that they are damage."""
    path = tmp_path / "a.echolog"
    with LogWriter(path) as log:
        for number in range(10):
            log.stream(key_of(number), PARTICLE).append_batch(particles(1), sequence=0)
    monkeypatch.setattr(limits, "MAX_STREAMS", most)
    with LogReader(path) as reader:
        assert len(reader.streams) == min(most, 10)
        assert bool(reader.damage) == (most < 10)
    with LogWriter(tmp_path / "b.echolog") as log:
        for number in range(most):
            log.stream(key_of(number), PARTICLE)
        with pytest.raises(LogError, match=f"at most {most} streams"):
            log.stream(key_of(most), PARTICLE)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_largest_segment(more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond it is not looked at."""
    path = tmp_path / "a.echolog"
    with LogWriter(path) as log:
        log.stream(key_of(), PARTICLE).append_batch(particles(10), sequence=0)
    (file,) = segments_of(path)
    monkeypatch.setattr(limits, "MAX_SEGMENT_BYTES", file.stat().st_size + more)
    with LogReader(path) as reader:
        assert len(numbered(reader)[0]) == 10
        assert reader.is_torn == (more < 0)
    monkeypatch.setattr(limits, "MAX_SEGMENT_BYTES", HEADER_BYTES)
    with LogReader(path) as reader:
        assert reader.streams == ()


@pytest.mark.parametrize("size", [limits.MIN_SEGMENT_BYTES - 1, limits.MAX_ROTATE_BYTES + 1])
def test_segments_end_within_bounds(size: int) -> None:
    """A reader takes whatever may be set, and one large event beyond it."""
    Rotate(bytes=limits.MIN_SEGMENT_BYTES)
    Rotate(bytes=limits.MAX_ROTATE_BYTES)
    with pytest.raises(LogError, match=r"Rotate\.bytes"):
        Rotate(bytes=size)
