"""Following a log that grows: in this process, and beside one that writes, is killed and begins again."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, Any

import pytest

import echo_core as echo
from echo_core.formats.types import Kind, Scalar
from echo_core.logs.declarations import StreamWriter
from echo_core.logs.described import Retain, Rotate
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.written import START_NS, STEP_NS, Run, key_of, write

WAIT_S = 30.0
FEW_BYTES = 64 * 1024  # of a segment: the least


@echo.event
class Tick:
    id: int
    filling: Annotated[bytes, Scalar(Kind.BYTES, 120)] = bytes(120)


ENCODE = echo.encoder(Tick)


def append(stream: StreamWriter, numbers: range) -> None:
    for number in numbers:
        assert stream.append(ENCODE(Tick(number)), sequence=number, time_ns=START_NS + number * STEP_NS)


@pytest.fixture
def writer(tmp_path: Path) -> Generator[LogWriter]:
    """Of a log whose segments end soon."""
    made = LogWriter(tmp_path / "run.echolog", rotate=Rotate(bytes=FEW_BYTES))
    yield made
    made.close()


def test_what_is_added_comes_after_what_was_there(writer: LogWriter) -> None:
    """Across segments, and to all who follow."""
    stream = writer.stream(key_of("one"), echo.format_of(Tick))
    append(stream, range(10))
    writer.sync()
    with echo.open_log(writer.path) as log:
        follow = log.follow(Tick, timeout_s=WAIT_S)
        assert [next(follow).id for _ in range(10)] == [*range(10)]
        for first in range(10, 3010, 1000):
            append(stream, range(first, first + 1000))
            writer.sync()
            assert [next(follow).id for _ in range(1000)] == [*range(first, first + 1000)]
    assert writer.statistics().segments > 2


def test_following_ends_when_nothing_has_come_for_a_while(writer: LogWriter) -> None:
    """And goes on where it ended, when it is asked again."""
    stream = writer.stream(key_of("one"), echo.format_of(Tick))
    append(stream, range(3))
    writer.sync()
    with echo.open_log(writer.path) as log:
        follow = log.follow(Tick, timeout_s=0.0)
        assert [event.id for event in follow] == [0, 1, 2]
        append(stream, range(3, 5))
        writer.sync()
        assert [event.id for event in follow] == [3, 4]


def test_following_ends_when_another_thread_closes_it(writer: LogWriter) -> None:
    """Within the time of a look around."""
    with echo.open_log(writer.path) as log:
        follow: echo.Follow[Any] = log.follow(None)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(follow))
        thread.start()
        follow.close()
        thread.join(WAIT_S)
    assert not thread.is_alive()
    assert not found


def test_an_event_loop_follows_too(writer: LogWriter) -> None:
    """Waiting in a thread, so that the loop goes on."""
    stream = writer.stream(key_of("one"), echo.format_of(Tick))

    async def followed() -> list[int]:
        found: list[int] = []
        with echo.open_log(writer.path) as log:
            async for event in log.follow(Tick, timeout_s=WAIT_S):
                found.append(event.id)
                if len(found) == 4:
                    break
                if len(found) == 2:
                    append(stream, range(2, 4))
                    await asyncio.to_thread(writer.sync)
        return found

    append(stream, range(2))
    writer.sync()
    assert asyncio.run(followed()) == [0, 1, 2, 3]


def test_a_mark_goes_on_behind_its_event_wherever_that_is(tmp_path: Path) -> None:
    """In the middle of a block, at its end, between sources; as text, too."""
    path = write(
        tmp_path / "run.echolog",
        Run([Tick(i) for i in range(4)]),
        Run([Tick(i) for i in range(10, 13)], source="two"),
        Run([Tick(i) for i in range(4, 6)], first=4),
    )
    ids = [0, 1, 2, 3, 10, 11, 12, 4, 5]
    with echo.open_log(path) as log:
        infos = [info for _, info in log[Tick].with_info()]
        for count, info in enumerate(infos, 1):
            assert info.mark is not None
            for mark in (info.mark, str(info.mark)):
                assert [event.id for event in log.follow(Tick, since=mark, timeout_s=0)] == ids[count:]
        follow = log.follow(Tick, timeout_s=0)
        for count in range(1, len(ids) + 1):
            next(follow)
            assert [event.id for event in log.follow(Tick, since=follow.mark, timeout_s=0)] == ids[count:]
        for event, info in log.follow(Tick, since=infos[2].mark, timeout_s=0).with_info():
            assert (event.id, info.number) == (3, 3)
            break
        assert list(log.follow(Tick, since=log.end, timeout_s=0)) == []


@pytest.mark.parametrize("mark", ["", "1:2", "a:b:c:d", 5])
def test_what_is_no_mark_is_refused(tmp_path: Path, mark: Any) -> None:
    """It may come from a file that somebody edited."""
    path = write(tmp_path / "run.echolog", Run([Tick(0)]))
    with echo.open_log(path) as log, pytest.raises(echo.FormatError, match="a mark"):
        log.follow(Tick, since=mark)
    assert echo.Mark.of(str(echo.Mark(1, 64, "ab", 3))) == echo.Mark(1, 64, "ab", 3)


def test_what_retention_removes_under_a_follower_is_a_gap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every event comes or is told to be missing, and the follower goes on."""
    retain = Retain(bytes=2 * FEW_BYTES, min_free=0)
    writer = LogWriter(tmp_path / "run.echolog", rotate=Rotate(bytes=FEW_BYTES), retain=retain)
    stream = writer.stream(key_of("one"), echo.format_of(Tick))
    append(stream, range(10))
    writer.sync()
    with echo.open_log(writer.path) as log, caplog.at_level(logging.WARNING, "echo_core"):
        follow = log[Tick].with_gaps().follow(timeout_s=0)
        assert [event.id for event in follow] == [*range(10)]
        append(stream, range(10, 5000))
        writer.sync()
        append(stream, range(5000, 5010))
        writer.sync()
        found = list(follow)
        with pytest.raises(echo.LogError, match="retention"):
            log.follow(Tick, since="1:4096::0", timeout_s=0)
    writer.close()
    assert isinstance(found[0], echo.Gap)
    expected = 10
    for piece in found:
        first, last = (piece.first, piece.last) if isinstance(piece, echo.Gap) else (piece.id, piece.id)
        assert first == expected
        expected = last + 1
    assert expected == 5010
    assert "missing" in caplog.text


