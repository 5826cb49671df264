"""The table of conversions is complete, says what it should, and is the one in docs/evolution.md."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from echo_core.formats.comparing.leaf_conversions import KINDS, RULES, Loss, Rule, judge, kind_of
from echo_core.formats.leaves import Leaf
from echo_core.formats.types import Blob, Enumeration, Kind, Scalar, Text

DOCUMENT = Path(__file__).parents[3] / "docs" / "evolution.md"


def scalar(kind: Kind, size: int) -> Scalar:
    return Scalar(kind, size)


INT16, INT32, INT64 = (Scalar(Kind.INT, size) for size in (2, 4, 8))
UINT16, UINT32, UINT64 = (Scalar(Kind.UINT, size) for size in (2, 4, 8))
FLOAT32, FLOAT64 = Scalar(Kind.FLOAT, 4), Scalar(Kind.FLOAT, 8)
COMPLEX64, COMPLEX128 = Scalar(Kind.COMPLEX, 8), Scalar(Kind.COMPLEX, 16)
BOOL, UUID = Scalar(Kind.BOOL, 1), Scalar(Kind.UUID, 16)
TIMESTAMP, DURATION = Scalar(Kind.TIMESTAMP, 8), Scalar(Kind.DURATION, 8)
CHARS4, CHARS8 = Scalar(Kind.CHARS, 4), Scalar(Kind.CHARS, 8)
BYTES4, BYTES8 = Scalar(Kind.BYTES, 4), Scalar(Kind.BYTES, 8)
TEXT, BLOB = Text(8), Blob(8)
COLOR = Enumeration("Color", 4, (("RED", 0), ("BLUE", 1)))
MORE = Enumeration("Color", 2, (("BLUE", 0), ("RED", 7), ("GREEN", 8)))

LEAVES: list[Leaf] = [
    *(BOOL, INT32, UINT32, FLOAT32, COMPLEX64, TIMESTAMP, DURATION, UUID),
    *(CHARS4, BYTES4, COLOR, TEXT, BLOB),
]


def test_every_leaf_has_a_row_and_a_column() -> None:
    """The names of the table are those of the kinds, and of what is no scalar."""
    assert tuple(kind_of(leaf) for leaf in LEAVES) == KINDS


def test_every_pair_has_a_rule() -> None:
    """No pair is left to chance."""
    assert set(RULES) == set(itertools.product(KINDS, KINDS))
    assert len(RULES) == len(KINDS) ** 2


def test_every_kind_converts_to_itself() -> None:
    """Whatever else changes, what is equal is never refused."""
    assert all(judge(leaf, leaf) is Loss.LOSSLESS for leaf in LEAVES)


JUDGED: list[tuple[Leaf, Leaf, Loss]] = [
    (BOOL, INT16, Loss.LOSSLESS),
    (BOOL, UINT16, Loss.LOSSLESS),
    (BOOL, FLOAT32, Loss.REFUSED),
    (INT16, INT32, Loss.LOSSLESS),
    (INT32, INT16, Loss.LOSSY),
    (INT16, UINT64, Loss.LOSSY),
    (INT16, BOOL, Loss.LOSSY),
    (INT16, FLOAT64, Loss.LOSSY),
    (INT32, COLOR, Loss.LOSSY),
    (INT32, COMPLEX128, Loss.REFUSED),
    (INT64, TIMESTAMP, Loss.REFUSED),
    (INT64, TEXT, Loss.REFUSED),
    (UINT16, INT16, Loss.LOSSY),
    (UINT16, INT32, Loss.LOSSLESS),
    (UINT32, UINT64, Loss.LOSSLESS),
    (UINT64, UINT32, Loss.LOSSY),
    (UINT16, COLOR, Loss.LOSSY),
    (FLOAT32, FLOAT64, Loss.LOSSLESS),
    (FLOAT64, FLOAT32, Loss.LOSSY),
    (FLOAT64, INT64, Loss.LOSSY),
    (FLOAT32, COMPLEX64, Loss.LOSSLESS),
    (FLOAT64, COMPLEX64, Loss.LOSSY),
    (FLOAT64, COMPLEX128, Loss.LOSSLESS),
    (COMPLEX64, COMPLEX128, Loss.LOSSLESS),
    (COMPLEX128, COMPLEX64, Loss.LOSSY),
    (COMPLEX64, FLOAT64, Loss.REFUSED),
    (TIMESTAMP, DURATION, Loss.REFUSED),
    (DURATION, INT64, Loss.REFUSED),
    (UUID, Scalar(Kind.BYTES, 16), Loss.REFUSED),
    (CHARS4, CHARS8, Loss.LOSSLESS),
    (CHARS8, CHARS4, Loss.LOSSY),
    (CHARS8, TEXT, Loss.LOSSLESS),
    (TEXT, CHARS8, Loss.LOSSY),
    (TEXT, BLOB, Loss.REFUSED),
    (BYTES4, BYTES4, Loss.LOSSLESS),
    (BYTES4, BYTES8, Loss.REFUSED),
    (BYTES4, BLOB, Loss.LOSSLESS),
    (BLOB, BYTES4, Loss.LOSSY),
    (BLOB, TEXT, Loss.REFUSED),
    (COLOR, MORE, Loss.LOSSLESS),
    (MORE, COLOR, Loss.LOSSY),
    (COLOR, INT32, Loss.LOSSLESS),
    (COLOR, INT16, Loss.LOSSY),
    (COLOR, UINT64, Loss.LOSSY),
    (COLOR, TEXT, Loss.REFUSED),
]


@pytest.mark.parametrize(("sender", "receiver", "loss"), JUDGED, ids=str)
def test_pair_is_judged(sender: Leaf, receiver: Leaf, loss: Loss) -> None:
    """Lossless, by consent, or not at all."""
    assert judge(sender, receiver) is loss


def integers(kind: Kind, size: int) -> range:
    bits = 8 * size
    return range(2**bits) if kind is Kind.UINT else range(-(2 ** (bits - 1)), 2 ** (bits - 1))


INTEGERS = [Scalar(kind, size) for kind in (Kind.INT, Kind.UINT) for size in (1, 2, 4, 8)]


@pytest.mark.parametrize("receiver", INTEGERS, ids=str)
@pytest.mark.parametrize("sender", INTEGERS, ids=str)
def test_integers_are_lossless_exactly_where_the_range_fits(sender: Scalar, receiver: Scalar) -> None:
    """The rules of sizes agree with the ranges themselves."""
    theirs, ours = integers(sender.kind, sender.size), integers(receiver.kind, receiver.size)
    fits = ours[0] <= theirs[0] and theirs[-1] <= ours[-1]
    assert (judge(sender, receiver) is Loss.LOSSLESS) is fits


def table() -> list[str]:
    """The rules as the lines of a table, a row for each of the sender's kinds."""
    head = ["sender \\ receiver", *(f"`{kind}`" for kind in KINDS)]
    rows = [[f"`{row}`", *(RULES[row, column].value for column in KINDS)] for row in KINDS]
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]


def test_document_has_the_table() -> None:
    """docs/evolution.md shows the data, to the letter."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| sender"))
    assert lines[start : start + len(KINDS) + 2] == table()
    assert not lines[start + len(KINDS) + 2].startswith("|")


def test_every_rule_is_used() -> None:
    """A rule that no pair follows has no place among them."""
    assert set(RULES.values()) == set(Rule)
