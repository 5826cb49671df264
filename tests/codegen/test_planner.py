"""From two formats to a plan: for chosen pairs exactly these operations, for random ones every kind."""

from __future__ import annotations

import random
import typing
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.codegen.plans import plan as plans
from echo_core.codegen.plans.plan import (
    Agree,
    Append,
    Cast,
    Count,
    Each,
    Fill,
    Flag,
    Inline,
    Known,
    Move,
    Offset,
    Operation,
    Renumber,
    Run,
    Side,
    Slot,
    When,
    Word,
    body_of,
    steps,
    walk,
)
from echo_core.codegen.plans.planner import merged, plan
from echo_core.codegen.plans.verification import verification
from echo_core.formats.abi import Abi
from echo_core.formats.comparing.compare import compare
from echo_core.formats.format import Format
from echo_core.formats.layout import place
from echo_core.formats.types import (
    Blob,
    Default,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
)
from tests.codegen.pairs import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    I386,
    INT8,
    INT16,
    INT32,
    INT64,
    PPC,
    S390X,
    UINT8,
    UINT32,
    X86_64,
    format_of_types,
    format_with,
    pair_from,
)
from tests.formats.samples import Odd, Particle
from tests.formats.strategies import examples

COMPLEX64, COMPLEX128 = Scalar(Kind.COMPLEX, 8), Scalar(Kind.COMPLEX, 16)
CHARS4, CHARS8 = Scalar(Kind.CHARS, 4), Scalar(Kind.CHARS, 8)
BYTES4 = Scalar(Kind.BYTES, 4)
RGB = Enumeration("Color", 2, (("RED", 1), ("GREEN", 2), ("BLUE", 3)))
GRB = Enumeration("Color", 4, (("GREEN", 1), ("RED", 2), ("BLUE", 3)))
MORE = Enumeration("Color", 2, (*RGB.members, ("PINK", 4)))


def operations(
    theirs: Type, ours: Type, *, sender: Abi = X86_64, receiver: Abi = X86_64
) -> tuple[Operation, ...]:
    """The plan for records of one field."""
    pair = format_of_types(sender, a=theirs), format_of_types(receiver, a=ours)
    compare(*pair, lossy=True).raise_if_refused()
    return plan(pair[0].layout, pair[1].layout).operations


# ---------------------------------------------------------------------------------------------------
# Moves


def test_whole_record_of_the_same_layout_is_one_move() -> None:
    """Neighbours on both ends are moved as one, whatever they are."""
    layout = format_of_types(X86_64, a=INT32, b=FLOAT32, c=INT64, d=CHARS8, e=StaticArray(INT16, (4,))).layout
    assert plan(layout, layout).operations == (Move(0, 0, 32),)


def test_padding_is_not_moved() -> None:
    """What a sender leaves there is nobody's business."""
    layout = format_of_types(X86_64, a=INT8, b=INT32, c=INT8).layout
    assert plan(layout, layout).operations == (Move(0, 0, 1), Move(4, 4, 5))


def test_swapped_neighbours_of_one_width_are_one_move() -> None:
    """Runs of 4 bytes, then of 8; single bytes are not swapped."""
    pair = [format_of_types(abi, a=INT32, b=FLOAT32, c=INT64, d=UINT8, e=INT8) for abi in (S390X, X86_64)]
    moves = (Move(0, 0, 8, 4), Move(8, 8, 8, 8), Move(16, 16, 2))
    assert plan(pair[0].layout, pair[1].layout).operations == moves


def test_reordered_fields_are_moved_one_by_one() -> None:
    """Only what is next to each other on both ends is merged."""
    sender = format_of_types(X86_64, a=INT32, b=INT32, c=INT32, d=INT32)
    receiver = format_of_types(X86_64, c=INT32, d=INT32, b=INT32)
    assert plan(sender.layout, receiver.layout).operations == (Move(8, 0, 8), Move(4, 8, 4))