WRITING = """
import itertools, sys
import echo_core as echo
from echo_core.formats.types import Kind, Scalar
from echo_core.logs.described import Rotate
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.test_following import FEW_BYTES, Tick, append, key_of

path, epoch, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
writer = LogWriter(path, rotate=Rotate(bytes=FEW_BYTES))
stream = writer.stream(key_of("one", epoch=epoch), echo.format_of(Tick))
for first in range(0, count, 100):
    append(stream, range(first, first + 100))
    writer.sync()
    print(first + 100, flush=True)
writer.close()
"""


def begin_writing(path: Path, epoch: int, count: int) -> subprocess.Popen[str]:
    """A process that writes so many events, and says how many are on the disk."""
    command = [sys.executable, "-c", WRITING, str(path), str(epoch), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_follower_outlives_writers_that_are_killed(tmp_path: Path) -> None:
    """What was synced comes, in order and once; then what the next writer adds."""
    path = tmp_path / "run.echolog"
    writing = begin_writing(path, 1, 10**9)
    assert writing.stdout is not None
    assert writing.stdout.readline()
    with echo.open_log(path) as log:
        follow = log.follow(Tick, timeout_s=WAIT_S)
        found: dict[int, list[int]] = {1: [next(follow).id for _ in range(300)], 2: []}
        synced = int(writing.stdout.readline())
        writing.kill()
        synced = max([synced, *(int(line) for line in writing.stdout if line.endswith("\n"))])
        writing.wait()
        writing.stdout.close()
        writing = begin_writing(path, 2, 1000)
        assert writing.communicate(timeout=WAIT_S)[0].split()[-1] == "1000"
        for event, info in follow.with_info():
            found[info.epoch].append(event.id)
            if len(found[2]) == 1000:
                break
    assert found[1] == [*range(len(found[1]))]
    assert len(found[1]) >= synced
    assert found[2] == [*range(1000)]
