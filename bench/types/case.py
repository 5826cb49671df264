"""One type of `docs/declaring-events.md`: how our classes hold its values, and how a msgspec Struct does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Spelling:
    """A class's fields besides `id`, a value, and what a program writes to fill and to read them.

    `arguments` makes of `value` what the constructor takes, and `read` of an instance `it` all that is in it.
    Both are expressions that are compiled into the loop that is timed, so that nobody pays for a call.
    """

    members: tuple[tuple[str, Any], ...]
    value: Any
    arguments: str = "value"
    read: str = "it.value"
    names: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else the two expressions refer to."""

    @property
    def fields(self) -> list[tuple[str, Any]]:
        return [("id", int), *self.members]


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table.

    `documented` are the annotations that it stands for, as the document writes them; `expected` is what
    everyone has to read in the end.
    """

    name: str
    documented: tuple[str, ...]
    expected: Any
    event: Spelling
    dataclass: Spelling
    struct: Spelling
    held_as: str = ""
    """What the Struct holds instead, where msgspec has no such type."""


def same(
    name: str, annotation: Any, value: Any, *, documented: tuple[str, ...] = (), struct: Any = None
) -> Case:
    """A type that a Struct has as well; `struct`, if there it is written in another way."""
    ours = Spelling((("value", annotation),), value)
    theirs = Spelling((("value", annotation if struct is None else struct),), value)
    return Case(name, documented, value, ours, ours, theirs)


def array(
    name: str,
    annotation: Any,
    value: np.ndarray[Any, Any],
    *,
    documented: tuple[str, ...] = (),
    ours: Spelling | None = None,
) -> Case:
    """A numpy array. A Struct holds its bytes, of which a program makes an array without a copy."""
    ours = ours or Spelling((("value", annotation),), value)
    shape = "" if value.ndim == 1 else f".reshape({(-1, *value.shape[1:])!r})"
    theirs = Spelling(
        (("value", bytes),),
        value,
        "value.tobytes()",
        f"frombuffer(it.value, dtype){shape}",
        {"frombuffer": np.frombuffer, "dtype": value.dtype},
    )
    return Case(name, documented, value, ours, ours, theirs, "bytes, by tobytes and frombuffer")


def check(expected: Any, read: Any) -> None:
    """Equal and of the same type, in lists and tuples too. Only an array may have become read-only."""
    kind: Any = expected.__class__
    assert type(read) is kind, f"Expected {kind}, got {type(read)}"
    if kind is np.ndarray:
        assert (read.dtype, read.shape) == (expected.dtype, expected.shape)
        assert read.tolist() == expected.tolist()
    elif kind in (list, tuple):
        assert len(read) == len(expected)
        for one, other in zip(expected, read, strict=True):
            check(one, other)
    else:
        assert read == expected, f"Expected {expected!r}, got {read!r}"