def test_nested_record_is_flattened_and_merged_with_what_is_around_it() -> None:
    """Nesting costs nothing."""
    inner = place("Inner", [Field("x", INT32), Field("y", INT32)], X86_64)
    layout = format_of_types(X86_64, a=INT64, inner=inner, b=INT64).layout
    assert plan(layout, layout).operations == (Move(0, 0, 24),)


def test_merging_leaves_bodies_alone() -> None:
    """A move in a body is no neighbour of one behind it."""
    each: list[Operation] = [Each(4, 4, 2, 4, 4, 1), Move(0, 0, 4)]
    assert merged([Move(0, 0, 2), Move(2, 2, 2), *each, Move(4, 4, 4)]) == [
        Move(0, 0, 4),
        *each,
        Move(4, 4, 4),
    ]


@pytest.mark.parametrize(
    ("first", "second", "is_merged"),
    [
        (Move(0, 8, 4), Move(4, 12, 4), True),
        (Move(0, 8, 4, 4), Move(4, 12, 8, 4), True),
        (Move(0, 8, 4, 4), Move(4, 12, 8, 8), False),
        (Move(0, 8, 4), Move(8, 12, 4), False),
        (Move(0, 8, 4), Move(4, 16, 4), False),
        (Move(4, 12, 4), Move(0, 8, 4), False),
    ],
)
def test_moves_are_merged_where_they_are_one(first: Move, second: Move, is_merged: bool) -> None:
    """Next to each other at both ends, and of one unit."""
    assert len(merged([first, second])) == (1 if is_merged else 2)


def test_particle_of_another_byte_order_is_a_move_for_each_run_of_one_width() -> None:
    """The benchmark's event, from big endian: seven moves for sixteen fields."""
    import echo_core as echo

    pair = [echo.format_of(Particle, abi=abi).layout for abi in ("s390x", "x86_64")]
    assert plan(*pair).operations == (
        Move(0, 0, 32, 8),
        Move(32, 32, 20, 4),
        Move(52, 52, 2, 2),
        Move(54, 54, 2),
        Move(56, 56, 16, 8),
        Move(72, 72, 16),
        Move(88, 88, 4, 4),
    )


def test_odd_from_a_32_bit_machine_is_what_the_goals_draw() -> None:
    """A narrower long and narrower slots, other offsets, a text and a counted array."""
    import echo_core as echo

    pair = [echo.format_of(Odd, abi=abi).layout for abi in ("ppc", "x86_64")]
    assert plan(*pair).operations == (
        Move(0, 0, 1),
        Cast(4, 8, 1, INT32, INT64, is_checked=False),
        Move(8, 16, 16, 8),
        Move(24, 32, 2, 2),
        plans.Text(28, None, 40, None),
        Run(Slot(36, (Count(32, INT32),), 4), Slot(56, (Count(48, INT32),), 4), 4, 4, 1),
        Move(0, 0, 4, 4),
    )


# ---------------------------------------------------------------------------------------------------
# One field

