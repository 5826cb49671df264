"""What a user reads from a log: events of his own class, some of them, and what is missing among them."""

from __future__ import annotations

import datetime as dt
import logging
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.formats.types import Kind, Scalar
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.written import START_NS, STEP_NS, Run, key_of, write

Chars8 = Annotated[str, Scalar(Kind.CHARS, 8)]


@echo.event(name="Particle")
class First:
    id: echo.Int32
    temp: echo.Float32


@echo.event(name="Particle")
class Second:
    temp: float
    id: int
    tag: Chars8 = "none"


@echo.event(name="Particle")
class Third:
    id: int
    kelvin: float = echo.field(default=0.0, aliases=("temp",))
    tag: str = "unknown"
    cells: list[float] = echo.field(default_factory=list)


@echo.event
class Note:
    text: str
    parts: list[str]
    level: int | None = None


def firsts(numbers: range) -> list[First]:
    return [First(i, i / 2) for i in numbers]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two generations of particles, one from elsewhere, and notes between them; three numbers are missing."""
    return write(
        tmp_path / "run.echolog",
        Run(firsts(range(5))),
        Run([Note(f"n{i}", ["a"] * i, i or None) for i in range(4)], source="notes", channel="talk"),
        Run(firsts(range(8, 10)), first=8),
        Run([Second(i / 2, i, "new") for i in range(100, 103)], source="two", abi="s390x", first=100),
        Run([Third(200, 1.5, "x", [1.0, 2.0])], source="three", abi="i386"),
    )


# ---------------------------------------------------------------------------
# Generations


def test_each_generation_reads_what_all_have_written(path: Path) -> None:
    """Missing fields take defaults, others are ignored, reordered, widened, renamed, from any machine."""
    with echo.open_log(path) as log:
        third = list(log[Third])
        second = list(log.view(Second, lossy=True))
        first = list(log.view(First, lossy=True))
    ids = [*range(5), 8, 9, 100, 101, 102, 200]
    assert (
        [event.id for event in third]
        == [event.id for event in second]
        == [event.id for event in first]
        == ids
    )
    assert third[1] == Third(1, 0.5, "unknown", [])
    assert third[7] == Third(100, 50.0, "new", [])
    assert third[-1] == Third(200, 1.5, "x", [1.0, 2.0])
    assert second[0] == Second(0.0, 0, "none")
    assert first[-1] == First(200, 1.5)


def test_a_class_that_records_do_not_convert_to_is_refused_when_it_is_read(path: Path) -> None:
    """Not when the view is made: a narrower one may do, or consent."""
    with echo.open_log(path) as log:
        view = log[First]
        with pytest.raises(echo.IncompatibleError, match=r"may not hold|Particle\.id"):
            list(view)
        assert len(list(view.source("one"))) == 7


def test_classes_are_made_of_what_the_log_says(path: Path) -> None:
    """Each of its own format, all in one view; a name takes the last format that is called so."""
    with echo.open_log(path) as log:
        events = list(log[None])
        named = list(log["Particle"])
    assert [type(event).__name__ for event in events] == ["Particle"] * 5 + ["Note"] * 4 + ["Particle"] * 6
    assert not hasattr(events[0], "tag")
    assert events[5].text == "n0"
    assert {type(event) for event in named} == {type(named[0])}
    assert named[0].tag == "unknown"


def test_a_name_that_nothing_has_is_an_error_that_says_what_there_is(path: Path) -> None:
    """Of types, channels and sources: an empty view would hide the mistake."""

    @echo.event
    class Stranger:
        id: int

    with echo.open_log(path) as log:
        with pytest.raises(echo.IncompatibleError, match="`Note`, `Particle`"):
            list(log[Stranger])
        with pytest.raises(echo.IncompatibleError, match="`Note`, `Particle`"):
            _ = log["Stranger"]
        with pytest.raises(echo.FormatError, match="`one`"):
            list(log[None].source("nobody"))
        assert next(iter(log.view(Stranger, by_shape=True).channel("plant"))).id == 0


# ---------------------------------------------------------------------------
# Narrowing


def test_views_are_narrowed_in_chains_and_do_not_change(path: Path) -> None:
    """By source, channel, number and time; each start is taken, and no end."""
    with echo.open_log(path) as log:
        every = log[Third]
        begin = START_NS + 3 * STEP_NS
        assert [event.id for event in every.source("one").sequences("one", 1, 9)] == [1, 2, 3, 4, 8]
        assert [event.id for event in every.between(begin, begin + 6 * STEP_NS)] == [3, 4, 8]
        as_datetime = dt.datetime.fromtimestamp(begin / 1e9, dt.UTC)
        as_numpy = np.datetime64(begin, "ns")
        for start in (begin, as_datetime, as_numpy):
            assert [event.id for event in every.between(start, None).source("one")] == [3, 4, 8, 9]
        assert [event.id for event in every.between(None, begin)] == [0, 1, 2, 200]
        assert [note.text for note in log[None].channel("talk")] == ["n0", "n1", "n2", "n3"]
        assert len(list(every)) == 11
        assert not every.between(0, 1)


@pytest.mark.parametrize("time", [dt.datetime(2026, 1, 1), 1.5, "now", True, np.datetime64("nat", "ns")])
def test_what_is_no_time_is_refused(path: Path, time: Any) -> None:
    """A naive datetime would mean another instant on another host."""
    with echo.open_log(path) as log, pytest.raises(echo.FormatError, match="time zone"):
        log[None].between(time, None)


def test_conditions_are_judged_as_the_class_has_the_fields(path: Path) -> None:
    """Of records of any machine and size; fields that a record lacks have their defaults."""
    with echo.open_log(path) as log:
        assert [event.id for event in log[Third].where("kelvin >= limit", limit=4.0)] == [8, 9, 100, 101, 102]
        assert [event.id for event in log[Third].where("tag == 'unknown'").where("id % 2 == 0")] == [
            0,
            2,
            4,
            8,
        ]
        assert [event.text for event in log[Note].where("level is not None and level > 1")] == ["n2", "n3"]
        assert [event.id for event in log[None].source("two").where("temp > 50")] == [101, 102]
        assert len(log[Third].where("id > 100")) == 3
        assert log[Third].where("id > 100").columns(["id"])["id"].tolist() == [101, 102, 200]


def test_a_condition_that_fails_at_run_time_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Such an event does not pass, and nobody would know."""
    with echo.open_log(path) as log, caplog.at_level(logging.WARNING, "echo_core"):
        assert [event.id for event in log[Third].source("one").where("10 // id >= 5")] == [1, 2]
    assert "division by zero" in caplog.text


