"""Functions as a rival's best user would write them by hand for one class, even for one of 200 fields.

CPython reads attributes that are written out three times faster than by `attrgetter`, and the same holds for
the rest; so these functions are written as source text.
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
    """The function of one argument, `it`, that returns the expression."""
    function: Function = eval(f"lambda it: {text}", dict(names))
    return function


def writer(cls: type[Any], style: Style) -> Function:
    """From an event to its values: tuples or dicts, with arrays as bytes."""
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
    """`width` cuts what a sender has at the end of each record beyond the class's own fields."""

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
    """From such values to an event; `is_cut` where a sender's rows have more at their end."""
    reading = _RowReaderText(style, is_cut)
    return compiled(reading.read(MemberKind("record", cls=cls), "it", 0), reading.names)


def column_maker(cls: type[Any], access: str) -> Function:
    """From a list of records to a dict of arrays; `access` is how a field is had: `x[{!r}]`, `x.{}`."""
    parts = [
        f"{name!r}: fromiter([{access.format(name)} for x in it], {dtype.str!r}, len(it))"
        for name, dtype in dtypes(cls).items()
    ]
    return compiled(f"{{{', '.join(parts)}}}", {"fromiter": np.fromiter})


def row_columns(cls: type[Any]) -> Function:
    """From a list of rows to a dict of arrays."""
    kinds = list(dtypes(cls).items())

    def columns(rows: Any) -> dict[str, Any]:
        turned = zip(*rows)  # noqa: B905 - checked below would cost; a sender may have more columns
        return {
            name: np.fromiter(column, dtype, len(rows))
            for (name, dtype), column in zip(kinds, turned)  # noqa: B905 - likewise
        }

    return columns


def column_rows(columns: Any) -> Any:
    """From a dict of arrays to rows."""
    lists = [_texts(column) if column.dtype.kind == "S" else column.tolist() for column in columns.values()]
    return list(zip(*lists, strict=True))


def _texts(column: Any) -> list[str]:
    return [it.decode() for it in column.tolist()]


def batch_of_columns(cls: type[Any], style: Style) -> Function:
    """From a dict of arrays to a batch's values."""
    names = list(members(cls))

    def rows(columns: Any) -> Any:
        found = column_rows(columns)
        return STEP, len(found), found

    def maps(columns: Any) -> Any:
        found = [dict(zip(names, row)) for row in column_rows(columns)]  # noqa: B905 - once for each record
        return {"step": STEP, "count": len(found), "particles": found}

    return rows if style == "row" else maps


def batch_objects(columns: Any) -> Batch:
    """From a dict of arrays to a batch of instances."""
    found = list(starmap(Particle, column_rows(columns)))
    return Batch(STEP, len(found), found)
