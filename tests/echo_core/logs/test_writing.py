"""What is written to a log is read from it."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from echo_core.errors import ClosedError, LogError
from echo_core.logs.described import Level, Rotate
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.logs import NAMED, PARTICLE, TIME_NS, key_of, numbered, particles, segments_of


@pytest.mark.parametrize("level", list(Level))
def test_records_of_a_fixed_size_are_read_as_they_were_written(level: Level, tmp_path: Path) -> None:
    """Arrays and single ones, with their numbers and times."""
    sent = particles(100_000)
    with LogWriter(tmp_path / "a.echolog", level=level) as log:
        stream = log.stream(key_of(), PARTICLE)
        assert stream.append_batch(sent[:99_000], sequence=0, time_ns=TIME_NS)
        for i in range(99_000, 100_000):
            assert stream.append(sent[i].tobytes(), sequence=i, time_ns=TIME_NS + i)
    with LogReader(tmp_path / "a.echolog") as reader:
        blocks = list(reader.blocks())
        found = np.concatenate([np.frombuffer(block.records, PARTICLE.dtype) for block in blocks])
        times = np.concatenate([block.times_ns() for block in blocks])
        assert (found == sent).all()
        assert (times[:99_000] == TIME_NS).all()
        assert (times[99_000:] == TIME_NS + np.arange(99_000, 100_000)).all()
        assert np.concatenate([block.sequences() for block in blocks]).tolist() == list(range(100_000))
        (info,) = reader.streams
        assert (info.key, info.format, info.first, info.last) == (key_of(), PARTICLE, 0, 99_999)
        assert (reader.gaps, reader.damage, reader.is_torn) == ((), (), False)


def test_records_that_vary_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Of any size, among them none and more than a block."""
    sent = [bytes([size % 251]) * size for size in (16, 0, 1, 15, 17, 1000, 3 << 20, 33)] * 3
    with LogWriter(tmp_path / "a.echolog") as log:
        stream = log.stream(key_of(), NAMED)
        for number, record in enumerate(sent):
            assert stream.append(record, sequence=number)
    with LogReader(tmp_path / "a.echolog") as reader:
        assert numbered(reader) == {0: list(enumerate(sent))}


def test_what_is_told_to_be_missing_is_read_as_a_gap(tmp_path: Path) -> None:
    """With its cause."""
    with LogWriter(tmp_path / "a.echolog") as log:
        stream = log.stream(key_of(), PARTICLE)
        stream.append_batch(particles(10), sequence=5)
        stream.gap(15, 20, "lost on the link")
        stream.append_batch(particles(10), sequence=21)
    with LogReader(tmp_path / "a.echolog") as reader:
        assert [(gap.first, gap.last, gap.cause) for gap in reader.gaps] == [(15, 20, "lost on the link")]
        assert [number for number, _ in numbered(reader)[0]] == [*range(5, 15), *range(21, 31)]


def test_numbers_that_nobody_told_of_are_a_gap(tmp_path: Path) -> None:
    """Also across segments and writers."""
    with LogWriter(tmp_path / "a.echolog") as log:
        log.stream(key_of(), PARTICLE).append_batch(particles(10), sequence=0)
    with LogWriter(tmp_path / "a.echolog") as log:
        log.stream(key_of(), PARTICLE).append_batch(particles(10), sequence=12)
    with LogReader(tmp_path / "a.echolog") as reader:
        assert [(gap.first, gap.last, gap.cause) for gap in reader.gaps] == [(10, 11, "not recorded")]
        assert reader.streams[0].events == 20


def test_a_segment_ends_where_it_is_told_to(tmp_path: Path) -> None:
    """And each can be read alone."""
    path = tmp_path / "a.echolog"
    with LogWriter(path, rotate=Rotate(bytes=2 << 20)) as log:
        stream = log.stream(key_of(), PARTICLE)
        for first in range(0, 400_000, 20_000):
            assert stream.append_batch(particles(20_000, first), sequence=first)
            log.sync()
    files = segments_of(path)
    assert len(files) > 3
    assert max(file.stat().st_size for file in files) <= 2 << 20
    with LogReader(path) as reader:
        found = numbered(reader)[0]
    assert [number for number, _ in found] == list(range(400_000))
    files[0].unlink()
    files[2].unlink()
    with LogReader(path) as reader:
        assert 0 < len(numbered(reader)[0]) < 400_000