# ---------------------------------------------------------------------------
# Where events are from, and which are missing


def test_events_come_with_where_they_are_from(path: Path) -> None:
    """In the order of the log."""
    with echo.open_log(path) as log:
        known = [(event.id, info) for event, info in log[Third].with_info()]
    assert [number for number, _ in known] == [*range(5), 8, 9, 100, 101, 102, 200]
    info = known[6][1]
    assert (info.source, info.number, info.submitted_ns) == ("one", 9, START_NS + 9 * STEP_NS)
    assert (info.channel, info.peer, info.source_id) == ("plant", "node", key_of("one").source.hex())


def test_missing_events_are_shown_in_their_place_and_told_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the log of the package, also where nobody asks for them."""
    with echo.open_log(path) as log, caplog.at_level(logging.WARNING, "echo_core"):
        shown = list(log[Third].source("one").with_gaps())
        assert len(list(log[Third].source("one"))) == 7
        gap = shown[5]
        assert isinstance(gap, echo.Gap)
        assert (gap.first, gap.last) == (5, 7)
        assert [info is None for _, info in log[Third].source("one").with_gaps().with_info()].index(True) == 5
        assert log.gaps
        assert log.summary().missing == 3
    assert len(caplog.records) == 1
    assert "5 to 7" in caplog.text


def test_gaps_that_were_recorded_say_why(tmp_path: Path) -> None:
    """At the start, in the middle and at the end of a stream."""
    writer = LogWriter(tmp_path / "run.echolog", level="volatile")
    stream = writer.stream(key_of("one"), echo.format_of(First))
    encode = echo.encoder(First)
    stream.gap(0, 4, "dropped")
    assert stream.append(encode(First(5, 0.0)), sequence=5, time_ns=START_NS)
    stream.gap(6, 7, "lost")
    assert stream.append(encode(First(10, 0.0)), sequence=10, time_ns=START_NS)
    stream.gap(11, 11, "dropped")
    writer.close()
    with echo.open_log(tmp_path / "run.echolog") as log:
        shown = list(log[First].with_gaps())
        clipped = list(log[First].sequences("one", 7, 11).with_gaps())
    found = [(it.first, it.last, it.cause) if isinstance(it, echo.Gap) else it.id for it in shown]
    assert found[:3] == [(0, 4, "dropped"), 5, (6, 7, "lost")]
    assert found[4:] == [10, (11, 11, "dropped")]
    assert found[3][:2] == (8, 9)
    assert [(it.first, it.last) if isinstance(it, echo.Gap) else it.id for it in clipped] == [
        (7, 7),
        (8, 9),
        10,
    ]


def test_an_event_that_cannot_be_decoded_is_left_out_and_told_or_raises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The records around it are as good as they were."""
    writer = LogWriter(tmp_path / "run.echolog", level="volatile")
    stream = writer.stream(key_of("one"), echo.format_of(Second))
    encode = echo.encoder(Second)
    for i in range(5):
        record = encode(Second(0.0, i, "abc"))
        bad = record.replace(b"abc", b"\xff\xff\xff")
        assert stream.append(bad if i == 3 else record, sequence=i, time_ns=START_NS)
    writer.close()
    with echo.open_log(tmp_path / "run.echolog") as log, caplog.at_level(logging.WARNING, "echo_core"):
        found = [(event.id, event.tag, info.number) for event, info in log[Second].with_info()]
    assert found == [(i, "abc", i) for i in (0, 1, 2, 4)]
    assert "event 3 of source `one`" in caplog.text
    with (
        echo.open_log(tmp_path / "run.echolog", on_damage="raise") as log,
        pytest.raises(echo.WireError, match="event 3 of source `one`"),
    ):
        [event.tag for event in log[Second]]


