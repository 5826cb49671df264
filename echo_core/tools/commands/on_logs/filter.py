"""`echoctl log filter`: some of a log's events in another log."""

from __future__ import annotations

import os

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, ToolError
from echo_core.tools.plain import plain
from echo_core.tools.selecting import Chosen, chosen_options, log_argument
from echo_core.tools.working import working

_SUFFIX = ".echolog"


@click.command()
@log_argument
@click.argument("new", type=click.Path())
@chosen_options
@logs.options
def command(log: str, new: str, chosen: Chosen) -> None:
    """Copy events of a LOG to NEW, a log where nothing may be: those of a type, source, time, condition."""
    if os.path.splitext(new)[1] != _SUFFIX:
        msg = f"Expected a new log NAME{_SUFFIX}, got {new}"
        raise ToolError(msg, ending=Ending.USAGE, hint="`echoctl log export` writes other files")
    with echo.open_log(log) as opened, working(f"copying {plain(log)}"):
        events = chosen.of(opened).export(new)
    logs.note(f"{events:,} events are in {new}")
