"""Readers of logs as Spark calls them, without Spark: parts for tasks, and the rows of each."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.logs.described import Rotate
from tests.formats.strategies import examples
from tests.spark_eval.logs.shapes import Growing, Note, OldSample, Sample, written

pa: Any = pytest.importorskip("pyarrow")
filters: Any = pytest.importorskip("pyspark.sql.datasource")
limits: Any = pytest.importorskip("pyspark.sql.streaming.datasource")
types: Any = pytest.importorskip("pyspark.sql.types")

from echo_core.spark_eval.logs.offsets import OffsetError  # noqa: E402 - needs all of them
from echo_core.spark_eval.logs.options import OptionError  # noqa: E402
from echo_core.spark_eval.logs.rows import gathered  # noqa: E402
from echo_core.spark_eval.logs.source import EventLog  # noqa: E402

ROTATE = Rotate(bytes=64 * 1024)


def source(path: Path, **options: object) -> EventLog:
    """The data source as Spark makes it: all options are text."""
    given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
    return EventLog(filters.CaseInsensitiveDict(given))


def table(reader: Any, parts: Any = None) -> Any:
    """All rows of the parts, each read by a copy of the reader as a task has it."""
    copy = pickle.loads(pickle.dumps(reader))
    batches = [
        batch for part in (reader.partitions() if parts is None else parts) for batch in copy.read(part)
    ]
    return pa.Table.from_batches(batches) if batches else None


def batch_reader(path: Path, **options: object) -> Any:
    made = source(path, **options)
    schema: Any = made.schema()
    return made.reader(schema)


@pytest.fixture(name="log", scope="module")
def fixture_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 samples in blocks of 500, in several segments."""
    path = written(tmp_path_factory.mktemp("logs") / "run.echolog", 10_000, rotate=ROTATE)
    assert len(list(path.glob("*.seg"))) > 3
    return path


