"""Names that look alike: what a slip of the pen makes of one, or a part that was added to it.

Two do if they differ in one letter (missing, added, another one, or two exchanged), or if one is the other
and more words: `temperature` and `temperature_c`. Case and underscores do not count, nor do numbers alone:
`sensor1` and `sensor2` are two. Finding them takes time in proportion to the names, which come from peers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_MOST_LETTERS = 64  # of a name that is looked at
_LEAST_LETTERS = 3  # that two names share
_MOST_FOUND = 3  # for one name

_NUMBER = re.compile(r"\d")


class Lookalikes:
    """Finds, among some names, those that look like others. The first of several that look alike is found."""

    def __init__(self, names: Iterable[str]) -> None:
        self._name_by_spelling: dict[str, str] = {}
        for name in names:
            if len(name) <= _MOST_LETTERS:
                for spelling in (*_slips(name), "=" + _plain(name), *(f"{head}_" for head in _heads(name))):
                    self._name_by_spelling.setdefault(spelling, name)

    def of(self, name: str) -> list[str]:
        """The names that look like this one, the most alike first; at most a few."""
        if len(name) > _MOST_LETTERS:
            return []
        spellings = (*_slips(name), _plain(name) + "_", *("=" + head for head in _heads(name)))
        known = (self._name_by_spelling.get(spelling) for spelling in spellings)
        found = dict.fromkeys(other for other in known if other is not None)
        return [other for other in found if not _differ_in_numbers(name, other)][:_MOST_FOUND]


def _plain(name: str) -> str:
    return name.casefold().replace("_", "")


def _slips(name: str) -> Iterator[str]:
    """The name, and what is left of it without one letter: names one slip apart share one of these."""
    plain = _plain(name)
    if len(plain) >= _LEAST_LETTERS:
        yield plain
    if len(plain) > _LEAST_LETTERS:
        yield from (plain[:i] + plain[i + 1 :] for i in range(len(plain)))


def _heads(name: str) -> Iterator[str]:
    """The name without its last words."""
    words = name.casefold().split("_")
    heads = ("".join(words[:i]) for i in range(1, len(words)))
    return (head for head in heads if len(head) >= _LEAST_LETTERS)


def _differ_in_numbers(name: str, other: str) -> bool:
    return _plain(name) != _plain(other) and _NUMBER.sub("", _plain(name)) == _NUMBER.sub("", _plain(other))
