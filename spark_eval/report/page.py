"""A document as one HTML page that needs nothing but itself: no script, no font, no file."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from echo_core.spark_eval.report.document import Document, Figure, Row, Section, Table, Value
from echo_core.spark_eval.report.stylesheet import stylesheet

_MARKS = {"rival": ("▼", "the rival is faster"), "noisy": ("~", "noisy")}


def render(document: Document) -> str:
    return "\n".join((*_head(document), *_body(document))) + "\n"


def _head(document: Document) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<link rel="icon" href="data:,">'
    yield f"<title>{html.escape(document.title)}</title>"
    yield f"<style>{stylesheet()}</style></head>"


def _body(document: Document) -> Iterator[str]:
    yield "<body><header>"
    yield f"<h1>{_text(document.title)}</h1><p class=subtitle>{_text(document.subtitle)}</p>"
    yield '<nav aria-label="Sections"><ul>'
    yield from (f'<li><a href="#{s.name}">{_text(s.title)}</a></li>' for s in document.sections)
    yield "</ul></nav></header><main>"
    for section in document.sections:
        yield from _section(section)
    yield "</main></body></html>"


def _section(section: Section) -> Iterator[str]:
    yield f'<section id="{section.name}" aria-labelledby="{section.name}-heading">'
    yield f'<h2 id="{section.name}-heading">{_text(section.title)}</h2>'
    yield from (f"<p>{_text(paragraph)}</p>" for paragraph in section.paragraphs)
    if section.bullets:
        yield from ("<ul class=findings>", *(f"<li>{_text(b)}</li>" for b in section.bullets), "</ul>")
    if section.figures:
        yield from ("<div class=figures>", *(_figure(figure) for figure in section.figures), "</div>")
    yield "<div class=tables>"
    for table in section.tables:
        yield from _folded(table) if section.folded else _table(table)
    yield "</div></section>"


def _figure(figure: Figure) -> str:
    note = f" <span>{_text(figure.note)}</span>" if figure.note else ""
    return f"<figure><figcaption>{_text(figure.title)}{note}</figcaption>{figure.svg}</figure>"


def _folded(table: Table) -> Iterator[str]:
    yield f"<details><summary>{_text(table.caption)}</summary>"
    yield from _table(table)
    yield "</details>"


def _table(table: Table) -> Iterator[str]:
    """The box scrolls, by the keyboard too; the page never does sideways."""
    name = f"table-{table.name}"
    yield f'<div class=box role=region tabindex=0 aria-labelledby="{name}">'
    yield f'<table class="{table.kind or table.name}">'
    yield f'<caption id="{name}"><span>{_text(table.caption)}</span></caption>'
    yield f"<thead><tr>{''.join(f'<th scope=col>{_text(name)}</th>' for name in table.header)}</tr></thead>"
    yield from ("<tbody>", *(_row(row) for row in table.rows), "</tbody></table></div>")


def _row(row: Row) -> str:
    ours = " class=ours" if row.ours else ""
    return f"<tr{ours}><th scope=row>{_text(row.name)}</th>{''.join(_value(v) for v in row.values)}</tr>"


def _value(value: Value) -> str:
    if isinstance(value, str):
        return f"<td>{_text(value)}</td>"
    data = f'<data value="{value.value!r}">{_text(value.text)}</data>'
    if not value.mark:
        return f"<td>{data}</td>"
    sign, meaning = _MARKS[value.mark]
    return f'<td class={value.mark}>{data} <abbr title="{meaning}">{sign}</abbr></td>'


def _text(text: str) -> str:
    escaped = html.escape(text)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)
