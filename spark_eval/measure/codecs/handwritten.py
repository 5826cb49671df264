"""Functions as an expert user of a rival would write them by hand for a class, even one with 200 fields.

CPython reads attributes that are written out three times as fast as by `attrgetter`, and similarly for other
operations. So these functions are generated as source text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any, Literal

import numpy as np

from echo_core.spark_eval.measure.codecs.members import NUMBERS, MemberKind, dtypes, members
from echo_core.spark_eval.measure.workloads import STEP, Batch, Particle

Style = Literal["row", "map"]
Function = Callable[[Any], Any]


def compiled(text: str, names: dict[str, Any]) -> Function:
    """A function with one argument, `it`, that returns the value of the expression."""
    function: Function = eval(f"lambda it: {text}", dict(names))
    return function


def writer(cls: type[Any], style: Style) -> Function:
    """A function from an event to its values: tuples or dicts, with arrays as bytes."""
    return compiled(_written(MemberKind("record", cls=cls), "it", style, 0), {})


def _written(kind: MemberKind, it: str, style: Style, depth: int) -> str:
    if kind.what == "record":
        parts = {name: _written(k, f"{it}.{name}", style, depth) for name, k in members(kind.record).items()}
        if style == "row":
            return f"({', '.join(parts.values())},)"
        return f"{{{', '.join(f'{name!r}: {part}' for name, part in parts.items())}}}"
    if kind.holds_records:
        each = f"x{depth}"
        return f"[{_written(kind.element, each, style, depth + 1)} for {each} in {it}]"
    return f"{it}.tobytes()" if kind.what == "numbers" else it


@dataclass(slots=True)
class _RowReaderText:
    """The source text of a function from values to an event; `is_cut` ignores extra values of a row."""

    style: Style
    is_cut: bool
    names: dict[str, Any] = field(default_factory=lambda: {"frombuffer": np.frombuffer})

    def read(self, kind: MemberKind, it: str, depth: int) -> str:
        if kind.what == "record":
            return self._record(kind.record, it, depth)
        if kind.holds_records:
            each = f"x{depth}"
            return f"[{self.read(kind.element, each, depth + 1)} for {each} in {it}]"
        return f"frombuffer({it}, {NUMBERS!r})" if kind.what == "numbers" else it

    def _record(self, cls: type[Any], it: str, depth: int) -> str:
        self.names[cls.__name__] = cls
        its = members(cls)
        if self.style == "row" and not any(k.holds_records or k.what == "numbers" for k in its.values()):
            return f"{cls.__name__}(*{it}{f'[:{len(its)}]' if self.is_cut else ''})"
        places = range(len(its)) if self.style == "row" else its
        parts = [
            self.read(k, f"{it}[{place!r}]", depth) for place, k in zip(places, its.values(), strict=True)
        ]
        return f"{cls.__name__}({', '.join(parts)})"


def reader(cls: type[Any], style: Style, *, is_cut: bool = False) -> Function:
    """A function from such values to an event; `is_cut`: the sender's rows have additional values."""
    reading = _RowReaderText(style, is_cut)
    return compiled(reading.read(MemberKind("record", cls=cls), "it", 0), reading.names)


def column_maker(cls: type[Any], access: str) -> Function:
    """A function from a list of records to a dict of arrays; `access` reads a field: `x[{!r}]`, `x.{}`."""
    parts = [
        f"{name!r}: fromiter([{access.format(name)} for x in it], {dtype.str!r}, len(it))"
        for name, dtype in dtypes(cls).items()
    ]
    return compiled(f"{{{', '.join(parts)}}}", {"fromiter": np.fromiter})


def row_columns(cls: type[Any]) -> Function:
    """A function from a list of rows to a dict of arrays."""
    kinds = list(dtypes(cls).items())

    def columns(rows: Any) -> dict[str, Any]:
        turned = zip(*rows)  # noqa: B905 - checked below would cost; a sender may have more columns
        return {
            name: np.fromiter(column, dtype, len(rows))
            for (name, dtype), column in zip(kinds, turned)  # noqa: B905 - likewise
        }

    return columns


def column_rows(columns: Any) -> Any:
    """Convert a dict of arrays to rows."""
    lists = [_texts(column) if column.dtype.kind == "S" else column.tolist() for column in columns.values()]
    return list(zip(*lists, strict=True))


def _texts(column: Any) -> list[str]:
    return [it.decode() for it in column.tolist()]


def batch_of_columns(cls: type[Any], style: Style) -> Function:
    """A function from a dict of arrays to a batch's values."""
    names = list(members(cls))

    def rows(columns: Any) -> Any:
        found = column_rows(columns)
        return STEP, len(found), found

    def maps(columns: Any) -> Any:
        found = [dict(zip(names, row)) for row in column_rows(columns)]  # noqa: B905 - once for each record
        return {"step": STEP, "count": len(found), "particles": found}

    return rows if style == "row" else maps


def batch_objects(columns: Any) -> Batch:
    """Convert a dict of arrays to a batch of instances."""
    found = list(starmap(Particle, column_rows(columns)))
    return Batch(STEP, len(found), found)
