"""Logs written to files that others read, and read back by them."""

from __future__ import annotations

import csv
import datetime as dt
import enum
import importlib
import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from tests.echo_core.logs.written import START_NS, STEP_NS, Run, write

TIME = dt.datetime(2026, 1, 2, 3, 4, 5, 600, dt.UTC)


class Kind(enum.Enum):
    ion = 1
    electron = 2


@echo.event
class Cell:
    x: float
    n: echo.Int32
    m: echo.Int32


@echo.event
class Shot:
    """Lies as CDR has it."""

    id: int
    temp: echo.Float32
    kind: Kind
    cell: Cell
    places: echo.Array[float, 2]


@echo.event
class Note:
    """Has a field of every form."""

    text: str
    data: bytes
    parts: list[str]
    level: int | None
    at: dt.datetime
    took: dt.timedelta
    key: uuid.UUID
    kind: Kind
    numbers: list[float]
    wave: echo.Complex64
    small: bool


def shots(numbers: range) -> list[Shot]:
    return [Shot(i, i / 2, Kind.ion, Cell(i, i, -i), [i, -i]) for i in numbers]


def note(i: int) -> Note:
    key = uuid.UUID(int=i)
    took = dt.timedelta(seconds=-i, microseconds=1)
    number = (float("nan"), float("inf"), -0.5)[i % 3]
    return Note(
        f"ü{i}",
        bytes([i]),
        ["a", "b"] * i,
        i or None,
        TIME,
        took,
        key,
        Kind(1 + i % 2),
        [number],
        1j,
        bool(i),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Shots of two machines, and notes."""
    return write(
        tmp_path / "run.echolog",
        Run(shots(range(5))),
        Run([note(i) for i in range(4)], source="notes", channel="talk"),
        Run(shots(range(5, 7)), source="far", abi="s390x"),
    )


def test_tables_are_what_pyarrow_reads(path: Path, tmp_path: Path) -> None:
    """As Parquet and as Arrow's own file: the same table as in memory."""
    pytest.importorskip("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    ipc: Any = importlib.import_module("pyarrow.ipc")
    with echo.open_log(path) as log:
        for view, count in ((log[Shot], 7), (log[Note], 4)):
            table = view.arrow(info=True)
            assert view.export(tmp_path / "run.parquet") == view.export(tmp_path / "run.arrow") == count
            found = parquet.read_table(tmp_path / "run.parquet")
            assert str(found.to_pydict()) == str(table.to_pydict())
            with ipc.open_file(tmp_path / "run.arrow") as file:
                assert str(file.read_all().to_pydict()) == str(table.to_pydict())
            view.export(tmp_path / "run.parquet", info=False)
            assert "_time" not in parquet.read_schema(tmp_path / "run.parquet").names


def test_json_lines_have_every_event_with_its_type(path: Path, tmp_path: Path) -> None:
    """Of all types; numbers that JSON does not have are texts, times keep their nanoseconds."""
    with echo.open_log(path) as log:
        assert log.export(tmp_path / "run.jsonl") == 11
        log[Note].export(tmp_path / "notes.jsonl", info=False)
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text("utf-8").splitlines()]
    assert [line["_type"] for line in lines] == ["Shot"] * 5 + ["Note"] * 4 + ["Shot"] * 2
    first = lines[1]
    assert (first["id"], first["kind"], first["cell"], first["places"]) == (
        1,
        "ion",
        {"x": 1.0, "n": 1, "m": -1},
        [1.0, -1.0],
    )
    assert first["_time"] == f"{np.datetime64(START_NS + STEP_NS, 'ns')}Z"
    assert (first["_sequence"], first["_source"], first["_channel"]) == (1, "one", "plant")
    bare = json.loads((tmp_path / "notes.jsonl").read_text("utf-8").splitlines()[1])
    assert bare == {
        "_type": "Note",
        "text": "ü1",
        "data": "AQ==",
        "parts": ["a", "b"],
        "level": 1,
        "at": "2026-01-02T03:04:05.000600000Z",
        "took": "-0.999999000",
        "key": str(uuid.UUID(int=1)),
        "kind": "electron",
        "numbers": ["Infinity"],
        "wave": [0.0, 1.0],
        "small": True,
    }


def test_json_lines_are_what_events_become_by_themselves(path: Path, tmp_path: Path) -> None:
    """The same text for a value, whether a tool writes an event or a log its records."""
    with echo.open_log(path) as log:
        log.export(tmp_path / "run.jsonl", info=False)
        events = [{"_type": type(event).__name__, **echo.jsonable(event)} for event in log[None]]
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text("utf-8").splitlines()]
    assert lines == json.loads(json.dumps(events))


