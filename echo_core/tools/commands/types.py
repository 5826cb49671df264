"""`echoctl types`: the formats of a channel's events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, end
from echo_core.tools.opening import opened
from echo_core.tools.output import is_json, json_line
from echo_core.tools.parameters import Way, channel_argument, form_options
from echo_core.tools.plain import plain
from echo_core.tools.surveys import survey


@click.command()
@channel_argument
@click.option("--c", "as_c", is_flag=True, help="As a C header for each.")
@form_options
@logs.options
def command(channel: Way, as_c: bool, form: str | None) -> None:
    """Show the types of a CHANNEL's events: those it was declared with, and those of its sources.

    Fields with offset, size, type, default, unit and former names. What a class's own text says of a field
    does not travel. The exit status is 1 where no type is known.
    """
    with opened(channel) as joined:
        found = survey(joined)
        formats, declared = found.formats(joined), joined.types
    for i, format_ in enumerate(formats):
        senders = sorted({source.name for source in found.sources if source.format == format_})
        if as_c:
            click.echo(plain_text(format_.to_c()))
        elif is_json(form):
            click.echo(json_line(described(format_) | {"declared": format_ in declared, "sources": senders}))
        else:
            click.echo("\n" * (i > 0) + plain_text(format_.describe()))
            said = [*(["declared"] if format_ in declared else []), *(f"sent by {name}" for name in senders)]
            click.echo(plain(f"token {format_.token}; {', '.join(said)}"))
    if not formats:
        logs.note("no type is known: the channel was declared with none, and nobody sends")
        end(Ending.UNMATCHED)


def plain_text(text: str) -> str:
    """Text of several lines that holds names of others."""
    return "\n".join(map(plain, text.split("\n")))


def described(format_: echo.Format) -> dict[str, Any]:
    """A format as a value for JSON."""
    return {
        "name": format_.name,
        "token": str(format_.token),
        "size_bytes": format_.size_bytes,
        "byte_order": format_.byte_order,
        "pointer_size": format_.pointer_size,
        "is_fixed": format_.is_fixed,
        "fields": list(_fields(format_.fields)),
    }


def _fields(fields: tuple[echo.Field, ...]) -> Iterator[dict[str, Any]]:
    """Nested ones within their record's."""
    for field in fields:
        inner = _nested(field.type)
        yield {
            "name": field.name,
            "type": str(field.type),
            "offset": field.offset,
            "size_bytes": field.type.size,
            "has_default": field.default is not None,
            "unit": field.unit,
            "doc": field.doc,
            "aliases": list(field.aliases),
            **({"fields": list(_fields(inner))} if inner else {}),
        }


def _nested(type_: Any) -> tuple[echo.Field, ...]:
    """The fields of the record at the end of a chain of arrays and optionals, if one is there."""
    while hasattr(type_, "element"):
        type_ = type_.element
    return getattr(type_, "fields", ())