def test_what_finds_no_room_is_counted(tmp_path: Path) -> None:
    """And told in the log."""
    with LogWriter(tmp_path / "a.echolog", max_staged_bytes=2 << 20) as log:
        stream = log.stream(key_of(), PARTICLE)
        sent = particles(1_000_000)
        assert not stream.append_batch(sent, sequence=0)
        lost = log.statistics().lost
        assert 0 < lost == stream.lost < 1_000_000
    with LogReader(tmp_path / "a.echolog") as reader:
        (gap,) = reader.gaps
        assert (gap.first, gap.last, gap.cause) == (1_000_000 - lost, 999_999, "log full")
        assert reader.streams[0].events == 1_000_000 - lost


@pytest.mark.parametrize("size", [0, 1000])
def test_a_segment_that_was_not_begun_is_no_damage(size: int, tmp_path: Path) -> None:
    """Also where others follow: its writer was stopped while it made it, and the next one passed over it."""
    path = tmp_path / "a.echolog"
    for number in range(2):
        with LogWriter(path) as log:
            log.stream(key_of(), PARTICLE).append_batch(particles(10, 10 * number), sequence=10 * number)
        (first, *_) = segments_of(path)
        (path / f"{2 * number + 2:010}.seg").write_bytes(first.read_bytes()[:size])
    with LogReader(path, on_damage="raise") as reader:
        assert [number for number, _ in numbered(reader)[0]] == list(range(20))
        assert not reader.gaps


def test_a_log_has_one_writer(tmp_path: Path) -> None:
    """A second one is told who that is."""
    with LogWriter(tmp_path / "a.echolog"), pytest.raises(LogError, match=r"written by process \d+"):
        LogWriter(tmp_path / "a.echolog")
    LogWriter(tmp_path / "a.echolog").close()


def test_only_its_user_can_read_a_log(tmp_path: Path) -> None:
    """Files and folder."""
    with LogWriter(tmp_path / "a.echolog") as log:
        for file in [log.path, *log.path.iterdir()]:
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    """Neither do its streams."""
    log = LogWriter(tmp_path / "a.echolog")
    stream = log.stream(key_of(), PARTICLE)
    log.close()
    log.close()
    with pytest.raises(ValueError, match="closed"):
        stream.append(bytes(24), sequence=0)
    with pytest.raises(ClosedError):
        log.stream(key_of(), PARTICLE)


def test_a_reader_follows_a_writer(tmp_path: Path) -> None:
    """What is synced is read at once, also in a new segment."""
    path = tmp_path / "a.echolog"
    with LogWriter(path, rotate=Rotate(bytes=1 << 20)) as log, LogReader(path) as reader:
        stream = log.stream(key_of(), PARTICLE)
        position = reader.end
        found: list[int] = []
        for first in range(0, 100_000, 10_000):
            stream.append_batch(particles(10_000, first), sequence=first)
            assert log.sync() == log.position
            assert reader.wait(30)
            for block in reader.blocks(since=position):
                found += block.sequences().tolist()
            position = reader.end
            assert position == log.position
        assert found == list(range(100_000))
        assert position.segment > 1
        assert not reader.wait(0)


def test_a_folder_of_other_files_becomes_no_log(tmp_path: Path) -> None:
    """Retention would remove files there, and a file called `lock` would be written over."""
    (tmp_path / "lock").write_text("another program's")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(LogError, match=r"a log, or an empty folder, got one that holds `notes\.txt`"):
        LogWriter(tmp_path)
    assert (tmp_path / "lock").read_text() == "another program's"
    with pytest.raises(LogError, match="Expected a folder, got a file"):
        LogWriter(tmp_path / "notes.txt")


def test_a_log_may_have_other_files_beside_its_own(tmp_path: Path) -> None:
    """Such as notes on what it is of."""
    LogWriter(tmp_path / "a.echolog").close()
    (tmp_path / "a.echolog" / "notes.txt").touch()
    LogWriter(tmp_path / "a.echolog").close()
