"""A real Spark cluster on this machine: a master and its workers, each a process of its own.

The wheel of pyspark has no start scripts, so the classes of master and workers are started directly, on ports
that the system chooses, with all files in one temporary folder. Each process leads its own process session,
so Ctrl-C does not reach it, and is killed when the process that started it dies, even by `kill -9`
(leash.py). Executors end when their worker or their driver ends. The thread that starts a cluster must live
as long as the cluster, because Linux treats that thread as the parent.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import echo_core as echo
from echo_core.spark_eval.console import say, span
from echo_core.spark_eval.runtime import leash
from echo_core.spark_eval.runtime.java import SMALL_JVM, launcher, require_java
from echo_core.spark_eval.runtime.session import EXECUTOR_MEMORY, LOOPBACK, MASTER_VARIABLE, wheel_home

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0

_POLL_S = 0.05
_DEPLOY = "org.apache.spark.deploy"
_MASTER_IS_UP = "I have been elected leader! New state: ALIVE"
_MASTER_IS_AT = "Starting Spark master at "
_WORKER_IS_UP = "Successfully registered with master"


class ClusterError(echo.EchoError):
    """Invalid settings of a cluster, or a process that did not start."""


@dataclass(slots=True)
class ClusterProcess:
    """A process of the cluster, the leader of a process session that includes its children."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None


@dataclass(slots=True)
class Cluster:
    """A running cluster; pass `master_url` to a session."""

    folder: Path  # logs, configuration, and files of executors
    environment: dict[str, str]  # for programs that use the cluster, including those without echo_core
    master_url: str = ""
    members: list[ClusterProcess] = field(default_factory=list["ClusterProcess"])

    def lost(self) -> list[str]:
        """The names of processes that have ended."""
        return [member.name for member in self.members if not member.alive]


@contextmanager
def cluster(
    workers: int = 2, *, cores: int = 1, memory: str = EXECUTOR_MEMORY, port: int = 0
) -> Generator[Cluster]:
    """A master and its workers, each with so many cores and so much memory for executors; gone at the end.

    The port is the master's; 0 lets the system choose.
    """
    if workers < 1:
        msg = f"Expected at least 1 worker, got {workers}"
        raise ClusterError(msg)
    home = launcher(require_java())
    folder = Path(tempfile.mkdtemp(prefix="echo-cluster-"))
    made = Cluster(folder, _environment(folder, home))
    try:
        _start_master(made, port)
        _start_workers(made, workers, cores, memory)
        _write_configuration(made, memory)
        yield made
    finally:
        _stop(made.members)
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path, home: Path) -> dict[str, str]:
    variables = {
        "JAVA_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_CONF_DIR": str(folder / "conf"),
    }
    spark_home = wheel_home()
    if spark_home is not None:
        variables["SPARK_HOME"] = str(spark_home)
    return variables


def _start_master(made: Cluster, port: int) -> None:
    address = ("--host", LOOPBACK, "--port", str(port), "--webui-port", "0")
    master = _launch(made, "master", f"{_DEPLOY}.master.Master", *address)
    _await(master, _MASTER_IS_UP)
    (line,) = [line for line in master.log.read_text().splitlines() if _MASTER_IS_AT in line]
    made.master_url = line.rpartition(_MASTER_IS_AT)[2].strip()
    made.environment |= {MASTER_VARIABLE: made.master_url, "SPARK_MASTER": made.master_url}


def _start_workers(made: Cluster, workers: int, cores: int, memory: str) -> None:
    started: list[ClusterProcess] = []
    for number in range(workers):
        name = f"worker-{number}"
        limits = ("--cores", str(cores), "--memory", memory, "--work-dir", str(made.folder / name))
        address = ("--host", _host_of(number), "--webui-port", "0", made.master_url)
        started.append(_launch(made, name, f"{_DEPLOY}.worker.Worker", *limits, *address))
    for worker in started:
        _await(worker, _WORKER_IS_UP)


def _host_of(number: int) -> str:
    """Of a worker: Linux answers at each 127.x.y.z, and Spark gives a host no second attempt of a task."""
    return f"127.0.0.{number % 254 + 1}" if sys.platform == "linux" else LOOPBACK


def _launch(made: Cluster, name: str, *command: str) -> ClusterProcess:
    """Start a class of Spark, and register the process at once, so that it is always stopped."""
    home = made.environment.get("SPARK_HOME") or os.environ["SPARK_HOME"]
    leashed = (sys.executable, "-I", "-S", leash.__file__, str(os.getpid()))
    log = made.folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            (*leashed, str(Path(home, "bin", "spark-class")), *command),
            env=_of_daemon(made.environment),
            cwd=made.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    member = ClusterProcess(name, process, log)
    made.members.append(member)
    return member


