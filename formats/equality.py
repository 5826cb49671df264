"""Equality of records: as dataclasses compare, except that arrays are compared as a whole.

A dataclass with arrays compares them by `==`, which gives an array, which is neither true nor false.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import numpy as np

from echo_core.formats.types import Record, Sequence, StaticArray, Type, Wrapper


def holds_arrays(record: Record) -> bool:
    """Whether some field's value is an array, or something that holds one."""
    for field in record.fields:
        type_: Type = field.type
        while isinstance(type_, Wrapper):
            if isinstance(type_, StaticArray | Sequence) and type_.container is np.ndarray:
                return True
            type_ = type_.element
        if isinstance(type_, Record) and holds_arrays(type_):
            return True
    return False


def equal_records(first: Any, second: Any) -> bool:
    """Compares field by field; NotImplemented for instances of different classes."""
    if type(first) is not type(second):
        different: Any = NotImplemented
        return cast("bool", different)
    names = [field.name for field in dataclasses.fields(first) if field.compare]
    return all(_equal(getattr(first, name), getattr(second, name)) for name in names)


def _equal(first: Any, second: Any) -> bool:
    kind: Any = cast("Any", type(first))
    if np.ndarray in (kind, type(second)):
        return np.array_equal(first, second)
    if kind in (list, tuple) and kind is type(second):
        return len(first) == len(second) and all(map(_equal, first, second))
    return bool(first == second)
