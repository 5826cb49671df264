"""How much processor time work for others may take, and who pays for it.

To compile a peer's formats costs a thousand times what it costs to send them, and is for nothing if it
leaves; to compare them with ours, fifty times. So each peer has allowances: work that is done for it is
charged, waits while its allowance is overdrawn, and is dropped when the peer has gone. Who comes again finds
what it has left: an allowance outlives the link, a budget does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Allowance:
    """So many seconds of processor time at once, and from then on a share of the time that passes.

    A piece of work begins while anything is left, and may overdraw. What is used at first is also used of
    `lender`, which is why no more is there at first than that has. `now` is the clock.

    There is no lock: of what two threads charge at one instant, which links of one node may do, one may not
    count.
    """

    __slots__ = ("_left_s", "_lender", "_lent_s", "_most_s", "_now", "_share", "_since")

    def __init__(
        self,
        most_s: float,
        share: float,
        now: Callable[[], float] = time.monotonic,
        lender: Allowance | None = None,
    ) -> None:
        self._most_s = most_s
        self._left_s = most_s if lender is None else max(0.0, min(most_s, lender.left_s))
        self._lender, self._lent_s = lender, most_s
        self._share = share
        self._now = now
        self._since = now()

    def charge(self, seconds: float) -> None:
        """So much has been used."""
        self._left_s = self.left_s - seconds
        self._since = self._now()
        if self._lender is not None:
            self._lent_s -= seconds
            self._lender.charge(seconds)
            if self._lent_s <= 0.0:
                self._lender = None

    @contextmanager
    def charged(self) -> Generator[None]:
        """For what this thread does within."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.charge(time.thread_time() - began)

    def wait_s(self) -> float:
        """For how long work has to wait; 0: it may begin."""
        return max(0.0, -self.left_s / self._share)

    @property
    def left_s(self) -> float:
        return min(self._most_s, self._left_s + (self._now() - self._since) * self._share)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is known of it that a new one would not have."""
        return self.left_s >= self._most_s


class Budget:
    """Of one link: work for its peer is paid for out of the peer's allowance, until the link is over."""

    __slots__ = ("_allowance", "is_over")

    def __init__(self, allowance: Allowance) -> None:
        self.is_over = False
        self._allowance = allowance

    def charge(self, seconds: float) -> None:
        self._allowance.charge(seconds)

    def wait_s(self) -> float:
        return self._allowance.wait_s()

    def end(self) -> None:
        """Nobody wants any more what has not begun."""
        self.is_over = True


class Payers:
    """The budgets of all who want the same work; the one that has to wait least pays.

    Readers of links add to them while the compiler's thread looks. There is no lock, which a fork could leave
    locked: each step is one operation of C, and who adds and who drops both write first and look then.
    """

    __slots__ = ("_budgets", "_is_free", "was_dropped")

    def __init__(self) -> None:
        self.was_dropped = False  # some of the work, as all had gone
        self._budgets: dict[Budget, None] = {}
        self._is_free = False

    def add(self, budget: Budget | None) -> bool:
        """One more who wants it; None: who does not pay. False: it may have been dropped already."""
        if budget is None:
            self._is_free = True
        else:
            self._budgets[budget] = None
        for other in self._all():
            if other.is_over:
                self._budgets.pop(other, None)
        return not self.was_dropped

    def add_all(self, others: Payers | None) -> bool:
        """Whoever pays for other work wants this too; None: who does not pay. False: as `add`."""
        budgets = (None,) if others is None or others._is_free else others._all()
        return min([self.add(budget) for budget in budgets], default=True)

    def drop_if_gone(self) -> bool:
        """Whether nobody wants it any more; then nobody can any more, either."""
        if not self.are_gone():
            return False
        self.was_dropped = True
        if self.are_gone():
            return True
        self.was_dropped = False  # somebody has come, who may have been sent away
        return False

    def are_gone(self) -> bool:
        """Whether nobody wants it any more."""
        return not self._is_free and all(budget.is_over for budget in self._all())

    def _all(self) -> tuple[Budget, ...]:
        return tuple(self._budgets)

    def wait_s(self) -> float:
        """For how long it has to wait; 0: it may begin, or be dropped."""
        if self._is_free:
            return 0.0
        return min((budget.wait_s() for budget in self._all() if not budget.is_over), default=0.0)

    def charge(self, seconds: float) -> None:
        """What it has used."""
        payers = [budget for budget in self._all() if not budget.is_over]
        if payers and not self._is_free:
            min(payers, key=Budget.wait_s).charge(seconds)
