"""Writes the report of a comparison into the folder that holds its samples."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

from echo_core.spark_eval.report import markdown, page, svg
from echo_core.spark_eval.report.document import Document
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
    (folder / PAGE).write_text(markdown.render(content, FIGURES), "utf-8")
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
