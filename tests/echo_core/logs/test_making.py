"""Logs that are made of events at hand, and segments that become another log's."""

from __future__ import annotations

import errno
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core._c import logs as c
from echo_core.logs.folders import segment_path


@echo.event
class Point:
    """A record of fixed size."""

    id: int
    x: float


@echo.event
class Note:
    """A record that varies."""

    id: int
    text: str


def points(first: int, count: int) -> list[Point]:
    return [Point(i, i / 2) for i in range(first, first + count)]


def made(path: Path, first: int, count: int) -> Path:
    """A log of points."""
    with echo.create_log(path) as log:
        log.stream(Point, channel="points", source="maker").append(points(first, count))
    return path


def read(path: Path) -> list[Point]:
    with echo.open_log(path, on_damage="raise") as log:
        assert log.verify().is_sound
        return list(log[Point])


def test_events_are_read_again(tmp_path: Path) -> None:
    """Of both kinds, by their streams, with numbers from 0 on."""
    with echo.create_log(tmp_path / "made.echolog") as log:
        stream, notes = (
            log.stream(Point, channel="points"),
            log.stream(Note, channel="notes", source="writer"),
        )
        stream.append(points(0, 3))
        notes.append(Note(i, "n" * i) for i in range(3))
        records = np.zeros(200_000, stream.format.dtype)
        records["id"] = np.arange(3, 200_003)
        stream.append_array(records)
        assert (log.path, stream.events, notes.events) == (tmp_path / "made.echolog", 200_003, 3)
    with echo.open_log(tmp_path / "made.echolog", on_damage="raise") as log:
        assert log[Point].columns(["id"])["id"].tolist() == list(range(200_003))
        assert list(log[Note]) == [Note(i, "n" * i) for i in range(3)]
        assert {(channel.name, *channel.sources) for channel in log.channels} == {
            ("points", "made"),
            ("notes", "writer"),
        }
        assert [(stream.first, stream.last) for stream in log.streams] == [(0, 200_002), (0, 2)]


def test_log_is_continued_by_another_run(tmp_path: Path) -> None:
    """One channel, since it is called so, and two streams."""
    path = made(made(tmp_path / "a.echolog", 0, 5), 5, 5)
    assert read(path) == points(0, 10)
    with echo.open_log(path) as log:
        assert (len(log.channels), len(log.streams)) == (1, 2)


def test_records_of_a_format_are_taken_as_they_lie(tmp_path: Path) -> None:
    """Those of another machine, too; what is no record of it is refused."""
    codec = echo.codec(Note, abi="s390x")
    with echo.create_log(tmp_path / "a.echolog") as log:
        stream: echo.NewStream[Any] = log.stream(codec.format)
        stream.append_records([codec.encode(Note(1, "one")), codec.encode(Note(2, "two"))])
        with pytest.raises(echo.FormatError, match="Expected a stream of a class"):
            stream.append([Note(3, "three")])
        with pytest.raises(echo.FormatError, match="Expected records of `Note`"):
            stream.append_array(np.zeros(3))
    with echo.open_log(tmp_path / "a.echolog") as log:
        assert list(log[Note]) == [Note(1, "one"), Note(2, "two")]


def test_segments_of_logs_become_those_of_another(tmp_path: Path) -> None:
    """In their order, behind what is there; the others are empty then."""
    parts = [made(tmp_path / f"part-{i}.echolog", 10 * i, 10) for i in range(3)]
    whole = tmp_path / "whole.echolog"
    echo.adopt_logs(whole, parts[:1])
    assert read(whole) == points(0, 10)
    with echo.open_log(whole) as log:
        end = log.end
        echo.adopt_logs(whole, parts[1:])
        assert log.refresh()
        assert list(log[Point].within(end, None)) == points(10, 20)
    assert read(whole) == points(0, 30)
    assert sorted(path.name for path in whole.glob("*.seg")) == [f"{i:010}.seg" for i in (1, 2, 3)]
    for part in parts:
        with pytest.raises(echo.LogError, match="Expected a log"):
            echo.open_log(part)


def test_segment_that_was_never_begun_is_left_out(tmp_path: Path) -> None:
    """As a writer leaves it that was stopped there."""
    part = made(tmp_path / "part.echolog", 0, 10)
    segment_path(part, 2).write_bytes(b"")
    echo.adopt_logs(tmp_path / "whole.echolog", [part])
    assert read(tmp_path / "whole.echolog") == points(0, 10)


def test_nothing_adopted_is_a_log_without_events(tmp_path: Path) -> None:
    """Which is no error to read."""
    echo.adopt_logs(tmp_path / "a.echolog", [])
    with echo.open_log(tmp_path / "a.echolog") as log:
        assert (log.streams, log.begin) == ((), echo.Position(1, 0))


def test_log_that_is_written_to_is_not_adopted(tmp_path: Path) -> None:
    """Neither is anything adopted into it."""
    part, whole = made(tmp_path / "part.echolog", 0, 10), tmp_path / "whole.echolog"
    with echo.create_log(whole), pytest.raises(echo.LogError, match="nobody else writes to"):
        echo.adopt_logs(whole, [part])
    with echo.create_log(part), pytest.raises(echo.LogError, match="nobody else writes to"):
        echo.adopt_logs(whole, [part])