ONE_FIELD: list[tuple[str, Type, Type, tuple[Operation, ...]]] = [
    ("a wider integer", INT16, INT32, (Cast(0, 0, 1, INT16, INT32, is_checked=False),)),
    ("a narrower integer", INT64, INT32, (Cast(0, 0, 1, INT64, INT32, is_checked=True),)),
    ("another sign", INT32, UINT32, (Cast(0, 0, 1, INT32, UINT32, is_checked=True),)),
    ("an integer to a float", INT32, FLOAT64, (Cast(0, 0, 1, INT32, FLOAT64, is_checked=True),)),
    ("a wider float", FLOAT32, FLOAT64, (Cast(0, 0, 1, FLOAT32, FLOAT64, is_checked=False),)),
    ("a bool to an integer", BOOL, INT32, (Cast(0, 0, 1, BOOL, INT32, is_checked=False),)),
    ("an integer to a bool", INT32, BOOL, (Cast(0, 0, 1, INT32, BOOL, is_checked=True),)),
    ("a float to a complex of its size", FLOAT32, COMPLEX64, (Move(0, 0, 4),)),
    ("a float to a complex", FLOAT32, COMPLEX128, (Cast(0, 0, 1, FLOAT32, FLOAT64, is_checked=False),)),
    ("a wider complex", COMPLEX64, COMPLEX128, (Cast(0, 0, 2, FLOAT32, FLOAT64, is_checked=False),)),
    ("longer chars", CHARS4, CHARS8, (Move(0, 0, 4),)),
    ("shorter chars", CHARS8, CHARS4, (plans.Text(0, 8, 0, 4),)),
    ("chars to text", CHARS8, Text(8), (plans.Text(0, 8, 0, None),)),
    ("text to chars", Text(8), CHARS8, (plans.Text(0, None, 0, 8),)),
    ("text", Text(8), Text(8), (plans.Text(0, None, 0, None),)),
    ("bytes of a fixed size", BYTES4, BYTES4, (Move(0, 0, 4),)),
    (
        "bytes",
        Blob(8),
        Blob(8),
        (Run(Slot(0, (Word(8),), 1), Slot(0, (Word(8),), 1), 1, 1, 1), Move(0, 0, 1)),
    ),
    (
        "bytes to a fixed size",
        Blob(8),
        BYTES4,
        (Run(Slot(0, (Word(8),), 1), Inline(0, (Known(4),)), 1, 1, 1), Move(0, 0, 1)),
    ),
    ("the same names, other numbers", RGB, GRB, (Renumber(0, 0, INT16, INT32, ((1, 2), (2, 1), (3, 3))),)),
    ("more names", RGB, MORE, (Move(0, 0, 2),)),
    ("fewer names", MORE, RGB, (Renumber(0, 0, INT16, INT16, ((1, 1), (2, 2), (3, 3))),)),
    ("an integer to an enum", UINT8, RGB, (Renumber(0, 0, UINT8, INT16, ((1, 1), (2, 2), (3, 3))),)),
    ("an enum to an integer", RGB, INT32, (Cast(0, 0, 1, INT16, INT32, is_checked=False),)),
    ("an optional to be there", INT32, Nullable(INT32), (Move(0, 0, 4), Fill(4, b"\1"))),
    (
        "an optional",
        Nullable(INT32),
        Nullable(INT32),
        (When(Flag(4), 4, is_required=False, body=1), Move(0, 0, 4)),
    ),
    (
        "an optional that must be there",
        Nullable(INT32),
        INT32,
        (When(Flag(4), None, is_required=True, body=1), Move(0, 0, 4)),
    ),
    (
        "an optional text",
        Nullable(Text(8)),
        Nullable(Text(8)),
        (When(Offset(0), None, is_required=False, body=1), plans.Text(0, None, 0, None)),
    ),
    (
        "an optional sequence",
        Nullable(Sequence(INT32, (None,), 8)),
        Nullable(Sequence(INT32, (None,), 8)),
        (
            When(Offset(0, (Word(8),)), None, is_required=False, body=2),
            Run(Slot(0, (Word(8),), 4), Slot(0, (Word(8),), 4), 4, 4, 1),
            Move(0, 0, 4),
        ),
    ),
    ("a static array", StaticArray(INT32, (5, 2)), StaticArray(INT32, (5, 2)), (Move(0, 0, 40),)),
    (
        "a static array of wider numbers",
        StaticArray(INT16, (5,)),
        StaticArray(INT32, (5,)),
        (Cast(0, 0, 5, INT16, INT32, is_checked=False),),
    ),
    (
        "a static array of wider complex numbers",
        StaticArray(COMPLEX64, (5,)),
        StaticArray(COMPLEX128, (5,)),
        (Cast(0, 0, 10, FLOAT32, FLOAT64, is_checked=False),),
    ),
    (
        "a static array of floats to complex",
        StaticArray(FLOAT32, (5,)),
        StaticArray(COMPLEX64, (5,)),
        (Each(0, 0, 5, 4, 8, 1), Move(0, 0, 4)),
    ),
    (
        "a static array of optionals",
        StaticArray(Nullable(INT32), (2,)),
        StaticArray(Nullable(INT64), (2,)),
        (
            Each(0, 0, 2, 8, 16, 2),
            When(Flag(4), 8, is_required=False, body=1),
            Cast(0, 0, 1, INT32, INT64, is_checked=False),
        ),
    ),
    (
        "a static array to a sequence",
        StaticArray(INT32, (5,)),
        Sequence(INT32, (None,), 8),
        (Run(Inline(0, (Known(5),)), Slot(0, (Word(8),), 4), 4, 4, 1), Move(0, 0, 4)),
    ),
    (
        "a sequence to a static array",
        Sequence(INT32, (None, 2), 8),
        StaticArray(INT32, (5, 2)),
        (
            Run(Slot(0, (Word(8), Known(2)), 4), Inline(0, (Known(5), Known(2))), 4, 4, 1),
            Move(0, 0, 4),
        ),
    ),
    (
        "a sequence in a sequence",
        Sequence(Sequence(INT8, (None,), 8), (None,), 8),
        Sequence(Sequence(INT8, (None,), 8), (None,), 8),
        (
            Run(Slot(0, (Word(8),), 8), Slot(0, (Word(8),), 8), 16, 16, 2),
            Run(Slot(0, (Word(8),), 1), Slot(0, (Word(8),), 1), 1, 1, 1),
            Move(0, 0, 1),
        ),
    ),
]


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"), [case[1:] for case in ONE_FIELD], ids=[case[0] for case in ONE_FIELD]
)
def test_field_is_planned(theirs: Type, ours: Type, expected: tuple[Operation, ...]) -> None:
    """One kind of field into another, on one machine."""
    assert operations(theirs, ours) == expected


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (INT64, (Move(0, 0, 8, 8),)),
        (RGB, (Move(0, 0, 2, 2),)),
        (COMPLEX128, (Move(0, 0, 16, 8),)),
        (FLOAT16, (Move(0, 0, 2, 2),)),
        (Scalar(Kind.TIMESTAMP, 8), (Move(0, 0, 8, 8),)),
        (Scalar(Kind.UUID, 16), (Move(0, 0, 16),)),
        (CHARS8, (Move(0, 0, 8),)),
        (BOOL, (Move(0, 0, 1),)),
        (StaticArray(INT32, (5,)), (Move(0, 0, 20, 4),)),
    ],
    ids=str,
)
def test_field_of_another_byte_order_is_moved_in_units(type_: Type, expected: tuple[Operation, ...]) -> None:
    """Numbers are swapped, each half of a complex one by itself; what has no byte order is not."""
    assert operations(type_, type_, sender=S390X) == expected


