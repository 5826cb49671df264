"""The folder of a comparison: its samples read, and the report written beside them, as HTML and Markdown."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from echo_core.spark_eval.report import page, svg
from echo_core.spark_eval.report.document import Document, Number, Section, Table, Value
from echo_core.spark_eval.report.sections import document
from echo_core.spark_eval.report.study import Study

PAGE = "report.md"
SAMPLES = "samples.parquet"
ENVIRONMENT = "environment.json"
FIGURES = "figures"


def read(folder: Path | str) -> Study:
    """The environment may be missing; the samples may not."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    facts = Path(folder, ENVIRONMENT)
    environment: dict[str, Any] = json.loads(facts.read_text("utf-8")) if facts.exists() else {}
    return Study.of(parquet.read_table(Path(folder, SAMPLES)), environment)


def write(folder: Path | str) -> Path:
    """Writes report.md with its figures and report.html; returns the path of the page."""
    folder = Path(folder)
    content = document(read(folder))
    _drop_figures(folder)
    _write_figures(content, folder / FIGURES)
    (folder / PAGE).write_text(_markdown(content), "utf-8")
    written = folder / "report.html"
    written.write_text(page.render(content), "utf-8")
    return written


def _drop_figures(folder: Path) -> None:
    """Those of the report that was here before, which may have had others."""
    page = folder / PAGE
    text = page.read_text("utf-8") if page.exists() else ""
    for name in re.findall(rf"\({FIGURES}/([\w-]+\.svg)\)", text):
        (folder / FIGURES / name).unlink(missing_ok=True)


def _write_figures(content: Document, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for section in content.sections:
        for figure in section.figures:
            (folder / f"{figure.name}.svg").write_text(svg.standalone(figure.svg), "utf-8")


# ---------------------------------------------------------------------------
# Markdown, with the figures in files

_MARKS = {"rival": " ▼", "noisy": " ~", "": ""}


def _markdown(document: Document) -> str:
    lines = [f"# {document.title}", "", document.subtitle, ""]
    for section in document.sections:
        lines += _section(section)
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section) -> Iterator[str]:
    yield from (f"## {section.title}", "")
    for paragraph in section.paragraphs:
        yield from (_text(paragraph), "")
    if section.bullets:
        yield from (*(f"- {_text(bullet)}" for bullet in section.bullets), "")
    for figure in section.figures:
        yield from (f"![{figure.title}]({FIGURES}/{figure.name}.svg)", "")
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
