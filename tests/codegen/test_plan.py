"""Plans as data: how operations nest, what reaches out of a record, and how a plan is printed."""

from __future__ import annotations

import dataclasses

import pytest

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
    Plan,
    Renumber,
    Run,
    Side,
    Slot,
    Text,
    When,
    Word,
    body_of,
    reaches_out,
    steps,
    walk,
)
from tests.codegen.pairs import FLOAT32, FLOAT64, INT32

SIDE = Side("little", 8, 16)
MOVE = Move(0, 0, 4)
SLOT = Slot(8, (Word(16),), 4)
PLACE = Inline(8, (Known(3),))

# Each kind of operation, and whether it reads or writes beyond the fixed part.
OPERATIONS: list[tuple[Operation, bool]] = [
    (MOVE, False),
    (Fill(0, b"\1"), False),
    (Cast(0, 0, 1, FLOAT32, FLOAT64, is_checked=False), False),
    (Renumber(0, 0, INT32, INT32, ((1, 2),)), False),
    (Each(0, 0, 3, 4, 4, 1), False),
    (When(Flag(4), None, is_required=False, body=1), False),
    (When(Offset(0), None, is_required=False, body=1), True),
    (Agree(((Word(8), None), (Count(0, INT32), None))), False),
    (Run(SLOT, SLOT, 4, 4, 1), True),
    (Run(SLOT, PLACE, 4, 4, 1), True),
    (Run(PLACE, SLOT, 4, 4, 1), True),
    (Run(PLACE, PLACE, 4, 4, 1), False),
    (Text(0, None, 0, None), True),
    (Text(0, 8, 0, None), True),
    (Text(0, None, 0, 8), True),
    (Text(0, 8, 0, 4), False),
    (Text(0, None, None, None), True),
    (Text(0, 8, None, None), False),
    (Append(SLOT, b""), True),
]


@pytest.mark.parametrize(("operation", "reaches"), OPERATIONS, ids=str)
def test_operation_reaches_out_where_one_end_is_a_slot(operation: Operation, reaches: bool) -> None:
    """What does not is done for many records as for one."""
    assert reaches_out(operation) is reaches
    assert Plan(SIDE, SIDE, (operation, *[MOVE] * body_of(operation))).is_fixed is not reaches


@pytest.mark.parametrize("operation", [operation for operation, _ in OPERATIONS], ids=str)
def test_operation_is_a_value(operation: Operation) -> None:
    """Frozen, equal to its like, and hashable, so that plans can be compared and kept."""
    assert dataclasses.replace(operation) == operation
    assert hash(dataclasses.replace(operation)) == hash(operation)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(operation, dataclasses.fields(operation)[0].name, None)


NESTED = (MOVE, Each(4, 4, 2, 8, 8, 3), MOVE, When(Flag(4), None, is_required=True, body=1), MOVE, MOVE)


def test_steps_are_the_operations_of_one_level_with_their_bodies() -> None:
    """A body is the operations that follow, as many as the operation says."""
    assert list(steps(NESTED)) == [(MOVE, ()), (NESTED[1], NESTED[2:5]), (MOVE, ())]
    assert list(steps(NESTED[2:5])) == [(MOVE, ()), (NESTED[3], (MOVE,))]


def test_walk_passes_every_operation_and_tells_its_depth() -> None:
    """In the order of the plan."""
    assert [depth for depth, _ in walk(NESTED)] == [0, 0, 1, 1, 2, 0]
    assert tuple(operation for _, operation in walk(NESTED)) == NESTED


def test_plan_with_a_slot_in_a_body_is_not_fixed() -> None:
    """However deep it stands."""
    each = (Each(0, 0, 2, 8, 8, 1), Text(0, None, 0, None))
    assert not Plan(SIDE, SIDE, each).is_fixed
    assert Plan(SIDE, SIDE, NESTED).is_fixed


def test_plan_is_printed_one_operation_a_line_bodies_indented() -> None:
    """For whoever wants to know what a conversion does."""
    assert str(Plan(SIDE, SIDE, NESTED)).splitlines() == [
        "Move(source=0, target=0, size=4, unit=1)",
        "Each(source=4, target=4, count=2, source_stride=8, target_stride=8, body=3)",
        "  Move(source=0, target=0, size=4, unit=1)",
        "  When(source=Flag(offset=4), target=None, is_required=True, body=1)",
        "    Move(source=0, target=0, size=4, unit=1)",
        "Move(source=0, target=0, size=4, unit=1)",
    ]
