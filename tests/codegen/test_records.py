"""Records: what is written is read back, and nothing else is read."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.codegen.plain.records import read, write
from echo_core.codegen.plans.verification import MAX_EXTENT
from echo_core.errors import EncodeError, WireError
from echo_core.formats.abi import ABI_BY_NAME, Abi
from echo_core.formats.layout import Layout, place
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
)
from tests.formats.strategies import comparable, examples, layouts, packed, plain_values

INT32 = Scalar(Kind.INT, 4)
FLOAT64 = Scalar(Kind.FLOAT, 8)
X86_64, I386, S390X, M68K = (ABI_BY_NAME[name] for name in ("x86_64", "i386", "s390x", "m68k"))


def layout_of(abi: Abi, **types: Type) -> Layout:
    """A record with fields of these types, placed as the ABI does."""
    members = [Field(name, type_) for name, type_ in types.items()]
    return Layout(abi.byte_order, abi.pointer_size, place("R", members, abi))


# ---------------------------------------------------------------------------------------------------
# There and back


@pytest.mark.parametrize("abi", ABI_BY_NAME.values(), ids=lambda abi: abi.name)
def test_value_that_is_written_is_read_back(abi: Abi) -> None:
    """Random layouts of each ABI, random values."""

    @examples(40)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        layout = data.draw(layouts(abi))
        plain = data.draw(plain_values(layout, any_number=True))
        message = write(plain, layout)
        again = read(message, layout)
        assert comparable(again) == comparable(plain)
        assert write(again, layout) == message

    holds()


def test_empty_array_keeps_its_dimensions() -> None:
    """An array of numbers without elements is as long in its other dimensions as it was."""
    layout = layout_of(X86_64, a=Sequence(FLOAT64, (None, None), 8))
    assert read(write({"a": np.zeros((0, 5))}, layout), layout)["a"].shape == (0, 5)


def test_lists_without_elements_are_one_empty_list() -> None:
    """A list of records cannot say how long its rows would be."""
    cell = place("Cell", [Field("x", INT32)], X86_64)
    layout = layout_of(X86_64, a=Sequence(cell, (None, None), 8))
    assert read(write({"a": [[], []]}, layout), layout) == {"a": []}


def test_record_without_fields_is_one_byte() -> None:
    """So that a list of them has a length on the wire."""
    nothing = Record("Nothing", 1, 1, ())
    layout = layout_of(X86_64, a=Sequence(nothing, (None,), 8))
    message = write({"a": [{}, {}, {}]}, layout)
    assert len(message) == 16 + 3
    assert read(message, layout) == {"a": [{}, {}, {}]}


def test_parts_follow_the_order_in_which_fields_are_listed() -> None:
    """A field that lies first in memory but is listed last has its part last."""
    fields = (Field("a", Text(8), 8), Field("b", Text(8), 0))
    layout = Layout("little", 8, Record("R", 16, 8, fields))
    message = write({"a": "A", "b": "B"}, layout)
    assert message[16:] == b"A\0B\0"
    assert read(message, layout) == {"a": "A", "b": "B"}


def test_elements_stand_together_before_their_own_parts() -> None:
    """A list of texts is its slots, then the texts."""
    layout = layout_of(I386, a=Sequence(Text(4), (None,), 4))
    words = (8, 2, 16, 18)  # the list's slot, then the slots of its two texts
    expected = b"".join(word.to_bytes(4, "little") for word in words) + b"a\0b\0"
    assert write({"a": ["a", "b"]}, layout) == expected


def test_part_is_aligned_naturally_on_every_abi() -> None:
    """m68k aligns an 8-byte number in a struct to 2; in a part it stands at a multiple of 8."""
    layout = layout_of(M68K, t=Text(4), a=Sequence(FLOAT64, (None,), 4))
    message = write({"t": "", "a": np.array([1.0])}, layout)
    assert len(message) == 16 + 8
    assert message[4:8] == (16).to_bytes(4, "big")


def test_empty_part_has_its_place_too() -> None:
    """Its offset is where it would begin, and the padding before it is there."""
    layout = layout_of(X86_64, t=Text(8), a=Sequence(FLOAT64, (None,), 8))
    message = write({"t": "", "a": np.zeros(0)}, layout)
    assert len(message) == 32
    assert message[8:16] == (32).to_bytes(8, "little")


def test_length_that_a_slot_cannot_hold_is_the_callers_fault() -> None:
    """Four bytes do not hold a length of 2**33, even of an array without elements."""
    layout = layout_of(I386, a=Sequence(Scalar(Kind.INT, 1), (None, None), 4))
    with pytest.raises(EncodeError, match="4-byte"):
        write({"a": np.zeros((0, 2**33), np.int8)}, layout)


# ---------------------------------------------------------------------------------------------------
# What a reader ignores


def test_padding_is_ignored() -> None:
    """Nothing says what a sender that is no C compiler leaves between fields."""
    layout = layout_of(X86_64, a=Scalar(Kind.INT, 1), b=INT32)
    assert read(bytes([1, 9, 9, 9, 2, 0, 0, 0]), layout) == {"a": 1, "b": 2}


def test_element_of_an_absent_optional_is_ignored() -> None:
    """Slots in it are not followed."""
    inner = place("Inner", [Field("t", Text(8))], X86_64)
    layout = layout_of(X86_64, a=Nullable(inner))
    assert read(b"\xff" * 8 + bytes(8), layout) == {"a": None}


def test_any_number_but_0_is_true_and_present() -> None:
    """C says the same; what is written again is 1."""
    flag = Scalar(Kind.BOOL, 1)
    layout = layout_of(X86_64, a=flag, b=StaticArray(flag, (2,)), c=Nullable(Scalar(Kind.INT, 1)))
    plain = read(bytes([7, 0, 0x80, 5, 3]), layout)
    assert comparable(plain) == comparable({"a": True, "b": [False, True], "c": 5})
    assert write(plain, layout) == bytes([1, 0, 1, 5, 1])


def test_chars_end_at_the_first_nul() -> None:
    """What stands behind it is not even looked at."""
    layout = layout_of(X86_64, a=Scalar(Kind.CHARS, 4))
    assert read(b"a\0\xff\xff", layout) == {"a": "a"}
    assert read(b"abcd", layout) == {"a": "abcd"}


def test_number_without_a_name_is_read() -> None:
    """What to do with an unknown member is decided where members are known."""
    layout = layout_of(X86_64, a=Enumeration("E", 1, (("A", 0),)))
    assert read(b"\x07", layout) == {"a": 7}


# ---------------------------------------------------------------------------------------------------
# Hostile bytes


def sample(abi: Abi) -> tuple[Layout, dict[str, Any]]:
    """A record with every kind of slot, at several depths.

    No part but text that is not None ends in padding, which would hide a part that is longer by a byte.
    """
    p = abi.pointer_size
    cell = place("Cell", [Field("kind", Scalar(Kind.INT, 2)), Field("label", Text(p))], abi)
    layout = layout_of(
        abi,
        numbers=Sequence(FLOAT64, (None,), p),
        count=INT32,
        counted=Sequence(INT32, ("count",), p),
        name=Text(p),
        raw=Blob(p),
        note=Nullable(Text(p)),
        cells=Sequence(cell, (None,), p),
        grid=Sequence(Scalar(Kind.UINT, 1), (None, None), p),
        between=Text(p),
        none=Nullable(Blob(p)),
        maybe=Nullable(Sequence(Text(p), (None,), p)),
        level=Nullable(Scalar(Kind.FLOAT, 4)),
        color=Enumeration("Color", 2, (("RED", 1), ("BLUE", 2))),
        tag=Scalar(Kind.CHARS, 3),
        last=Text(p),
    )
    plain: dict[str, Any] = {
        "name": "né",
        "raw": b"\0\1\2\3\4\5\6\7",
        "numbers": np.array([1.5, -2.5]),
        "count": 3,
        "counted": np.array([7, 8, 9], np.int32),
        "cells": [{"kind": 1, "label": "a"}, {"kind": 2, "label": "bc"}],
        "grid": np.array([[1, 2, 3], [4, 5, 6]], np.uint8),
        "note": "n",
        "between": "",
        "none": None,
        "maybe": ["x", ""],
        "level": 0.5,
        "color": 2,
        "tag": "abc",
        "last": "end",
    }
    return layout, plain


SAMPLES = pytest.mark.parametrize("abi", [X86_64, I386, S390X, M68K], ids=lambda abi: abi.name)


@SAMPLES
def test_record_cut_off_anywhere_is_refused(abi: Abi) -> None:
    """No prefix of a message is a message."""
    layout, plain = sample(abi)
    message = write(plain, layout)
    for length in range(len(message)):
        with pytest.raises(WireError):
            read(message[:length], layout)


@SAMPLES
def test_trailing_bytes_are_refused(abi: Abi) -> None:
    """Nothing may hide behind a record."""
    layout, plain = sample(abi)
    with pytest.raises(WireError, match="Expected a record of"):
        read(write(plain, layout) + b"\0", layout)


@SAMPLES
def test_every_changed_byte_decodes_or_is_refused(abi: Abi) -> None:
    """Each byte in turn takes other values; only WireError comes out, and soon."""
    layout, plain = sample(abi)
    message = write(plain, layout)
    outcomes = {True: 0, False: 0}
    for at in range(len(message)):
        for value in {0, 1, 0x7F, 0x80, 0xFF, message[at] ^ 1, message[at] ^ 0x20} - {message[at]}:
            changed = bytearray(message)
            changed[at] = value
            started = time.thread_time()
            outcomes[decodes(bytes(changed), layout)] += 1
            assert time.thread_time() - started < 1
    assert all(outcomes.values())


def test_every_value_of_every_byte_decodes_or_is_refused() -> None:
    """All 255 changes of each byte of a small message."""
    layout = layout_of(I386, t=Text(4), n=Nullable(INT32), a=Sequence(Text(4), (None,), 4))
    message = write({"t": "x", "n": 1, "a": ["y"]}, layout)
    outcomes = [
        decodes(message[:at] + bytes([value]) + message[at + 1 :], layout)
        for at in range(len(message))
        for value in range(256)
    ]
    assert len(message) <= sum(outcomes) < len(outcomes)  # each byte as it was is among them


def decodes(message: bytes, layout: Layout) -> bool:
    """Whether a message is read; anything but WireError fails the test."""
    try:
        read(message, layout)
    except WireError:
        return False
    return True


def slot_words(layout: Layout, message: bytes) -> list[int]:
    """Where the words of all slots of the sample stand, those of its cells and texts included."""
    size = layout.pointer_size
    words: list[int] = []
    for field in layout.record.fields:
        type_ = field.type.element if isinstance(field.type, Nullable) else field.type
        if not isinstance(type_, Text | Blob | Sequence):
            continue
        words += range(field.offset, field.offset + type_.size, size)
        if isinstance(type_, Sequence) and isinstance(type_.element, Record | Text):
            at = int.from_bytes(message[field.offset :][:size], layout.byte_order)
            step = type_.element.size
            inner = type_.element.fields[1].offset if isinstance(type_.element, Record) else 0
            words += [at + inner, at + step + inner]
    return words


def edges(size: int) -> tuple[int, ...]:
    """Numbers at which a check may be off by one, or arithmetic may overflow."""
    powers = [2**n + d for n in (15, 16, 31, 32, 40, 60, 61, 63, 64) for d in (-1, 0, 1)]
    return (0, 1, size - 1, size, size + 1, *powers)


@SAMPLES
def test_word_of_a_slot_has_one_acceptable_value(abi: Abi) -> None:
    """Every other offset or length is refused, the hostile ones at the edges among them."""
    layout, plain = sample(abi)
    message = write(plain, layout)
    words = slot_words(layout, message)
    assert len(words) == 22
    width = abi.pointer_size
    for at in words:
        there = int.from_bytes(message[at : at + width], abi.byte_order)
        for number in {*edges(len(message)), there - 1, there + 1} - {there, -1}:
            if number < 256**width:
                changed = number.to_bytes(width, abi.byte_order)
                with pytest.raises(WireError):
                    read(message[:at] + changed + message[at + width :], layout)


@SAMPLES
def test_count_in_a_field_has_one_acceptable_value(abi: Abi) -> None:
    """Negative ones included."""
    layout, plain = sample(abi)
    message = write(plain, layout)
    at = next(field.offset for field in layout.record.fields if field.name == "count")
    for number in (-(2**31), -1, 0, 1, 2, 4, len(message), 2**31 - 1):
        changed = number.to_bytes(4, abi.byte_order, signed=True)
        with pytest.raises(WireError):
            read(message[:at] + changed + message[at + 4 :], layout)


def test_negative_count_is_named() -> None:
    """A count of -1 is no huge number."""
    layout = layout_of(X86_64, n=INT32, a=Sequence(INT32, ("n",), 8))
    message = write({"n": 0, "a": np.zeros(0, np.int32)}, layout)
    with pytest.raises(WireError, match=r"got -1 - at `R\.a`"):
        read(b"\xff" * 4 + message[4:], layout)


@pytest.mark.parametrize("count", [1, 2**31, 2**63 - 1])
def test_count_beside_an_absent_sequence_is_refused(count: int) -> None:
    """None has no elements to count."""
    layout = layout_of(X86_64, n=Scalar(Kind.INT, 8), a=Nullable(Sequence(INT32, ("n",), 8)))
    assert read(bytes(16), layout) == {"n": 0, "a": None}
    with pytest.raises(WireError, match="beside an offset of 0"):
        read(count.to_bytes(8, "little") + bytes(8), layout)


@pytest.mark.parametrize("type_", [Blob(8), Sequence(INT32, (None,), 8)], ids=str)
def test_length_beside_an_absent_part_is_refused(type_: Blob | Sequence) -> None:
    """There is one way to write None."""
    layout = layout_of(X86_64, a=Nullable(type_))
    assert read(bytes(16), layout) == {"a": None}
    with pytest.raises(WireError, match="beside an offset of 0"):
        read(bytes(8) + (1).to_bytes(8, "little"), layout)


@pytest.mark.parametrize("type_", [Text(8), Blob(8), Sequence(INT32, (None,), 8)], ids=str)
def test_offset_0_is_refused_where_none_is_not_allowed(type_: Type) -> None:
    """A null pointer is never followed."""
    layout = layout_of(X86_64, a=type_)
    with pytest.raises(WireError, match=r"got 0 - at `R\.a`"):
        read(bytes(layout.record.size), layout)


def two_texts(first: int, second: int, parts: bytes) -> bytes:
    """A record of two texts with these offsets, on a machine with 4-byte pointers."""
    return first.to_bytes(4, "little") + second.to_bytes(4, "little") + parts


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (two_texts(10, 8, b"a\0b\0"), "out of order"),
        (two_texts(8, 8, b"a\0"), "shared"),
        (two_texts(8, 9, b"ab\0"), "overlapping"),
        (two_texts(8, 11, b"a\0\0b\0"), "a gap between"),
        (two_texts(9, 11, b"\0a\0b\0"), "a gap before"),
        (two_texts(8, 0, b"a\0"), "null"),
        (two_texts(4, 8, b"a\0"), "inside the fixed part"),
        (two_texts(8, 10, b"a\0b"), "without an end"),
        (two_texts(8, 10, b"a\0\xff\0"), "not UTF-8"),
        (two_texts(8, 10, b"a\0\xed\xa0\x80\0"), "a surrogate"),
        (two_texts(8, 10, b"a\0\xc0\x80\0"), "overlong"),
        (two_texts(8, 10, b"a\0"), "beyond the end"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parts_elsewhere_than_in_their_place_are_refused(message: bytes, fault: str) -> None:
    """Nothing is referred to twice, so a message never decodes to more than it holds."""
    layout = layout_of(I386, a=Text(4), b=Text(4))
    assert read(two_texts(8, 10, b"a\0b\0"), layout) == {"a": "a", "b": "b"}, fault
    with pytest.raises(WireError, match=r"- at `R\.[ab]`"):
        read(message, layout)


@pytest.mark.parametrize(
    ("lengths", "accepted"),
    [
        ((MAX_EXTENT - 1, 0), True),
        ((MAX_EXTENT, 0), True),
        ((MAX_EXTENT + 1, 0), False),
        ((0, 2**63), False),
        ((0, 0), True),
    ],
)
def test_array_without_elements_has_bounded_dimensions(lengths: tuple[int, int], accepted: bool) -> None:
    """It costs no bytes to claim that an empty array is long; numpy would refuse or overflow."""
    words = (24, *lengths)
    message = b"".join(word.to_bytes(8, "little") for word in words)
    for element in (FLOAT64, Text(8)):
        layout = layout_of(X86_64, a=Sequence(element, (None, None), 8))
        assert decodes(message, layout) is accepted


def test_million_elements_are_not_made_of_a_short_message() -> None:
    """The part is checked before anything is made of it."""
    layout = layout_of(X86_64, a=Sequence(Text(8), (None,), 8))
    started = time.thread_time()
    with pytest.raises(WireError, match="within the record"):
        read(b"".join(n.to_bytes(8, "little") for n in (16, 2**59)), layout)
    assert time.thread_time() - started < 0.1


def test_error_names_the_path_to_the_part() -> None:
    """Through lists and nested records."""
    cell = packed("Cell", [Field("label", Text(4))], [0])
    layout = layout_of(I386, cells=Sequence(cell, (None,), 4))
    message = write({"cells": [{"label": "a"}, {"label": "b"}]}, layout)
    with pytest.raises(WireError, match=r"- at `R\.cells\[1\]\.label`") as caught:
        read(message[:-2] + b"\xff\0", layout)
    assert caught.value.path == "R.cells[1].label"


def test_unaligned_records_are_read_where_they_lie() -> None:
    """A packed layout may put a number, or a slot, anywhere."""
    members = [Field("a", Scalar(Kind.INT, 1)), Field("t", Text(8)), Field("x", FLOAT64)]
    layout = Layout("big", 8, packed("R", members, [0, 2, 1]))
    plain = {"a": 1, "t": "t", "x": 0.1}
    assert read(write(plain, layout), layout) == plain
