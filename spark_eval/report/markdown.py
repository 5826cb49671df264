"""A document as Markdown, its figures files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from echo_core.spark_eval.report.document import Document, Number, Section, Table, Value

_MARKS = {"rival": " ▼", "noisy": " ~", "": ""}


def render(document: Document, figure_folder: str) -> str:
    lines = [f"# {document.title}", "", document.subtitle, ""]
    for section in document.sections:
        lines += _section(section, figure_folder)
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section, figure_folder: str) -> Iterator[str]:
    yield from (f"## {section.title}", "")
    for paragraph in section.paragraphs:
        yield from (_text(paragraph), "")
    if section.bullets:
        yield from (*(f"- {_text(bullet)}" for bullet in section.bullets), "")
    for figure in section.figures:
        yield from (f"![{figure.title}]({figure_folder}/{figure.name}.svg)", "")
        if figure.note:
            yield from (_text(figure.note), "")
    for table in section.tables:
        if section.folded:
            yield from (f"<details><summary>{_text(table.caption)}</summary>", "")
            yield from _table(table)
            yield from ("</details>", "")
        else:
            yield from (f"*{_text(table.caption)}*", "", *_table(table))


def _table(table: Table) -> Iterator[str]:
    yield _line(table.header)
    yield _line(["---", *("---:" for _ in table.header[1:])])
    for row in table.rows:
        name = f"**{_text(row.name)}**" if row.ours else _text(row.name)
        yield _line([name, *(_value(value) for value in row.values)])
    yield ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _value(value: Value) -> str:
    return _text(value.text) + _MARKS[value.mark] if isinstance(value, Number) else _text(value)


def _text(text: str) -> str:
    """A bar would end a cell, and a bare ~ or < be taken for markup."""
    return text.replace("|", "\\|").replace("<", "&lt;")
