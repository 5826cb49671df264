"""Parameters of sources: which values one can have, and what many requests for it come to together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from echo_core.errors import ChannelError, unexpected

Value = bool | int | float | str

LEAST_INT, MOST_INT = -(2**63), 2**63 - 1
MAX_CHOICES = 64
MAX_CHOICE_BYTES = 255  # of a name, too


@dataclass(frozen=True, slots=True)
class ParameterType:
    """What one is called, what it is unless somebody asks for another value, and for which one may ask.

    Numbers have a range; texts are `choices`, of which a later one is greater. Of several values the greatest
    counts, or the least.
    """

    name: str
    default: Value
    low: Value
    high: Value
    choices: tuple[str, ...] = ()
    is_least: bool = False

    @property
    def type(self) -> type[Value]:
        return type(self.default)

    def fitting(self, value: Any) -> Value:
        """The value as sources have it; ChannelError for one that nobody may ask for."""
        plain = plain_of(value)
        if self.type is float and type(plain) is int and abs(plain) <= 2**53:
            plain = float(plain)
        if type(plain) is not self.type:
            got = f"`{type(value).__qualname__}`"
            raise unexpected(ChannelError, f"`{self.type.__name__}` as `{self.name}`", got)
        assert isinstance(plain, bool | int | float | str)
        if not self._has(plain):
            raise unexpected(ChannelError, f"`{self.name}` {self._range_in_words()}", repr(plain))
        return plain

    def merged(self, values: Iterable[Value]) -> Value:
        """What several requests come to; of none the default."""
        found = sorted(values, key=self._rank)
        return found[0 if self.is_least else -1] if found else self.default

    def _rank(self, value: Value) -> float:
        return self.choices.index(value) if isinstance(value, str) else value

    def _has(self, value: Value) -> bool:
        if isinstance(value, str):
            return value in self.choices
        return self._rank(self.low) <= value <= self._rank(self.high)

    def _range_in_words(self) -> str:
        return f"of {', '.join(self.choices)}" if self.choices else f"from {self.low} to {self.high}"

    def demand_possible(self) -> None:
        """ChannelError for a type that none can have."""
        if not self.name.isidentifier() or len(self.name.encode()) > MAX_CHOICE_BYTES:
            expected = f"a parameter whose name is a Python name of at most {MAX_CHOICE_BYTES} bytes"
            raise unexpected(ChannelError, expected, f"{self.name[:40]!r}")
        if self.type is str:
            _demand_choices(self.choices)
        elif self.choices:
            raise unexpected(ChannelError, f"no choices of `{self.type.__name__}`", f"{len(self.choices)}")
        if self.type is int and not (_is_held(self.low) and _is_held(self.high)):
            raise unexpected(ChannelError, f"bounds of `{self.name}` of 64 bits", f"{self.low}, {self.high}")
        if any(isinstance(value, float) and math.isnan(value) for value in (self.low, self.high)):
            raise unexpected(ChannelError, f"bounds of `{self.name}`", "NaN")
        if not self._has(self.default):
            expected = f"the default of `{self.name}` {self._range_in_words()}"
            raise unexpected(ChannelError, expected, repr(self.default))


def plain_of(value: object) -> object:
    """Python's own number instead of one of numpy's, some of which pass for it."""
    return cast("Any", value).item() if isinstance(value, np.generic) else value


def _is_held(value: Value) -> bool:
    return isinstance(value, int) and LEAST_INT <= value <= MOST_INT


def _demand_choices(choices: tuple[str, ...]) -> None:
    if not 1 <= len(choices) <= MAX_CHOICES or len(set(choices)) < len(choices):
        raise unexpected(ChannelError, f"1 to {MAX_CHOICES} different texts as choices", f"{choices!r}")
    for choice in choices:
        if not choice.isprintable() or len(choice.encode()) > MAX_CHOICE_BYTES:
            expected = f"choices of at most {MAX_CHOICE_BYTES} bytes that can be printed"
            raise unexpected(ChannelError, expected, f"{choice[:40]!r}")
