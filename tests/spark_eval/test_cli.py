"""The command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

import echo_core.spark_eval
from echo_core.spark_eval.cli import COMMANDS, main

IMPORTS = """
import sys
import echo_core.spark_eval
print([name for name in ("pyspark", "pandas", "pyarrow", "matplotlib", "py4j") if name in sys.modules])
"""


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """With a line on each."""
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said and text in said for name, text in COMMANDS.items())


@pytest.mark.parametrize("given", [[], ["docter"]])
def test_unknown_command_is_told(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With those that there are."""
    assert main(given) == 2
    said = capsys.readouterr().err
    assert ("Expected a command, got 'docter'" in said) is bool(given)
    assert "  doctor " in said


def test_error_of_ours_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Not a trace."""
    assert main(["cluster", "--workers", "0", "--", "true"]) == 1
    assert capsys.readouterr().err == "cluster: Expected at least 1 worker, got 0\n"


def test_command_after_two_dashes_is_only_for_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """Elsewhere it would be lost."""
    with pytest.raises(SystemExit) as caught:
        main(["doctor", "--", "true"])
    assert caught.value.code == 2
    assert "doctor takes nothing after --" in capsys.readouterr().err


def test_public_names_are_there() -> None:
    """What anyone's job imports."""
    pytest.importorskip("pyarrow", reason="needs the extra `spark`")
    for name in echo_core.spark_eval.__all__:
        assert callable(getattr(echo_core.spark_eval, name))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = echo_core.spark_eval.nothing


def test_import_of_the_package_leaves_what_is_heavy_alone() -> None:
    """Executors and the doctor import it as well."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORTS], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout == "[]\n"
