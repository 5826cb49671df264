"""The data source in Spark: batch, streams over restarts and killed workers, and the writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import echo_core as echo
from echo_core.logs.described import Rotate
from echo_core.spark_eval.readers import CODECS, codecs_of, demand_agreement, read_once, written
from tests.spark_eval.logs.shapes import Growing, Note, Sample
from tests.spark_eval.logs.shapes import written as written_samples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

LIMIT_S = 120
ROTATE = Rotate(bytes=64 * 1024)
ROOT = Path(__file__).resolve().parents[3]


def read(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    return (
        spark.read.format("echo")
        .options(**{name: str(value) for name, value in options.items()})
        .load(str(path))
    )


def test_log_is_found_without_registration_and_gives_what_other_files_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The same checksum of all columns as by Parquet, msgpack, pickle and XML."""
    samples = [read_once(spark, codec, written(codec, tmp_path, 2000, 2), 2000, files=2) for codec in CODECS]
    demand_agreement(samples)
    assert [sample.codec for sample in samples] == codecs_of(None)


def test_filters_are_judged_by_the_log_and_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever is pushed, the rows are the same."""
    path = written_samples(tmp_path / "run.echolog", 3000)
    condition = "id >= 1200 and volts < 700 and tag like '%7' and _sequence != 1207"
    frames = [
        read(spark, path, pushdown=pushed, columns="*,_sequence").where(condition)
        for pushed in ("true", "false")
    ]
    rows = [[row.id for row in frame.collect()] for frame in frames]
    assert rows == [list(range(1217, 1400, 10))] * 2


def test_damage_is_an_error_or_left_out_and_listed(spark: SparkSession, tmp_path: Path) -> None:
    """The error names the place; what is lost is said by number."""
    path = written_samples(tmp_path / "run.echolog", 2000)
    segment = path / "0000000001.seg"
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    with pytest.raises(Exception, match="checksum is wrong"):
        read(spark, path).collect()
    left = {row.id for row in read(spark, path, damage="skip").collect()}
    (damage,) = read(spark, path, view="damage").collect()
    assert sorted(left) == [i for i in range(2000) if not damage["first"] <= i <= damage["last"]]
    (stream,) = read(spark, path, view="streams").collect()
    assert (stream.channel, stream.event, stream["first"], stream["last"]) == ("plasma", "Sample", 0, 1999)
    assert {(gap["first"], gap["cause"]) for gap in read(spark, path, view="gaps").collect()} <= {
        (damage["first"], "damage")
    }


# ---------------------------------------------------------------------------
# Streams


class Sink:
    """Keeps the ids of each batch; a batch that is done again replaces what it had."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self.batches[batch] = [row.id for row in frame.select("id").collect()]

    @property
    def ids(self) -> list[int]:
        return sorted(id_ for ids in self.batches.values() for id_ in ids)


def started(
    spark: SparkSession, path: Path, checkpoint: Path, sink: Any, step: Any = None, **trigger: Any
) -> Any:
    frame: Any = (
        spark.readStream.format("echo").option("columns", "id").option("maxRows", "3000").load(str(path))
    )
    if step is not None:
        frame = frame.mapInArrow(step, "id bigint")
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


class KillOnce:
    """Called by `mapInArrow`: kills the Python workers of all tasks, the first time that it has rows."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if not self._mark.exists():
                self._mark.touch()
                for worker in siblings():
                    os.kill(worker, signal.SIGKILL)
            yield batch


def siblings() -> list[int]:
    """The processes of this one's parent, this one last."""
    children = Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text().split()
    return sorted(map(int, children), key=lambda pid: pid == os.getpid())


def test_stream_over_killed_workers_of_a_log_that_grows_and_rotates(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every event is there once, whatever was killed, and a stream of what there is ends by itself."""
    sink, checkpoint, step = Sink(), tmp_path / "checkpoint", KillOnce(tmp_path / "killed")
    with Growing(tmp_path / "run.echolog", ROTATE) as log:
        log.grow(5000)
        query = started(spark, log.path, checkpoint, sink, step)
        with pytest.raises(Exception, match=r"(?i)python worker|crashed|exited"):
            query.awaitTermination(LIMIT_S)
        log.grow(5000)
        query = started(spark, log.path, checkpoint, sink, step)
        log.grow(5000)
        until(lambda: len(sink.ids) >= 15_000, query)
        query.stop()
        log.grow(1000)
        query = started(spark, log.path, checkpoint, sink, step, availableNow=True)
        assert query.awaitTermination(LIMIT_S)
    assert len(list(log.path.glob("*.seg"))) > 3
    assert sink.ids == list(range(16_000))
    assert sorted(sink.batches) == list(range(len(sink.batches)))


def until(is_so: Any, query: Any) -> None:
    """Waits for a stream, and raises its error."""
    waiting, turns = threading.Event(), 0
    while not is_so():
        assert query.isActive, query.exception()
        assert turns < LIMIT_S * 20, "the stream stands still"
        turns += 1
        waiting.wait(0.05)


# A driver that is killed in its second batch: before it has written, or half way, the first time each.
DRIVER = """
import os, pathlib, signal, sys
from echo_core.spark_eval import session
from echo_core.spark_eval.runtime.java import SMALL_JVM

log, folder = sys.argv[1], pathlib.Path(sys.argv[2])

def keep(frame, batch):
    ids = [row.id for row in frame.select("id").collect()]
    mark = folder / f"killed-{batch}"
    if batch == 1 and not mark.exists():
        mark.touch()
        (folder / f"batch-{batch}").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"batch-{batch}").write_text(" ".join(map(str, ids)))

