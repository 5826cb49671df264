"""Logs that are made of events at hand, and segments that become another log's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
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
