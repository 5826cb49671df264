"""What docs/spark.md says is run: its Python as one program, and each block of shell commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_eval import guide_runner

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
TIMEOUT_S = 600

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("java_is_here"),
    pytest.mark.timeout(TIMEOUT_S + 60),
]


def blocks(language: str) -> list[str]:
    """The blocks of code in a language, in the page's order."""
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


def runnable(block: str) -> str:
    """Without what installs packages: they are installed here."""
    return "".join(line for line in block.splitlines(keepends=True) if not line.startswith("pip install"))


def run(*command: str, folder: Path) -> str:
    """Run a program in a folder of its own, with this interpreter as `python`; what it printed."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_python_of_the_guide_runs(tmp_path: Path) -> None:
    """As one program, for later blocks build on earlier ones; see `guide_runner.py`."""
    program = tmp_path / "guide.py"
    program.write_text("\n".join(blocks("python")))
    assert run(sys.executable, "-W", "error", guide_runner.__file__, str(program), folder=tmp_path)


def measures(block: str) -> bool:
    """Whether it runs a comparison."""
    return re.search(r"spark_eval (compare|pipeline)", block) is not None


def shell_blocks() -> list[object]:
    """Those that measure take minutes."""
    return [
        pytest.param(block, marks=[pytest.mark.slow] if measures(block) else [], id=f"block-{number}")
        for number, block in enumerate(map(runnable, blocks("sh")), 1)
    ]


@pytest.mark.parametrize("block", shell_blocks())
def test_commands_of_the_guide_run(block: str, tmp_path: Path) -> None:
    """To the end, and say something."""
    assert run("bash", "-euo", "pipefail", "-c", block, folder=tmp_path)
