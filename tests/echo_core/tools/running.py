"""The program for tests: in this process, or as others start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from click.testing import CliRunner, Result

from echo_core.tools.program import program
from tests.echo_core.processes import ROOT

LIMIT_S = 120.0


def run(*arguments: str, given: str | None = None) -> Result:
    """One command, in this process; what is a mistake of ours is raised."""
    return CliRunner().invoke(
        program, list(arguments), prog_name="echoctl", input=given, catch_exceptions=False
    )


def done(*arguments: str, given: str | None = None) -> str:
    """What a command puts out that does what it should."""
    result = run(*arguments, given=given)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def rows(*arguments: str) -> list[dict[str, Any]]:
    """Likewise, of lines of JSON."""
    return [json.loads(line) for line in done(*arguments).splitlines()]


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """A process of its own, as a shell starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "echo_core", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
