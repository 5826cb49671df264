"""`echoctl log verify`: whether a log is as it was written."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, end
from echo_core.tools.output import is_json, json_line
from echo_core.tools.parameters import form_options
from echo_core.tools.plain import plain
from echo_core.tools.selecting import log_argument
from echo_core.tools.working import working


@click.command()
@log_argument
@form_options
@logs.options
def command(log: str, form: str | None) -> None:
    """Read all of a LOG, and say whether it is as it was written.

    The exit status is 1 where anything is damaged. What was never recorded, and an end that a crash left
    unfinished, is told and no damage.
    """
    with echo.open_log(log) as opened, working(f"verifying {plain(log)}"):
        verification = opened.verify()
    show_verification(verification, form)
    if not verification.is_sound:
        end(Ending.UNMATCHED)


def show_verification(verification: echo.Verification, form: str | None) -> None:
    """As a table, or in one line of JSON."""
    if is_json(form):
        click.echo(json_line(_described(verification)))
    else:
        click.echo("\n".join(map(plain, str(verification).split("\n"))))


def _described(verification: echo.Verification) -> dict[str, Any]:
    sources = {stream.number: stream.key.source_name for stream in verification.streams}
    return {
        "sound": verification.is_sound,
        "torn": verification.is_torn,
        "events": verification.events,
        "record_bytes": verification.record_bytes,
        "file_bytes": verification.file_bytes,
        "damage": [asdict(each) for each in verification.damage],
        "missing": [
            {"source": sources.get(gap.stream), "first": gap.first, "last": gap.last, "cause": gap.cause}
            for gap in verification.missing
        ],
    }
