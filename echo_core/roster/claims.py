"""Claims: what calls are about to do, so that no other one does the same meanwhile.

A claim ends with the `with` of its call, in whatever way that ends: no interrupt leaves one behind, for
which others would wait in vain. So it is C that ends it: what a `finally` calls in Python can be interrupted
before its first line.
"""

from __future__ import annotations

from functools import partial
from typing import Generic, TypeVar

from echo_core._c import locks
from echo_core.roster.bookkeeping import books

T = TypeVar("T")


class Claims(Generic[T]):
    """Of one kind: at most one of each call, which any object stands for. Called with the books open."""

    __slots__ = ("_by_call",)

    def __init__(self) -> None:
        self._by_call: dict[object, T] = {}

    def until_end_of(self, call: object) -> locks.Held:
        """For `with`: whatever the call claims within is free when that ends, and who waits looks again."""
        return books.freeing(partial(self._by_call.pop, call, None))

    def add(self, call: object, claim: T) -> None:
        self._by_call[call] = claim

    def all(self) -> tuple[T, ...]:
        """As they are at this moment: other threads may free theirs meanwhile."""
        return tuple(self._by_call.values())
