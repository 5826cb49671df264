"""Branches by themselves: from one outlet to another, in C, whoever fails on the way."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, cast

import pytest

import echo_core as echo
from echo_core._c import links
from echo_core.codegen.expressions.predicates import where


@echo.event
class Sample:
    id: int
    x: float


@dataclass(slots=True)
class Plain:
    """Its fields may be of any type until it is encoded."""

    id: int
    x: float


RECORD = echo.format_of(Sample)
ENCODE = echo.encoder(Sample)
DECODE = echo.decoder(Sample)
PLAIN = echo.decoder(Plain)


def outlet(**options: Any) -> links.Outlet:
    return links.Outlet(Sample, ENCODE, record_size=RECORD.size_bytes, dtype=RECORD.dtype, **options)


def plain_outlet() -> links.Outlet:
    return links.Outlet(Plain, echo.encoder(Plain), record_size=RECORD.size_bytes)


def delivery(target: Any, decode: Any = DECODE) -> links.Delivery:
    def fail(error: BaseException) -> None:
        raise error

    return links.Delivery(target, decode, fail, record_size=RECORD.size_bytes)


def branch(condition: str, to: links.Outlet, **parameters: Any) -> links.Branch:
    return links.Branch(where(Sample, condition, **parameters).judge, to, takes_objects=True)


def test_a_tree_of_branches_judges_and_numbers_at_each_level() -> None:
    """By reference, as a record, and side by side."""
    base, middle, end = outlet(), outlet(), outlet()
    direct: list[Any] = []
    decoded: list[Any] = []
    end.direct, middle.converting = (delivery(direct.append),), (delivery(decoded.append),)
    first, second = branch("id > 1", middle), branch("x < 5", end)
    base.branches, middle.branches = (first,), (second,)
    events = [Sample(i, float(i)) for i in range(8)]
    for event in events:
        base.submit(event)
    assert direct == events[2:5]
    assert all(mine is theirs for mine, theirs in zip(direct, events[2:5], strict=True))
    assert decoded == events[2:]
    base.submit_records(b"".join(map(ENCODE, events)))
    assert direct[3:] == events[2:5]
    assert decoded[6:] == events[2:]
    assert (base.sequence, middle.sequence, end.sequence) == (16, 12, 6)
    assert (first.filtered, second.filtered) == (4, 6)
    assert (first.come_to, second.come_to) == (16, 12)


def test_a_branch_that_nobody_takes_events_of_judges_none() -> None:
    """Nor do those behind it."""
    base, middle, end = outlet(), outlet(), outlet()
    first = branch("id > 1", middle)
    base.branches, middle.branches = (first,), (branch("x < 5", end),)
    base.submit(Sample(1, 1.0))
    assert (first.filtered, first.come_to, middle.sequence) == (0, 0, 0)
    end.direct = (delivery(print),)
    base.submit(Sample(1, 1.0))
    assert (first.filtered, first.come_to) == (1, 2)


def test_parameters_are_set_between_two_events_and_tell_the_next_number() -> None:
    """Also where the branch has no judge, as then there are none."""
    base, to = outlet(), outlet()
    taken: list[Sample] = []
    to.direct = (delivery(taken.append),)
    predicate = where(Sample, "id > limit", limit=1)
    leading = links.Branch(predicate.judge, to, takes_objects=True)
    base.branches = (leading,)
    for i in range(4):
        base.submit(Sample(i, 0.0))
    assert leading.set((3).to_bytes(8, "little") + bytes(8), None) == 2
    for i in range(6):
        base.submit(Sample(i, 0.0))
    assert [event.id for event in taken] == [2, 3, 4, 5]
    assert links.Branch(None, to).set(b"", None) == 4


def test_a_handler_that_closes_all_and_fails_harms_nobody() -> None:
    """What it raises is reported where it is; what was numbered before is handed to who was there."""
    base, one, other = outlet(), outlet(), outlet()
    taken: list[Sample] = []
    failures: list[BaseException] = []

    def handle(event: Sample) -> None:
        base.close()
        one.close()
        other.branches = ()
        raise ValueError(event.id)

    one.direct = (links.Delivery(handle, DECODE, failures.append, record_size=RECORD.size_bytes),)
    other.direct = (delivery(taken.append),)
    base.branches = (branch("id > 0", one), branch("id > 0", other))
    base.submit(Sample(1, 1.0))
    assert [type(error) for error in failures] == [ValueError]
    assert taken == [Sample(1, 1.0)]
    with pytest.raises(echo.ClosedError):
        base.submit(Sample(2, 1.0))


def test_a_sink_that_comes_while_an_event_is_judged_gets_that_event() -> None:
    """Also where it takes records, and nobody did before."""
    base, to = plain_outlet(), plain_outlet()
    taken: list[Plain] = []
    came: list[Plain] = []

    class Number:
        def __index__(self) -> int:
            base.converting = (delivery(came.append, PLAIN),)
            return 5

    to.direct = (delivery(taken.append, PLAIN),)
    base.branches = (links.Branch(where(Plain, "id > 1").judge, to, takes_objects=True),)
    event = Plain(cast("int", Number()), 1.0)
    base.submit(event)
    assert taken[0] is event
    assert came == [Plain(5, 1.0)]
    assert (base.sequence, to.sequence) == (1, 1)


def test_records_of_a_source_that_is_closed_while_they_are_derived_go_nowhere() -> None:
    """What derives them may run any code."""
    base, to = outlet(), outlet()
    taken: list[Sample] = []

    def convert(record: bytes) -> bytes:
        base.close()
        return record

    to.converting = (delivery(taken.append),)
    base.branches = (links.Branch(None, to, convert=convert, derived_size=RECORD.size_bytes),)
    with pytest.raises(echo.ClosedError):
        base.submit_records(ENCODE(Sample(1, 1.0)) * 2)
    assert (base.sequence, taken) == (0, [])


def test_an_event_that_fails_takes_no_number_anywhere() -> None:
    """Also where another branch needs its record, and this one does not."""
    base, one, two = plain_outlet(), plain_outlet(), plain_outlet()
    first, second = (links.Branch(None, to, takes_objects=True) for to in (one, two))
    one.direct, two.converting = (delivery(print),), (delivery(print, PLAIN),)
    base.branches = (first, second)
    wrong: Any = "Plain"
    for _ in range(3):
        with pytest.raises(echo.EncodeError):
            base.submit(Plain(wrong, 1.0))
    assert (base.sequence, one.sequence, two.sequence) == (0, 0, 0)
    assert (first.set(b"", None), second.set(b"", None)) == (0, 0)


def test_a_sink_that_comes_to_one_branch_while_another_derives_gets_that_event() -> None:
    """What had passed there had no record before."""
    base, one, two = plain_outlet(), plain_outlet(), plain_outlet()
    came: list[Plain] = []

    class Number:
        def __index__(self) -> int:
            one.converting = (delivery(came.append, PLAIN),)
            return 7

    one.direct = (delivery(print),)
    two.direct = (delivery(print),)
    judge = where(Plain, "id > 1").judge
    base.branches = (
        links.Branch(None, one, takes_objects=True),
        links.Branch(judge, two, takes_objects=True),
    )
    base.submit(Plain(cast("int", Number()), 1.0))
    assert came == [Plain(7, 1.0)]
    assert (one.sequence, two.sequence) == (1, 1)


def test_parameters_that_are_set_meanwhile_count_behind_what_was_judged_before() -> None:
    """While it is encoded, and while others derive from it."""
    base, one, two = plain_outlet(), plain_outlet(), plain_outlet()
    told: list[int] = []

    class Number:
        def __index__(self) -> int:
            told.append(first.set(struct.pack("<dq", 100.0, 0), None))
            return 7

    def convert(record: bytes) -> bytes:
        told.append(first.set(struct.pack("<dq", 200.0, 0), None))
        return record

    first = links.Branch(where(Plain, "x > limit", limit=0.0).judge, one, takes_objects=True)
    second = links.Branch(None, two, convert=convert, derived_size=RECORD.size_bytes)
    one.converting = two.converting = (delivery(print, PLAIN),)
    base.branches = (first, second)
    base.submit(Plain(cast("int", Number()), 1.0))
    assert (told, one.sequence, two.sequence) == ([1, 1], 1, 1)
    base.submit(Plain(1, 150.0))
    assert (told, one.sequence, two.sequence) == ([1, 1, 1], 1, 2)


def test_parameters_that_are_set_while_rows_are_derived_count_behind_all_of_them() -> None:
    """Though some of them may yet fail."""
    told: list[int] = []
    base, to = raw(8), raw(8, [])

    def convert(record: bytes) -> bytes:
        told.append(leading.set(b"", None))
        return record if record[0] else b""

    leading = links.Branch(None, to, convert=convert, derived_size=8)
    base.branches = (leading,)
    base.submit_records(bytes([1]) * 16 + bytes(8))
    assert (told, to.sequence) == ([3, 3, 3], 2)
    assert leading.set(b"", None) == 2


def test_bytes_are_counted_where_somebody_takes_the_record() -> None:
    """Not where it was made for others."""
    base, one, two = outlet(), outlet(), outlet()
    one.direct, two.converting = (delivery(print),), (delivery(print),)
    base.branches = (branch("id > 0", one), branch("id > 0", two))
    base.submit(Sample(1, 1.0))
    assert (base.bytes, one.bytes, two.bytes) == (0, 0, RECORD.size_bytes)


def raw(size: int, taken: list[Any] | None = None) -> links.Outlet:
    """Of records as they are; what arrives is kept with its number."""
    made = links.Outlet(None, bytes, record_size=size)
    if taken is not None:
        kept = taken

        def keep(record: memoryview) -> None:
            kept.append(bytes(record))

        made.converting = (links.Delivery(keep, bytes, print, record_size=size),)
    return made


def test_derived_records_of_other_sizes_than_was_said_are_none() -> None:
    """They would lie over others, side by side."""
    taken: list[Any] = []
    base, to = raw(8), raw(16, taken)
    leading = links.Branch(None, to, convert=lambda record: record[:1] * record[0], derived_size=16)
    base.branches = (leading,)
    base.submit_records(b"".join(bytes([size]) * 8 for size in (15, 16, 17, 0, 16)))
    base.submit(bytes([40]) * 8)
    assert taken == [bytes([16]) * 16] * 2
    assert (leading.failed, leading.filtered, to.sequence) == (4, 4, 2)


def test_records_for_which_there_is_no_memory_fail_alone() -> None:
    """How large they are is of a receiver's choice, so nothing is raised at the source."""
    ours: list[Any] = []
    base, to = raw(8, ours), raw(1 << 62, [])
    base.branches = (leading := links.Branch(None, to, derived_size=1 << 62),)
    base.submit_records(bytes(8 * 3))
    base.submit(bytes(8))
    assert (len(ours), leading.failed, leading.filtered, to.sequence) == (4, 4, 4, 0)


