"""Events as commands write them: a line for people, JSON, CSV, or a template of one's own."""

from __future__ import annotations

import csv
import io
import json
import os
import string
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, ToolError
from echo_core.tools.output import json_line
from echo_core.tools.plain import plain

_MOST_ELEMENTS, _MOST_LETTERS = 8, 120  # of a value, in a line for people

# Where an event is from: of a live channel or of a log.
Origin = Mapping[str, Any]
Writer = Callable[[Any, Origin], str | None]  # None: there is nothing to be written of this event


def writer_for(form: str | None, template: str | None, *, with_origin: bool = False) -> Writer:
    """Makes the text of each event: one line, of which every character can be printed."""
    if template is not None:
        return _Template(template).text
    if form == "csv":
        return _Csv().text
    if form == "json" or (form is None and not sys.stdout.isatty()):
        return _json_with_origin if with_origin else _json
    return _line


def origin_of(info: echo.EventInfo) -> Origin:
    """What goes with an event, by the names that exported logs have."""
    time_ns = info.submitted_ns
    return {
        "_time": None if time_ns is None else time_text(time_ns),
        "_sequence": info.number,
        "_source": info.source,
        "_source_id": info.source_id,
        "_peer": info.peer,
    }


def time_text(time_ns: int) -> str:
    """ISO 8601 with nine digits behind the second, in UTC."""
    seconds, rest_ns = divmod(time_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest_ns:09d}Z"


# ---------------------------------------------------------------------------
# For programs


def _json(event: Any, _origin: Origin) -> str:
    return json_line(echo.jsonable(event)) + "\n"


def _json_with_origin(event: Any, origin: Origin) -> str:
    return json_line({"_type": type(event).__name__, **origin, **echo.jsonable(event)}) + "\n"


class _Csv:
    """Columns are the fields of the first event, nested ones as `at.x`; others are left out."""

    def __init__(self) -> None:
        self._columns: list[str] | None = None
        self._left_out: set[str] = set()

    def text(self, event: Any, _origin: Origin) -> str | None:
        values = flat(echo.jsonable(event))
        lines = [[_csv_cell(value) for value in values.values()]]
        if self._columns is None:
            self._columns = list(values)
            lines.insert(0, [plain(column) for column in self._columns])
        elif list(values) != self._columns:
            name = type(event).__name__
            if name not in self._left_out:
                self._left_out.add(name)
                logs.note(f"events of `{name}` are left out: they have other columns than the first")
            return None
        made = io.StringIO()
        csv.writer(made, lineterminator="\n").writerows(lines)
        return made.getvalue()


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields side by side, by their paths."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            found[prefix + name] = value
    return found


def _csv_cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return plain(value)
        case bool():
            return "true" if value else "false"
        case list():
            return json.dumps(value)
        case _:
            return str(value)


# ---------------------------------------------------------------------------
# For people


def _line(event: Any, origin: Origin) -> str:
    clock = (origin["_time"] or time_text(time.time_ns()))[11:23]
    where = plain(f"{clock} {origin['_source']} #{origin['_sequence']}")
    fields = (f"{name}={brief(value)}" for name, value in echo.jsonable(event).items())
    name = plain(type(event).__name__)
    line = f"{click.style(where, dim=True)}  {click.style(name, bold=True)} {plain(' '.join(fields))}\n"
    return line if has_colors() else click.unstyle(line)


def has_colors() -> bool:
    """As https://no-color.org has it."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def brief(value: Any) -> str:
    """A value as JSON, of which long arrays and texts are cut."""
    if isinstance(value, list):
        items = cast("list[Any]", value)  # type: ignore[redundant-cast] # pyright knows less
        shown = ", ".join(map(brief, items[:_MOST_ELEMENTS]))
        more = len(items) - _MOST_ELEMENTS
        return f"[{shown}, \u2026 {more} more]" if more > 0 else f"[{shown}]"
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{name}={brief(each)}" for name, each in pairs) + "}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}\u2026"


class _Template(string.Formatter):
    """`{id} {temperature:.1f} {at.x} {_source}`: names are looked up among the fields, and nowhere else."""

    def __init__(self, template: str) -> None:
        self._text = template.replace("\\t", "\t").replace("\\n", "\n")
        try:
            list(self.parse(self._text))
        except ValueError as error:
            msg = f"Expected a template such as '{{id}} {{temperature:.1f}}', got {template!r}: {error}"
            raise ToolError(msg, ending=Ending.USAGE) from None

    def text(self, event: Any, origin: Origin) -> str:
        values = {**_every(echo.jsonable(event)), "_type": type(event).__name__, **origin}
        made = self.vformat(self._text, (), values)
        return made + "\n"

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        if field_name not in kwargs:
            there = ", ".join(name for name in kwargs if "." not in name)
            msg = (
                f"Expected a field of `{kwargs['_type']}` in the template, got `{field_name}`: it has {there}"
            )
            raise ToolError(msg, ending=Ending.USAGE)
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        try:
            return plain(str(super().format_field(value, format_spec)))
        except (ValueError, TypeError):
            msg = f"Expected a value that `{format_spec}` can format, got {brief(value)}"
            raise ToolError(msg, ending=Ending.USAGE) from None


def _every(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields by name, nested ones by their paths, too."""
    return {**values, **flat(values)}
