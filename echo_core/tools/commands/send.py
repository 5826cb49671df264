"""`echoctl send`: events that are written as JSON."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, ToolError
from echo_core.tools.opening import opened
from echo_core.tools.parameters import Way, channel_way, names_there, timeout_option
from echo_core.tools.surveys import survey

_WAIT_S = 5.0


@click.command()
@click.argument("channel", type=channel_way, shell_complete=names_there)
@click.argument("events", nargs=-1)
@click.option("--type", "type_name", help="The type, where the channel has several.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="So many events a second.")
@click.option("--unmatched", is_flag=True, help="Send though no sink takes the events.")
@timeout_option("How long to wait for a sink, and for what was sent to arrive.", default=_WAIT_S)
@logs.options
def command(
    channel: Way,
    events: tuple[str, ...],
    type_name: str | None,
    rate: float | None,
    unmatched: bool,
    timeout_s: float,
) -> None:
    """Send EVENTS to a CHANNEL, each an object of JSON; without any, those on stdin, a line for each.

    The type is that of the channel, or of those who send on it. Fields with a default may be left out. The
    exit status is 1 if nobody takes the events, and 2 if one does not fit the type.
    """
    if not events and channel.kind == "stdin":
        msg = "Expected events as arguments, since the channel's id comes from stdin."
        raise click.UsageError(msg, click.get_current_context())
    with opened(channel) as joined:
        format_ = _chosen(joined, type_name)
        found = _read(sys.stdin, "line", format_)
        if events:
            found = iter(list(_read(events, "argument", format_)))  # what is wrong is said before any is sent
        first = list(itertools.islice(found, 1))  # and of lines before a sink is waited for
        with joined.source(format_, name="echoctl") as source:
            if not unmatched:
                _wait_for_sinks(source, timeout_s)
            sent = 0
            for event in itertools.chain(first, found):
                source.submit(event)
                sent += 1
                if rate is not None:
                    time.sleep(1 / rate)
            joined.drain(timeout_s)
    logs.note(f"sent {sent:,} {'event' if sent == 1 else 'events'} of `{format_.name}`")


def _chosen(channel: echo.Channel[Any], name: str | None) -> echo.Format:
    """The one type of the channel, or the one that is called so."""
    formats = list(channel.types) or survey(channel).formats(channel)
    fitting = [format_ for format_ in formats if name in (None, format_.name)]
    names = sorted({format_.name for format_ in formats})
    if not names:
        msg = "Expected a channel whose type is known, it was declared with none, and nobody sends"
        raise ToolError(msg, ending=Ending.USAGE)
    if len({format_.name for format_ in fitting}) != 1:
        told = f"one of the types {', '.join(f'`{each}`' for each in names)}"
        msg = f"Expected {told}, got {'none' if name is None else f'`{name}`'}"
        raise ToolError(msg, ending=Ending.USAGE, hint="say which by --type")
    return fitting[0]


def _wait_for_sinks(source: echo.Source[Any], timeout_s: float) -> None:
    try:
        source.wait_matched(1, timeout_s)
    except echo.TimedOutError as error:
        raise ToolError(str(error), hint="--unmatched sends all the same") from None


def _read(lines: Iterable[str], what: str, format_: echo.Format) -> Iterator[Any]:
    encode = echo.encoder(format_.record_class())
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = echo.from_jsonable(format_, json.loads(line))
            encode(event)
            yield event
        except (json.JSONDecodeError, RecursionError) as error:
            got = f"{line.strip()[:40]!r} in {what} {number}: {error}"
            msg = f"Expected JSON such as '{{\"id\": 1}}', got {got}"
            raise ToolError(msg, ending=Ending.USAGE) from None
