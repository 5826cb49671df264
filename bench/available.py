"""Peers need not be installed: a suite is measured beside those that are, and says which are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")

LEFT_OUT: dict[str, str] = {}
"""Why, by the peer's name: of all that `made_by` was asked for."""


def made_by(makers: Mapping[str, Callable[[], Iterable[T]]]) -> list[T]:
    """What the peers make, each of which imports its package when it is called."""
    made: list[T] = []
    for name, make in makers.items():
        try:
            made += make()
        except ImportError as error:
            LEFT_OUT[name] = str(error)
    return made