with session("local[2]", conf={"spark.driver.extraJavaOptions": SMALL_JVM}) as spark:
    stream = spark.readStream.format("echo").option("maxRows", "1000").load(log)
    writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.usefixtures("java_is_here")
def test_stream_whose_driver_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """The batch that was under way is done again, with the same events, though the log has grown."""
    folder = tmp_path / "sink"
    folder.mkdir()
    with Growing(tmp_path / "run.echolog", ROTATE) as log:
        log.grow(3000)
        codes: list[int] = []
        for _ in range(2):
            command = [sys.executable, "-c", DRIVER, str(log.path), str(folder)]
            codes.append(subprocess.run(command, timeout=LIMIT_S, check=False, cwd=ROOT).returncode)
            log.grow(1500)
    assert codes == [-signal.SIGKILL, 0]
    ids = [int(id_) for file in folder.glob("batch-*") for id_ in file.read_text().split()]
    assert sorted(ids) == list(range(4500))


# ---------------------------------------------------------------------------
# The writer


def rows_of(spark: Any, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
    made: DataFrame = spark.createDataFrame(rows, schema)
    return made


def write(frame: DataFrame, path: Path, mode: str, **options: str) -> None:
    frame.write.format("echo").mode(mode).options(**options).save(str(path))


def test_rows_become_a_log_that_is_read_by_all(spark: SparkSession, tmp_path: Path) -> None:
    """By the library as events of the class, by Spark as the same rows; append adds, overwrite replaces."""
    path, event = tmp_path / "made.echolog", "tests.spark_eval.logs.shapes:Sample"
    rows = rows_of(
        spark, [(i, i / 2, f"{i:03}", 7) for i in range(100)], "id long, volts double, tag string, unit int"
    )
    for count in (1, 2):
        write(rows.repartition(2), path, "append", event=event, channel="plasma", source="spark")
        with echo.open_log(path, on_damage="raise") as log:
            events = sorted(log[Sample], key=lambda event: event.id)
            assert [channel.name for channel in log.channels] == ["plasma"]
        assert events == [Sample(i, i / 2, f"{i:03}") for i in range(100) for _ in range(count)]
    write(rows.limit(3), path, "overwrite", event=event)
    assert read(spark, path).select(rows.columns).collect() == rows.limit(3).collect()
    assert sorted(it.name for it in tmp_path.iterdir()) == ["made.echolog"]


def test_rows_of_any_schema_become_events(spark: SparkSession, tmp_path: Path) -> None:
    """Of a format that is made for them; again they are the same rows."""
    path = tmp_path / "made.echolog"
    rows = spark.sql(
        "select id, id > 1 as flag, cast(id as string) as text, array(id, null) as ids, "
        "named_struct('x', cast(id as float), 'b', cast('b' as binary)) as cell, "
        "timestamp_seconds(id) as time, cast(null as double) as missing from range(3)"
    )
    write(rows, path, "overwrite", name="Asked")
    found = read(spark, path)
    assert sorted(found.collect()) == sorted(rows.collect())
    with echo.open_log(path) as log:
        assert {event.text for event in log["Asked"]} == {"0", "1", "2"}
    write(rows_of(spark, [], "id long, text string"), path, "overwrite", name="Note")
    with echo.open_log(path) as log:
        assert list(log[Note]) == [] if log.streams else log.streams == ()


def test_write_that_fails_leaves_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    """And no files of its own."""
    path = written_samples(tmp_path / "run.echolog", 10)
    bad = spark.range(100).selectExpr("id", "cast(assert_true(id < 50) as int) as x")
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match=r"ASSERT_TRUE|is not true|USER_RAISED"):
            write(bad, path, mode)
    assert [it.name for it in tmp_path.iterdir()] == ["run.echolog"]
    assert read(spark, path).count() == 10
    with pytest.raises(Exception, match="Expected the columns id, text, got id"):
        write(spark.range(3), path, "append", event="tests.spark_eval.logs.shapes:Note")
    with pytest.raises(Exception, match="Expected a type that events have"):
        write(spark.sql("select map(1, 2) as pairs"), path, "append")
