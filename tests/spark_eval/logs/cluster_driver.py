"""A driver of a cluster whose tasks kill their executors and workers, and are done twice at a time.

    python -m tests.spark_eval.logs.cluster_driver spark://host:port FOLDER

It does what it is told, line by line, and says in JSON what became of it: see `test_on_a_cluster.py`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import echo_core as echo
from echo_core.logs.described import Rotate
from echo_core.spark_eval import session
from echo_core.spark_eval.runtime.java import SMALL_JVM
from tests.spark_eval.logs.shapes import Growing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 100_000
GROWS_BY = 20_000
BLOCK = 2_000
ROWS = 4_000  # that are written
LIMIT_S = 100
CONF = {
    "spark.driver.extraJavaOptions": SMALL_JVM,
    "spark.executor.extraJavaOptions": SMALL_JVM,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",  # so that tasks are killed within a part
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "10ms",
}
VICTIMS = {EVENTS // 10: "workers", EVENTS // 2: "executor", EVENTS * 3 // 4: "workers"}


# ---------------------------------------------------------------------------
# In tasks, which have this module by value


class Killing:
    """Called by `mapInArrow`: kills who is named as soon as an event has passed for the first time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.select(["id"])
            ids = batch.column("id").to_numpy()
            for id_, victim in VICTIMS.items():
                if ids[0] <= id_ <= ids[-1] and self._is_first(id_):
                    kill(victim)

    def _is_first(self, id_: int) -> bool:
        try:
            (self._folder / str(id_)).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def kill(victim: str) -> None:
    """The executor, or all its Python workers, this one last."""
    daemon = os.getppid()
    if victim == "executor":
        os.kill(parent_of(daemon), signal.SIGKILL)
        return
    workers = map(int, Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split())
    for worker in sorted(workers, key=lambda pid: pid == os.getpid()):
        os.kill(worker, signal.SIGKILL)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Straggling:
    """Called by `mapInArrow`: the first attempt at the first part waits half way for another one."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        task: Any = __import__("pyspark").TaskContext.get()
        for number, batch in enumerate(batches):
            yield batch
            if task.partitionId() == 0 and number == 0:
                if task.attemptNumber():
                    self._mark.touch()
                wait_for(self._mark.exists)


def wait_for(is_so: Any) -> None:
    waiting, turns = threading.Event(), 0
    while not is_so():
        turns += 1
        if turns > LIMIT_S * 20:
            raise TimeoutError
        waiting.wait(0.05)


# ---------------------------------------------------------------------------
# In the driver


def batch(spark: SparkSession, folder: Path) -> list[int]:
    """Reads a log in several parts."""
    with Growing(folder / "run.echolog") as log:
        log.grow(EVENTS, BLOCK)
    reader = spark.read.format("echo").option("partitionBytes", "1m").option("batchBytes", "64k")
    frame: Any = reader.load(str(log.path))
    return [row.id for row in frame.mapInArrow(Killing(folder), "id bigint").collect()]


def stream(spark: SparkSession, folder: Path) -> list[int]:
    """Follows one that grows and rotates; a batch that is done again replaces what it had."""
    ids_by_batch: dict[int, list[int]] = {}
    with Growing(folder / "run.echolog", Rotate(bytes=1 << 20)) as log:

        def keep(frame: Any, number: int) -> None:
            ids_by_batch[number] = [row.id for row in frame.collect()]
            if log.written < EVENTS:
                log.grow(GROWS_BY, BLOCK)

        log.grow(GROWS_BY, BLOCK)
        frame: Any = spark.readStream.format("echo").option("batchBytes", "64k").load(str(log.path))
        killed = frame.mapInArrow(Killing(folder), "id bigint").writeStream.foreachBatch(keep)
        query = killed.option("checkpointLocation", str(folder / "checkpoint")).start()
        wait_for(lambda: not query.isActive or sum(map(len, ids_by_batch.values())) >= EVENTS)
        assert query.isActive, query.exception()
        query.stop()
    return [id_ for ids in ids_by_batch.values() for id_ in ids]


def write(spark: SparkSession, folder: Path) -> list[int]:
    """A log, by tasks of which one is done twice at a time: at first a new one, then more of it."""
    path = folder / "made.echolog"
    for mode in ("overwrite", "append"):
        rows: Any = spark.range(0, ROWS, 1, 4)
        straggling = rows.mapInArrow(Straggling(folder / mode), "id bigint")
        straggling.write.format("echo").mode(mode).save(str(path))
    with echo.open_log(path, on_damage="raise") as log:
        return [event.id for event in log["Row"]]


STEPS = {"batch": batch, "stream": stream, "write": write}


def main(master: str, folder: Path) -> None:
    with session(master, conf=CONF) as spark:
        for line in sys.stdin:
            place = folder / line.strip()
            place.mkdir()
            counts = np.bincount(STEPS[place.name](spark, place))
            files = sorted(file.name for file in place.iterdir())
            found = {"ids": len(counts), "counts": sorted(set(counts.tolist())), "files": files}
            sys.stdout.write(f"{json.dumps(found)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
