"""Each command of docs/tools.md is run, as at a terminal, beside the programs that the page has."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import pytest

import echo_core as echo
from echo_core.tools.program import program
from tests.echo_core.census import until
from tests.echo_core.processes import ROOT
from tests.echo_core.tools.running import LIMIT_S

pytestmark = pytest.mark.once

PAGE = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
WIDTH = "200"

# What differs from run to run, in the order in which it is looked for.
UNSTABLE = [
    (r"\S*python\S* plant\.py", "PLANT"),
    (r"\b\d+-[0-9a-f]{4}\b( \(process \d+\))?", "NODE"),
    (r"unix:@echo-[0-9a-f]+", "UNIX"),
    (r"tcp://[0-9.:]+", "TCP"),
    (r"\b[0-9a-f]{32}\b", "HEX"),
    (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
    (r"\d\d:\d\d:\d\d\.\d{3}", "CLOCK"),
    (r"\d[\d,.]*", "N"),
]


@dataclass(frozen=True)
class Command:
    """A line of the page after `$`, and those below it."""

    text: str
    shown: list[str]


def commands() -> list[Command]:
    """Of all blocks, in the page's order."""
    found: list[Command] = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Command(line.removeprefix("$ "), []))
            else:
                found[-1].shown.append(line)
    return found


def stable(lines: list[str]) -> list[str]:
    """Without what differs from run to run, and without the blanks that align columns."""
    made: list[str] = []
    for line in lines:
        for pattern, name in UNSTABLE:
            line = re.sub(pattern, name, line)
        made.append(" ".join(line.split()))
    return made


@contextlib.contextmanager
def terminal(heard: list[bytes]) -> Generator[int]:
    """What is written to the descriptor is heard as from a terminal."""
    master, slave = pty.openpty()

    def hear() -> None:
        with contextlib.suppress(OSError):  # as a terminal ends
            while data := os.read(master, 65536):
                heard.append(data)

    thread = threading.Thread(target=hear)
    thread.start()
    try:
        yield slave
    finally:
        os.close(slave)
        thread.join()
        os.close(master)


def run_here(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A command in this process, whose stdout is a terminal."""
    heard: list[bytes] = []
    with (
        terminal(heard) as slave,
        monkeypatch.context() as patched,
        open(slave, "w", closefd=False) as output,
    ):
        patched.setattr(sys, "stdout", output)
        with contextlib.suppress(SystemExit):
            program(arguments, prog_name="echoctl")
    return b"".join(heard).decode()


def run_in_shell(text: str, folder: Path) -> tuple[str, str]:
    """Commands with pipes between them."""
    function = f'echoctl() {{ {shlex.quote(sys.executable)} -m echo_core "$@"; }}'
    made = subprocess.run(
        ["bash", "-c", f"{function}; {text}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return made.stdout, made.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With the page's programs, which run meanwhile."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", WIDTH)
    programs = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    with contextlib.ExitStack() as stack:
        for name, text in programs:
            (tmp_path / name).write_text(text)
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            process = subprocess.Popen([sys.executable, name], env=environment, stderr=subprocess.DEVNULL)
            stack.callback(process.wait, LIMIT_S)
            stack.callback(process.terminate)
            until(lambda: bool(echo.channels()), "the plant, which is the first")
        with echo.Node() as node, node.open_channel(echo.channels()[0].identity, timeout_s=30) as channel:
            until(lambda: any(member.has_sinks for member in channel.members()), "the detector")
        yield tmp_path


def test_commands_of_the_page_show_what_it_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """But for names, numbers and times; the doctor may find other things here."""

    def said(command: Command) -> tuple[list[str], list[str]]:
        capfd.readouterr()
        if "|" in command.text:
            out, err = run_in_shell(command.text, folder)
        else:
            out = run_here(shlex.split(command.text)[1:], monkeypatch)
            err = capfd.readouterr().err
        return click.unstyle(out).replace("\r\n", "\n").splitlines(), err.splitlines()

    def shows_as_much(command: Command, shown: list[str]) -> bool:
        return len(said(command)[0]) == len(shown)

    for command in commands():
        lines, notes = said(command)
        told = [line for line in command.shown if line.startswith("echoctl: ")]
        shown = [line for line in command.shown if not line.startswith("echoctl: ")]
        if command.text.startswith("echoctl info"):  # news of members take a moment
            until(partial(shows_as_much, command, shown), command.text)
            lines, notes = said(command)
        if command.text == "echoctl doctor":
            shown, lines = ([line.split()[1] for line in each] for each in (shown, lines))
        assert (stable(lines), stable(notes)) == (stable(shown), stable(told)), command.text


def test_page_tells_every_status() -> None:
    """And what each means."""
    from echo_core.tools.endings import Ending

    for ending in Ending:
        assert re.search(rf"^\| (\d+, )*{int(ending)}(, \d+)* \|", PAGE, re.MULTILINE), ending
