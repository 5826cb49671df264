"""Logs in forked children: they are the parent's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from echo_core._c import logs as c
from echo_core.errors import ClosedError
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.logs import PARTICLE, key_of, numbered, particles
from tests.forks import forks

pytestmark = forks


def in_child(action: Callable[[], object]) -> int:
    """A child that does something and then stays until it is told to end; the pipe to tell it by."""
    (told, tell), (done, say) = os.pipe(), os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(tell)
            action()
            os.write(say, b"x")
            os.read(told, 1)
        finally:
            os._exit(0)
    os.close(told)
    os.close(say)
    is_done = os.read(done, 1) == b"x"
    os.close(done)
    assert is_done
    return tell


def test_a_child_does_not_keep_a_log_from_being_written(tmp_path: Path) -> None:
    """The lock of its file is not the child's."""
    path = tmp_path / "a.echolog"
    log = LogWriter(path)
    tell = in_child(lambda: None)
    log.close()
    LogWriter(path).close()
    os.close(tell)


def test_a_child_that_closes_a_log_writes_nothing(tmp_path: Path) -> None:
    """What was taken before the fork is the parent's to write."""
    path = tmp_path / "a.echolog"

    def close() -> None:
        with pytest.raises(ClosedError):
            log.sync()
        log.close()

    with LogWriter(path, level="volatile") as log:  # which writes nothing by itself
        stream = log.stream(key_of(), PARTICLE)
        before = log.sync()
        stream.append_batch(particles(10), sequence=0)
        os.close(in_child(close))
        assert os.path.getsize(path / "0000000001.seg") == before.offset
        stream.append_batch(particles(10, 10), sequence=10)
    with LogReader(path) as reader:
        assert numbered(reader)[0] == [(i, particles(1, i).tobytes()) for i in range(20)]


def test_a_staging_ends_in_a_child_though_a_thread_of_its_parent_waits() -> None:
    """Its condition would be waited for for ever: the thread is not there."""
    stagings = [c.Staging(2**21, 0)]
    waits = stagings[0].wait
    is_waiting = threading.Event()

    def wait() -> None:
        is_waiting.set()
        waits(0, 30.0)

    thread = threading.Thread(target=wait)
    thread.start()
    is_waiting.wait(30)

    def let_go() -> None:
        stagings[0].tell()
        stagings.clear()

    os.close(in_child(let_go))
    stagings[0].tell()
    thread.join(30)
