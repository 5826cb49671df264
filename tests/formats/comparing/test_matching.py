"""Which types are the same by what they are called. Which fields are: `test_compare.py`."""

from __future__ import annotations

import pytest

from echo_core.formats.comparing.matching import is_called_alike
from echo_core.formats.types import Record


def called(name: str, *aliases: str, is_named: bool = True) -> Record:
    return Record(name, 1, 1, (), aliases, is_named)


CALLED = [
    ("the same", called("A"), called("A"), True),
    ("another name", called("A"), called("B"), False),
    ("another case", called("A"), called("a"), False),
    ("the receiver was renamed", called("A"), called("B", "A"), True),
    ("the sender was renamed", called("B", "A"), called("A"), True),
    ("the sender was renamed twice", called("C", "B", "A"), called("A"), True),
    ("both were renamed, one more often", called("C", "B", "A"), called("B", "A"), True),
    ("both were one type before it was split", called("B", "A"), called("C", "A"), False),
    ("each is what the other was", called("A", "B"), called("B", "A"), True),
    ("a sender that nobody has named", called("A", is_named=False), called("B"), True),
    ("a receiver that nobody has named", called("A"), called("B", is_named=False), True),
]


@pytest.mark.parametrize(
    ("sender", "receiver", "is_same"), [case[1:] for case in CALLED], ids=[case[0] for case in CALLED]
)
def test_types_are_what_they_are_called(sender: Record, receiver: Record, is_same: bool) -> None:
    assert is_called_alike(sender, receiver) is is_same
