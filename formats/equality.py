"""When two records are equal: as dataclasses compare, but an array counts as a whole.

A dataclass with arrays compares them by `==`, which gives an array, which is neither true nor false.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import numpy as np


def equal_records(first: Any, second: Any) -> bool:
    """Field by field, for two of one class; NotImplemented for two of different ones."""
    if type(first) is not type(second):
        different: Any = NotImplemented
        return cast("bool", different)
    names = [field.name for field in dataclasses.fields(first) if field.compare]
    return all(_equal(getattr(first, name), getattr(second, name)) for name in names)


def _equal(first: Any, second: Any) -> bool:
    kinds: tuple[Any, Any] = type(first), type(second)
    if np.ndarray in kinds:
        return np.array_equal(first, second)
    if kinds[0] is kinds[1] and kinds[0] in (list, tuple):
        return len(first) == len(second) and all(map(_equal, first, second))
    return bool(first == second)
