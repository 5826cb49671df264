"""`echoctl compare`: what becomes of each field on the way from one type to another."""

from __future__ import annotations

from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, ToolError, end
from echo_core.tools.output import cell, is_json, json_line, show_table
from echo_core.tools.parameters import form_options
from echo_core.tools.typed import formats_of


@click.command()
@click.argument("sender", metavar="A")
@click.argument("receiver", metavar="B")
@click.option("--lossy", is_flag=True, help="Consent to conversions that may lose.")
@click.option("--strict", is_flag=True, help="Refuse defaults where A has a field with a similar name.")
@form_options
@logs.options
def command(sender: str, receiver: str, lossy: bool, strict: bool, form: str | None) -> None:
    """Compare types: what becomes of each field of events of A where a sink takes B.

    Each is FILE.py:Class, package.module:Class, a C header FILE.h or FILE.h:struct, a FILE with a format's
    metadata, a log, or a channel. Where one has several types, those of the same name are compared. The exit
    status is 1 if B cannot be filled from A.
    """
    reports = [
        echo.compare(ours, theirs, lossy=lossy, strict=strict)
        for ours, theirs in _pairs(formats_of(sender), formats_of(receiver))
    ]
    for i, report in enumerate(reports):
        if is_json(form):
            click.echo(json_line(_described(report)))
        else:
            if i:
                click.echo()
            _show(report)
    if not all(report.is_accepted for report in reports):
        end(Ending.UNMATCHED)


def _pairs(senders: list[echo.Format], receivers: list[echo.Format]) -> list[tuple[echo.Format, echo.Format]]:
    """All of one name, or the only two, whatever they are called."""
    if len(senders) == len(receivers) == 1:
        return [(senders[0], receivers[0])]
    pairs = [(ours, theirs) for ours in senders for theirs in receivers if ours.name == theirs.name]
    if not pairs:
        names = [", ".join(f"`{each.name}`" for each in side) for side in (senders, receivers)]
        msg = f"Expected types of the same name, got {names[0]} and {names[1]}"
        raise ToolError(msg, ending=Ending.USAGE)
    return pairs


def _described(report: echo.Report) -> dict[str, Any]:
    return {
        "sender": report.sender,
        "receiver": report.receiver,
        "accepted": report.is_accepted,
        "same": report.is_same,
        "fields": [
            {
                "path": entry.path,
                "verdict": entry.verdict.value,
                "sender": entry.sender,
                "receiver": entry.receiver,
                "reason": entry.reason,
                "lookalike": entry.lookalike,
            }
            for entry in report.entries
        ],
    }


def _show(report: echo.Report) -> None:
    verdict = "accepted" if report.is_accepted else "refused"
    rows = [
        (entry.path, entry.verdict.value, entry.sender, entry.receiver, entry.reason)
        for entry in report.entries
    ]
    columns = ("field", "verdict", "sender", "receiver", "reason")
    show_table(rows, columns, title=f"{report.sender} -> {report.receiver}: {verdict}")
    for entry in report.lookalikes:
        logs.note(f"{cell(entry.path)} takes its default, though A has `{cell(entry.lookalike)}`")
