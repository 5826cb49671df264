"""`echoctl log`: what is done to logs, in modules of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from echo_core.tools import logs
from echo_core.tools.lazy import LazyGroup


class _Logs(LazyGroup):
    modules = "echo_core.tools.commands.on_logs"
    summaries: ClassVar[Mapping[str, str]] = {
        "info": "Show what a log holds: streams, types, gaps, damage.",
        "cat": "Show the events of a log.",
        "verify": "Read all of a log, and say whether it is as it was written.",
        "recover": "Copy all that can be read of a damaged log.",
        "filter": "Copy some of a log's events to another log.",
        "merge": "Copy several logs into one, in the order of their times.",
        "du": "Show what takes how much room in a log.",
        "export": "Write a log's events to a file for other programs.",
    }


@click.group(cls=_Logs)
@logs.options
def command() -> None:
    """Look into logs, check, cut, merge and export them. A log is a folder, such as run.echolog."""
