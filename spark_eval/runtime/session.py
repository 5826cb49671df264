"""Spark sessions that print nothing but errors, and leave no processes behind.

`session()` finds a Java, starts a driver with this interpreter for driver and executors, and stops the
driver's JVM at the end; Spark itself leaves it running until Python exits. Executors import echo_core, so it
must be installed for their interpreter, which is this one unless PYSPARK_PYTHON names another on a cluster.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import echo_core as echo
from echo_core.spark_eval.runtime.java import SMALL_JVM, launcher, require_java
from echo_core.spark_eval.runtime.workers import end_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_VARIABLE = "ECHO_SPARK_MASTER"
# In a checkout, where an editable install does not list `pyspark_echo` to those who look for such packages.
DISCOVERY = Path(__file__).resolve().parent.parent / "discovery"
EXECUTOR_MEMORY = "512m"
LOOPBACK = "127.0.0.1"

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CONNECT_TIMEOUT_S = 5
_STOP_TIMEOUT_S = 10

# Spark changes a root level other than "warn", and prints that it does. So the appender filters instead.
QUIET_LOG = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n%ex
appender.stderr.filter.error.type = ThresholdFilter
appender.stderr.filter.error.level = error
"""


class SessionError(echo.EchoError):
    """The session cannot be started with these settings."""


def default_master() -> str:
    """$ECHO_SPARK_MASTER, or else all cores of this machine."""
    return os.environ.get(MASTER_VARIABLE) or "local[*]"


@contextmanager
def session(
    master: str | None = None, *, app: str = "echo", conf: Mapping[str, str] | None = None
) -> Generator[SparkSession]:
    """A running session, stopped at the end together with its JVM.

    `master` is `local[*]`, `local[2]`, `spark://host:port` ...; without one $ECHO_SPARK_MASTER decides, else
    it is `local[*]`. `conf` adds to the settings and wins over them. One session at a time: a second one in
    the same process is an error.
    """
    where = master or default_master()
    _refuse_second_session()
    refuse_absent_master(where)
    home = launcher(require_java())
    with tempfile.TemporaryDirectory(prefix="echo-session-") as folder:
        settings = _with(_settings(where, _quiet_log(Path(folder))), conf or {})
        spark = _start(where, app, settings, _environment(where, home))
        try:
            yield spark
        finally:
            _stop(spark)


def _settings(master: str, log: Path) -> dict[str, str]:
    """The default settings of sessions."""
    settings = {
        "spark.ui.enabled": "false",  # no web server
        "spark.ui.showConsoleProgress": "false",
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={log.as_uri()}",
        "spark.sql.shuffle.partitions": "2",  # the default of 200 costs 25 ms each
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.python.unix.domain.socket.enabled": "true",  # a task costs half of what it does over TCP
    }
    if is_loopback(master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if master.startswith("spark://"):
        settings["spark.executor.memory"] = EXECUTOR_MEMORY  # the default waits for ever on a small worker
    if "PYTHONPATH" in os.environ:  # executors of a cluster do not inherit it
        settings["spark.executorEnv.PYTHONPATH"] = _absolute(os.environ["PYTHONPATH"])
    return settings


def _with(settings: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Override our settings by the user's. Java options are appended to ours, where the last one wins."""
    both = {**settings, **conf}
    if _JAVA_OPTIONS in conf:
        both[_JAVA_OPTIONS] = f"{settings[_JAVA_OPTIONS]} {conf[_JAVA_OPTIONS]}"
    return both


def is_loopback(master: str) -> bool:
    """Whether driver and executors run on this machine."""
    return master.startswith(("local", f"spark://{LOOPBACK}:", "spark://localhost:"))


def _absolute(path: str) -> str:
    return os.pathsep.join(str(Path(entry).absolute()) for entry in path.split(os.pathsep) if entry)


def _quiet_log(folder: Path) -> Path:
    """Write a log configuration for errors only; without one Spark prints which default it uses."""
    path = folder / "log4j2.properties"
    path.write_text(QUIET_LOG)
    return path


def _environment(master: str, home: Path) -> dict[str, str]:
    """Environment variables for the driver's JVM."""
    python = sys.executable if is_loopback(master) else os.environ.get("PYSPARK_PYTHON", sys.executable)
    variables = {
        "JAVA_HOME": str(home),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": SMALL_JVM,  # the JVM that builds the command line of the driver's JVM
    }
    if is_loopback(master):
        variables["SPARK_LOCAL_IP"] = LOOPBACK
    if DISCOVERY.is_dir():
        variables["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(DISCOVERY), os.environ.get("PYTHONPATH")])
        )
    spark_home = wheel_home()
    if spark_home is not None:  # otherwise a SPARK_HOME of another version would have precedence
        variables["SPARK_HOME"] = str(spark_home)
    return variables


def wheel_home() -> Path | None:
    """The Spark in the wheel of pyspark; None if pyspark was installed in another way."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        msg = "pyspark is not installed"
        raise SessionError(msg, hint="run `pip install echo-core[spark]`")
    home = Path(spec.origin).parent
    return home if (home / "bin" / "spark-submit").exists() else None


@contextmanager
def changed_environment(variables: Mapping[str, str]) -> Generator[None]:
    """Set these environment variables while a driver starts, which reads them only from there."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start(
    master: str, app: str, settings: Mapping[str, str], environment: Mapping[str, str]
) -> SparkSession:
    sql: Any = importlib.import_module("pyspark.sql")
    builder = sql.SparkSession.builder.master(master).appName(app).config(map=dict(settings))
    with changed_environment(environment):
        spark: SparkSession = builder.getOrCreate()
    return spark


def _stop(spark: SparkSession) -> None:
    """Stop the session and its JVM, so that the next session can have another Java and other settings."""
    core: Any = importlib.import_module("pyspark").SparkContext
    gateway = core._gateway
    try:
        _stop_quietly(spark, gateway.proc.pid)
    finally:
        core._gateway = core._jvm = None
        with suppress(OSError):
            gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM exits at the end of its input
        try:
            gateway.proc.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()


def _stop_quietly(spark: SparkSession, jvm: int) -> None:
    """Workers that have nothing to do would print that Spark closes their sockets, and end before it does."""
    try:
        if not _has_work(spark):
            end_workers(jvm)
    finally:
        spark.stop()


def _has_work(spark: SparkSession) -> bool:
    """Whether a job is under way, such as another thread's: Spark ends that, and its workers behind it."""
    context: Any = spark.sparkContext
    is_stopped = context._jsc is None  # by the program itself
    return not is_stopped and bool(context.statusTracker().getActiveJobsIds())


def _refuse_second_session() -> None:
    core: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    if core is not None and core._active_spark_context is not None:
        msg = f"A Spark session of this process runs already, on {core._active_spark_context.master}"
        raise SessionError(msg, hint="use it, or stop it first")


def refuse_absent_master(master: str) -> None:
    """SessionError if nobody listens there; Spark would retry for a minute, and then fail obscurely."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S):
            return
    msg = f"No Spark master answers at {master}"
    raise SessionError(msg, hint="`python -m echo_core.spark_eval cluster` starts one on this machine")
