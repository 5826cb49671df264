"""Interrupts, as by Ctrl-C, while a log is written: they end the call, and nothing else."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from echo_core.logs.disk import RealDisk, Writable
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.logs import PARTICLE, key_of, numbered, particles


class InterruptingDisk(RealDisk):
    """The main thread is interrupted behind each call of one kind."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.is_on = False

    def _done(self, what: str) -> None:
        if self.is_on and what == self._what:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def create(self, path: Path) -> int:
        fd = super().create(path)
        self._done("create")
        return fd

    def write(self, fd: int, data: Writable, offset: int) -> None:
        super().write(fd, data, offset)
        self._done("write")

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._done("sync")


def interrupted(log: LogWriter, what: str) -> bool:
    """Whether a call of the log was."""
    try:
        getattr(log, what)()
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("what", ["write", "sync"])
@pytest.mark.parametrize("level", ["buffered", "synced"])
def test_nothing_is_lost_where_a_sync_is_interrupted(level: str, what: str, tmp_path: Path) -> None:
    """Nor written twice; and the next sync works."""
    disk = InterruptingDisk(what)
    with LogWriter(tmp_path / "a.echolog", level=level, disk=disk) as log:
        stream = log.stream(key_of(), PARTICLE)
        for number in range(20):
            stream.append(particles(1, number).tobytes(), sequence=number)
            disk.is_on = True
            assert interrupted(log, "sync") or what == "write"  # the log's thread may have written it
            disk.is_on = False
        log.sync()
    with LogReader(tmp_path / "a.echolog") as reader:
        assert numbered(reader)[0] == [(i, particles(1, i).tobytes()) for i in range(20)]
        assert not reader.gaps
        assert not reader.damage


@pytest.mark.parametrize("what", ["write", "sync"])
def test_a_close_that_is_interrupted_is_done_all_the_same(what: str, tmp_path: Path) -> None:
    """A second one waits until it is, and the log can be written to again."""
    path, disk = tmp_path / "a.echolog", InterruptingDisk(what)
    log = LogWriter(path, disk=disk)
    log.stream(key_of(), PARTICLE).append_batch(particles(10), sequence=0)
    disk.is_on = True
    assert interrupted(log, "close")
    disk.is_on = False
    log.close()
    LogWriter(path).close()
    with LogReader(path) as reader:
        assert len(numbered(reader)[0]) == 10


def test_two_threads_close_a_log_at_once(tmp_path: Path) -> None:
    """Both return once it is closed."""
    path = tmp_path / "a.echolog"
    log = LogWriter(path)
    log.stream(key_of(), PARTICLE).append_batch(particles(10), sequence=0)
    threads = [threading.Thread(target=log.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    log.close()
    LogWriter(path).close()
    for thread in threads:
        thread.join(30)
    with LogReader(path) as reader:
        assert len(numbered(reader)[0]) == 10
