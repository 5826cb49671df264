"""The kinds of an event class's fields, as Python and numpy see them; for the rivals."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import echo_core as echo
from echo_core.spark_eval.measure.workloads import Values, hints

What = Literal["bool", "int", "float", "text", "numbers", "list", "record"]
SCALARS: dict[Any, What] = {bool: "bool", int: "int", float: "float", str: "text", np.ndarray: "numbers"}
NUMBERS = "f4"  # the only dtype of arrays in the events


@dataclass(frozen=True, slots=True)
class MemberKind:
    """`item` is the kind of a list's items, `cls` the class of a record; `is_single`: a 32-bit float."""

    what: What
    is_optional: bool = False
    is_single: bool = False
    item: MemberKind | None = None
    cls: type[Any] | None = None

    @property
    def element(self) -> MemberKind:
        assert self.item is not None
        return self.item

    @property
    def record(self) -> type[Any]:
        assert self.cls is not None
        return self.cls

    @property
    def holds_records(self) -> bool:
        return self.what == "list" and self.element.what == "record"


Members = dict[str, MemberKind]


_known: dict[type[Any], Members] = {}


def members(cls: type[Any]) -> Members:
    """The fields of a class by name, in order."""
    if cls not in _known:
        _known[cls] = {name: kind_of(hint) for name, hint in hints(cls).items()}
    return _known[cls]


def kind_of(hint: Any) -> MemberKind:
    """The kind of an annotation."""
    if typing.get_origin(hint) is types.UnionType:
        value = next(it for it in typing.get_args(hint) if it is not types.NoneType)
        return dataclasses.replace(kind_of(value), is_optional=True)
    if typing.get_origin(hint) is list:
        return MemberKind("list", item=kind_of(typing.get_args(hint)[0]))
    if dataclasses.is_dataclass(hint):
        return MemberKind("record", cls=typing.cast("type[Any]", hint))
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    return MemberKind(SCALARS[bare], is_single=hint == echo.Float32)


def dtypes(cls: type[Any]) -> dict[str, np.dtype[Any]]:
    """The dtype of each field's column, for a class of fixed size."""
    record = echo.format_of(cls).dtype
    return {name: record[name] for name in members(cls)}


def check_object(found: Any, values: Values, cls: type[Any], path: str = "") -> None:
    """Raise unless an event has these values, with the same types."""
    for name, kind in members(cls).items():
        _check_value(getattr(found, name), values[name], kind, f"{path}.{name}")


def _check_value(found: Any, expected: Any, kind: MemberKind, path: str) -> None:
    if kind.what == "list":
        _demand(len(found) == len(expected), found, expected, path)
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            _check_value(one, other, kind.element, f"{path}[{i}]")
    elif kind.what == "record":
        check_object(found, expected, kind.record, path)
    elif kind.what == "numbers":
        _demand(_are_same_arrays(found, expected), found, expected, path)
    else:
        _demand(type(found) is type(expected) and found == expected, found, expected, path)


def check_columns(found: Any, expected: dict[str, np.ndarray[Any, Any]]) -> None:
    """Raise unless a dict of arrays has these names, dtypes and values."""
    _demand(list(found) == list(expected), list(found), list(expected), "columns")
    for name, column in expected.items():
        _demand(_are_same_arrays(found[name], column), found[name], column, name)


def _are_same_arrays(found: Any, expected: np.ndarray[Any, Any]) -> bool:
    is_array = type(found) is np.ndarray
    return is_array and found.dtype == expected.dtype and np.array_equal(found, expected)


def columns_of(values: Values, cls: type[Any]) -> dict[str, np.ndarray[Any, Any]]:
    """A batch's particles as columns."""
    return {
        name: np.array([it[name] for it in values["particles"]], dtype) for name, dtype in dtypes(cls).items()
    }


def _demand(is_same: bool, found: object, expected: object, path: str) -> None:
    if not is_same:
        msg = f"Expected {expected!r}, got {found!r} - at `{path}`"
        raise ValueError(msg)
