"""`echoctl log export`: a log's events in a file for other programs."""

from __future__ import annotations

import os
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, ToolError
from echo_core.tools.plain import plain
from echo_core.tools.selecting import Chosen, chosen_options, log_argument
from echo_core.tools.working import working

_TABLES = (".parquet", ".arrow", ".csv")


@click.command()
@log_argument
@click.argument("file", type=click.Path())
@chosen_options
@click.option("--info/--no-info", default=True, help="Whether to write where each event is from.")
@logs.options
def command(log: str, file: str, chosen: Chosen, info: bool) -> None:
    """Write events of a LOG to a FILE: .parquet, .arrow, .csv, .jsonl or .mcap, as its suffix says.

    All but .jsonl and .mcap hold events of one type: --type says which. A file that is there is replaced
    once all is written.
    """
    with echo.open_log(log) as opened, working(f"exporting {plain(log)}"):
        view = chosen.of(opened)
        _demand_one_type(view, file)
        events = view.export(file, info=info)
    logs.note(f"{events:,} events are in {file}")


def _demand_one_type(view: echo.View[Any], file: str) -> None:
    """Of files that are tables."""
    names = sorted({format_.name for format_ in view.formats})
    if os.path.splitext(file)[1] in _TABLES and len(names) > 1:
        msg = f"Expected events of one type for {plain(file)}, got {', '.join(f'`{name}`' for name in names)}"
        raise ToolError(msg, ending=Ending.USAGE, hint="say which by --type, or write .jsonl or .mcap")
