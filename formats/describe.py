"""A layout as a table for people, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from echo_core.formats import tables
from echo_core.formats.layout import Layout
from echo_core.formats.record_class import default_value
from echo_core.formats.types import Field, Record, innermost


class Row(NamedTuple):
    """One field; nested records follow their field, a level deeper."""

    offset: str
    size: str
    type: str
    name: str
    default: str
    notes: str


_HEADER = Row("offset", "size", "type", "field", "default", "notes")


def as_text(layout: Layout) -> str:
    """The title and a line for each field."""
    return "\n".join([_title(layout), *tables.as_lines(_HEADER, list(_rows(layout.record)), right=2)])


def as_html(layout: Layout) -> str:
    """The same as an HTML table."""
    return tables.as_html(_HEADER, list(_rows(layout.record)), caption=_title(layout))


def _title(layout: Layout) -> str:
    record = layout.record
    return (
        f"{record.name}: {record.size} bytes, {layout.byte_order}-endian, "
        f"aligned to {record.alignment}, pointers of {layout.pointer_size}"
    )


def _rows(record: Record, base: int = 0, indent: str = "") -> Iterator[Row]:
    for field in record.fields:
        yield Row(
            str(base + field.offset),
            str(field.type.size),
            str(field.type),
            indent + field.name,
            _default(field),
            _notes(field),
        )
        inner, _ = innermost(field.type)
        if isinstance(inner, Record):
            # Inside a wrapper an offset counts from the element, for the element has no one place.
            yield from _rows(inner, base + field.offset if inner is field.type else 0, indent + "  ")


def _default(field: Field) -> str:
    if field.default is None:
        return ""
    return "made on use" if field.default.local else repr(default_value(field))


def _notes(field: Field) -> str:
    former = f"formerly {', '.join(field.aliases)}" if field.aliases else ""
    return "; ".join(note for note in (field.unit and f"[{field.unit}]", field.doc, former) if note)
