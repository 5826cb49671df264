"""Plans executed operation by operation, held to an oracle without plans and to one without the product."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from echo_core.codegen.plain.records import read, write
from echo_core.codegen.plans.interpreter import convert, verify
from echo_core.errors import ConversionError, WireError
from echo_core.formats.format import Format
from echo_core.formats.types import Default, Enumeration, Field, Nullable, Sequence, StaticArray, Text, Type
from tests.codegen import independent
from tests.codegen.pairs import (
    FLOAT32,
    FLOAT64,
    I386,
    INT8,
    INT32,
    INT64,
    S390X,
    UINT8,
    UINT32,
    X86_64,
    Pair,
    evolved,
    format_of_types,
    format_with,
    messages,
    pair_from,
)
from tests.formats.strategies import abis, comparable, examples, layouts, plain_values

pytestmark = pytest.mark.once


def converted(pair: Pair, message: bytes) -> bytes | None:
    """What the interpreter makes of a record; None where a value does not fit."""
    verify(pair.verification, message)
    try:
        return convert(pair.plan, message)
    except ConversionError:
        return None


@examples(250)
@given(st.data())
def test_interpreted_record_is_what_the_oracle_writes(data: st.DataObject) -> None:
    """Random senders, evolved receivers, random values: equal bytes."""
    pair = pair_from(data, is_lossy=False)
    message = data.draw(messages(pair))
    pair.assert_agrees(converted(pair, message), message)


@examples(350)
@given(st.data())
def test_interpreted_record_with_consent_is_what_the_oracle_writes_or_fails_in_both(
    data: st.DataObject,
) -> None:
    """Narrower numbers, lengths that are known, values that must be there, counts that are shared."""
    pair = pair_from(data, is_lossy=True)
    message = data.draw(messages(pair))
    pair.assert_agrees(converted(pair, message), message)


@examples(350)
@given(st.data())
def test_value_that_does_not_fit_is_told_in_the_words_of_the_oracle(data: st.DataObject) -> None:
    """The same type, value and path, down to the element, though a plan knows no fields."""
    pair = pair_from(data, is_lossy=True)
    message = data.draw(messages(pair))
    expected = pair.expected(message)
    assume(isinstance(expected, ConversionError))
    with pytest.raises(ConversionError) as caught:
        convert(pair.plan, message)
    told, wanted = str(caught.value), str(expected)
    if "counts too" in told:
        return  # a plan looks at lengths before it looks at values, the oracle after
    if "dimensions" in told:  # of lists without elements the oracle knows the first one only
        told, wanted = (text.partition(", got")[0] for text in (told, wanted))
    assert (told, caught.value.path) == (wanted, getattr(expected, "path", None))


@examples(120)
@given(st.data())
def test_interpreted_record_holds_what_the_rules_say_in_the_eyes_of_a_stranger(data: st.DataObject) -> None:
    """Neither the expected values nor the decoder share a line with the product."""
    sender = Format(data.draw(layouts(depth=2)))
    receiver, rule = evolved(data, sender, data.draw(abis()))
    plain = data.draw(plain_values(sender.layout))
    record = converted(Pair(sender, receiver), write(plain, sender.layout))
    assert record is not None
    found = independent.decode(record, independent.Description(receiver.metadata))
    assert comparable(found) == comparable(rule(plain))


# ---------------------------------------------------------------------------------------------------
# What a random pair seldom is


def sent(
    theirs: Type, ours: Type, value: Any, *, sender: Any = X86_64, receiver: Any = X86_64
) -> dict[str, Any] | None:
    """The plain value of a record of one field after its conversion; None where it does not fit."""
    pair = Pair(format_of_types(sender, a=theirs), format_of_types(receiver, a=ours))
    message = pair.message({"a": value})
    record = converted(pair, message)
    pair.assert_agrees(record, message)
    return None if record is None else read(record, pair.receiver.layout)


TWO_LISTS = format_of_types(X86_64, a=Sequence(INT32, (None,), 8), b=Sequence(INT32, (None,), 8))
ONE_COUNT = format_of_types(
    S390X, n=UINT8, a=Sequence(INT32, ("n",), 8), b=Nullable(Sequence(INT32, ("n",), 8))
)


@pytest.mark.parametrize(
    ("first", "second", "fits"), [(2, 2, True), (0, 0, True), (2, 3, False), (0, 1, False)]
)
def test_count_that_two_sequences_share_stands_for_equal_lengths(first: int, second: int, fits: bool) -> None:
    """A record whose count is true of one sequence only must not come into being."""
    pair = Pair(TWO_LISTS, ONE_COUNT)
    message = pair.message({"a": np.arange(first), "b": np.arange(second)})
    assert (converted(pair, message) is not None) is fits
    pair.assert_agrees(converted(pair, message), message)


@pytest.mark.parametrize("length", [0, 2])
def test_count_that_an_absent_sequence_shares_must_be_0(length: int) -> None:
    """None has no elements, whether it came as None or is the default of what the sender lacks."""
    optional = format_of_types(X86_64, a=Sequence(INT32, (None,), 8), b=Nullable(StaticArray(INT32, (2,))))
    pair = Pair(optional, ONE_COUNT)
    message = pair.message({"a": np.arange(length), "b": None})
    assert (converted(pair, message) is not None) is (length == 0)
    pair.assert_agrees(converted(pair, message), message)


def test_count_of_lengths_that_are_the_same_at_the_sender_needs_no_agreement() -> None:
    """One count here and one there: nothing can differ."""
    one_count = format_of_types(X86_64, n=INT64, a=Sequence(INT32, ("n",), 8), b=Sequence(INT8, ("n",), 8))
    assert "Agree" in str(Pair(TWO_LISTS, ONE_COUNT).plan)
    assert "Agree" not in str(Pair(one_count, ONE_COUNT).plan)


@pytest.mark.parametrize("element", [FLOAT64, Text(8)], ids=str)
def test_array_without_elements_fits_a_length_that_is_known(element: Type) -> None:
    """Nested lists without elements say nothing of their other lengths, so none of them can be wrong."""
    theirs, ours = Sequence(element, (None, None), 8), Sequence(element, (None, 2), 8)
    assert sent(theirs, ours, []) is not None
    assert sent(theirs, ours, np.zeros((0, 5)) if element == FLOAT64 else []) is not None
    assert sent(theirs, StaticArray(element, (2, 2)), []) is None


def test_array_with_elements_has_the_lengths_that_are_known() -> None:
    """Two rows of two are not one of four."""
    theirs, ours = Sequence(FLOAT64, (None, None), 8), Sequence(FLOAT64, (None, 2), 8)
    assert sent(theirs, ours, np.zeros((2, 2))) is not None
    assert sent(theirs, ours, np.zeros((1, 4))) is None
    assert sent(theirs, ours, np.zeros((3, 0))) is None


@pytest.mark.parametrize(("theirs", "value"), [(INT8, 44), (UINT8, 255), (UINT8, 254)])
def test_number_that_only_looks_like_a_member_is_none(theirs: Type, value: int) -> None:
    """44 is 300 and 255 is -1 to who looks at eight bits."""
    ours = Enumeration("Color", 2, (("RED", 300), ("BLUE", -1), ("GREEN", 7)))
    assert sent(theirs, ours, value) is None
    assert sent(theirs, ours, 7) == {"a": 7}


def test_integer_is_rounded_to_a_float_once() -> None:
    """By way of float64, 2**60 + 2**36 + 1 would end up at 2**60."""
    assert sent(INT64, FLOAT32, 2**60 + 2**36 + 1) == {"a": 2.0**60 + 2.0**37}


def test_length_that_a_shorter_word_does_not_hold_is_refused() -> None:
    """Even where there are no elements, so that the offsets would do."""
    theirs, ours = Sequence(INT8, (None, None), 8), Sequence(INT8, (None, None), 4)
    pair = Pair(format_of_types(X86_64, a=theirs), format_of_types(I386, a=ours))
    message = pair.message({"a": np.zeros((0, 2**33), np.int8)})
    with pytest.raises(ConversionError, match="4-byte offsets"):
        convert(pair.plan, message)


def test_default_of_the_receiver_is_its_own_number_in_its_own_order() -> None:
    """A default travels in little-endian form and ends in the receiver's."""
    sender = format_of_types(X86_64, a=INT32)
    receiver = format_with(S390X, Field("a", INT32), Field("b", UINT32, default=Default(b"\1\2\3\4")))
    assert convert(Pair(sender, receiver).plan, b"\5\0\0\0") == b"\0\0\0\5\4\3\2\1"


# ---------------------------------------------------------------------------------------------------
# Verification


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (b"", "Expected at least 16 bytes, got 0"),
        (bytes(16), "Expected the offset 16, where the next part begins, got 0"),
        (b"\x10" + bytes(7) + b"\2" + bytes(7) + b"x", "Expected 2 elements within the record, got 1"),
        (b"\x10" + bytes(7) + b"\0" + bytes(7) + b"x", "Expected a record of 16 bytes, got 17"),
    ],
)
def test_message_that_is_refused_is_told_why(message: bytes, fault: str) -> None:
    """Expected and got, as everywhere."""
    pair = Pair(*[format_of_types(X86_64, a=Sequence(INT8, (None,), 8))] * 2)
    with pytest.raises(WireError, match=re.escape(fault)):
        verify(pair.verification, message)


def test_text_without_an_end_is_refused() -> None:
    """Its NUL has to be within the record."""
    pair = Pair(*[format_of_types(I386, a=Text(4))] * 2)
    with pytest.raises(WireError, match="a text that a NUL ends"):
        verify(pair.verification, b"\4\0\0\0abc")
    verify(pair.verification, b"\4\0\0\0abc\0")
