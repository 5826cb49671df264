"""Event logs on a cluster: executors and workers are killed, and tasks are done twice at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from echo_core.spark_eval.runtime.cluster import cluster
from tests.spark_eval.logs.cluster_driver import EVENTS, ROWS, VICTIMS

pytest.importorskip("pyspark")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("java_is_here"),
]

ROOT = Path(__file__).resolve().parents[3]
Asked = Callable[[str], dict[str, Any]]


@pytest.fixture(name="asked", scope="module")
def fixture_asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A driver of two executors on hosts of their own: what became of what it was told."""
    folder = tmp_path_factory.mktemp("cluster")
    with cluster(workers=2) as made:
        command = [sys.executable, "-m", "tests.spark_eval.logs.cluster_driver", made.master_url, str(folder)]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as driver:
            assert driver.stdin is not None
            assert driver.stdout is not None
            told, heard = driver.stdin, driver.stdout

            def asked(what: str) -> dict[str, Any]:
                told.write(f"{what}\n")
                told.flush()
                found: dict[str, Any] = json.loads(heard.readline())
                return found

            try:
                yield asked
                told.close()
                assert driver.wait(60) == 0
            finally:
                driver.kill()


@pytest.mark.parametrize("reader", ["batch", "stream"])
def test_each_event_is_read_once_though_executors_and_workers_are_killed(asked: Asked, reader: str) -> None:
    """In the middle of their parts, of a log at rest as of one that grows and rotates."""
    found = asked(reader)
    assert {str(id_) for id_ in VICTIMS} <= set(found["files"])  # as each of them says that is killed
    assert (found["ids"], found["counts"]) == (EVENTS, [1])


def test_each_row_is_written_once_though_tasks_are_done_twice_at_a_time(asked: Asked) -> None:
    """To a new log, and again to the same; attempts that were not taken leave nothing."""
    found = asked("write")
    assert (found["ids"], found["counts"]) == (ROWS, [2])
    assert found["files"] == ["append", "made.echolog", "overwrite"]  # marks of second attempts, and the log
