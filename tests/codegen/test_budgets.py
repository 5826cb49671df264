"""Budgets of processor time: how they are overdrawn, recover and end; and who of many pays."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from echo_core.codegen.machine.budgets import Allowance, Budget, Payers


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_an_allowance_may_be_used_at_once_and_comes_back_with_time(clock: Clock) -> None:
    """Half a second at once, then a twentieth of a processor."""
    allowance = Allowance(0.5, 0.05, now=clock)
    allowance.charge(0.4)
    assert allowance.wait_s() == 0.0
    allowance.charge(0.6)
    assert allowance.wait_s() == pytest.approx(10.0)
    clock.now_s = 4.0
    assert allowance.wait_s() == pytest.approx(6.0)
    clock.now_s = 10.0
    assert allowance.wait_s() == pytest.approx(0.0)


def test_what_a_thread_does_within_is_charged_and_what_it_waits_for_is_not(clock: Clock) -> None:
    allowance = Allowance(0.01, 0.05, now=clock)
    with allowance.charged():
        threading.Event().wait(0.05)
    assert allowance.wait_s() == 0.0
    began = time.thread_time()
    with allowance.charged():
        while time.thread_time() < began + 0.03:
            pass
    assert allowance.wait_s() >= 0.02 / 0.05


def test_no_more_comes_together_than_there_was_at_first(clock: Clock) -> None:
    allowance = Allowance(0.5, 0.05, now=clock)
    clock.now_s = 1e6
    allowance.charge(1.0)
    assert allowance.wait_s() == pytest.approx(10.0)


def test_budgets_of_one_allowance_are_paid_out_of_the_same(clock: Clock) -> None:
    """Also those of links that are over."""
    allowance = Allowance(0.5, 0.05, now=clock)
    first, second = Budget(allowance), Budget(allowance)
    first.charge(1.0)
    first.end()
    assert second.wait_s() == pytest.approx(10.0)
    assert not second.is_over


def test_what_is_used_at_first_is_used_of_the_lenders_too(clock: Clock) -> None:
    """What comes back with time is one's own."""
    lender = Allowance(1.0, 0.1, now=clock)
    first = Allowance(0.5, 0.05, now=clock, lender=lender)
    first.charge(0.4)
    assert lender.left_s == pytest.approx(0.6)
    first.charge(0.4)  # which overdraws
    assert lender.left_s == pytest.approx(0.2)
    first.charge(0.4)
    assert lender.left_s == pytest.approx(0.2)
    second = Allowance(0.5, 0.05, now=clock, lender=lender)
    assert second.left_s == pytest.approx(0.2)
    second.charge(0.4)
    third = Allowance(0.5, 0.05, now=clock, lender=lender)
    assert third.left_s == 0.0  # it does not pay for what others used
    clock.now_s = 100.0
    assert Allowance(0.5, 0.05, now=clock, lender=lender).left_s == pytest.approx(0.5)


def test_of_many_who_want_the_same_the_one_pays_who_has_most_left(clock: Clock) -> None:
    rich, poor = Budget(Allowance(1.0, 0.1, now=clock)), Budget(Allowance(1.0, 0.1, now=clock))
    poor.charge(2.0)
    payers = Payers()
    for budget in (poor, rich):
        payers.add(budget)
    assert payers.wait_s() == 0.0
    payers.charge(3.0)
    assert rich.wait_s() == pytest.approx(20.0)
    assert poor.wait_s() == pytest.approx(10.0)


def test_work_that_is_free_for_one_is_free(clock: Clock) -> None:
    """A sink and a source of this process wait for no peer's budget."""
    budget, payers = Budget(Allowance(1.0, 0.1, now=clock)), Payers()
    payers.add(budget)
    payers.add(None)
    budget.charge(5.0)
    payers.charge(5.0)
    assert payers.wait_s() == 0.0
    assert budget.wait_s() == pytest.approx(40.0)
    budget.end()
    assert not payers.are_gone()


def test_payers_are_gone_when_each_of_them_is(clock: Clock) -> None:
    first, second, payers = (
        Budget(Allowance(1.0, 0.1, now=clock)),
        Budget(Allowance(1.0, 0.1, now=clock)),
        Payers(),
    )
    payers.add(first)
    first.end()
    assert payers.are_gone()
    payers.add(second)
    assert not payers.are_gone()
    payers.charge(2.0)
    assert second.wait_s() == pytest.approx(10.0)
    second.end()
    assert payers.are_gone()
    payers.charge(2.0)  # nobody
    assert payers.wait_s() == 0.0


def test_who_comes_too_late_for_work_that_is_dropped_is_told_so(clock: Clock) -> None:
    """And none is dropped behind the back of who has come in time."""
    payers = Payers()
    gone = Budget(Allowance(1.0, 0.1, now=clock))
    payers.add(gone)
    assert not payers.drop_if_gone()
    gone.end()
    assert payers.drop_if_gone()
    assert not payers.add(Budget(Allowance(1.0, 0.1, now=clock)))


def test_threads_that_add_payers_at_once_are_all_counted() -> None:
    """None takes another one's place."""
    payers, at_once = Payers(), threading.Barrier(4)
    budgets = [[Budget(Allowance(1.0, 0.1)) for _ in range(500)] for _ in range(4)]

    def add(mine: list[Budget]) -> None:
        at_once.wait(10.0)
        for budget in mine:
            payers.add(budget)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=add, args=(mine,)) for mine in budgets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    for mine in budgets:
        for budget in mine:
            assert not payers.are_gone()
            budget.end()
    assert payers.are_gone()
