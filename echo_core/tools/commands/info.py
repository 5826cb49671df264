"""`echoctl info`: who is on a channel, and what they send."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.opening import opened
from echo_core.tools.output import is_json, json_line, show_facts, show_table
from echo_core.tools.parameters import Way, channel_argument, duration, form_options
from echo_core.tools.surveys import Survey, survey


@click.command()
@channel_argument
@click.option(
    "--for",
    "seconds",
    type=duration,
    default=0.0,
    metavar="TIME",
    help="Take events for so long, and say how many come. Else none is taken.",
)
@form_options
@logs.options
def command(channel: Way, seconds: float, form: str | None) -> None:
    """Show who is on a CHANNEL, their sources with the types of events, and how they are linked."""
    with opened(channel) as joined:
        found = survey(joined)
        rates = _measured(joined, seconds) if seconds > 0 else None
        facts = _facts(joined, found, rates)
    if is_json(form):
        click.echo(json_line(facts))
    else:
        _show(facts)


def _facts(channel: echo.Channel[Any], found: Survey, rates: dict[str, Any] | None) -> dict[str, Any]:
    formats = found.formats(channel)
    return {
        "name": channel.name,
        "types": [
            {"name": each.name, "token": str(each.token), "declared": each in channel.types}
            for each in formats
        ],
        "members": [_member(each) for each in found.members],
        "sources": [
            {"name": each.name, "type": each.format.name, "peer": each.peer} for each in found.sources
        ],
        "problems": [str(each) for each in found.problems],
        **({} if rates is None else {"measured": rates}),
        "statistics": asdict(channel.statistics()),
    }


def _member(member: echo.Member) -> dict[str, Any]:
    return {
        "name": member.name,
        "holds": member.holds_channel,
        "sources": member.has_sources,
        "sinks": member.has_sinks,
        "linked": member.is_linked,
        "addresses": list(member.addresses),
    }


def _measured(channel: echo.Channel[Any], seconds: float) -> dict[str, Any]:
    """What comes within a time, by the source's name; what comes too fast to be counted is dropped."""
    counts: Counter[str] = Counter()

    def count(_event: Any, info: echo.EventInfo) -> None:
        counts[info.source] += 1

    bound = echo.Backlog(when_full="drop_oldest")
    with channel.sink(None, count, own_thread=True, backlog=bound) as sink:
        began = time.monotonic()
        time.sleep(seconds)
        statistics, took_s = sink.statistics(), time.monotonic() - began
    return {
        "seconds": round(took_s, 3),
        "events_per_s": round((statistics.events + statistics.lost + statistics.dropped) / took_s, 1),
        "bytes_per_s": round(statistics.size_bytes / took_s, 1),
        "missed": statistics.lost + statistics.dropped,
        "events_by_source": dict(counts),
    }


def _show(facts: dict[str, Any]) -> None:
    types = ", ".join(each["name"] for each in facts["types"]) or "none known"
    show_facts({"channel": facts["name"], "types": types, "members": len(facts["members"])})
    columns = ("name", "holds", "sources", "sinks", "linked", "addresses")
    rows = [[*(each[key] for key in columns[:-1]), " ".join(each["addresses"])] for each in facts["members"]]
    if rows:
        click.echo()
        show_table(rows, ("member", *columns[1:]))
    if facts["sources"]:
        click.echo()
        counted: Counter[tuple[str, str, str]] = Counter(
            (each["name"], each["type"], each["peer"]) for each in facts["sources"]
        )
        show_table([(*key, number) for key, number in counted.items()], ("source", "type", "at", "sources"))
    if "measured" in facts:
        click.echo()
        measured = facts["measured"]
        show_facts({key: measured[key] for key in measured if key != "events_by_source"})
    for problem in facts["problems"]:
        logs.note(problem)
