"""The program: its commands by name, the options that all have, and how each of them ends.

Nothing of echo_core but its name is imported here, nor is rich: `--help` takes no longer than click does. The
texts of `--help` stand in a table for that; each command's own module is imported when the command is called.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Generator
from types import FrameType
from typing import Any, NoReturn

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.lazy import LazyGroup

_COMMANDS = {
    "ls": "List the channels by name that are there, and who holds them.",
    "info": "Show who is on a channel, and what they send.",
    "types": "Show the types of a channel's events, field by field.",
    "watch": "Show events as they come.",
    "send": "Send events that are written as JSON.",
    "record": "Record what flows on channels into a log.",
    "play": "Have what was recorded flow again.",
    "log": "Look into logs, check, cut, merge and export them.",
    "compare": "Compare types: what becomes of each field on the way from A to B.",
    "doctor": "Check what this machine has for echo_core to run well.",
}


class Program(LazyGroup):
    """Ends each command with the status that fits what has happened."""

    modules = "echo_core.tools.commands"
    summaries = _COMMANDS

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            with logs.shown():
                return _end(ctx, error)

    def invoke(self, ctx: click.Context) -> Any:
        with logs.shown() as shown, _terminated_in_words():
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()
            except click.exceptions.Exit:
                with contextlib.suppress(BrokenPipeError):
                    sys.stdout.flush()
                raise
            except BaseException as error:  # noqa: BLE001 - `_end` lets go on what it does not know
                if shown.has_tracebacks and not isinstance(error, click.ClickException | BrokenPipeError):
                    logs.tell_traceback()
                _end(ctx, error)
            return result


def _end(ctx: click.Context, error: BaseException) -> NoReturn:
    """Says in one line what went wrong, and ends with its status; what is a mistake of ours goes on."""
    from echo_core.tools.endings import Ending, ending_of

    ending = ending_of(error)
    if ending is None:
        raise error
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else ctx.command_path
        logs.say(f"{error.format_message()} See `{path} --help`.")
    elif ending is Ending.PIPE_CLOSED:
        _let_go_of_output()
    elif ending in (Ending.INTERRUPTED, Ending.HUNG_UP, Ending.TERMINATED):
        if not _takes_output():
            _let_go_of_output()
    else:
        logs.say(str(error))
    raise click.exceptions.Exit(int(ending)) from None


def _takes_output() -> bool:
    """Whether a write would not wait for who reads it."""
    output = select.poll()
    with contextlib.suppress(OSError):  # it has no descriptor
        output.register(sys.stdout.fileno(), select.POLLOUT)
        return bool(output.poll(0))
    return True


def _let_go_of_output() -> None:
    """Nobody reads it, and Python would complain at the end of the process about what is left."""
    with open("/dev/null", "w") as nowhere, contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextlib.contextmanager
def _terminated_in_words() -> Generator[None]:
    """SIGTERM, or a terminal that is closed, ends a command as Ctrl-C does: what it has open is closed."""
    if threading.current_thread() is not threading.main_thread():  # which alone has handlers
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    taken = [number for number, handler in handlers.items() if handler is not signal.SIG_IGN]  # as by `nohup`
    try:
        for number in taken:
            signal.signal(number, _terminate)
        yield
    finally:
        for number in taken:
            signal.signal(number, handlers[number])


def _terminate(number: int, _frame: FrameType | None) -> None:
    from echo_core.tools.endings import Terminated

    raise Terminated(number)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(echo.__version__, message="%(version)s")
@logs.options
def program() -> None:
    """Look at channels, and at what flows on them.

    A CHANNEL is a name; or @FILE, - or env:VARIABLE, which hold its id; without one it is $ECHO_CHANNEL.
    Terminals get tables, pipes JSON lines.
    """