def test_parts_between_blocks_make_the_whole(tmp_path: Path) -> None:
    """Each block lies behind the one before; what is between two places never changes."""
    path = made(tmp_path / "a.echolog", 0, 150_000)
    with echo.open_log(path) as log:
        view = log[Point]
        blocks = list(view.blocks())
        assert sum(block.events for block in blocks) == len(view) == 150_000
        assert blocks[0].before >= log.begin
        assert [block.before for block in blocks[1:]] == [block.end for block in blocks[:-1]]
        parts = [list(view.within(block.before, block.end)) for block in blocks]
        assert [event for part in parts for event in part] == points(0, 150_000)
        numbered = view.sequences("maker", blocks[1].first_number, None)
        assert [block.before for block in numbered.blocks()] == [block.end for block in blocks[:-1]]
        assert list(view.between(0, blocks[0].first_time_ns).blocks()) == []
        assert list(view.within(blocks[-1].end, None)) == []


def test_checksums_are_not_looked_at_if_so_asked(tmp_path: Path) -> None:
    """What was changed is given then."""
    path = made(tmp_path / "a.echolog", 0, 10)
    made(path, 10, 1)
    with segment_path(path, 1).open("r+b") as file:
        data = file.read()
        file.seek(data.index(np.float64(3.5).tobytes()))
        file.write(np.float64(-1).tobytes())
    with echo.open_log(path, verify=False) as log:
        assert [event.x for event in log[Point]][7] == -1.0
    with echo.open_log(path, on_damage="raise") as log, pytest.raises(echo.LogError, match="checksum"):
        list(log[Point])


# ---------------------------------------------------------------------------
# A log in the place of another


def test_log_takes_the_place_of_another(tmp_path: Path) -> None:
    """In one step: what was there is where the other one came from."""
    run, other = made(tmp_path / "run.echolog", 0, 10), made(tmp_path / "other.echolog", 10, 5)
    ids = [echo.open_log(path).id for path in (run, other)]
    assert len(set(ids)) == 2
    echo.replace_log(run, other)
    assert (read(run), read(other)) == (points(10, 5), points(0, 10))
    assert [echo.open_log(path).id for path in (other, run)] == ids
    echo.replace_log(tmp_path / "new.echolog", run)
    assert (read(tmp_path / "new.echolog"), run.exists()) == (points(10, 5), False)


def test_log_keeps_its_id_when_it_is_continued(tmp_path: Path) -> None:
    """By another run, and by segments of others."""
    path = made(tmp_path / "run.echolog", 0, 10)
    before = echo.open_log(path).id
    made(path, 10, 10)
    echo.adopt_logs(path, [made(tmp_path / "part.echolog", 20, 10)])
    assert echo.open_log(path).id == before
    assert len(before) == 32


def test_reader_of_a_log_that_is_replaced_gets_all_of_it_or_an_error(tmp_path: Path) -> None:
    """Whatever of it is still there, and never anything of the other."""
    run = tmp_path / "run.echolog"
    echo.adopt_logs(run, [made(tmp_path / f"part-{i}.echolog", 10 * i, 10) for i in range(3)])
    other = made(tmp_path / "other.echolog", 100, 50)
    with echo.open_log(run) as log:
        following = log.follow(Point, timeout_s=30)
        seen = [next(following) for _ in range(5)]
        events = iter(log[Point].arrays())
        first = next(events)
        echo.replace_log(run, other)
        assert list(log[Point]) == points(0, 30)  # as long as it is there
        shutil.rmtree(other)
        for step in (log.refresh, lambda: list(events), lambda: list(following)):
            with pytest.raises(echo.LogError, match="got another one in its place"):
                step()
        assert [len(first), *seen] == [10, *points(0, 5)]
    assert read(run) == points(100, 50)


def test_follower_is_told_at_once_that_its_log_was_replaced(tmp_path: Path) -> None:
    """Though nothing is written to either."""
    run, other = made(tmp_path / "run.echolog", 0, 10), made(tmp_path / "other.echolog", 10, 5)
    with echo.open_log(run) as log:
        following = log.follow(Point, since=log.end, timeout_s=300)
        thread = threading.Thread(target=echo.replace_log, args=(run, other))
        thread.start()
        with pytest.raises(echo.LogError, match="got another one in its place"):
            next(following)
        thread.join()


def test_file_system_that_cannot_exchange_folders_does_it_in_three_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some of networks."""

    def refuse(first: str, second: str) -> None:
        raise OSError(errno.EINVAL, "Invalid argument", first, None, second)

    monkeypatch.setattr(c, "exchange", refuse)
    run, other = made(tmp_path / "run.echolog", 0, 10), made(tmp_path / "other.echolog", 10, 5)
    echo.replace_log(run, other)
    assert (read(run), read(other)) == (points(10, 5), points(0, 10))
    assert sorted(it.name for it in tmp_path.iterdir()) == ["other.echolog", "run.echolog"]


def test_neither_a_log_that_is_written_to_nor_anything_else_is_replaced(tmp_path: Path) -> None:
    """It stays where it is."""
    run, other = made(tmp_path / "run.echolog", 0, 10), made(tmp_path / "other.echolog", 10, 5)
    for held in (run, other):
        with echo.create_log(held), pytest.raises(echo.LogError, match="nobody else writes to"):
            echo.replace_log(run, other)
    home = tmp_path / "home"
    home.mkdir()
    (home / "letters").touch()
    with pytest.raises(echo.LogError, match="one that holds `letters` and no segment"):
        echo.replace_log(home, other)
    (tmp_path / "file").touch()
    for path, by in ((tmp_path / "file", other), (run, tmp_path / "nothing")):
        with pytest.raises(echo.LogError, match="The disk failed: No"):
            echo.replace_log(path, by)
    assert (read(run), read(other), len(list(home.iterdir()))) == (points(0, 10), points(10, 5), 1)
