"""Deliveries that end in a taker: which records it is given, by which numbers, and who hears of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core._c.links import Delivery, IncomingStream
from echo_core.errors import WireError
from tests.native.takers import Taker

SIZE = 8


class Taken:
    """A delivery to a taker, and what is told of it."""

    def __init__(self, record_size: int = SIZE, room: int = 1 << 30) -> None:
        self.taker = Taker(room)
        self.gaps: list[tuple[int, int]] = []
        self.errors: list[BaseException] = []
        self.delivery = Delivery(
            self.taker,
            None,
            self.errors.append,
            record_size=record_size,
            on_gap=lambda first, last: self.gaps.append((first, last)),
        )

    def hand(self, first: int, count: int = 1) -> None:
        records = b"".join(number.to_bytes(SIZE, "little") for number in range(first, first + count))
        self.delivery.hand(records, first)

    @property
    def records(self) -> list[int]:
        return [int.from_bytes(each.record, "little") for each in self.taker.taken]


@given(handed=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 10)), max_size=12))
def test_each_number_is_taken_once_or_told(handed: list[tuple[int, int]]) -> None:
    """Whatever comes again is passed over, also a part of an array; by a slow model."""
    taken, had = Taken(), None
    expected: list[int] = []
    gaps: list[tuple[int, int]] = []
    for first, count in handed:
        taken.hand(first, count)
        new = range(first if had is None else max(first, had), first + count)
        if new:
            if had is not None and new[0] > had:
                gaps.append((had, new[0] - 1))
            expected += new
            had = new[-1] + 1
    assert taken.records == taken.taker.numbers == expected
    assert taken.gaps == gaps
    assert taken.delivery.next_number == had
    assert (taken.delivery.events, taken.delivery.bytes) == (len(expected), len(expected) * SIZE)


def test_where_it_was_can_be_set() -> None:
    """As it was on another link."""
    taken = Taken()
    taken.delivery.next_number = 5
    taken.hand(3, 3)
    taken.hand(8)
    assert (taken.records, taken.gaps) == ([5, 8], [(6, 7)])


def test_records_that_vary_come_one_by_one() -> None:
    taken = Taken(record_size=0)
    for number, record in enumerate([b"", b"a", b"bc" * 1000]):
        taken.delivery.hand(record, number, 17)
    assert taken.taker.taken == [(0, b"", 17), (1, b"a", 17), (2, b"bc" * 1000, 17)]


def test_what_finds_no_room_is_counted() -> None:
    taken = Taken(room=3 * SIZE)
    taken.hand(0, 2)
    taken.hand(2, 2)
    taken.hand(4)
    assert (taken.records, taken.delivery.dropped, taken.delivery.events) == ([0, 1, 4], 2, 5)


def test_records_that_are_not_whole_are_the_sender_s_fault() -> None:
    with pytest.raises(WireError, match="8 bytes"):
        Taken().delivery.hand(b"abc", 0)


def test_what_is_told_of_may_close_it() -> None:
    taken = Taken()

    def close(first: int, last: int) -> None:
        assert (first, last) == (1, 1)
        delivery.close()

    delivery = Delivery(
        taken.taker,
        None,
        taken.errors.append,
        record_size=SIZE,
        on_gap=close,
    )
    delivery.hand(bytes(SIZE), 0)
    delivery.hand(bytes(SIZE), 2)
    delivery.hand(bytes(SIZE), 3)
    assert taken.taker.numbers == [0]


def test_what_is_raised_is_reported() -> None:
    """And no more than that: the link goes on."""
    taken = Taken(room=0)

    reasons = ("no",)

    def fail(*_: int) -> bool:
        raise ValueError(*reasons)

    delivery = Delivery(
        taken.taker,
        None,
        taken.errors.append,
        record_size=SIZE,
        await_room=fail,
    )
    delivery.hand(bytes(SIZE), 0)
    assert [str(error) for error in taken.errors] == ["no"]
    assert (delivery.dropped, delivery.failures) == (1, 1)


def test_only_takers_take() -> None:
    with pytest.raises(TypeError, match="taker of records"):
        Delivery(3, None, print)  # type: ignore[arg-type] # pyright: ignore


def test_a_stream_hands_to_a_taker_beside_a_handler() -> None:
    taken, got = Taken(), list[bytes]()
    stream = IncomingStream(record_size=SIZE)
    stream.deliveries = (Delivery(got.append, bytes, print, record_size=SIZE), taken.delivery)
    assert stream.deliveries[1] is taken.delivery
    assert taken.delivery.held() is None
