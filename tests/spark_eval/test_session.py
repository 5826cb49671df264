"""Sessions: quiet, with this interpreter on both sides, and gone when they are over."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from echo_core.spark_eval.runtime.session import (
    SessionError,
    changed_environment,
    default_master,
    refuse_absent_master,
    session,
)
from tests.spark_eval.processes import MARK, left, marked_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark's own scripts call; there is no java among them.
PROGRAMS = ("bash", "sh", "env", "dirname", "ps", "cat", "uname", "rm")

LOCAL = """
import os
from pathlib import Path
from echo_core.spark_eval.cli import main
from echo_core.spark_eval.console import say
from echo_core.spark_eval import session

def double(batches):
    import echo_core
    for frame in batches:
        yield frame * 2

with session("local[2]", conf={"spark.driver.extraJavaOptions": "-Decho.test=1"}) as spark:
    java = spark._jvm.java.lang.System
    say(f"Java {java.getProperty('java.version').split('.')[0]} {java.getProperty('echo.test')}")
    say(spark.range(3).mapInPandas(double, "id long").toPandas()["id"].sum())
    assert "JAVA_HOME" not in os.environ
assert main(["doctor", "--try", "--master", "local[1]"]) == 0
children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
say(f"children: {children}")
"""


@pytest.fixture(name="path_without_java")
def fixture_path_without_java(tmp_path: Path) -> str:
    """A folder with the programs of a small system."""
    for name in PROGRAMS:
        for folder in ("/usr/bin", "/bin"):
            if Path(folder, name).exists():
                (tmp_path / name).symlink_to(Path(folder, name))
                break
    return str(tmp_path)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("java_is_here")
def test_session_on_the_java_of_the_wheel_prints_nothing_of_its_own(path_without_java: str) -> None:
    """No java on the PATH, no JAVA_HOME, and two workers that wait for more when the first session is over.

    The second session, which is the doctor's, has a JVM of its own.
    """
    environment = marked_environment(PATH=path_without_java)
    environment.pop("JAVA_HOME", None)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOCAL],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    java, total, *doctor, children = result.stdout.splitlines()
    assert (java, total, children) == ("Java 25 1", "6", "children: ")
    of_doctor = ("echo_core ", "  ok ", "  note ", " " * 22)
    assert [line for line in doctor[:-1] if not line.startswith(of_doctor)] == [], result.stdout
    assert doctor[-3].startswith("  ok     job          ran on local[1], ")
    assert "echo_core 0." in doctor[-2]
    assert doctor[-1] == "Spark can run."
    assert result.returncode == 0
    assert left(environment[MARK]) == []


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_executors_run_this_interpreter(spark: SparkSession) -> None:
    """Hence they have what is installed here."""

    def interpreter(_: int) -> str:
        return sys.executable

    context: Any = spark.sparkContext
    assert context.parallelize([1], 1).map(interpreter).collect() == [sys.executable]
    assert context.master == "local[2]"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_second_session_is_refused(spark: SparkSession) -> None:
    """It would be the first one, without the settings that were asked for."""
    with pytest.raises(SessionError, match=r"runs already, on local\[2\]: use it"), session("local[1]"):
        pass
    assert spark.range(1).count() == 1


def test_master_that_does_not_answer_is_an_error_at_once() -> None:
    """Spark would try for a minute."""
    with socket.socket() as deaf:  # it keeps the port from others
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        with pytest.raises(SessionError, match=f"No Spark master answers at spark://127.0.0.1:{port}"):
            refuse_absent_master(f"spark://127.0.0.1:{port}")


def test_master_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command `cluster` sets it."""
    monkeypatch.delenv("ECHO_SPARK_MASTER", raising=False)
    assert default_master() == "local[*]"
    monkeypatch.setenv("ECHO_SPARK_MASTER", "spark://127.0.0.1:7077")
    assert default_master() == "spark://127.0.0.1:7077"


def test_environment_is_as_it_was_after_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that were there come back, others go."""
    monkeypatch.setenv("JAVA_HOME", "/mine")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with changed_environment({"JAVA_HOME": "/other", "SPARK_LOCAL_IP": "127.0.0.1"}):
        assert (os.environ["JAVA_HOME"], os.environ["SPARK_LOCAL_IP"]) == ("/other", "127.0.0.1")
    assert os.environ["JAVA_HOME"] == "/mine"
    assert "SPARK_LOCAL_IP" not in os.environ
