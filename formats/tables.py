"""Tables for people: lines for a terminal, HTML for a notebook."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[str]


def as_lines(header: Row, rows: Sequence[Row], *, right: int = 0) -> list[str]:
    """Columns as wide as their widest cell, the first `right` flush right; empty columns are left out."""
    kept = [i for i in range(len(header)) if not rows or any(row[i] for row in rows)]
    widths = {i: max(len(row[i]) for row in [header, *rows]) for i in kept}
    return [
        "  ".join(row[i].rjust(widths[i]) if i < right else row[i].ljust(widths[i]) for i in kept).rstrip()
        for row in [header, *rows]
    ]


def as_html(header: Row, rows: Sequence[Row], *, caption: str = "") -> str:
    """An HTML table; what is in it cannot be taken for markup."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    title = f"<caption>{_cell(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    """The text with its markup escaped and the indentation that HTML would swallow."""
    import html  # a large table of entities, for notebooks only

    return html.escape(text).replace("  ", "&nbsp;&nbsp;")