def test_number_of_an_integer_that_the_sender_cannot_have_is_not_in_the_table() -> None:
    """Eight bits would take 300 for 44, and -1 for 255."""
    wide = Enumeration("Wide", 2, (("A", 300), ("B", -1), ("C", 7)))
    assert operations(UINT8, wide) == (Renumber(0, 0, UINT8, INT16, ((7, 7),)),)
    assert operations(INT8, wide) == (Renumber(0, 0, INT8, INT16, ((-1, -1), (7, 7))),)


def test_slots_are_as_wide_as_each_machines_pointers() -> None:
    """And stand where each machine puts them."""
    theirs, ours = Sequence(FLOAT64, (None, None), 4), Sequence(FLOAT64, (None, None), 8)
    run, move = operations(theirs, ours, sender=PPC)
    assert run == Run(Slot(0, (Word(4), Word(8)), 8), Slot(0, (Word(8), Word(16)), 8), 8, 8, 1)
    assert move == Move(0, 0, 8, 8)


# ---------------------------------------------------------------------------------------------------
# What only the receiver has


def defaulted(*members: Field) -> tuple[Operation, ...]:
    """The plan for a receiver of these fields and a sender that has none of them."""
    sender, receiver = format_of_types(X86_64, z=UINT8), format_with(S390X, *members)
    return plan(sender.layout, receiver.layout).operations


