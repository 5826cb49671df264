"""What is said beside a command's output, on stderr: nothing in it is what a terminal would obey."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from echo_core.tools.plain import plain_lines

_F = TypeVar("_F", bound=Callable[..., Any])

_NOTES = logging.getLogger("echoctl")
_LOGGERS = (_NOTES, logging.getLogger("echo_core"))
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)  # with -q, by itself, -v, -vv


def say(text: str) -> None:
    """Says why a command ends. Lines after the first point at it, as in a compiler's error."""
    _NOTES.error("%s", text)


def note(text: str) -> None:
    """Says what somebody may want to know; `--quiet` leaves it out."""
    _NOTES.warning("%s", text)


def tell_traceback() -> None:
    """With `-v`."""
    _NOTES.error("%s", traceback.format_exc())


@dataclass(slots=True)
class Shown:
    """How much is said."""

    level: int = 1
    is_applied: bool = False
    """While a command runs. Options that are read before that are in time for it."""

    @property
    def has_tracebacks(self) -> bool:
        return self.level > 1


class _Handler(logging.Handler):
    """To stderr as it is now: tests put others in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):  # stderr is closed: nobody listens
            sys.stderr.write(f"echoctl: {plain_lines(record.getMessage())}\n")
            sys.stderr.flush()


@contextlib.contextmanager
def shown() -> Generator[Shown]:
    """For one command: what it and the library have to say goes to stderr, from a level on."""
    handler, settings = _Handler(), _settings()
    before = [(logger, logger.level, logger.propagate) for logger in _LOGGERS]
    for logger in _LOGGERS:
        logger.addHandler(handler)
        logger.propagate = False
    settings.is_applied = True
    _apply(settings)
    try:
        yield settings
    finally:
        settings.is_applied = False
        for logger, level, propagate in before:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


def options(command: _F) -> _F:
    """Adds `-q` and `-v`, which the program has and each command."""
    verbose = click.option(
        "-v", "--verbose", count=True, expose_value=False, callback=_louder, help="Say more; -vv says all."
    )
    quiet = click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=_quieter, help="Say errors alone."
    )
    return verbose(quiet(command))


def _settings() -> Shown:
    meta = click.get_current_context().find_root().meta
    settings = meta.setdefault("echo_core.tools.logs", Shown())
    assert isinstance(settings, Shown)
    return settings


def _louder(_ctx: click.Context, _option: click.Parameter, times: int) -> None:
    if times:
        _settings().level = min(1 + times, len(_LEVELS) - 1)
        _apply(_settings())


def _quieter(_ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    if is_given:
        _settings().level = 0
        _apply(_settings())


def _apply(settings: Shown) -> None:
    for logger in _LOGGERS if settings.is_applied else ():
        logger.setLevel(_LEVELS[settings.level])