@examples(20)
@given(part=st.integers(1, 400_000), batch=st.integers(1, 400_000))
def test_parts_of_any_size_give_all_rows_in_order(log: Path, part: int, batch: int) -> None:
    """Also across segments, and in batches of any size."""
    reader = batch_reader(log, partitionBytes=part, batchBytes=batch, columns="id,_sequence")
    found = table(reader)
    assert found.column("id").to_pylist() == found.column("_sequence").to_pylist() == list(range(10_000))
    assert len(reader.partitions()) <= max(1, -(-10_000 * 32 // part))


def test_columns_have_the_types_of_the_guide(log: Path) -> None:
    """With what a log knows of each event beside its fields."""
    made = source(log, columns="*,_time,_sequence,_source,_source_id,_epoch,_channel")
    schema: Any = made.schema()
    assert schema.simpleString() == (
        "struct<id:bigint,volts:double,tag:string,unit:smallint,_time:timestamp,_sequence:bigint,"
        "_source:string,_source_id:string,_epoch:decimal(20,0),_channel:string>"
    )
    row = table(made.reader(schema)).slice(3, 1).to_pylist()[0]
    assert str(row.pop("_time")) == "2001-09-09 01:46:40+00:00"
    assert row == {
        "id": 3,
        "volts": 1.5,
        "tag": "003",
        "unit": 7,
        "_sequence": 3,
        "_source": "sensor",
        "_source_id": (b"s" * 16).hex(),
        "_epoch": 1,
        "_channel": "plasma",
    }


def test_schema_of_the_caller_selects_columns(log: Path) -> None:
    """Nullable ones, as Spark makes them of text; another type is refused, and so is another name."""
    schema = types.StructType([types.StructField("tag", types.StringType())])
    assert table(source(log).reader(schema)).column("tag")[999].as_py() == "999"
    for name, type_, expected in (
        ("tag", types.LongType(), "Expected string, got bigint"),
        ("volt", types.DoubleType(), "Expected columns out of id, volts"),
    ):
        with pytest.raises(OptionError, match=expected):
            source(log).reader(types.StructType([types.StructField(name, type_)]))


def test_older_events_from_another_machine_become_those_of_the_class(tmp_path: Path) -> None:
    """And newer ones stay what they are; a log says by itself what its last events are like."""
    old = echo.codec(OldSample, abi="s390x")
    with echo.create_log(tmp_path / "a.echolog") as log:
        log.stream(old.format).append_records(old.encode(OldSample(i / 2, i, "old")) for i in range(5))
        log.stream(Sample).append(Sample(i, i / 2, "new", 8) for i in range(5, 10))
    found = table(batch_reader(tmp_path / "a.echolog"))
    assert found.column("id").to_pylist() == list(range(10))
    assert found.column("volts").to_pylist() == [i / 2 for i in range(10)]
    assert found.column("unit").to_pylist() == [7] * 5 + [8] * 5
    named = table(batch_reader(tmp_path / "a.echolog", event="tests.spark_eval.logs.shapes:Sample"))
    assert named == found


def test_events_that_vary_are_read(tmp_path: Path) -> None:
    """One by one, in batches as well."""
    with echo.create_log(tmp_path / "a.echolog") as log:
        log.stream(Note).append(Note(i, "n" * (i % 50)) for i in range(3000))
    found = table(batch_reader(tmp_path / "a.echolog", columns="text"))
    assert found.column("text").to_pylist() == ["n" * (i % 50) for i in range(3000)]
    assert table(batch_reader(tmp_path / "a.echolog", columns="_sequence")).num_rows == 3000


def test_log_of_several_types_says_which(tmp_path: Path) -> None:
    """And takes the name of one, or its channel."""
    path = tmp_path / "a.echolog"
    with echo.create_log(path) as log:
        log.stream(Sample, channel="samples").append([Sample(1, 0.5, "a")])
        log.stream(Note, channel="notes").append([Note(1, "one"), Note(2, "two")])
    expected = (
        r"Expected events of one name, got 2 of `Note` \(\w{16}\) on `notes`; 1 of `Sample` .* on `samples`"
    )
    with pytest.raises(OptionError, match=expected):
        source(path).schema()
    assert table(batch_reader(path, format="Note")).num_rows == 2
    assert table(batch_reader(path, channel="samples")).num_rows == 1
    with pytest.raises(OptionError, match="Expected events called `Other`"):
        source(path, format="Other").schema()
    with pytest.raises(OptionError, match="Expected an event class that can be imported"):
        source(path, event="nowhere:Sample").schema()


def test_times_leave_out_blocks(log: Path) -> None:
    """And records within those that are at the bounds."""
    reader = batch_reader(log, since=10**18 + 600, until=10**18 + 1200, partitionBytes=1)
    assert len(reader.partitions()) <= 3  # of twenty: the last file is too short for ranges
    assert table(reader).column("id").to_pylist() == list(range(1000, 1500))


def pushed(path: Path, *given: Any) -> tuple[Any, list[Any]]:
    reader = batch_reader(path, pushdown=True, partitionBytes=1)
    return reader, reader.pushFilters(list(given))


def test_ranges_that_are_pushed_leave_out_blocks_and_records(log: Path) -> None:
    """By numbers and the index whole blocks, within them records; Spark is asked to judge again."""
    by_number = filters.GreaterThanOrEqual(("_sequence",), 9_900)
    reader, left = pushed(log, by_number)
    assert (len(reader.partitions()), left) == (1, [by_number])
    by_field = filters.LessThan(("volts",), 3.0)
    reader, left = pushed(log, by_field, filters.IsNotNull(("volts",)))
    assert left == [by_field]
    assert len(reader.partitions()) <= 3  # of twenty: the last file is too short for ranges
    assert table(reader).column("id").to_pylist() == list(range(6))


def test_damage_fails_or_is_left_out(tmp_path: Path) -> None:
    """And is listed."""
    path = written(tmp_path / "a.echolog", 3000, rotate=ROTATE)
    value = np.float64(100.0).tobytes()
    segment = next(it for it in sorted(path.glob("*.seg")) if value in it.read_bytes())
    data = bytearray(segment.read_bytes())
    data[data.index(value)] ^= 1
    segment.write_bytes(data)
    with pytest.raises(echo.LogError, match="checksum"):
        table(batch_reader(path))
    found = table(batch_reader(path, damage="skip")).column("id").to_pylist()
    assert 200 not in found
    assert 2000 < len(found) < 3000
    assert table(batch_reader(path, verify=False)).num_rows == 3000


@pytest.mark.parametrize("size", [1, 10_000, 10**9])
def test_batches_are_gathered_up_to_a_size(size: int) -> None:
    """None is split, and no row is lost."""
    batches = [pa.record_batch([pa.array(range(i, i + 100))], ["id"]) for i in range(0, 5000, 100)]
    made = list(gathered(batches, size))
    assert [row for batch in made for row in batch.column(0).to_pylist()] == list(range(5000))
    assert len(made) == {1: 50, 10_000: 5, 10**9: 1}[size]
    assert list(gathered([], size)) == []


# ---------------------------------------------------------------------------
# Streams


def stream_reader(path: Path, **options: object) -> Any:
    made = source(path, columns="id", **options)
    schema: Any = made.schema()
    return made.streamReader(schema)


def ids(reader: Any, start: Any, end: Any) -> list[int]:
    found = table(stream_reader(reader.plan.options.path), reader.partitions(start, end))
    return [] if found is None else found.column("id").to_pylist()


def test_offsets_follow_a_log_that_grows_and_rotates(tmp_path: Path) -> None:
    """What lies between two of them is the same whenever it is read."""
    with Growing(tmp_path / "a.echolog", ROTATE) as log:
        log.grow(500)
        reader = stream_reader(log.path)
        offsets = [reader.initialOffset()]
        for _ in range(8):
            offsets.append(reader.latestOffset(offsets[-1], limits.ReadAllAvailable()))
            log.grow(1500)
        assert offsets[-1]["segment"] > 1
        for i, (start, end) in enumerate(itertools.pairwise(offsets)):
            first, last = (0, 500) if i == 0 else (1500 * i - 1000, 1500 * i + 500)
            assert ids(reader, start, end) == list(range(first, last))
        end = reader.latestOffset(offsets[-1], limits.ReadAllAvailable())
        assert reader.latestOffset(end, limits.ReadAllAvailable()) == end
        assert (reader.partitions(end, end), reader.reportLatestOffset()["segment"]) == ([], end["segment"])
        reader.stop()


def test_limit_of_rows_is_that_of_each_batch(log: Path) -> None:
    """But for one block, without which a stream would stand still."""
    reader = stream_reader(log, maxRows=1200)
    limit = reader.getDefaultReadLimit()
    start, counts = reader.initialOffset(), list[int]()
    while (end := reader.latestOffset(start, limit)) != start:
        counts.append(len(ids(reader, start, end)))
        start = end
    assert counts == [1000] * 10
    assert (
        len(
            ids(
                reader,
                reader.initialOffset(),
                reader.latestOffset(reader.initialOffset(), limits.ReadMaxRows(1)),
            )
        )
        == 500
    )


def test_stream_of_what_there_is_now_ends_there(tmp_path: Path) -> None:
    """Whatever comes meanwhile; another that begins at the end takes that."""
    with Growing(tmp_path / "a.echolog", ROTATE) as log:
        log.grow(2000)
        now, later = stream_reader(log.path), stream_reader(log.path, start="latest")
        now.prepareForTriggerAvailableNow()
        start, from_end = now.initialOffset(), later.initialOffset()
        log.grow(1000)
        end = now.latestOffset(start, limits.ReadAllAvailable())
        assert ids(now, start, end) == list(range(2000))
        assert now.latestOffset(end, limits.ReadAllAvailable()) == end
        end = later.latestOffset(from_end, limits.ReadAllAvailable())
        assert ids(later, from_end, end) == list(range(2000, 3000))


def test_start_that_retention_has_removed_is_an_error(tmp_path: Path) -> None:
    """What was read to its end may go."""
    path = written(tmp_path / "a.echolog", 6000, rotate=ROTATE)
    reader = stream_reader(path)
    start = behind = reader.initialOffset()
    end = reader.latestOffset(start, limits.ReadAllAvailable())
    while (after := reader.latestOffset(behind, limits.ReadMaxRows(500)))["segment"] == 1:
        behind = after
    first = len(ids(reader, start, behind))
    (path / "0000000001.seg").unlink()
    assert ids(reader, behind, end) == list(range(first, 6000))  # all that has gone was read
    (path / "0000000002.seg").unlink()
    parts = reader.partitions(behind, end)  # of what the driver knew, and a task finds removed
    with pytest.raises(echo.LogError, match="retention has removed what follows it"):
        table(reader, parts)
    with pytest.raises(echo.LogError, match="retention has removed what follows it"):
        stream_reader(path).latestOffset(behind, limits.ReadAllAvailable())


def test_segment_that_is_removed_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    """Its blocks would be missing otherwise, and nobody would know."""
    path = written(tmp_path / "a.echolog", 6000, rotate=ROTATE)
    reader = stream_reader(path, batchBytes=1)
    start = reader.initialOffset()
    (part,) = reader.partitions(start, reader.latestOffset(start, limits.ReadAllAvailable()))
    batches = reader.read(part)
    assert next(batches).num_rows == 500
    for segment in sorted(path.glob("*.seg"))[:-1]:
        segment.unlink()
    with pytest.raises(echo.LogError, match="retention has removed what follows it"):
        list(batches)


def test_checkpoint_of_another_log_is_refused(log: Path, tmp_path: Path) -> None:
    """By its id; or one that reached further, as of a copy of it."""
    reader, other = stream_reader(log), stream_reader(written(tmp_path / "a.echolog", 10_000, rotate=ROTATE))
    start = reader.initialOffset()
    with pytest.raises(OffsetError, match="the log is not the checkpoint's"):
        reader.partitions(start, {**start, "segment": 999})
    with pytest.raises(OffsetError, match="the log was replaced"):
        other.partitions(start, start)
    with pytest.raises(OffsetError, match="the log was replaced"):
        other.latestOffset(start, limits.ReadAllAvailable())


def test_tasks_of_a_log_that_was_replaced_read_nothing_of_the_other(tmp_path: Path) -> None:
    """Its parts are others, and so are its blocks: the job fails, and so does a stream."""
    path = written(tmp_path / "a.echolog", 2000)
    reader, stream = batch_reader(path), stream_reader(path)
    parts, start = reader.partitions(), stream.initialOffset()
    echo.replace_log(path, written(tmp_path / "other.echolog", 3000))
    for reading in (parts, None):
        with pytest.raises(echo.LogError, match=r"Expected the log \w{32}, got \w{32} in its place"):
            table(reader, reading)
    with pytest.raises(echo.LogError, match="got another one in its place"):
        stream.latestOffset(start, limits.ReadAllAvailable())
    assert table(batch_reader(path)).num_rows == 3000
