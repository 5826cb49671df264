"""`echoctl log info`: what a log holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.output import is_json, json_line, show_facts, show_table
from echo_core.tools.parameters import form_options
from echo_core.tools.selecting import log_argument


@click.command()
@log_argument
@form_options
@logs.options
def command(log: str, form: str | None) -> None:
    """Show what a LOG holds: its streams with their types and numbers, what is missing, what is damaged."""
    with echo.open_log(log) as opened:
        summary, streams = asdict(opened.summary()), [_stream(each) for each in opened.streams]
        types = [{"name": each.name, "token": str(each.token)} for each in opened.formats]
    if is_json(form):
        click.echo(json_line({"path": log, **summary, "types": types, "stream_list": streams}))
        return
    show_facts({"log": log, **{name.replace("_", " "): value for name, value in summary.items()}})
    if streams:
        columns = ("events", "type", "channel", "source", "node", "first", "last")
        click.echo()
        show_table([[each[column] for column in columns] for each in streams], columns)


def _stream(stream: Any) -> dict[str, Any]:
    key = stream.key
    return {
        "type": stream.format.name,
        "channel": key.channel_name,
        "channel_id": key.channel.hex(),
        "node": key.node,
        "source": key.source_name,
        "source_id": key.source.hex(),
        "epoch": key.epoch,
        "events": stream.events,
        "first": stream.first,
        "last": stream.last,
    }
