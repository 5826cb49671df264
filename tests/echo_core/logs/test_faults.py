"""Disks that fail or are full, at each call in turn."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from echo_core.errors import LogError
from echo_core.logs.described import Level, Retain, Rotate
from echo_core.logs.disk import RealDisk, Writable
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.disks import FailingDisk
from tests.echo_core.logs.logs import PARTICLE, key_of, numbered, particles, segments_of

TURNS = 7
COUNT = 800
RETAIN = Retain(min_free=0)


def write(path: Path, disk: FailingDisk) -> tuple[int, int]:
    """How many events were promised, and how many taken; goes on for as long as it is let."""
    promised = taken = 0
    try:
        log = LogWriter(path, level=Level.SYNCED, rotate=Rotate(bytes=1 << 16), retain=RETAIN, disk=disk)
    except LogError:
        return 0, 0
    try:
        stream = log.stream(key_of(), PARTICLE)
        for turn in range(TURNS):
            if stream.append_batch(particles(COUNT, COUNT * turn), sequence=COUNT * turn):
                taken += COUNT
            try:
                log.sync()
                promised = taken
            except LogError:
                continue
    except LogError:
        pass
    try:
        log.close()
        promised = taken
    except LogError:
        pass
    return promised, taken


def calls_of(folder: Path) -> int:
    """How many there are when nothing fails."""
    disk = FailingDisk(0, errno.EIO)
    assert write(folder / "whole.echolog", disk) == (TURNS * COUNT, TURNS * COUNT)
    return disk.calls


@pytest.mark.once
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_whatever_call_fails_what_was_promised_is_there(code: int, tmp_path: Path) -> None:
    """And no event is another; the next writer goes on."""
    for at in range(1, calls_of(tmp_path) + 1):
        path = tmp_path / f"{at}.echolog"
        disk = FailingDisk(at, code)
        promised, taken = write(path, disk)
        with LogWriter(path, retain=RETAIN) as log:
            log.stream(key_of(2), PARTICLE).append_batch(particles(1), sequence=0)
        with LogReader(path) as reader:
            events = {stream.key: dict(numbered(reader).get(stream.number, [])) for stream in reader.streams}
            assert not reader.verify()
        found = events.get(key_of(), {})
        assert list(found) == list(range(len(found)))
        assert promised <= len(found) <= TURNS * COUNT, (at, disk.failed)
        assert b"".join(found.values()) == particles(len(found)).tobytes()
        if code == errno.ENOSPC and disk.failed in ("write", "create") and taken:
            assert len(found) == taken == TURNS * COUNT, (at, disk.failed)


@pytest.mark.parametrize("what", ["write", "sync"])
def test_a_disk_that_fails_is_not_tried_again(what: str, tmp_path: Path) -> None:
    """All later receipts say so, and what comes is counted as lost."""

    class Disk(FailingDisk):
        def _call(self, what: str) -> None:
            self.calls += 1
            if what == self._what:
                self.tried += 1
                raise OSError(errno.EIO, "Input/output error")

        _what = ""
        tried = 0

    disk = Disk(0, errno.EIO)
    log = LogWriter(tmp_path / "a.echolog", level=Level.SYNCED, disk=disk)
    disk._what = what  # pyright: ignore[reportPrivateUsage]
    stream = log.stream(key_of(), PARTICLE)
    stream.append_batch(particles(10), sequence=0)
    for _ in range(3):
        with pytest.raises(LogError, match=r"Input/output error.*may be lost"):
            log.sync()
    assert disk.tried == 1
    lost = log.statistics().lost
    assert not stream.append_batch(particles(10), sequence=10)
    assert log.statistics().lost == lost + 10
    assert log.statistics().failure is not None
    with pytest.raises(LogError, match="Input/output error"):
        log.stream(key_of(2), PARTICLE)
    with pytest.raises(LogError, match="Input/output error"):
        log.close()


def test_a_full_disk_is_said_and_goes_on_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing that was taken is lost meanwhile; the log of the process says when it begins and ends, once."""

    class Disk(FailingDisk):
        free = 60

        def free_bytes(self, path: Path) -> int:
            return self.free

    disk = Disk(0, errno.ENOSPC)
    with LogWriter(tmp_path / "a.echolog", retain=Retain(min_free=100), disk=disk) as log:
        stream = log.stream(key_of(), PARTICLE)
        assert stream.append_batch(particles(10), sequence=0)
        for _ in range(2):
            with pytest.raises(LogError, match="Expected room on the disk, got 60 bytes, where 100 are"):
                log.sync()
        assert log.statistics().is_full
        disk.free = 100
        log.sync()
        assert not log.statistics().is_full
    with LogReader(tmp_path / "a.echolog") as reader:
        assert len(numbered(reader)[0]) == 10
    told = [record.getMessage() for record in caplog.records if record.name == "echo_core"]
    assert len(told) == 2
    assert "nothing more is recorded until there is room" in told[0]
    assert "the disk has room again" in told[1]


def test_the_oldest_make_room_where_that_was_asked_for(tmp_path: Path) -> None:
    """A log that may lose its oldest goes on on a disk that is full."""
    path = tmp_path / "a.echolog"
    retain = Retain(bytes=1 << 30, min_free=0)

    class Disk(FailingDisk):
        def _call(self, what: str) -> None:
            used = sum(file.stat().st_size for file in segments_of(path))
            if what == "write" and used > 300_000:
                raise OSError(errno.ENOSPC, "No space left on device")

    with LogWriter(path, rotate=Rotate(bytes=1 << 16), retain=retain, disk=Disk(0, 0)) as log:
        stream = log.stream(key_of(), PARTICLE)
        for first in range(0, 40_000, 500):
            assert stream.append_batch(particles(500, first), sequence=first)
            log.sync()
        assert log.statistics().removed > 0
    with LogReader(path) as reader:
        numbers = [number for number, _ in numbered(reader)[0]]
        assert numbers == list(range(numbers[0], 40_000))
        assert numbers[0] > 0
        assert reader.gaps == ()


class StuckDisk(RealDisk):
    """Takes nothing until it is let go."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def write(self, fd: int, data: Writable, offset: int) -> None:
        assert self.may_go_on.wait(30)
        super().write(fd, data, offset)


def test_memory_is_bounded_where_a_stream_has_gaps_without_end_and_the_disk_is_stuck(tmp_path: Path) -> None:
    """Each number is an event's or a gap's in the end, and what a member did that was not told is counted."""
    disk, turns = StuckDisk(), 50_000
    with LogWriter(tmp_path / "a.echolog", max_staged_bytes=2 << 20, disk=disk) as log:
        stream = log.stream(key_of(), PARTICLE)
        disk.may_go_on.clear()
        for number in range(0, 2 * turns, 2):
            stream.append(particles(1, number), sequence=number)
            stream.gap(number + 1, number + 1, "lost on the link")
        for _ in range(turns):
            log.member(bytes(16), bytes(16), "joined", "x" * 200)
        told = log.statistics()
        assert told.staged_bytes < 5 << 20
        assert 0 < told.events == turns - told.lost
        assert told.untold_members > 0
        disk.may_go_on.set()
    with LogReader(tmp_path / "a.echolog") as reader:
        there = [number for number, _ in numbered(reader)[0]]
        missing = [number for gap in reader.gaps for number in range(gap.first, gap.last + 1)]
        assert sorted(there + missing) == list(range(2 * turns))
        assert len(reader.members) == turns - told.untold_members
