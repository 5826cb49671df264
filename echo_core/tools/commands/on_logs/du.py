"""`echoctl log du`: what takes how much room in a log."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.output import is_json, show
from echo_core.tools.parameters import form_options
from echo_core.tools.plain import plain
from echo_core.tools.selecting import log_argument
from echo_core.tools.working import working

_COLUMNS = ("bytes", "events", "bytes_each", "type", "channel", "source")


@click.command()
@log_argument
@form_options
@logs.options
def command(log: str, form: str | None) -> None:
    """Show how many bytes of a LOG are records, of which type, channel and source; the largest first."""
    sizes, events = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    with echo.open_log(log) as opened, working(f"reading {plain(log)}"):
        for batch in opened[None].batches():
            key = batch.format.name, batch.channel, batch.source
            sizes[key] += batch.data.nbytes if batch.format.is_fixed else sum(map(len, batch.records()))
            events[key] += len(batch)
        file_bytes = opened.summary().bytes
    rows = [_row(key, size, events[key]) for key, size in sizes.most_common()]
    show(rows, _COLUMNS, form)
    if not is_json(form):
        records = sum(sizes.values())
        share = f"{100 * (file_bytes - records) / file_bytes:.1f} %" if file_bytes else "nothing"
        click.echo(f"\n{file_bytes} bytes in files, of which {share} is not records")


def _row(key: tuple[str, str, str], size: int, events: int) -> dict[str, Any]:
    type_, channel, source = key
    return {
        "bytes": size,
        "events": events,
        "bytes_each": round(size / events, 1),
        "type": type_,
        "channel": channel,
        "source": source,
    }