@pytest.mark.parametrize(
    ("type_", "default", "expected"),
    [
        (INT32, Default(b"\1\2\3\4"), (Fill(0, b"\4\3\2\1"),)),
        (CHARS8, Default(b"ab"), (Fill(0, b"ab" + bytes(6)),)),
        (Nullable(INT32), Default(), ()),
        (Nullable(INT32), Default(b"\1\0\0\0"), (Fill(0, b"\0\0\0\1"), Fill(4, b"\1"))),
        (Text(8), Default(b"ab"), (Append(Slot(0, (), 1), b"ab\0"),)),
        (Nullable(Text(8)), Default(b""), (Append(Slot(0, (), 1), b"\0"),)),
        (Blob(8), Default(b"ab"), (Append(Slot(0, (Word(8),), 1), b"ab"),)),
    ],
    ids=str,
)
def test_missing_field_takes_its_default(
    type_: Type, default: Default, expected: tuple[Operation, ...]
) -> None:
    """In the receiver's byte order; None is what zeros say anyway."""
    assert defaulted(Field("a", type_, default=default)) == expected


def test_default_that_only_the_class_can_make_leaves_an_empty_value() -> None:
    """It is named, so that a decoder of objects can put the real one there."""
    inner = place("Inner", [Field("t", Text(8)), Field("n", INT32)], S390X)
    local = Default(local=True)
    members = [Field("a", Sequence(INT32, (None,), 8), default=local), Field("b", inner, default=local)]
    made = plan(format_of_types(X86_64, z=UINT8).layout, format_with(S390X, *members).layout)
    assert made.local == ("R.a", "R.b")
    assert made.operations == (Append(Slot(0, (Word(8),), 4), b""), Append(Slot(16, (), 1), b"\0"))
    many = Field("c", StaticArray(inner, (3,)), default=local)
    assert defaulted(many) == (Each(0, 0, 3, 0, 16, 1), Append(Slot(0, (), 1), b"\0"))


# ---------------------------------------------------------------------------------------------------
# Counts


def test_count_is_written_by_the_sequence_that_it_counts() -> None:
    """The sender's field of that name is nothing to it."""
    counted = Sequence(INT32, ("n",), 8)
    sender = format_of_types(X86_64, n=INT64, a=Sequence(INT32, (None,), 8))
    receiver = format_of_types(X86_64, n=INT64, a=counted)
    assert plan(sender.layout, receiver.layout).operations == (
        Run(Slot(8, (Word(16),), 4), Slot(8, (Count(0, INT64),), 4), 4, 4, 1),
        Move(0, 0, 4),
    )


def test_lengths_that_share_a_count_have_to_agree() -> None:
    """Those that may differ at the sender; one that may be absent with its slot."""
    counted = Sequence(INT32, ("n",), 8)
    receiver = format_of_types(X86_64, n=INT64, a=counted, b=counted, c=Nullable(counted))
    many = Sequence(INT32, (None,), 8)
    sender = format_of_types(X86_64, a=many, b=StaticArray(INT32, (3,)), c=Nullable(StaticArray(INT32, (3,))))
    first = plan(sender.layout, receiver.layout).operations[0]
    assert first == Agree(((Word(8), None), (Known(3), None), (Known(3), Flag(40))))


def test_agreement_is_about_offsets_of_the_record_around_it() -> None:
    """In a nested record they count from the outer one, as all do."""
    inner = [
        place("Inner", [Field("n", INT64), Field("a", s), Field("b", s)], X86_64)
        for s in (Sequence(INT8, (None,), 8), Sequence(INT8, ("n",), 8))
    ]
    pair = [format_of_types(X86_64, z=INT64, inner=record) for record in inner]
    agree = plan(pair[0].layout, pair[1].layout).operations[1]
    assert agree == Agree(((Word(24), None), (Word(40), None)))


# ---------------------------------------------------------------------------------------------------
# Verification