def _of_daemon(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of master and workers, hence of executors.

    A port that is taken is an error, where Spark would take the next one and say so in its log.
    """
    daemon = {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.port.maxRetries=0 -Dspark.master.rest.enabled=false {SMALL_JVM}",
        "SPARK_LAUNCHER_OPTS": SMALL_JVM,
    }
    return {**os.environ, **variables, **daemon}


def _await(member: ClusterProcess, line: str) -> None:
    """Wait for the log line that says that the process is ready."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while line not in member.log.read_text(errors="replace"):
        if not member.alive:
            msg = f"The {member.name} of the cluster ended at its start; it said\n{_reason(member.log)}"
            raise ClusterError(msg)
        if time.monotonic() > deadline:
            msg = f"The {member.name} of the cluster was not up in {span(START_TIMEOUT_S)}; it said\n"
            raise ClusterError(msg + _reason(member.log))
        time.sleep(_POLL_S)


def _reason(log: Path) -> str:
    """The exceptions in a log, or else its last lines."""
    lines = log.read_text(errors="replace").splitlines()
    causes = [line for line in lines if "Exception" in line and not line.startswith("\tat ")]
    return "\n".join(f"    {line.strip()}" for line in (causes or lines)[-3:])


def _write_configuration(made: Cluster, memory: str) -> None:
    """Write a configuration with which a plain `SparkSession.builder.getOrCreate()` uses this cluster."""
    settings = {
        "spark.master": made.master_url,
        "spark.executor.memory": memory,  # with the default, more than a worker has, a job waits for ever
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
    }
    folder = made.folder / "conf"
    folder.mkdir()
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text(text)


def _stop(members: Sequence[ClusterProcess]) -> None:
    """Terminate the processes, so that workers stop their executors; then kill what is left."""
    for member in reversed(members):
        with suppress(ProcessLookupError):
            os.killpg(member.process.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for member in members:
        with suppress(subprocess.TimeoutExpired):
            member.process.wait(max(0.0, deadline - time.monotonic()))
    for pid in processes_of({member.process.pid for member in members}):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for member in members:
        with suppress(ProcessLookupError):
            os.killpg(member.process.pid, signal.SIGKILL)
        member.process.wait()


def processes_of(sessions: set[int]) -> Iterator[int]:
    """The processes of these sessions, from /proc: Python workers leave their group, not their session."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[3]) in sessions:
                yield int(entry.parent.name)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `cluster`."""
    parser.add_argument("--workers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--cores", type=int, default=1, help="of each worker; default: %(default)s")
    parser.add_argument("--memory", default=EXECUTOR_MEMORY, help="of each worker; default: %(default)s")
    parser.add_argument("--port", type=int, default=0, help="of the master; default: one that is free")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="without one it runs until Ctrl-C")


def run(arguments: argparse.Namespace) -> int:
    """Start a cluster, run a command with it, and return the command's exit status."""
    begun = time.monotonic()
    plural = "" if arguments.workers == 1 else "s"
    say(f"starting a Spark master and {arguments.workers} worker{plural} on this machine")
    with _terminable():
        try:
            with cluster(
                arguments.workers, cores=arguments.cores, memory=arguments.memory, port=arguments.port
            ) as made:
                say(f"up at {made.master_url} after {span(time.monotonic() - begun)}")
                status = _run_command(arguments.command, made)
        except KeyboardInterrupt:
            status = 128 + signal.SIGINT
    say("the cluster is stopped")
    return status


@contextmanager
def _terminable() -> Generator[None]:
    """Handle SIGTERM like Ctrl-C, so that everything is stopped."""

    def interrupt(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run_command(command: Sequence[str], made: Cluster) -> int:
    if not command:
        say(f"{MASTER_VARIABLE}={made.master_url}; Ctrl-C stops it")
        signal.pause()
        return 0
    leashed = (sys.executable, "-I", "-S", leash.__file__, str(os.getpid()))
    process = subprocess.Popen((*leashed, *command), env={**os.environ, **made.environment})
    try:
        status = process.wait()
    except KeyboardInterrupt:  # the command received it too
        _end(process, 0, signal.SIGTERM, signal.SIGKILL)
        raise
    except BaseException:
        _end(process, signal.SIGTERM, signal.SIGKILL)
        raise
    return status if status >= 0 else 128 - status


def _end(process: subprocess.Popen[bytes], *signals: int) -> None:
    """Ask it to end by one signal after the other, 0 being none; it has some seconds after each."""
    for number in signals:
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S / 2)
            return
