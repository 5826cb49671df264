"""`echoctl record`: what flows on channels goes into a log."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, ToolError
from echo_core.tools.opening import all_opened
from echo_core.tools.output import is_json, json_line, show_facts
from echo_core.tools.parameters import (
    Way,
    channel_of_environment,
    channel_way,
    duration,
    form_options,
    names_there,
    size,
    timeout_option,
)
from echo_core.tools.plain import plain
from echo_core.tools.surveys import survey
from echo_core.tools.taps import Tap
from echo_core.tools.working import counting

_LOOK_S = 0.2


@click.command()
@click.argument("channels", nargs=-1, type=channel_way, shell_complete=names_there, metavar="[CHANNEL]...")
@click.option(
    "-o", "--output", "log", required=True, type=click.Path(), metavar="LOG", help="The log's folder."
)
@click.option("--where", help="Only events that pass, such as 'temperature > 300'; sources judge them.")
@click.option(
    "--level",
    type=click.Choice(["volatile", "buffered", "synced"]),
    default="buffered",
    show_default=True,
    help="What a crash may take.",
)
@click.option("--block", is_flag=True, help="Have sources wait for the disk; else what has no room is a gap.")
@click.option("--split-size", type=size, metavar="SIZE", help="How large one file of it may become.")
@click.option("--split-time", type=duration, metavar="TIME", help="How long one file of it is written to.")
@click.option("--keep-size", type=size, metavar="SIZE", help="Remove the oldest files beyond so much.")
@click.option("--keep-time", type=duration, metavar="TIME", help="Remove files that are older.")
@click.option("--keep-free", type=size, metavar="SIZE", help="Leave so much of the disk free; 1G by default.")
@click.option("--before", "before_s", type=duration, metavar="TIME", help="Keep so much until --trigger.")
@click.option("--trigger", metavar="WHERE", help="Record from --before the first event on that passes.")
@click.option("--wait", "wait_s", type=duration, default=0.0, metavar="TIME", help="Wait so long for names.")
@timeout_option("End after that time: 5s, 2m.")
@form_options
@logs.options
def command(
    channels: tuple[Way, ...],
    log: str,
    where: str | None,
    level: Literal["volatile", "buffered", "synced"],
    block: bool,
    split_size: int | None,
    split_time: float | None,
    keep_size: int | None,
    keep_time: float | None,
    keep_free: int | None,
    before_s: float | None,
    trigger: str | None,
    wait_s: float,
    timeout_s: float | None,
    form: str | None,
) -> None:
    """Record what flows on CHANNELs into one LOG, until Ctrl-C or -t; a log that is there is continued.

    The statistics of the recording are put out at the end.
    """
    if (before_s is None) != (trigger is None):
        msg = "Expected --before and --trigger together, got one of them."
        raise click.UsageError(msg, click.get_current_context())
    rotate = echo.Rotate()
    if split_size is not None:
        rotate = replace(rotate, bytes=split_size)
    if split_time is not None:
        rotate = replace(rotate, seconds=split_time)
    retain = echo.Retain(bytes=keep_size, seconds=keep_time)
    if keep_free is not None:
        retain = replace(retain, min_free=keep_free)
    with (
        all_opened(channels or (channel_of_environment(),), wait_s=wait_s) as opened,
        _triggered(opened, trigger) as is_hit,  # first: where the condition is wrong there is no log
        contextlib.ExitStack() as derived,
    ):
        recorder = echo.record(
            opened if where is None else [each for it in opened for each in _passing(it, where, derived)],
            log,
            level=level,
            on_full="block" if block else "drop",
            rotate=rotate,
            retain=retain,
            before_s=before_s,
        )
        is_hit.clear()  # what came before is not kept
        try:
            _go_on(recorder, is_hit, timeout_s)
        finally:
            recorder.close()
            _tell(recorder.statistics(), log, form)


def _passing(
    channel: echo.Channel[Any], where: str, derived: contextlib.ExitStack
) -> list[echo.Channel[Any]]:
    """What is derived of each type that has what the condition reads: of those declared, or else sent now."""
    known = channel.types or survey(channel).formats(channel)
    formats = {format_.name: format_ for format_ in known}
    problems: list[echo.ExpressionError] = []
    found: list[echo.Channel[Any]] = []
    for name, format_ in formats.items():
        try:
            found.append(derived.enter_context(channel.derive(format_, where=where)))
        except echo.ExpressionError as error:
            problems.append(error)
            if len(formats) > 1:
                logs.note(f"events of `{name}` are left out: {error}")
    if not found and problems:
        raise problems[0]
    if not found:
        msg = "Expected a channel whose types are known, for --where: it has none, and nobody sends"
        raise ToolError(msg, ending=Ending.USAGE, hint="begin when its sources are there")
    if not channel.types:
        logs.note("the channel was declared without types: those that come later are not recorded")
    return found


@contextlib.contextmanager
def _triggered(channels: Sequence[echo.Channel[Any]], trigger: str | None) -> Generator[threading.Event]:
    """An event that is set when one has passed the trigger's condition on any of the channels."""
    is_hit = threading.Event()
    taps: list[Tap] = []

    def hit(_event: Any, _info: echo.EventInfo) -> None:
        is_hit.set()

    try:
        if trigger is not None:
            taps += [Tap(channel, hit, where=trigger) for channel in channels]
        yield is_hit
    finally:
        for tap in taps:
            tap.close()


def _go_on(recorder: echo.Recorder, is_hit: threading.Event, timeout_s: float | None) -> None:
    began = time.monotonic()
    with counting(f"recording into {plain(recorder.path)}", timeout_s) as tell:
        while timeout_s is None or time.monotonic() - began < timeout_s:
            left_s = _LOOK_S if timeout_s is None else began + timeout_s - time.monotonic()
            if is_hit.wait(max(0.0, min(_LOOK_S, left_s))):
                is_hit.clear()
                _trigger(recorder)
            statistics = recorder.statistics()
            if statistics.failure is not None:
                msg = f"Expected a disk that takes what is recorded, got {statistics.failure}"
                raise ToolError(msg)
            tell(time.monotonic() - began, f"{statistics.events:,} events, {statistics.size_bytes:,} bytes")


def _trigger(recorder: echo.Recorder) -> None:
    """Once; from then on all is recorded."""
    if recorder.statistics().is_waiting:
        recorder.trigger()
        logs.note("triggered")


def _tell(statistics: Any, log: str, form: str | None) -> None:
    told = asdict(statistics)
    if is_json(form):
        click.echo(json_line({"log": log, **told}))
    else:
        names = ("events", "size_bytes", "missing", "dropped")
        show_facts({"log": log, **{name.replace("_", " "): told[name] for name in names}})