def test_an_event_of_too_many_objects_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A log may come from anybody."""
    path = write(tmp_path / "run.echolog", Run([Note("x", ["a"] * 50), Note("y", ["a"])]))
    with echo.open_log(path, max_objects=20) as log, caplog.at_level(logging.WARNING, "echo_core"):
        assert [note.text for note in log[Note]] == ["y"]
    assert "max_objects" in caplog.text


# ---------------------------------------------------------------------------
# Arrays, columns, frames


def test_arrays_are_the_log_s_memory_where_it_has_the_class_s_layout(path: Path) -> None:
    """Converted otherwise, and nobody may write to them."""
    with echo.open_log(path) as log:
        own = list(log[First].source("one").arrays())
        converted = list(log[Second].channel("plant").source("two").arrays())
        whole = log[First].source("one").array()
    assert [array["id"].tolist() for array in own] == [[0, 1, 2, 3, 4], [8, 9]]
    assert own[0].base is not None
    assert own[0].dtype == echo.format_of(First).dtype
    assert [array.flags.writeable for array in (*own, *converted)] == [False] * 3
    assert converted[0]["temp"].tolist() == [50.0, 50.5, 51.0]
    assert whole["temp"].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 4.5]


def test_columns_are_of_all_fields_or_of_those_that_are_named(path: Path) -> None:
    """Also of records that vary in size, where the fields do not."""
    with echo.open_log(path) as log:
        columns = log[Second].sequences("two", 0).columns()
        assert list(columns) == ["temp", "id", "tag"]
        assert columns["tag"].tolist() == [b"new"] * 3
        ids = log[Third].columns(["id"])
        assert ids["id"].tolist() == [*range(5), 8, 9, 100, 101, 102, 200]
        with pytest.raises(echo.FormatError, match="variable parts"):
            log[Third].columns()
        with pytest.raises(echo.FormatError, match="`nothing`"):
            log[Second].columns(["nothing"])
        with pytest.raises(echo.FormatError, match="events of one class"):
            log[None].columns(["id"])
        assert log[Second].source("two").between(0, 1).columns()["id"].tolist() == []


def test_frames_have_all_fields_and_where_events_are_from(path: Path) -> None:
    """pyarrow, pandas and polars say the same."""
    pytest.importorskip("pyarrow")
    with echo.open_log(path) as log:
        table = log[Third].arrow(info=True)
        empty = log[Third].between(0, 1).arrow()
        batches = list(log[Third].arrow_batches())
    rows = table.to_pylist()
    assert {name: rows[-1][name] for name in ("id", "kelvin", "tag", "cells", "_sequence", "_source")} == {
        "id": 200,
        "kelvin": 1.5,
        "tag": "x",
        "cells": [1.0, 2.0],
        "_sequence": 0,
        "_source": "three",
    }
    assert empty.num_rows == 0
    assert empty.schema == batches[0].schema
    assert sum(batch.num_rows for batch in batches) == 11


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_data_frames_are_made_by_their_packages(path: Path, package: str) -> None:
    """Of which each is optional."""
    pytest.importorskip("pyarrow")
    pytest.importorskip(package)
    with echo.open_log(path) as log:
        frame = getattr(log[Second].source("two"), package)()
    assert frame["id"].to_list() == [100, 101, 102]


def test_a_compressed_log_is_read_as_any_other(tmp_path: Path) -> None:
    """Its arrays are no views of the file, but nobody may write to them either."""
    pytest.importorskip("lz4")
    writer = LogWriter(tmp_path / "run.echolog", level="volatile", compress="lz4")
    stream = writer.stream(key_of("one"), echo.format_of(Second))
    notes = writer.stream(key_of("notes"), echo.format_of(Note))
    encode = echo.encoder(Second)
    for i in range(3000):
        assert stream.append(encode(Second(i / 2, i, "same")), sequence=i, time_ns=START_NS)
    note = Note("text", ["a", "b"], 3)
    for i in range(100):
        assert notes.append(echo.encoder(Note)(note), sequence=i, time_ns=START_NS)
    writer.close()
    with echo.open_log(tmp_path / "run.echolog") as log:
        assert [event.id for event in log[Second]] == [*range(3000)]
        assert list(log[Note].sequences("notes", 98)) == [note, note]
        assert log[Second].where("id >= 2990").columns(["id"])["id"].tolist() == [*range(2990, 3000)]
        assert not any(array.flags.writeable for array in log[Second].arrays())


# ---------------------------------------------------------------------------
# The log itself


def test_a_log_says_what_is_in_it(path: Path) -> None:
    """To people and to programs."""
    with echo.open_log(path) as log:
        channels = {channel.name: channel for channel in log.channels}
        assert channels["plant"].sources == ("one", "two", "three")
        assert channels["talk"].types == ("Note",)
        assert log.summary().events == len(log[None]) == 15
        assert "15 events" in repr(log)
        assert "Note" in str(log)
        view = log[Third].source("one").sequences("one", 1, 9).where("id > 3")
        assert repr(view) == "View(run.echolog, Third).source('one').sequences('one', 1, 9).where('id > 3')"
        timed = log[Third].between(START_NS, START_NS + 1).types("Particle")
        times = "2023-11-14T22:13:20Z, 2023-11-14T22:13:20.000000001Z"
        assert repr(timed) == f"View(run.echolog, Third).types(`Particle`).between({times})"
        assert repr(log[Third].between(None, 0)).endswith("between(None, 1970-01-01T00:00:00Z)")
    assert "closed" in repr(log)
    with pytest.raises(echo.ClosedError):
        len(log[None])


def test_arrays_outlive_their_log(path: Path) -> None:
    """Their memory is the file's."""
    with echo.open_log(path) as log:
        array = next(log[First].arrays())
    assert array["id"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("what", ["nothing", "empty", "foreign"])
def test_what_is_no_log_is_an_error_that_names_it(tmp_path: Path, what: str) -> None:
    """A folder that is not there, is empty, or has other files."""
    folder = tmp_path / what
    if what != "nothing":
        folder.mkdir()
    if what == "foreign":
        (folder / "data.bin").write_bytes(b"no log")
    with pytest.raises(echo.LogError, match=what):
        echo.open_log(folder)


@pytest.mark.parametrize("options", [{"on_damage": "shrug"}, {"max_objects": -1}])
def test_options_that_are_none_are_refused(path: Path, options: Any) -> None:
    """Before anything is opened."""
    with pytest.raises(echo.EchoError):
        echo.open_log(path, **options)


def test_a_field_that_looks_misspelt_is_told_of_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As it is on a channel: its default would look like what was recorded."""

    @echo.event(name="Particle")
    class Misspelt:
        id: int
        tmep: float = 0.0

    with echo.open_log(path) as log:
        for _ in range(2):
            assert all(event.tmep == 0.0 for event in log[Misspelt])
    told = [record.getMessage() for record in caplog.records if "tmep" in record.getMessage()]
    assert len(told) == 1
    assert "`Particle.tmep` takes its default: what was recorded has `temp` instead" in told[0]


def test_types_are_those_that_are_named(path: Path) -> None:
    """By their names with all versions, or by formats; what the log has not got is refused."""
    with echo.open_log(path) as log:
        notes = log[None].types("Note")
        assert [format_.name for format_ in notes.formats] == ["Note"]
        assert len(notes) == 4
        particles = log[None].types("Particle")
        assert len(particles) == len(log[None]) - 4
        assert len(log[None].types("Note", "Particle")) == len(log[None])
        assert len(log[None].types(*particles.formats[:1])) < len(particles)
        assert len(log[None].types("Note").types("Particle").formats) == 0
        with pytest.raises(echo.IncompatibleError, match="Expected events of `Nix`, got a log with `Note`"):
            list(log[None].types("Nix"))
        with pytest.raises(echo.FormatError, match="Expected names or formats"):
            log[None].types()
