"""What the documents and the examples say is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bench.__main__ import COMMANDS, SUITES, TRANSPORT_SUITES
from bench.scale.command import STUDIES
from bench.types.contenders import all_cases

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN_ELSEWHERE = {"spark.md"}  # with its commands, by tests/spark_eval/test_guide.py: it takes a JVM
NEED_SPARK = {"spark_columns.py", "spark_log.py"}
EXAMPLES = [
    pytest.param(path, id=path.name, marks=[pytest.mark.spark] if path.name in NEED_SPARK else [])
    for path in sorted((ROOT / "examples").glob("*.py"))
]
BLOCK = re.compile(r"^```python\n(?:# (\w+\.py)\n)?(.*?)^```", re.DOTALL | re.MULTILINE)


def write_programs(page: Path, folder: Path) -> Path:
    """The Python of a page as one program, for later blocks build on earlier ones; named files beside it."""
    program = folder / "page.py"
    blocks: list[tuple[str, str]] = BLOCK.findall(page.read_text())
    program.write_text("\n".join(text for file_name, text in blocks if not file_name))
    for file_name, text in blocks:
        if file_name:
            (folder / file_name).write_text(text)
    return program


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """In a run-time directory of its own: others that run it at the same time have other channels by name."""
    with tempfile.TemporaryDirectory() as run_time_directory:
        return subprocess.run(
            [sys.executable, "-W", "error", *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": run_time_directory},
            capture_output=True,
            text=True,
            timeout=300,
        )


@pytest.mark.parametrize(
    "page", [page for page in DOCUMENTS if page.name not in RUN_ELSEWHERE], ids=lambda page: page.name
)
def test_python_in_a_document_runs(page: Path, tmp_path: Path) -> None:
    """Every Python block of a page runs, in the page's order, and says nothing of trouble."""
    result = run(str(write_programs(page, tmp_path)), cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_both_programs_of_the_tutorial_do_what_it_says(tmp_path: Path) -> None:
    """What one sends the other receives, as its own class."""
    result = run(str(write_programs(ROOT / "README.md", tmp_path)), cwd=tmp_path)
    received = [f"received Particle(id={i}, temperature={300.0 + i})" for i in range(3)]
    assert result.stdout.splitlines()[:4] == [*received, "the receiver ended with 0"], result.stderr


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_and_says_something(example: Path) -> None:
    """Every example ends by itself, without an error and with output."""
    result = run(str(example))
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The target as it is told, but for what it is done in: the environment that runs the tests.

    That is taken as it is (`needs` is nothing), whether a `make` has made it or not, and newer files need no
    build: others use it at the same time. A `make` around this one hands on nothing, nor does a pytest.
    """
    handed_on = ("MAKE", "MFLAGS", "GNUMAKEFLAGS", "PYTEST_", "COV_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(handed_on)}
    return subprocess.run(
        ["make", *arguments, f"VENV={sys.prefix}", "needs=", "TEST_JOBS=1"],
        cwd=ROOT,
        env={**environment, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_make_demo_shows_every_component_and_leaves_none(transport: str) -> None:
    """Who is still there would hold the pipe of its output, and the demo would not be seen to end."""
    result = make("demo", f"TRANSPORT={transport}")
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    for line in (
        r"older +\| [\d,]+ events, one way \d+ us",
        r"newer +\| [\d,]+ events, one way \d+ us",
        r"monitor +\| [\d,]+ of `Particle`; the last: Particle\(id=",
        r"newer +\| Particle\(.*id=70000.*temp=451.0, charge=0\)",
        r"newer +\| [\d,]+ events, [\d,]+ a second; the hottest",
        r"simulation +\| to newer .*2 channels",
    ):
        assert re.search(line, result.stdout), result.stdout


@pytest.mark.slow
def test_make_test_runs_what_it_is_told() -> None:
    """Its variable for arguments, too."""
    one_test = "tests/echo_core/roster/test_ids.py::test_text_stays_the_same_in_every_version"
    result = make("test", f"PYTEST_ARGS=-p no:cacheprovider {one_test}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "= 1 passed in " in result.stdout, result.stdout


def test_nothing_but_make_is_told_to_run_at_first() -> None:
    """Both are run by the tests above."""
    assert re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE) == ["demo", "test"]


@pytest.mark.parametrize(
    "page", [*DOCUMENTS, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name
)
def test_links_in_a_document_lead_somewhere(page: Path) -> None:
    """A relative link names a file that is there."""
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_make_targets_in_the_documents_exist() -> None:
    """Every `make x` that a document tells to run is a target."""
    makefile = (ROOT / "Makefile").read_text()
    told = {
        t
        for page in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]
        for t in re.findall(r"^make (\w+)", page.read_text(), re.MULTILINE)
    }
    assert told
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in told)


def test_benchmarks_in_the_documents_exist() -> None:
    """Every `python -m bench x` that a document tells to run is a suite or a command."""
    told = {
        name
        for page in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]
        for name in re.findall(r"python -m bench (?!SUITE)(\w+)", page.read_text().replace("`\n", " "))
    }
    assert told >= {"types", "scale", "latency"}
    assert told <= {*SUITES, *TRANSPORT_SUITES, *COMMANDS}


def test_what_benchmarks_are_asked_for_alone_is_there() -> None:
    """`--only` names a study of growth, or a part of a type's name."""
    told = re.findall(r"python -m bench (\w+) --only \"?([^`\"]+)", (ROOT / "docs" / "speed.md").read_text())
    assert told
    names = {"scale": set(STUDIES), "types": {case.name for case in all_cases()}}
    assert all(any(text in name for name in names[command]) for command, text in told)
