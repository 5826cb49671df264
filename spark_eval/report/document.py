"""What a report consists of, before it becomes Markdown or HTML.

Text knows two marks, `code` and **strong**; whatever else looks like markup is text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Number:
    """A figure as it is read, with the value that it was rounded from."""

    value: float
    text: str
    mark: str = ""  # "rival" where the rival is faster, "noisy" where the figure is in doubt


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
    kind: str = ""  # of its style, where that is not its own


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
    folded: bool = False  # the tables are behind a line to click on


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    subtitle: str
    sections: Sequence[Section]
