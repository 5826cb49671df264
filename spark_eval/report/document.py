"""The structure of a report, independent of Markdown and HTML.

Text supports two kinds of markup, `code` and **strong**; anything else is literal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Number:
    """A formatted number, with its exact value."""

    value: float
    text: str
    mark: str = ""  # "rival" if the rival is faster, "noisy" if the number is uncertain


Value = str | Number


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    values: Sequence[Value]
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Row]
    kind: str = ""  # CSS class, if not the name


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    title: str
    note: str
    svg: str


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    title: str
    paragraphs: Sequence[str] = ()
    bullets: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    folded: bool = False  # the tables are collapsed


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    subtitle: str
    sections: Sequence[Section]
