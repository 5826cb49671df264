"""`echoctl watch`: events as they come."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, end
from echo_core.tools.events import Writer, origin_of, writer_for
from echo_core.tools.opening import opened
from echo_core.tools.parameters import Way, channel_argument, duration, timeout_option
from echo_core.tools.spools import Spool
from echo_core.tools.taps import Tap

_TICK_S = 0.05  # how long what is written may wait to be seen
_TELL_S = 1.0  # between two lines on what was missed


@click.command()
@channel_argument
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many events.")
@timeout_option("End after that time: 5s, 500ms, 2m.")
@click.option("--where", help="Only events that pass, such as 'temperature > 300'; sources judge them.")
@click.option("--select", help="Only these fields, such as id,at.x; sources send no others.")
@click.option(
    "--wait", "wait_s", type=duration, default=0.0, metavar="TIME", help="Wait so long for a channel by name."
)
@click.option("--json", "form", flag_value="json", help="JSON lines, as pipes get them.")
@click.option("--csv", "form", flag_value="csv", help="Comma-separated values with a header.")
@click.option("--lines", "form", flag_value="lines", help="Lines for people, as terminals get them.")
@click.option("-f", "--fields", "template", help="A line for each, such as '{id} {temperature:.1f}'.")
@click.option(
    "-i", "--info", "with_origin", is_flag=True, help="JSON with _type, _source, _sequence and others."
)
@logs.options
def command(
    channel: Way,
    count: int | None,
    timeout_s: float | None,
    where: str | None,
    select: str | None,
    wait_s: float,
    form: str | None,
    template: str | None,
    with_origin: bool,
) -> None:
    """Show the events of a CHANNEL, of whatever type, as they come.

    What comes faster than it can be shown is dropped, the oldest first, and counted on stderr. Nobody else
    on the channel waits for this program. The exit status is 1 if no event has come, and 124 if fewer than -n
    have when -t is over.
    """
    spool = Spool(count)
    text_of = writer_for(form, template, with_origin=with_origin)
    selected = None if select is None else _selection(select)
    with opened(channel, wait_s=wait_s) as joined:
        tap = Tap(joined, partial(_spool, spool, text_of), where=where, select=selected, wake=spool.wake)
        try:
            _go_on(tap, spool, timeout_s)
        finally:
            spool.close()
            tap.close()
            _tell_missed(tap.missed)
    if count is not None and spool.lines < count:
        end(Ending.OUT_OF_TIME)
    if not spool.lines:
        end(Ending.UNMATCHED)


def _spool(spool: Spool, text_of: Writer, event: Any, info: echo.EventInfo) -> None:
    """Called by the threads of sinks."""
    spool.add(lambda: text_of(event, origin_of(info)))


def _selection(text: str) -> dict[str, str]:
    """Fields by the names that they have from then on: `at.x` is `at_x`."""
    paths = [path.strip() for path in text.split(",")]
    return {path.replace(".", "_"): path for path in paths}


def _go_on(tap: Tap, spool: Spool, timeout_s: float | None) -> None:
    """Until there is enough, or time is up, or nobody reads any more."""
    limit = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
    told_at, told = time.monotonic(), (0, 0)
    while not spool.is_full() and time.monotonic() < limit:
        spool.wait(min(_TICK_S, max(0.0, limit - time.monotonic())))
        tap.attend()
        spool.write()
        if time.monotonic() - told_at >= _TELL_S:
            told_at = time.monotonic()
            if tap.missed != told:
                told = tap.missed
                _tell_missed(told)
    spool.write()


def _tell_missed(missed: tuple[int, int]) -> None:
    here, before = missed
    if here or before:
        logs.note(f"missed {here + before:,} events so far: {here:,} dropped here, {before:,} at sources")
