"""Which leaf type converts to which, decided by one table.

A conversion is lossless, may lose, or is refused. "May lose" needs the receiver's consent and is then
checked for every value: precision may go (a float is rounded, or cut to an integer), range may not (what
does not fit is a ConversionError). Wrappers and records follow from their elements; see `compare.py`.
`docs/evolution.md` shows the table, and a test holds the two together.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable

from echo_core.formats.leaves import Leaf, integer_range
from echo_core.formats.types import Blob, Enumeration, Kind, Scalar, Text


class Loss(enum.Enum):
    """The verdict on two leaves."""

    LOSSLESS = "lossless"
    LOSSY = "may lose"
    REFUSED = "refused"


class Rule(enum.Enum):
    """The rule for a pair of kinds; conditions on sizes are about the receiver's."""

    ALWAYS = "yes"
    AS_LARGE = "if as large, else lossy"
    LARGER = "if larger, else lossy"
    TWICE_AS_LARGE = "if twice as large, else lossy"
    SAME_SIZE = "if of the same size"
    NAMES = "if it has all names, else lossy"
    LOSSY = "lossy"
    NO = "-"


KINDS: tuple[str, ...] = (*(kind.name.lower() for kind in Kind), "enum", "str", "bytes[...]")

_N, _Y, _L = Rule.NO, Rule.ALWAYS, Rule.LOSSY
_AS, _UP, _X2, _EQ, _NM = (
    Rule.AS_LARGE,
    Rule.LARGER,
    Rule.TWICE_AS_LARGE,
    Rule.SAME_SIZE,
    Rule.NAMES,
)

# A row for each of the sender's kinds, a column for each of the receiver's.
# fmt: off
_ROWS: dict[str, tuple[Rule, ...]] = {
    #              bool int  uint flo. com. tim. dur. uuid char byte enum str  bytes
    "bool":       (_Y,  _Y,  _Y,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _N),
    "int":        (_L,  _AS, _L,  _L,  _N,  _N,  _N,  _N,  _N,  _N,  _L,  _N,  _N),
    "uint":       (_L,  _UP, _AS, _L,  _N,  _N,  _N,  _N,  _N,  _N,  _L,  _N,  _N),
    "float":      (_N,  _L,  _L,  _AS, _X2, _N,  _N,  _N,  _N,  _N,  _N,  _N,  _N),
    "complex":    (_N,  _N,  _N,  _N,  _AS, _N,  _N,  _N,  _N,  _N,  _N,  _N,  _N),
    "timestamp":  (_N,  _N,  _N,  _N,  _N,  _Y,  _N,  _N,  _N,  _N,  _N,  _N,  _N),
    "duration":   (_N,  _N,  _N,  _N,  _N,  _N,  _Y,  _N,  _N,  _N,  _N,  _N,  _N),
    "uuid":       (_N,  _N,  _N,  _N,  _N,  _N,  _N,  _Y,  _N,  _N,  _N,  _N,  _N),
    "chars":      (_N,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _AS, _N,  _N,  _Y,  _N),
    "bytes":      (_N,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _EQ, _N,  _N,  _Y),
    "enum":       (_N,  _AS, _L,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _NM, _N,  _N),
    "str":        (_N,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _L,  _N,  _N,  _Y,  _N),
    "bytes[...]": (_N,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _N,  _L,  _N,  _N,  _Y),
}
# fmt: on

RULES: dict[tuple[str, str], Rule] = {
    (sender, receiver): rule
    for sender, row in _ROWS.items()
    for receiver, rule in zip(KINDS, row, strict=True)
}


def kind_of(leaf: Leaf) -> str:
    """The name of a leaf's row and column."""
    return leaf.kind.name.lower() if isinstance(leaf, Scalar) else _NAMES[type(leaf)]


_NAMES: dict[type[Leaf], str] = {Enumeration: "enum", Text: "str", Blob: "bytes[...]"}


def judge(sender: Leaf, receiver: Leaf) -> Loss:
    """Whether the receiver's type holds the sender's values."""
    rule = RULES[kind_of(sender), kind_of(receiver)]
    if rule in _HOLDS and _HOLDS[rule](sender, receiver):
        return Loss.LOSSLESS
    return Loss.REFUSED if rule in (Rule.NO, Rule.SAME_SIZE) else Loss.LOSSY


def keeps_numbers(sender: Leaf, receiver: Enumeration) -> bool:
    """Whether every number of the sender's, even one without a name, means the same to the receiver.

    Such numbers are copied. Whether a number has a name is checked where it becomes a member.
    """
    is_same = isinstance(sender, Enumeration) and set(sender.members) <= set(receiver.members)
    return is_same and receiver.size >= sender.size


@functools.lru_cache(maxsize=256)
def new_numbers(sender: Leaf, receiver: Enumeration) -> dict[int, int]:
    """Maps the sender's numbers to the receiver's: by name between enumerations, else by number."""
    known = dict(receiver.members)
    if isinstance(sender, Scalar):
        low, high = (0, 1) if sender.kind is Kind.BOOL else integer_range(sender.kind, sender.size)
        return {number: number for number in known.values() if low <= number <= high}
    assert isinstance(sender, Enumeration)
    return {number: known[name] for name, number in sender.members if name in known}


def _names(leaf: Leaf) -> set[str]:
    assert isinstance(leaf, Enumeration)
    return {name for name, _ in leaf.members}


# Where a rule depends on the two leaves: when the receiver's holds all values of the sender's.
_HOLDS: dict[Rule, Callable[[Leaf, Leaf], bool]] = {
    Rule.ALWAYS: lambda _, __: True,
    Rule.AS_LARGE: lambda sender, receiver: receiver.size >= sender.size,
    Rule.LARGER: lambda sender, receiver: receiver.size > sender.size,
    Rule.TWICE_AS_LARGE: lambda sender, receiver: receiver.size >= 2 * sender.size,
    Rule.SAME_SIZE: lambda sender, receiver: receiver.size == sender.size,
    Rule.NAMES: lambda sender, receiver: _names(sender) <= _names(receiver),
}
