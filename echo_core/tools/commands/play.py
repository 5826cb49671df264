"""`echoctl play`: what was recorded flows again."""

from __future__ import annotations

import datetime as dt
import time
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, end
from echo_core.tools.opening import created, opened
from echo_core.tools.output import is_json, json_line, show_facts
from echo_core.tools.parameters import Way, channel_way, form_options, names_there, timeout_option
from echo_core.tools.plain import plain
from echo_core.tools.selecting import log_argument, moment
from echo_core.tools.working import counting

_LOOK_S = 0.2
_PATIENT_S = 3.0  # until it is told that nothing is played yet


def speed_of(value: str | float) -> float:
    """A factor, or as fast as sinks take it."""
    if value == "max":
        return 0.0
    try:
        speed = float(value)
    except ValueError:
        speed = -1.0
    if not 0 <= speed < float("inf"):
        msg = f"Expected a factor such as 2 or 0.5, or max, got {value!r}."
        raise click.BadParameter(msg)
    return speed


@click.command()
@log_argument
@click.argument("channel", type=channel_way, shell_complete=names_there)
@click.option("--speed", type=speed_of, default=1.0, metavar="X|max", help="So much faster than recorded.")
@click.option("--type", "types", multiple=True, help="Only events that are called so; may be repeated.")
@click.option("--since", type=moment, metavar="TIME", help="Only what was recorded from then on.")
@click.option("--until", type=moment, metavar="TIME", help="Only what was recorded before.")
@click.option("--loop", is_flag=True, help="Begin again at the end, until Ctrl-C or -t.")
@click.option("--create", is_flag=True, help="Create the channel by name if nobody has.")
@click.option("--unmatched", is_flag=True, help="Play though no sink takes what a source sends.")
@timeout_option("End after that time: 5s, 2m.")
@form_options
@logs.options
def command(
    log: str,
    channel: Way,
    speed: float,
    types: tuple[str, ...],
    since: dt.datetime | None,
    until: dt.datetime | None,
    loop: bool,
    create: bool,
    unmatched: bool,
    timeout_s: float | None,
    form: str | None,
) -> None:
    """Play a LOG into a CHANNEL: a source for each that was recorded, with the times between events.

    Sinks that are slow hold it up, and lose nothing. Each source waits for a sink first. The statistics are
    put out at the end; the exit status is 124 if -t has ended it.
    """
    total = _events_of(log, types) if since is None and until is None and not loop else None
    entered: AbstractContextManager[echo.Channel[Any]] = created(channel) if create else opened(channel)
    with entered as joined:
        player = echo.play(
            log,
            joined,
            speed=speed,
            types=types or None,
            since_s=None if since is None else since.timestamp(),
            until_s=None if until is None else until.timestamp(),
            loop=loop,
            wait_matched=0 if unmatched else 1,
        )
        try:
            is_done = _go_on(player, total, timeout_s, log)
        finally:
            player.close()
            _tell(player.statistics(), log, form)
    if not is_done:
        end(Ending.OUT_OF_TIME)


def _events_of(log: str, types: tuple[str, ...]) -> int:
    with echo.open_log(log) as opened_log:
        return sum(stream.events for stream in opened_log.streams if not types or stream.format.name in types)


def _go_on(player: echo.Player, total: int | None, timeout_s: float | None, log: str) -> bool:
    """Whether all has been played."""
    began, is_told = time.monotonic(), False
    with counting(f"playing {plain(log)}", total) as tell:
        while timeout_s is None or time.monotonic() - began < timeout_s:
            left_s = _LOOK_S if timeout_s is None else began + timeout_s - time.monotonic()
            try:
                player.wait(max(0.0, min(_LOOK_S, left_s)))
            except echo.TimedOutError:
                played = player.statistics().events
                tell(played, f"{played:,} events")
                if not (played or is_told) and time.monotonic() - began > _PATIENT_S:
                    is_told = True
                    logs.note("nothing is played yet: each source waits for a sink, but with --unmatched")
            else:
                return True
    return False


def _tell(statistics: Any, log: str, form: str | None) -> None:
    told = asdict(statistics)
    if is_json(form):
        click.echo(json_line({"log": log, **told}))
    else:
        names = ("events", "late", "most_late_s", "lost", "missing", "damaged")
        show_facts({"log": log, **{name.replace("_", " "): told[name] for name in names}})
