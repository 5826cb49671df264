"""What the documents and the examples say is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN_ELSEWHERE = {"spark.md"}  # with its commands, by tests/spark_eval/test_guide.py: it takes a JVM
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def python_blocks(page: Path) -> str:
    """The Python of a page as one program, for later blocks build on earlier ones."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    "page", [page for page in DOCUMENTS if page.name not in RUN_ELSEWHERE], ids=lambda page: page.name
)
def test_python_in_a_document_runs(page: Path, tmp_path: Path) -> None:
    """Every Python block of a page runs, in the page's order."""
    program = tmp_path / "page.py"
    program.write_text(python_blocks(page))
    result = run(str(program))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_and_says_something(example: Path) -> None:
    """Every example ends by itself, without an error and with output."""
    result = run(str(example))
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


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
