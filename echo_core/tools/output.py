"""What commands put out: rows of a table for people, the same as JSON lines for programs."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Literal

import click

from echo_core.tools.plain import plain, plain_json

_WIDE = 10_000  # where no terminal says how wide a line may be

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": ")).encode


def _number(value: float) -> str:
    return float.__repr__(value) if math.isfinite(value) else _encode(value)  # which raises


_TEXT_BY_TYPE: dict[type[Any], Callable[[Any], str]] = {
    int: int.__repr__,
    float: _number,
    str: encode_basestring,
}

Row = Mapping[str, Any]


def is_json(form: str | None) -> bool:
    """What was asked for, or else what suits who reads it."""
    return form == "json" if form else not sys.stdout.isatty()


def json_line(values: Row) -> str:
    """One line, of which every character can be printed.

    An object's own members are put together here: an event has few and small ones, for which the time that
    the encoder takes to begin is most of all.
    """
    members = [
        f"{_key(name)}: {_TEXT_BY_TYPE.get(value.__class__, _encode)(value)}"
        for name, value in values.items()
    ]
    return plain_json(f"{{{', '.join(members)}}}")


@functools.lru_cache(4096)
def _key(name: str) -> str:
    return _encode(name)


def show(rows: Iterable[Row], columns: Sequence[str], form: str | None, *, title: str = "") -> None:
    """A table of these columns, or each row whole as a line of JSON."""
    if is_json(form):
        for row in rows:
            click.echo(json_line(row))
    else:
        show_table([[row.get(column) for column in columns] for row in rows], columns, title=title)


def show_table(rows: Iterable[Sequence[Any]], columns: Sequence[str], *, title: str = "") -> None:
    """For people: numbers to the right, what is missing as `-`."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    console = Console(
        file=sys.stdout,
        highlight=False,
        markup=False,
        emoji=False,
        width=None if sys.stdout.isatty() else _WIDE,
    )
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for i, column in enumerate(columns):
        are_numbers = bool(lines) and all(map(_is_number, (line[i] for line in lines)))
        justify: Literal["left", "right"] = "right" if are_numbers else "left"
        table.add_column(Text(plain(column)), justify=justify, overflow="fold")
    for line in lines:
        table.add_row(*(Text(cell(value)) for value in line))
    with console.capture() as captured:
        if title:
            console.print(Text(plain(title), style="bold"))
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")), color=True)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def cell(value: Any) -> str:
    """A value in a table."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case float():
            return f"{value:,.1f}"
        case _:
            return plain(str(value))


def show_facts(facts: Mapping[str, Any]) -> None:
    """Names and values, one below the other."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {cell(value)}")
