"""What Spark's filters say of a log: which blocks need not be read, and which records need not become rows.

All filters but those on nulls go back to Spark, which judges again. So what is pushed may ask for less than a
filter, and never for more: times are compared by the microsecond in Spark and by the nanosecond in a log, and
for Spark NaN is greater than all numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import echo_core as echo
from echo_core.spark_eval.columns.schema import TypeNode, form, kind
from echo_core.spark_eval.logs.extras import SEQUENCE, TIME

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_COMPARISONS = {
    "EqualTo": "==",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_OPPOSITE = {">": "<=", ">=": "<"}
_MOST_VALUES = 64  # of `in`: a longer list is left to Spark


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a view of a log is narrowed by. The bounds are None where there are none; stops are not taken."""

    condition: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    since_ns: int | None = None
    until_ns: int | None = None
    first: int | None = None
    stop: int | None = None


def pushed(filters: Iterable[Any], receiver: echo.Format) -> tuple[Pushed, list[Any]]:
    """What of these filters a log can judge, and those that Spark has to judge (again)."""
    found, left = Pushed(), list[Any]()
    for each in filters:
        if not _is_always_true(each, receiver):
            left.append(each)
            found = _with(found, each, receiver)
    return found, left


def _is_always_true(given: Any, receiver: echo.Format) -> bool:
    """`x is not null`, which Spark adds to comparisons, of what is never null."""
    if type(given).__name__ != "IsNotNull":
        return False
    node = _node(receiver, given.attribute)
    if node is None:
        return given.attribute in ((TIME,), (SEQUENCE,))
    return form(node) != "Nullable"


def _with(before: Pushed, given: Any, receiver: echo.Format) -> Pushed:
    name = type(given).__name__
    if name == "In":
        return _with_any_of(before, given, receiver)
    sign = _COMPARISONS.get(name)
    if sign is None:
        return before
    if given.attribute == (TIME,):
        return _in_time(before, sign, given.value)
    if given.attribute == (SEQUENCE,):
        return _in_sequence(before, sign, given.value)
    node = _node(receiver, given.attribute)
    if node is None or not _is_comparable(node, given.value):
        return before
    return _compared(before, ".".join(given.attribute), sign, given.value, kind(node) == "FLOAT")


def _node(receiver: echo.Format, path: tuple[str, ...]) -> TypeNode | None:
    """The type of a field, which may be one of a nested record."""
    node: TypeNode = receiver.record
    for name in path:
        if form(node) != "Record":
            return None
        node = next((member.type for member in node.fields if member.name == name), None)
        if node is None:
            return None
    return node


def _is_comparable(node: TypeNode, value: Any) -> bool:
    match kind(node):
        case "INT" | "UINT":
            return type(value) is int and abs(value) < 1 << 63
        case "FLOAT":
            return type(value) in (int, float) and not math.isnan(value)
        case _:
            return False


def _compared(before: Pushed, path: str, sign: str, value: float, is_float: bool) -> Pushed:
    name = f"p{len(before.parameters)}"
    if is_float and sign in _OPPOSITE:  # NaN is not less than anything, and passes
        text = f"not ({path} {_OPPOSITE[sign]} {name})"
    else:
        text = f"{path} {sign} {name}"
    return _and(before, text, {name: float(value) if is_float else value})


def _with_any_of(before: Pushed, given: Any, receiver: echo.Format) -> Pushed:
    node = _node(receiver, given.attribute)
    values = [value for value in given.value if value is not None]
    if node is None or not 0 < len(values) <= _MOST_VALUES:
        return before
    if not all(_is_comparable(node, value) for value in values):
        return before
    names = {f"p{len(before.parameters) + i}": value for i, value in enumerate(values)}
    path = ".".join(given.attribute)
    text = " or ".join(f"{path} == {name}" for name in names)
    if kind(node) == "FLOAT":
        names = {name: float(value) for name, value in names.items()}
    return _and(before, f"({text})", names)


def _and(before: Pushed, text: str, parameters: Mapping[str, Any]) -> Pushed:
    whole = f"{before.condition} and {text}" if before.condition else text
    return replace(before, condition=whole, parameters={**before.parameters, **parameters})


def _in_time(before: Pushed, sign: str, value: Any) -> Pushed:
    """Spark sees a time without its last three digits, so each bound is a microsecond wider."""
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        return before
    at_ns = (value - _EPOCH) // dt.timedelta(microseconds=1) * 1000
    since = at_ns - 1000 if sign in ("==", ">", ">=") else None
    until = at_ns + 1000 if sign in ("==", "<", "<=") else None
    return replace(
        before,
        since_ns=_tighter(max, before.since_ns, since),
        until_ns=_tighter(min, before.until_ns, until),
    )


def _in_sequence(before: Pushed, sign: str, value: Any) -> Pushed:
    if type(value) is not int:
        return before
    first = value + operator.eq(sign, ">") if sign in ("==", ">", ">=") else None
    stop = value + (sign != "<") if sign in ("==", "<", "<=") else None
    return replace(before, first=_tighter(max, before.first, first), stop=_tighter(min, before.stop, stop))


def _tighter(which: Any, before: int | None, now: int | None) -> int | None:
    bounds = [bound for bound in (before, now) if bound is not None]
    return which(bounds) if bounds else None
