"""Text that is remembered from event to event: kept as a digest, which can be equal to another one."""

from __future__ import annotations

import random
from typing import Any

import pytest

import echo_core as echo
from echo_core.codegen.expressions.deriving import derive
from echo_core.codegen.expressions.wire import from_bytes
from echo_core.errors import WireError

TIERS = ("interpreted", "compiled")


@echo.event
class Note:
    id: int
    text: str
    tag: echo.Chars[8]
    body: bytes
    other: str | None = None


def note(text: str) -> Note:
    return Note(0, text, text[:2], text.encode())


def texts(seed: int, count: int = 400) -> list[str]:
    """Many that are equal, others that differ in one character, or in length alone; short and long."""
    chance = random.Random(seed)
    stock = ["", "a", "b", "ä", "a" * 7, "a" * 8, "a" * 9, "x" * 300, "x" * 299 + "y", "€" * 40, "ab", "ba"]
    found = [chance.choice(stock)]
    while len(found) < count:
        found.append(found[-1] if chance.random() < 0.4 else chance.choice(stock))
    return found


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("field", ["text", "tag", "body"])
def test_events_pass_where_a_text_changes(field: str, tier: Any) -> None:
    """As Python compares them, whatever their length; of each kind of text, and of bytes."""
    predicate = echo.where(Note, on_change=field, tier=tier)
    before: Any = None
    for text in texts(1):
        value = getattr(note(text), field)
        assert predicate(note(text)) == (before is None or value != before)
        before = value


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("seed", range(3))
def test_previous_and_last_texts_are_compared_as_python_compares_them(seed: int, tier: Any) -> None:
    """With a field, a literal and a parameter, and with each other."""
    asked = [
        "previous(text) is None or previous(text) != text",
        "last(text) is None or last(tag) is None or text != last(text) and last(tag) != 'ab'",
        "previous(text) is not None and previous(text) == known"
        " or previous(body) is not None and previous(body) == b'a'",
        "previous(text) is None or last(text) is None or previous(text) == last(text)",
    ]
    for number, expression in enumerate(asked):
        given: dict[str, Any] = {"known": "x" * 300} if "known" in expression else {}
        predicate = echo.where(Note, expression, tier=tier, **given)
        previous: Note | None = None
        last: Note | None = None
        for text in texts(seed):
            it = note(text)
            wanted = [
                previous is None or previous.text != text,
                last is None or (text != last.text and last.tag != "ab"),
                previous is not None and (previous.text == "x" * 300 or previous.body == b"a"),
                previous is None or last is None or previous.text == last.text,
            ][number]
            assert predicate(it) == wanted
            previous, last = it, it if wanted else last


REFUSED: list[tuple[str, str]] = [
    ("previous(text) is not None and previous(text) < text", "Expected what has an order, got `text that is"),
    ("previous(text) is not None and previous(text) == body", "got `bytes that are remembered`"),
    ("previous(text) is not None and previous(text) == 3", "compared with `text that is remembered | None`"),
    ("previous(text) is not None and len(previous(text)) > 1", "an array, text or bytes"),
    ("previous(text) is not None and previous(text).startswith('a')", "text or bytes"),
    ("previous(text) is not None and previous(text) in ('a', 'b')", "a value of `text that is remembered"),
    ("previous(text) == text", "say `previous(text) is not None and ...`"),
    ("previous(other) is None", "say `other is not None"),
]


@pytest.mark.parametrize(("expression", "said"), REFUSED)
def test_remembered_text_can_be_equal_and_nothing_else(expression: str, said: str) -> None:
    """The error says what was expected, and points to it."""
    with pytest.raises(echo.ExpressionError) as caught:
        echo.where(Note, expression)
    assert said in str(caught.value)


def test_a_tree_that_remembers_text_travels() -> None:
    """And one that would keep the text itself is none."""
    record = echo.format_of(Note).record
    derivation = derive(record, where="previous(text) is None", on_change="tag", parameters={}).derivation
    data = derivation.to_bytes()
    assert from_bytes(data) == derivation
    digests = [i for i in range(len(data) - 1) if data[i : i + 2] == bytes([16, 12])]
    assert len(digests) == 2
    for at in digests:
        with pytest.raises(WireError):
            from_bytes(data[:at] + bytes([10, 5]) + data[at + 2 :])
