"""`echoctl log recover`: what can be read of a damaged log."""

from __future__ import annotations

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.commands.on_logs.verify import show_verification
from echo_core.tools.parameters import form_options
from echo_core.tools.plain import plain
from echo_core.tools.selecting import log_argument
from echo_core.tools.working import working


@click.command()
@log_argument
@click.argument("new", type=click.Path())
@form_options
@logs.options
def command(log: str, new: str, form: str | None) -> None:
    """Copy all that can be read of a damaged LOG to NEW, where nothing may be, and say what that was.

    The LOG stays as it is. What is missing in NEW is told there as gaps.
    """
    with working(f"recovering {plain(log)}"):
        verification = echo.recover_log(log, new)
    show_verification(verification, form)
