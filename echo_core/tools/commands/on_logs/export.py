"""`echoctl log export`: a log's events in a file for other programs."""

from __future__ import annotations

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.plain import plain
from echo_core.tools.selecting import Chosen, chosen_options, log_argument
from echo_core.tools.working import working


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
        events = chosen.of(opened).export(file, info=info)
    logs.note(f"{events:,} events are in {file}")
