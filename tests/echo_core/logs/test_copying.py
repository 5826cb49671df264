"""Logs that are made of logs: recovered, filtered, merged; and what verifying one says."""

from __future__ import annotations

from pathlib import Path

import pytest

import echo_core as echo
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.written import START_NS, STEP_NS, Run, key_of, write


@echo.event
class Shot:
    id: int
    temp: float


@echo.event
class Note:
    text: str


def shots(numbers: range) -> list[Shot]:
    return [Shot(i, i / 2) for i in numbers]


def notes(numbers: range) -> list[Note]:
    return [Note(f"note {i}" * (i % 5)) for i in numbers]


def known(path: Path) -> list[tuple[object, ...]]:
    """Every event of a log with what is known of it, by source and number."""
    with echo.open_log(path) as log:
        found = [
            (info.source, info.epoch, info.number, info.submitted_ns, info.channel, repr(event))
            for event, info in log[None].with_info()
        ]
    return sorted(found)


def gaps(path: Path) -> set[tuple[str, int, int]]:
    with echo.open_log(path) as log:
        sources = {stream.number: stream.key.source_name for stream in log.streams}
        return {(sources[gap.stream], gap.first, gap.last) for gap in log.gaps}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(
        tmp_path / "run.echolog",
        Run(shots(range(3000))),
        Run(notes(range(300)), source="notes", channel="talk"),
        Run(shots(range(4000, 4500)), first=4000, abi="i386", source="two"),
        Run(shots(range(3010, 3020)), first=3010),
    )


def damaged(path: Path) -> Path:
    """With one bit of a record that is another."""
    file = path / "0000000001.seg"
    data = bytearray(file.read_bytes())
    data[data.index(echo.encoder(Shot)(Shot(1500, 750.0)))] ^= 1
    file.write_bytes(data)
    return path


def test_a_view_becomes_a_log_of_its_own(path: Path, tmp_path: Path) -> None:
    """Records as they lie, from any machine, with numbers, times and gaps."""
    with echo.open_log(path) as log:
        assert log.export(tmp_path / "copy.echolog") == 3810
        part = log[Shot].between(START_NS + 2990 * STEP_NS, START_NS + 3015 * STEP_NS)
        assert part.export(tmp_path / "part.echolog") == 15
    assert known(tmp_path / "copy.echolog") == known(path)
    assert gaps(tmp_path / "copy.echolog") == gaps(path)
    assert [number for _, _, number, *_ in known(tmp_path / "part.echolog")] == [
        *range(2990, 3000),
        *range(3010, 3015),
    ]
    with echo.open_log(tmp_path / "copy.echolog") as log:
        assert {stream.format.pointer_size for stream in log.streams} == {4, 8}


def test_events_that_are_chosen_by_what_they_say_are_numbered_anew(path: Path, tmp_path: Path) -> None:
    """As those of a derived channel: else each would stand between two gaps."""
    with echo.open_log(path) as log:
        log[Shot].where("id % 1000 == 0").export(tmp_path / "few.echolog")
    with echo.open_log(tmp_path / "few.echolog") as log:
        found = [(event.id, info.source, info.number) for event, info in log[Shot].with_info()]
        assert not log.gaps
    assert found == [(0, "one", 0), (1000, "one", 1), (2000, "one", 2), (4000, "two", 0)]


def test_nothing_is_written_where_something_is(path: Path, tmp_path: Path) -> None:
    """Not even a log."""
    with echo.open_log(path) as log, pytest.raises(echo.LogError, match="nothing is"):
        log.export(tmp_path / "run.echolog")
    with pytest.raises(echo.LogError, match="nothing is"):
        echo.recover_log(path, path)


def test_what_is_left_of_a_damaged_log_is_recovered(path: Path, tmp_path: Path) -> None:
    """All that is sound, and a gap for what is not; verifying says both before and after."""
    before = known(path)
    with echo.open_log(path) as log:
        assert log.verify().is_sound
    report = echo.recover_log(damaged(path), tmp_path / "new.echolog")
    after = known(tmp_path / "new.echolog")
    lost = set(before) - set(after)
    assert 0 < len(lost) < 1500
    assert not set(after) - set(before)
    assert (report.events, report.is_sound, len(report.damage)) == (len(after), False, 1)
    assert sum(gap.last - gap.first + 1 for gap in report.missing) == len(lost) + 10
    assert "damaged" in str(report)
    with echo.open_log(tmp_path / "new.echolog") as log:
        verification = log.verify()
        shown = [piece for piece in log[Shot].with_gaps() if isinstance(piece, echo.Gap)]
    assert verification.is_sound
    assert sum(gap.last - gap.first + 1 for gap in shown) == len(lost) + 10


def test_damage_can_be_an_error(path: Path) -> None:
    """Where nothing may be missing."""
    damaged(path)
    with pytest.raises(echo.LogError, match="checksum"), echo.open_log(path, on_damage="raise") as log:
        list(log[Shot])


def test_what_is_not_asked_for_is_not_read(path: Path) -> None:
    """By times and numbers in the headers: so damage there is not met, and a large log is not waited for."""
    damaged(path)
    with echo.open_log(path) as log:
        late, high = log[Shot].between(START_NS + 3005 * STEP_NS, None), log[Shot].sequences("one", 3010)
        assert (len(list(late)), len(list(high))) == (510, 10)
        assert [type(piece).__name__ for piece in late.with_gaps()].count("Gap") == 1
        assert not log.damage
        assert len(list(log[Shot])) < 3510
        assert log.damage


def test_logs_are_merged_by_their_times(tmp_path: Path) -> None:
    """What two of them have is taken once, and each source's numbers stay in order."""
    first = write(tmp_path / "a.echolog", Run(shots(range(10))), Run(notes(range(20, 25)), "notes", 20))
    second = write(tmp_path / "b.echolog", Run(shots(range(5, 15)), first=5), Run(shots(range(3)), "two"))
    assert echo.merge_logs([second, first], tmp_path / "all.echolog") == 15 + 5 + 3
    expected = sorted({*known(first), *known(second)})
    assert known(tmp_path / "all.echolog") == expected
    with echo.open_log(tmp_path / "all.echolog") as log:
        numbers = [info.number for _, info in log[None].source("one").with_info()]
    assert numbers == [*range(15)]
    with pytest.raises(echo.LogError):
        echo.merge_logs([first, tmp_path / "nothing"], tmp_path / "other.echolog")


def test_members_and_recorded_gaps_are_copied(tmp_path: Path) -> None:
    """They are part of what happened."""
    writer = LogWriter(tmp_path / "run.echolog", level="volatile")
    writer.member(b"c" * 16, b"m" * 16, "joined", "plc", time_ns=START_NS)
    stream = writer.stream(key_of("one"), echo.format_of(Shot))
    assert stream.append(echo.encoder(Shot)(Shot(0, 0.0)), sequence=0, time_ns=START_NS)
    stream.gap(1, 5, "lost")
    writer.close()
    with echo.open_log(tmp_path / "run.echolog") as log:
        log.export(tmp_path / "copy.echolog")
        members = log.members
    with echo.open_log(tmp_path / "copy.echolog") as log:
        assert log.members == members
        assert [(gap.first, gap.last, gap.cause) for gap in log.gaps] == [(1, 5, "lost")]