def test_csv_has_a_column_for_each_field(path: Path, tmp_path: Path) -> None:
    """Nested records in columns of their own, lists as JSON."""
    with echo.open_log(path) as log:
        assert log[Shot].source("one").export(tmp_path / "run.csv", info=False) == 5
        assert log[Note].export(tmp_path / "notes.csv") == 4
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[3] == {
        "id": "3",
        "temp": "1.5",
        "kind": "ion",
        "cell.x": "3.0",
        "cell.n": "3",
        "cell.m": "-3",
        "places": "[3.0,-3.0]",
    }
    with (tmp_path / "notes.csv").open(newline="", encoding="utf-8") as file:
        notes = list(csv.DictReader(file))
    assert (notes[0]["level"], notes[0]["_source"], notes[2]["text"]) == ("", "notes", "ü2")


def test_mcap_is_read_as_ros_2_messages(path: Path, tmp_path: Path) -> None:
    """With checksums, indexes, statistics, a topic for each source."""
    reader: Any = pytest.importorskip("mcap.reader")
    decoder: Any = pytest.importorskip("mcap_ros2.decoder")
    with echo.open_log(path) as log:
        assert log.export(tmp_path / "run.mcap") == 11
    with (tmp_path / "run.mcap").open("rb") as file:
        made = reader.make_reader(file, validate_crcs=True, decoder_factories=[decoder.DecoderFactory()])
        summary = made.get_summary()
        assert summary.statistics.message_count == 11
        assert summary.statistics.message_start_time == START_NS
        found = list(made.iter_decoded_messages(topics=["/plant/one", "/plant/far"]))
        notes = list(made.iter_decoded_messages(topics=["/talk/notes"]))
    decoded = [message for *_, message in found]
    assert sorted(message.id for message in decoded) == [*range(7)]
    last = next(message for message in decoded if message.id == 6)
    assert (last.temp, last.kind, last.cell.m, list(last.places)) == (3.0, 1, -6, [6.0, -6.0])
    assert [message.text for *_, message in notes] == ["ü0", "ü1", "ü2", "ü3"]
    assert [list(message.level) for *_, message in notes] == [[], [1], [2], [3]]


def test_mcap_of_many_chunks_is_in_the_order_of_its_times(tmp_path: Path) -> None:
    """Sources that wrote at the same time are interleaved by its reader."""
    reader: Any = pytest.importorskip("mcap.reader")
    mcap: Any = importlib.import_module("echo_core.logs.exports.mcap")
    with (tmp_path / "run.mcap").open("wb") as file:
        writer = mcap.McapWriter(file, "")
        schema = writer.schema("T", "", "")
        topics = [writer.channel(f"/{name}", schema, "", {}) for name in "ab"]
        data = np.zeros(4000, "V1200")
        for first in range(0, 20_000, 4000):
            numbers = np.arange(first, first + 4000)
            writer.rows(topics[0], numbers, numbers * 2, b"", data)
            writer.messages(topics[1], numbers[:100], numbers[:100] * 2 + 1, [b"x"] * 100)
        writer.close()
    with (tmp_path / "run.mcap").open("rb") as file:
        made = reader.make_reader(file, validate_crcs=True)
        assert len(made.get_summary().chunk_indexes) == 6
        times = [message.log_time for *_, message in made.iter_messages()]
    assert times[:250] == [*range(200), *range(200, 300, 2)]
    assert times == sorted(times)
    assert len(times) == 20_500


@pytest.mark.parametrize("name", ["run.xml", "run", "run.parquet.gz"])
def test_a_suffix_that_nobody_knows_is_refused(path: Path, tmp_path: Path, name: str) -> None:
    """With those that there are."""
    with echo.open_log(path) as log, pytest.raises(echo.FormatError, match=r"\.parquet"):
        log.export(tmp_path / name)
    with echo.open_log(path) as log, pytest.raises(echo.FormatError, match="nowhere"):
        log.export(tmp_path / "nowhere" / "run.csv")


def test_a_file_is_there_as_a_whole_or_stays_as_it_was(path: Path, tmp_path: Path) -> None:
    """Where writing it ends early, for whatever reason."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "run.csv").write_text("old")
    with echo.open_log(path) as log:
        with pytest.raises(echo.FormatError, match="one class"):
            log.export(folder / "run.csv")
        with pytest.raises(echo.ExpressionError):
            log[Shot].where("nothing > 1").export(folder / "run.csv")
        assert [file.name for file in folder.iterdir()] == ["run.csv"]
        assert (folder / "run.csv").read_text() == "old"
        log[Shot].export(folder / "run.csv")
    assert (folder / "run.csv").read_text() != "old"