def test_verification_passes_the_parts_in_the_senders_order() -> None:
    """And what has no parts not at all."""
    cell = place("Cell", [Field("x", INT32), Field("t", Text(4))], I386)
    sender = format_of_types(
        I386, n=INT32, a=Sequence(cell, ("n",), 4), b=Nullable(Blob(4)), c=StaticArray(Text(4), (2,)), d=INT64
    )
    made = verification(sender.layout)
    assert made.sender == Side("little", 4, 32)
    assert made.operations == (
        Run(Slot(4, (Count(0, INT32),), 4), None, 8, 0, 1),
        plans.Text(4, None, None, None),
        When(Offset(8, (Word(12),)), None, is_required=False, body=1),
        Run(Slot(8, (Word(12),), 1), None, 1, 0, 0),
        Each(16, 0, 2, 4, 0, 1),
        plans.Text(0, None, None, None),
    )


def test_verification_passes_chars_wherever_they_stand() -> None:
    """In the record, in an array, where they are present, and in each element."""
    chars = Scalar(Kind.CHARS, 5)
    sender = format_of_types(
        X86_64, a=chars, b=StaticArray(chars, (2,)), c=Nullable(chars), d=Sequence(chars, (None,), 8)
    )
    assert verification(sender.layout).operations == (
        plans.Text(0, 5, None, None),
        Each(5, 0, 2, 5, 0, 1),
        plans.Text(0, 5, None, None),
        When(Flag(20), None, is_required=False, body=1),
        plans.Text(15, 5, None, None),
        Run(Slot(24, (Word(32),), 1), None, 5, 0, 1),
        plans.Text(0, 5, None, None),
    )


def test_record_without_parts_needs_no_verification() -> None:
    """Its size is all."""
    assert verification(format_of_types(X86_64, a=INT32, b=Nullable(INT32)).layout).operations == ()


# ---------------------------------------------------------------------------------------------------
# All of them


def test_every_kind_of_operation_occurs_among_random_pairs() -> None:
    """So the suites that execute random plans leave none out; an Agree is rare, and has tests of its own."""
    found: Counter[type[Operation]] = Counter()

    @examples(300)
    @given(st.data())
    def count(data: st.DataObject) -> None:
        found.update(type(operation) for _, operation in walk(pair_from(data).plan.operations))

    count()
    kinds: set[type[Operation]] = set(typing.get_args(plans.Operation))
    assert kinds - {Agree} <= found.keys()


@examples(150)
@given(st.data())
def test_bodies_end_within_the_plan_and_targets_within_the_record(data: st.DataObject) -> None:
    """No operation of the fixed part writes beyond its record or element, whatever the pair."""
    made = pair_from(data).plan

    def check(level: tuple[Operation, ...], size: int) -> None:
        for operation, body in steps(level):
            assert len(body) == body_of(operation)
            assert end_of(operation) <= size
            match operation:
                case Each() | Run():
                    check(body, operation.target_stride)
                case When():
                    check(body, size)
                case _:
                    pass

    check(made.operations, made.receiver.size)


def end_of(operation: Operation) -> int:
    """Where what an operation writes in place ends."""
    match operation:
        case Move():
            return operation.target + operation.size
        case Fill():
            return operation.target + len(operation.data)
        case Cast():
            return operation.target + operation.count * operation.receiver.size
        case Renumber():
            return operation.target + operation.receiver.size
        case Each():
            return operation.target + operation.count * operation.target_stride
        case plans.Text():
            assert operation.target is not None
            return operation.target + (operation.target_size or 0)
        case _:
            return 0


def test_plan_of_a_pair_is_the_same_each_time() -> None:
    """Cached code is found by the formats, so they have to decide everything."""
    dice = random.Random(7)
    names = dice.sample("abcdefgh", 8)
    sender = format_of_types(S390X, **dict.fromkeys("abcdefgh", INT32))
    receiver: Format = format_of_types(X86_64, **dict.fromkeys(names, INT64))
    assert plan(sender.layout, receiver.layout) == plan(sender.layout, receiver.layout)
