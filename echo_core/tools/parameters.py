"""What arguments of commands may be: channels, times, sizes; and the options that several have."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

_VARIABLE = "ECHO_CHANNEL"
_ID = re.compile(r"echo\d+(-\w+)?:")  # as the ids of this version and others begin
_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d)?")
_SECONDS_BY_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}
_SIZE = re.compile(r"(\d+(?:\.\d*)?)(k|M|G|T|)(i?B)?", re.IGNORECASE)
_BYTES_BY_UNIT = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True, slots=True)
class Way:
    """How a channel is found: `text` is its name, a file's path, or a variable's name."""

    kind: Literal["name", "file", "stdin", "variable"]
    text: str = ""

    def __str__(self) -> str:
        words = {"name": f"`{self.text}`", "file": f"@{self.text}", "stdin": "-"}
        return words.get(self.kind, f"env:{self.text}")


def channel_way(value: str) -> Way:
    """NAME, name:NAME, @FILE, - or env:VARIABLE. An id itself is refused: others read command lines."""
    if _ID.match(value):
        told = "Expected a name, @FILE, - or env:VARIABLE, got an id itself, which others can read here"
        msg = f"{told}: put it into a file that only you can read, or a variable."
        raise click.BadParameter(msg)
    way = _way(value)
    if way.kind in ("name", "file", "variable") and not way.text:
        msg = f"Expected a name, @FILE, - or env:VARIABLE, got {value!r}."
        raise click.BadParameter(msg)
    return way


def names_there(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell to complete: it shows nothing where names cannot be had."""
    import echo_core as echo

    try:
        return [each.name for each in echo.channels() if each.name.startswith(incomplete)]
    except echo.EchoError:
        return []


def _way(value: str) -> Way:
    prefix, _, rest = value.partition(":")
    if value == "-":
        return Way("stdin")
    if value.startswith("@"):
        return Way("file", value[1:])
    if prefix in ("name", "env"):
        return Way("name" if prefix == "name" else "variable", rest)
    return Way("name", value)


def channel_of_environment() -> Way:
    """Where a command is given no channel. The variable may hold an id, or what an argument may be."""
    value = os.environ.get(_VARIABLE, "")
    if not value:
        msg = f"Expected a channel, got none: name it, or set ${_VARIABLE}."
        raise click.UsageError(msg, click.get_current_context())
    return Way("variable", _VARIABLE) if _ID.match(value) else _way(value)


def _channel_or_default(_ctx: click.Context, _param: click.Parameter, value: Way | None) -> Way:
    return value or channel_of_environment()


def channel_argument(command: _F) -> _F:
    """One channel, by default that of the environment."""
    return click.argument(
        "channel",
        type=channel_way,
        required=False,
        callback=_channel_or_default,
        shell_complete=names_there,
        metavar="[CHANNEL]",
    )(command)


def duration(value: str | float) -> float:
    """Seconds, or a number with a unit: 500ms, 5s, 2m, 1h, 1d."""
    found = _TIME.fullmatch(str(value))
    if found is None:
        msg = f"Expected a time such as 5s, 500ms, 2m or 1h, got {value!r}."
        raise click.BadParameter(msg)
    return float(found[1]) * _SECONDS_BY_UNIT[found[2]]


def size(value: str | int) -> int:
    """Bytes, or a number with a unit: 64k, 256M, 1G."""
    found = _SIZE.fullmatch(str(value))
    if found is None:
        msg = f"Expected a size such as 64k, 256M or 1G, got {value!r}."
        raise click.BadParameter(msg)
    return int(float(found[1]) * _BYTES_BY_UNIT[found[2].lower()])


def timeout_option(summary: str, default: float | None = None) -> Callable[[_F], _F]:
    """`-t`: how long a command waits or goes on."""
    return click.option(
        "-t", "--timeout", "timeout_s", type=duration, default=default, metavar="TIME", help=summary
    )


def form_options(command: _F) -> _F:
    """`--json` and `--table`, of which by default the terminal decides."""
    as_json = click.option("--json", "form", flag_value="json", help="JSON lines, as pipes get them.")
    as_table = click.option("--table", "form", flag_value="table", help="A table, as terminals get it.")
    return as_json(as_table(command))
