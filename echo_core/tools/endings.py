"""How a command ends: its exit status, and the error that says so."""

from __future__ import annotations

import enum

import click

import echo_core as echo


class Ending(enum.IntEnum):
    """Exit statuses; `docs/tools.md` has them as a table."""

    DONE = 0
    UNMATCHED = 1  # nothing was found, it does not fit, or it could not be done
    USAGE = 2  # the command line, or what it names, is wrong
    UNREACHABLE = 3  # a channel, or somebody on it
    OUT_OF_TIME = 124
    HUNG_UP = 129
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


class ToolError(echo.EchoError):
    """What a command cannot do, with the exit status that says so."""

    def __init__(self, message: str, *, ending: Ending = Ending.UNMATCHED, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.ending = ending


class Terminated(BaseException):
    """The process was asked to end by a signal; not an Exception, so that nothing takes it for a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.ending = Ending(128 + number)


_CALLERS_FAULT = (echo.ChannelError, echo.EncodeError, echo.ExpressionError, echo.FormatError)
_NOBODY_THERE = (echo.LinkError, echo.TimedOutError)


def ending_of(error: BaseException) -> Ending | None:
    """What an exception means; None: it is a mistake of this program."""
    match error:
        case ToolError():
            return error.ending
        case click.UsageError():
            return Ending.USAGE
        case KeyboardInterrupt() | click.Abort():
            return Ending.INTERRUPTED
        case Terminated():
            return error.ending
        case BrokenPipeError():
            return Ending.PIPE_CLOSED
        case echo.EchoError() if isinstance(error, _CALLERS_FAULT):
            return Ending.USAGE
        case echo.EchoError() if isinstance(error, _NOBODY_THERE):
            return Ending.UNREACHABLE
        case echo.EchoError() | OSError():
            return Ending.UNMATCHED
        case _:
            return None


def end(ending: Ending) -> None:
    """Ends the command with that status. It says nothing where that is what was to happen."""
    raise click.exceptions.Exit(int(ending))
