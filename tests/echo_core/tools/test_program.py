"""The program itself: what it imports, what it says when something is wrong, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import echo_core as echo
from echo_core.tools import entry
from echo_core.tools.commands import doctor
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import ROOT
from tests.echo_core.tools.plant import Particle, Plant
from tests.echo_core.tools.running import LIMIT_S, done, run, start

SCRIPT = """
import json, sys
from echo_core.tools.entry import main
sys.argv = ["echoctl", *json.loads(sys.argv[1])]
try:
    main()
except SystemExit as end:
    assert not end.code
sys.stderr.write(json.dumps(sorted(sys.modules)))
"""

HEAVY = {"rich", "numpy", "llvmlite", "echo_core.errors", "echo_core.handles", "asyncio"}


def imported_by(*arguments: str) -> set[str]:
    """The modules that a fresh interpreter has after a command."""
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(arguments)], capture_output=True, check=True, text=True
    )
    return set(json.loads(made.stderr))


def test_help_imports_little() -> None:
    """It takes as long as Python and click: no command is imported, nothing of the library, no rich."""
    loaded = imported_by("--help")
    assert not loaded & HEAVY
    own = {name for name in loaded if name.startswith("echo_core")}
    assert own == {
        "echo_core",
        "echo_core.tools",
        "echo_core.tools.entry",
        "echo_core.tools.lazy",
        "echo_core.tools.logs",
        "echo_core.tools.plain",
        "echo_core.tools.program",
    }


def test_version_is_that_of_the_library() -> None:
    """Without asking what is installed."""
    assert done("--version") == f"{echo.__version__}\n"


def test_help_lists_each_command_and_each_has_help() -> None:
    """And what a summary promises has a command."""
    listed = done("--help")
    names = re.findall(r"^  (\w+)  ", listed.partition("Commands:")[2], re.MULTILINE)
    assert len(names) == 10
    for name in names:
        assert done(name, "--help").startswith(f"Usage: echoctl {name} ")
    for name in re.findall(r"^  (\w+)  ", done("log", "--help").partition("Commands:")[2], re.MULTILINE):
        assert done("log", name, "--help").startswith(f"Usage: echoctl log {name} ")


def test_missing_packages_are_told_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line."""
    monkeypatch.setitem(sys.modules, "rich", None)  # as if it were not installed
    assert entry.main() == 2
    told = "Expected the packages of the extra `tools`, got no rich: run `pip install 'echo-core[tools]'`"
    assert capsys.readouterr().err == f"echoctl: {told}\n"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["nix"], 2, "No such command 'nix'. See `echoctl --help`."),
        (["--nix"], 2, " See `echoctl --help`."),
        (["info", "--nix"], 2, " See `echoctl info --help`."),
        (["watch", "x", "-t", "soon"], 2, "Expected a time such as 5s, 500ms, 2m or 1h, got 'soon'."),
        (["info"], 2, "Expected a channel, got none: name it, or set $ECHO_CHANNEL."),
        (["info", "env:NOWHERE"], 2, "Expected a channel's id in the variable NOWHERE, it is not set"),
        (["info", "@/nowhere"], 1, "No such file or directory: '/nowhere'"),
        (["info", "nix"], 3, "Expected a channel `nix`, nobody on this host has one: `echoctl ls` lists"),
        (["ls", "x*"], 1, "no channel fits 'x*'"),
    ],
)
def test_errors_are_one_line_and_an_exit_status(arguments: list[str], status: int, said: str) -> None:
    """Which say what was expected."""
    result = run(*arguments)
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr.startswith("echoctl: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr


def test_quiet_leaves_notes_out_and_no_error() -> None:
    """Before the command or after it."""
    assert run("ls").stderr == "echoctl: no channel by name is there\n"
    assert run("-q", "ls").stderr == run("ls", "-q").stderr == ""
    assert "Expected a channel" in run("-q", "info", "nix").stderr


def test_verbose_shows_where_an_error_is_from() -> None:
    """As a traceback; else there is none."""
    assert "Traceback" in run("-v", "info", "nix").stderr
    assert "Traceback" in run("info", "nix", "-v").stderr


def test_mistake_of_the_program_is_no_error_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on as what it is."""

    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "examine", fail)
    with pytest.raises(ZeroDivisionError):
        run("doctor")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_command_quietly(plant: Plant, number: signal.Signals) -> None:
    """With the status that shells know; what has been written is there."""
    process = start("watch", "particles")
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number
    assert err == ""
    assert all(json.loads(line) for line in [first, *out.splitlines()])


def test_closed_pipe_ends_a_command_quietly(plant: Plant) -> None:
    """Whether events come or not."""
    for where in ("id >= 0", "id < 0"):
        process = start("watch", "particles", "--where", where)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, err) == (141, "")


def test_pipe_that_is_closed_early_ends_what_puts_out_much(tmp_path: Path, make_node: MakeNode) -> None:
    """As `| head -1` does."""
    channel = make_node().create_channel("particles", Particle)
    with echo.record(channel, tmp_path / "run.echolog"), channel.source() as source:
        for number in range(5_000):
            source.submit(Particle(number))
    process = start("log", "cat", str(tmp_path / "run.echolog"))
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["id"] == 0
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (141, "")


def test_python_runs_the_program_as_a_module(tmp_path: Path) -> None:
    """Its help names `echoctl` all the same."""
    out, err = start("--help").communicate(timeout=LIMIT_S)
    assert out.startswith("Usage: echoctl ")
    assert err == ""


def test_shell_completes_commands_and_channels(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the names that are there."""
    from click.shell_completion import ShellComplete

    from echo_core.tools.program import program

    complete = ShellComplete(program, {}, "echoctl", "_ECHOCTL_COMPLETE")
    assert {item.value for item in complete.get_completions([], "w")} == {"watch"}
    assert [item.value for item in complete.get_completions(["watch"], "par")] == ["particles"]
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    assert complete.get_completions(["watch"], "par") == []


def test_tests_install_what_the_extra_has() -> None:
    """Two lists, and this keeps them alike."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["tools"]
    assert set(extra) <= set(project["dependency-groups"]["test"])
    assert {re.split(r"\W", each)[0] for each in extra} == set(entry.NEEDED)


def test_streams_that_a_shell_has_closed_are_no_mistake() -> None:
    """As by `>&-`, or in a service that has none: Python has None for them."""
    command = 'exec "$0" -m echo_core --quiet compare nowhere.py:A nowhere.py:B <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", command, sys.executable], cwd=ROOT, check=False).returncode == 2
    command = 'exec "$0" -m echo_core doctor --help >&-'
    assert subprocess.run(["sh", "-c", command, sys.executable], cwd=ROOT, check=False).returncode == 0


def test_any_text_goes_into_a_pipe_in_any_locale(tmp_path: Path) -> None:
    """As UTF-8, which JSON is."""

    @echo.event
    class Text:
        text: str

    with echo.create_channel("texts", Text) as channel, channel.record(tmp_path / "a.echolog"):
        channel.source().submit(Text("é☃"))
    done = subprocess.run(
        [sys.executable, "-m", "echo_core", "log", "cat", str(tmp_path / "a.echolog")],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"text": "é☃"}
