"""Which events of a log a command takes: options that several commands have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

import echo_core as echo
from echo_core.tools import logs

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was asked for; nothing is everything."""

    type_name: str | None
    channel: str | None
    source: str | None
    since: dt.datetime | None
    until: dt.datetime | None
    where: str | None

    def of(self, log: echo.Log) -> echo.View[Any]:
        """Those events."""
        view = log[self.type_name].between(self.since, self.until)
        if self.channel is not None:
            view = view.channel(self.channel)
        if self.source is not None:
            view = view.source(self.source)
        return view if self.where is None else self._passing(view, self.where)

    def _passing(self, view: echo.View[Any], where: str) -> echo.View[Any]:
        """Those of types that have what the condition reads; the others are told."""
        if self.type_name is not None:
            return view.where(where)
        fitting: list[echo.Format] = []
        problems: dict[str, echo.ExpressionError] = {}
        for format_ in view.formats:
            try:
                echo.where(format_, where)
            except echo.ExpressionError as error:
                problems.setdefault(format_.name, error)
            else:
                fitting.append(format_)
        if not fitting:
            return view.where(where)  # which says what is wrong once it is read
        for name, error in problems.items():
            logs.note(f"events of `{name}` are left out: {error}")
        return (view.types(*fitting) if problems else view).where(where)


def moment(value: str) -> dt.datetime:
    """A time in ISO 8601, of this machine's zone where it names none; or seconds since 1970."""
    try:
        given = dt.datetime.fromtimestamp(float(value), dt.UTC)
    except ValueError:
        try:
            given = dt.datetime.fromisoformat(value)
        except ValueError:
            msg = f"Expected a time such as 2026-11-20T10:30:00, or seconds since 1970, got {value!r}."
            raise click.BadParameter(msg) from None
    except OverflowError:
        msg = f"Expected seconds since 1970, got {value!r}."
        raise click.BadParameter(msg) from None
    return given if given.tzinfo is not None else given.astimezone()


log_argument = click.argument("log", type=click.Path(file_okay=False), metavar="LOG")


def chosen_options(command: _F) -> _F:
    """`--type`, `--channel`, `--source`, `--since`, `--until` and `--where`, as `chosen`."""

    def chosen(ctx: click.Context, _param: click.Parameter, where: str | None) -> Chosen:
        """The last of them makes the value of all."""
        given = ctx.params
        return Chosen(
            given.pop("type_name"),
            given.pop("channel_name"),
            given.pop("source"),
            given.pop("since"),
            given.pop("until"),
            where,
        )

    options = [
        click.option("--type", "type_name", is_eager=True, help="Only events that are called so."),
        click.option("--channel", "channel_name", is_eager=True, help="Only of channels called so."),
        click.option("--source", is_eager=True, help="Only of sources called so."),
        click.option("--since", type=moment, is_eager=True, metavar="TIME", help="Only from that time on."),
        click.option("--until", type=moment, is_eager=True, metavar="TIME", help="Only before that time."),
        click.option("--where", "chosen", callback=chosen, help="Only those that pass: 'id > 7'."),
    ]
    for option in reversed(options):
        command = option(command)
    return command
