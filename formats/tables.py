"""Tables for people, of layouts and of comparisons: lines for a terminal, HTML for a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from echo_core.formats.layout import Layout
from echo_core.formats.record_class import default_value
from echo_core.formats.types import Field, Record, innermost

Row = Sequence[str]


def as_lines(header: Row, rows: Sequence[Row], *, right: int = 0) -> list[str]:
    """Aligned columns, the first `right` of them to the right; empty columns are left out."""
    kept = [i for i in range(len(header)) if not rows or any(row[i] for row in rows)]
    widths = {i: max(len(row[i]) for row in [header, *rows]) for i in kept}
    return [
        "  ".join(row[i].rjust(widths[i]) if i < right else row[i].ljust(widths[i]) for i in kept).rstrip()
        for row in [header, *rows]
    ]


def as_html(header: Row, rows: Sequence[Row], *, caption: str = "") -> str:
    """An HTML table; the text of cells is escaped."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    title = f"<caption>{_cell(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    """The text with its markup escaped and its indentation kept."""
    import html  # a large table of entities, for notebooks only

    return html.escape(text).replace("  ", "&nbsp;&nbsp;")


# ---------------------------------------------------------------------------
# A layout


_HEADER = ("offset", "size", "type", "field", "default", "notes")


def layout_as_text(layout: Layout) -> str:
    """The title and a line for each field."""
    return "\n".join([_title(layout), *as_lines(_HEADER, list(_rows(layout.record)), right=2)])


def layout_as_html(layout: Layout) -> str:
    """The same as an HTML table."""
    return as_html(_HEADER, list(_rows(layout.record)), caption=_title(layout))


def _title(layout: Layout) -> str:
    record = layout.record
    former = f" (formerly {', '.join(record.aliases)})" if record.aliases else ""
    return (
        f"{record.name}{former}: {record.size} bytes, {layout.byte_order}-endian, "
        f"aligned to {record.alignment}, pointers of {layout.pointer_size}"
    )


def _rows(record: Record, base: int = 0, indent: str = "") -> Iterator[Row]:
    """A row for each field; nested records follow their field, a level deeper."""
    for field in record.fields:
        place = str(base + field.offset), str(field.type.size)
        yield *place, str(field.type), indent + field.name, _default(field), _notes(field)
        inner, _ = innermost(field.type)
        if isinstance(inner, Record):
            # Elements have no single offset, so those inside a wrapper count from the element.
            yield from _rows(inner, base + field.offset if inner is field.type else 0, indent + "  ")


def _default(field: Field) -> str:
    if field.default is None:
        return ""
    return "made on use" if field.default.local else repr(default_value(field))


def _notes(field: Field) -> str:
    former = f"formerly {', '.join(field.aliases)}" if field.aliases else ""
    return "; ".join(note for note in (field.unit and f"[{field.unit}]", field.doc, former) if note)
