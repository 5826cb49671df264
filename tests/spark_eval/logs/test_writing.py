"""The writer of logs as Spark calls it, without Spark: tasks, and what the driver makes of theirs."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import echo_core as echo

pa: Any = pytest.importorskip("pyarrow")
datasource: Any = pytest.importorskip("pyspark.sql.datasource")
types: Any = pytest.importorskip("pyspark.sql.types")

from echo_core.spark_eval.logs.source import EventLog  # noqa: E402 - needs all of them

SCHEMA = types.StructType([types.StructField("id", types.LongType(), nullable=False)])


def begun(path: Path, mode: str) -> Any:
    """A writer, as the driver has it."""
    source = EventLog(datasource.CaseInsensitiveDict({"path": str(path)}))
    return source.writer(SCHEMA, overwrite=mode == "overwrite")


def written(writer: Any, first: int, count: int) -> Any:
    """What an attempt has done, by a copy of the writer as a task has it."""
    rows = pa.record_batch([pa.array(range(first, first + count), pa.int64())], ["id"])
    return pickle.loads(pickle.dumps(writer)).write(iter([rows]))


def job(path: Path, mode: str, first: int, count: int) -> None:
    """Of two tasks."""
    writer = begun(path, mode)
    half = count // 2
    writer.commit([written(writer, first, half), written(writer, first + half, count - half)])


def ids(path: Path) -> list[int]:
    with echo.open_log(path, on_damage="raise") as log:
        return [event.id for event in log["Row"]]


def test_attempts_that_were_not_taken_leave_nothing(tmp_path: Path) -> None:
    """Neither those that were done before the driver was, nor those that are done later."""
    path = tmp_path / "made.echolog"
    for mode, expected in ("overwrite", 1), ("append", 2), ("overwrite", 1):
        writer = begun(path, mode)
        taken, _ = (written(writer, 0, 10) for _ in range(2))
        writer.commit([taken])
        with pytest.raises(FileNotFoundError):
            written(writer, 0, 10)
        assert ids(path) == list(range(10)) * expected
        assert [it.name for it in tmp_path.iterdir()] == ["made.echolog"]


def test_job_that_is_given_up_leaves_what_was_there(tmp_path: Path) -> None:
    """Also where it is at the very last, as the log is recorded to."""
    path = tmp_path / "made.echolog"
    job(path, "overwrite", 0, 10)
    for mode in ("append", "overwrite"):
        writer = begun(path, mode)
        messages = [written(writer, 100, 10)]
        with echo.create_log(path), pytest.raises(echo.LogError, match="nobody else writes to"):
            writer.commit(messages)
        writer.abort(messages)
        writer.abort(messages)
        assert ids(path) == list(range(10))
        assert [it.name for it in tmp_path.iterdir()] == ["made.echolog"]


@contextmanager
def suppressed(said: str) -> Generator[None]:
    """Of errors of logs this one."""
    try:
        yield
    except echo.LogError as error:
        if said not in str(error):
            raise


def test_reader_sees_the_old_log_or_the_new_one(tmp_path: Path) -> None:
    """Whenever it comes, while the log is overwritten again and again; what it had begun may be an error."""
    path, turns = tmp_path / "made.echolog", 10
    job(path, "overwrite", 0, 100)

    def overwrite() -> None:
        for turn in range(1, turns + 1):
            job(path, "overwrite", 1000 * turn, 100 + turn)

    overwriting = threading.Thread(target=overwrite)
    overwriting.start()
    seen: list[list[int]] = []
    while overwriting.is_alive() or len(seen) == 0:
        with suppressed("another one in its place"):
            seen.append(ids(path))
    overwriting.join()
    seen.append(ids(path))
    whole = [list(range(1000 * turn, 1000 * turn + 100 + turn)) for turn in range(turns + 1)]
    assert all(found in whole for found in seen)
    assert [whole.index(found) for found in seen] == sorted(whole.index(found) for found in seen)
    assert seen[-1] == whole[-1]