def test_derived_records_go_piece_by_piece() -> None:
    """All of them, in their order, with numbers that follow each other."""
    size, count = 100_000, 35
    taken: list[Any] = []
    base, to = raw(8), raw(size, taken)
    leading = links.Branch(
        None, to, convert=lambda record: record * (size // 8) if record[0] % 5 else b"", derived_size=size
    )
    base.branches = (leading,)
    base.submit_records(b"".join(bytes([i]) * 8 for i in range(count)))
    assert [record[-1] for record in taken] == [i for i in range(count) if i % 5]
    assert (to.sequence, leading.failed) == (28, 7)


def test_what_cannot_be_encoded_goes_nowhere() -> None:
    """Where it passes, and its record is needed; else nobody asks for that."""
    base, to = outlet(), outlet()
    to.converting = (delivery(print),)
    base.branches = (branch("id > 0", to),)
    wrong: Any = "Sample"
    with pytest.raises(echo.EncodeError):
        base.submit(wrong)
    assert (base.sequence, to.sequence) == (0, 0)


def test_a_branch_leads_to_an_outlet_that_keeps_nothing() -> None:
    """And has a judge that C code can ask."""
    with pytest.raises(ValueError, match="an outlet that keeps nothing"):
        links.Branch(None, outlet(keep_events=1, keep_bytes=100))
    judge: Any = object()
    with pytest.raises(AttributeError, match="raw_judge"):
        links.Branch(judge, outlet())
    base: Any = outlet()
    with pytest.raises(TypeError, match="a tuple"):
        base.branches = (print,)
