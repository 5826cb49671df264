"""Receipts that are settled together, held to those that are settled one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from echo_core._c import links
from echo_core.streams.parties import Tracked
from echo_core.streams.receipts import Receipts
from echo_core.transports.protocol.messages import Ack, Handled, Level, Missed, Missing

NOT_STORED = (1 << 64) - 1


class Way:
    """As an OutgoingStream: remembers what it was asked."""

    def __init__(self) -> None:
        self.asked = -1

    def ask(self, number: int, first: int) -> None:
        assert first >= 0
        self.asked = number


class Source:
    """As an Outlet, for whoever numbers receipts."""

    sequence = 0


class OneByOne(Receipts):
    """The oracle."""

    __slots__ = ()

    def _settle_alike(self) -> None:
        """None are."""


class Run:
    """One source, and what happens to it and to two other processes."""

    def __init__(self, cls: type[Receipts]) -> None:
        self.source = Source()
        self.receipts = cls("x", cast("links.Outlet", self.source), contextlib.nullcontext)
        self.all: list[Tracked] = []
        self.ways: list[Way | None] = [None, None]

    def submit(self, _: int) -> None:
        receipt = Tracked()
        receipt.standing, receipt.first = None, self.source.sequence
        self.source.sequence += 1
        receipt.following, receipt.serial = self.source.sequence, self.receipts.take_serial()
        self.receipts.open.append(receipt)
        self.receipts.is_fresh = True
        self.all.append(receipt)

    def ask(self, _: int) -> None:
        self.receipts.ask()

    def enter(self, which: int) -> None:
        if self.ways[which] is None:
            way = self.ways[which] = Way()
            kept = min(self.source.sequence, 2)
            started = self.source.sequence - kept
            self.receipts.enter(cast("Any", way), f"p{which}", bytes([which]), started, kept)

    def acknowledge(self, which: int, level: Level = Level.HANDLED, stored: int = NOT_STORED) -> None:
        self._hear(which, lambda way: Ack(64, level, way.asked, stored))

    def receive(self, which: int) -> None:
        self.acknowledge(which, Level.RECEIVED)

    def store(self, which: int) -> None:
        self.acknowledge(which, stored=max(0, self.source.sequence - 2))

    def progress(self, which: int) -> None:
        self._hear(which, lambda _: Handled(64, max(0, self.source.sequence - 1)))

    def miss(self, which: int) -> None:
        last = max(0, self.source.sequence - 1)
        self._hear(which, lambda _: Missed(64, Missing.FAILED, last, last))

    def leave(self, which: int) -> None:
        if (way := self.ways[which]) is not None:
            self.receipts.leave(cast("Any", way))

    def lose(self, which: int, *, is_lost: bool = True) -> None:
        if (way := self.ways[which]) is not None:
            self.ways[which] = None
            self.receipts.end(cast("Any", way), "gone", is_lost=is_lost)

    def part(self, which: int) -> None:
        self.lose(which, is_lost=False)

    def _hear(self, which: int, said: Callable[[Way], Ack | Missed | Handled]) -> None:
        if (way := self.ways[which]) is not None:
            self.receipts.hear(cast("Any", way), said(way))


_STEPS = (
    *("submit", "submit", "submit", "ask", "acknowledge", "acknowledge", "enter"),
    *("receive", "store", "progress", "miss", "leave", "lose", "part"),
)


@given(st.lists(st.tuples(st.sampled_from(_STEPS), st.integers(0, 1)), max_size=60))
def test_receipts_that_are_settled_together_say_what_each_would_by_itself(
    steps: list[tuple[str, int]],
) -> None:
    """After each step; and when all have gone for good each is settled."""
    together, one_by_one = Run(Receipts), Run(OneByOne)
    for step, which in steps:
        getattr(together, step)(which)
        getattr(one_by_one, step)(which)
        assert [it.standing for it in together.all] == [it.standing for it in one_by_one.all]
    for run in (together, one_by_one):
        run.receipts.tick(lambda _: False)
        run.part(0)
        run.part(1)
        run.receipts.ask()
        assert all(it.standing is not None for it in run.all)
        assert not run.receipts.open
    assert [it.standing for it in together.all] == [it.standing for it in one_by_one.all]
