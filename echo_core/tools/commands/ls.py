"""`echoctl ls`: the channels by name that are there."""

from __future__ import annotations

import fnmatch

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, end
from echo_core.tools.output import show
from echo_core.tools.parameters import form_options

_LONGEST_COMMAND = 60


@click.command()
@click.argument("pattern", required=False)
@form_options
@logs.options
def command(pattern: str | None, form: str | None) -> None:
    """List the channels by name that this user has on this host, and the process that holds each.

    PATTERN is one of file names: 'laboratory/*'. Where it fits none, the exit status is 1.
    """
    found = [each for each in echo.channels() if pattern is None or fnmatch.fnmatchcase(each.name, pattern)]
    rows = [
        {"name": each.name, "process": each.process_id, "command": _command(each.process_id)}
        for each in found
    ]
    if rows or form == "json":
        show(rows, ("name", "process", "command"), form)
    else:
        logs.note("no channel by name is there" if pattern is None else f"no channel fits {pattern!r}")
    if pattern is not None and not found:
        end(Ending.UNMATCHED)


def _command(process: int | None) -> str | None:
    """What the process was started with; it may have ended meanwhile."""
    if process is None:
        return None
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0").split(b"\0")
    except OSError:
        return None
    command = b" ".join(words).decode(errors="replace")
    return command if len(command) <= _LONGEST_COMMAND else f"{command[: _LONGEST_COMMAND - 1]}\u2026"
