"""A real cluster on this machine: it runs events on its executors, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from echo_core.spark_eval.runtime import leash
from echo_core.spark_eval.runtime.cluster import Cluster, ClusterError, cluster
from echo_core.spark_eval.runtime.java import SMALL_JVM
from tests.spark_eval.processes import LIMIT_S, MARK, left, marked_environment, processes_with

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("java_is_here"),
]

# For the start alone; what a test does is too short to be worth compiling well.
QUICK = {f"spark.{side}.extraJavaOptions": SMALL_JVM for side in ("driver", "executor")}

# A driver: a job that encodes and decodes events on the executors, and again for each line that it is given.
DRIVER = f"""
import sys
from echo_core.spark_eval import session

def turn_around(numbers):
    import echo_core as echo

    @echo.event
    class Reading:
        number: int
        name: str

    encode, decode = echo.encoder(Reading), echo.decoder(Reading)
    for number in numbers:
        reading = decode(encode(Reading(number, f"reading {{number}}")))
        yield reading.number, reading.name

with session(sys.argv[1], conf={QUICK}) as spark:
    while True:
        rows = spark.sparkContext.parallelize(range(4), 4).mapPartitions(turn_around).collect()
        print([number for number, _ in rows], rows[-1][1], flush=True)
        if not sys.stdin.readline():
            break
"""

# A program that has a cluster and a session on it, and is killed.
VICTIM = f"""
import sys
from echo_core.spark_eval import cluster, session

with cluster(workers=1) as made, session(made.master_url, conf={QUICK}) as spark:
    print(spark.sparkContext.parallelize([1], 1).map(lambda it: it).collect(), flush=True)
    sys.stdin.readline()
"""

COMMAND = [sys.executable, "-m", "echo_core.spark_eval", "cluster", "--workers", "1", "--"]


@contextmanager
def started(*command: str, environment: dict[str, str] | None = None) -> Generator[subprocess.Popen[str]]:
    """A program that is spoken to; killed, should it outlive the test."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def say_to(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


@pytest.fixture(name="pair", scope="module")
def fixture_pair() -> Iterator[Cluster]:
    """A master and two workers."""
    with cluster(workers=2) as made:
        yield made


def test_executors_encode_and_decode_also_when_a_worker_has_died(pair: Cluster) -> None:
    """The package is there by the interpreter alone; the job of a dead worker goes to the other."""
    with started(sys.executable, "-c", DRIVER, pair.master_url) as driver:
        assert line_of(driver) == "[0, 1, 2, 3] reading 3\n"
        assert pair.lost() == []
        worker = pair.members[-1]
        os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        say_to(driver, "again\n")
        assert line_of(driver) == "[0, 1, 2, 3] reading 3\n"
        assert pair.lost() == [worker.name]
        assert driver.stdin is not None
        driver.stdin.close()
        assert driver.wait(LIMIT_S) == 0


def test_port_that_is_taken_is_an_error(pair: Cluster) -> None:
    """Where Spark would take the next one, and nobody would find it there."""
    port = int(pair.master_url.rpartition(":")[2])
    said = f"(?s)master of the cluster ended at its start.*{port}"
    with pytest.raises(ClusterError, match=said), cluster(port=port):
        pass


def test_second_cluster_runs_beside_the_first(pair: Cluster) -> None:
    """A command is run beside a cluster of its own, which it is told in its environment."""
    environment = marked_environment()
    script = "echo $ECHO_SPARK_MASTER $SPARK_MASTER; exit 3"
    result = subprocess.run(
        [*COMMAND, "sh", "-c", script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    begun, up, told, stopped = result.stdout.splitlines()
    master = up.split()[2]
    assert begun == "starting a Spark master and 1 worker on this machine"
    assert told == f"{master} {master}"
    assert master != pair.master_url
    assert stopped == "the cluster is stopped"
    assert result.returncode == 3
    assert left(environment[MARK]) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_command_leaves_nothing(number: signal.Signals) -> None:
    """Ctrl-C goes to all who share the terminal; SIGTERM, as by `kill`, to one."""
    environment = marked_environment()
    with started(*COMMAND, "sh", "-c", "echo here; exec sleep 600", environment=environment) as process:
        said = [line_of(process) for _ in range(3)]
        assert said[2] == "here\n"
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(LIMIT_S) == 128 + number
        assert left(environment[MARK]) == []


def test_driver_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """No `finally` is run: master, workers, executors and their Pythons have to see it for themselves."""
    environment = marked_environment(TMPDIR=str(tmp_path))  # files are left
    with started(sys.executable, "-c", VICTIM, environment=environment) as victim:
        assert line_of(victim) == "[1]\n"
        running = " ".join(processes_with(environment[MARK]))
        for part in ("deploy.master.Master", "deploy.worker.Worker", "ExecutorBackend", "pyspark.daemon"):
            assert part in running
        victim.kill()
        victim.wait()
        assert left(environment[MARK]) == []


def test_cluster_without_workers_is_refused() -> None:
    """A job would wait for ever."""
    with pytest.raises(ClusterError, match="Expected at least 1 worker, got 0"), cluster(workers=0):
        pass


def test_leash_kills_a_command_whose_parent_is_gone() -> None:
    """Also when that is not told to it."""
    environment = marked_environment()
    script = f"{sys.executable} -I -S {leash.__file__} $$ sleep 600 & echo started; read line"
    with started("sh", "-c", script, environment=environment) as parent:
        assert line_of(parent) == "started\n"
        parent.kill()
        parent.wait()
        assert left(environment[MARK]) == []


def test_leash_says_as_a_shell_does_that_there_is_no_such_command() -> None:
    """Exit status 127, and one line."""
    command = [sys.executable, "-I", "-S", str(leash.__file__), str(os.getpid()), "no-such-command"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (127, "no-such-command: No such file or directory\n")
