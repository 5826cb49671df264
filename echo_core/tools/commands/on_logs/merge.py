"""`echoctl log merge`: several logs in one."""

from __future__ import annotations

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.working import working


@click.command()
@click.argument("given", nargs=-1, required=True, type=click.Path(file_okay=False), metavar="LOG...")
@click.option("-o", "--output", "new", required=True, type=click.Path(), metavar="NEW", help="The new log.")
@logs.options
def command(given: tuple[str, ...], new: str) -> None:
    """Copy LOGs into one, NEW, where nothing may be, in the order of their times.

    What several of them have of one source is there once.
    """
    with working(f"merging {len(given)} logs"):
        events = echo.merge_logs(given, new)
    logs.note(f"{events:,} events are in {new}")
