"""`echoctl log cat`: the events of a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, end
from echo_core.tools.events import origin_of, writer_for
from echo_core.tools.parameters import duration
from echo_core.tools.selecting import Chosen, chosen_options, log_argument

_FLUSH_S = 0.1


@click.command()
@log_argument
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many events.")
@click.option("-F", "--follow", is_flag=True, help="Go on with what is added.")
@click.option("-t", "--timeout", "timeout_s", type=duration, metavar="TIME", help="Follow until none comes.")
@chosen_options
@click.option("--json", "form", flag_value="json", help="JSON lines, as pipes get them.")
@click.option("--csv", "form", flag_value="csv", help="Comma-separated values with a header.")
@click.option("--lines", "form", flag_value="lines", help="Lines for people, as terminals get them.")
@click.option("-f", "--fields", "template", help="A line for each, such as '{id} {temperature:.1f}'.")
@click.option("-i", "--info", "with_origin", is_flag=True, help="JSON with _type, _source, _sequence too.")
@logs.options
def command(
    log: str,
    count: int | None,
    follow: bool,
    timeout_s: float | None,
    chosen: Chosen,
    form: str | None,
    template: str | None,
    with_origin: bool,
) -> None:
    """Show the events of a LOG, in the order in which they were recorded.

    What is missing or damaged is told on stderr. The exit status is 1 where no event was shown.
    """
    text_of = writer_for(form, template, with_origin=with_origin)
    shown, flushed_at = 0, time.monotonic()
    with echo.open_log(log) as opened:
        view = chosen.of(opened)
        events: Iterable[tuple[object, echo.LoggedInfo]]
        events = view.follow(timeout_s=timeout_s).with_info() if follow else view.with_info()
        for event, info in events:
            text = text_of(event, {**origin_of(info), "_epoch": info.epoch, "_channel": info.channel})
            if text is None:
                continue
            sys.stdout.write(text)
            shown += 1
            if follow or time.monotonic() - flushed_at > _FLUSH_S:
                flushed_at = time.monotonic()
                sys.stdout.flush()
            if shown == count:
                break
    if not shown:
        end(Ending.UNMATCHED)
