"""The thread that compiles in the background: what it takes, refuses, survives and leaves behind."""

from __future__ import annotations

import functools
import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from echo_core.codegen.machine import background
from echo_core.codegen.machine.background import (
    LONGEST_WAIT_S,
    MAX_WAITING_JOBS,
    THREAD_NAME,
    Background,
    BackgroundStatistics,
)
from echo_core.codegen.machine.budgets import Allowance, Budget, Payers

ROOT = Path(__file__).resolve().parents[2]
LONG_S = 300.0  # never waited for in full unless something is broken


class Gate:
    """A job that says when it runs and stays until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.open.wait(LONG_S)


def python(code: str) -> str:
    """What a fresh interpreter prints, in less than LONG_S."""
    command = (sys.executable, "-W", "ignore::DeprecationWarning:", "-c", code)
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=LONG_S)
    return done.stdout


def test_jobs_are_done_in_order_by_one_named_thread() -> None:
    """Jobs run one after the other, in the order of submission, in a daemon thread called echo-compiler."""
    worker, order, threads = Background(), list[int](), set[threading.Thread]()

    def job(number: int) -> None:
        order.append(number)
        threads.add(threading.current_thread())

    for number in range(50):
        assert worker.submit(functools.partial(job, number))
    assert worker.drain(LONG_S)
    assert order == list(range(50))
    (thread,) = threads
    assert thread.name == THREAD_NAME == "echo-compiler"
    assert thread.daemon
    assert worker.statistics() == BackgroundStatistics(waiting=0, done=50, failed=0, refused=0, dropped=0)


def test_no_thread_before_the_first_job() -> None:
    """Importing and asking for statistics starts nothing."""
    code = """
import threading
from echo_core.codegen.machine import background
background.statistics()
assert background.drain(0)
print(threading.active_count())
background.submit(lambda: None)
print(threading.active_count())
"""
    assert python(code).split() == ["1", "2"]


@pytest.mark.parametrize("limit", [1, 2, MAX_WAITING_JOBS])
def test_full_queue_refuses_until_there_is_room(limit: int) -> None:
    """As many jobs as the limit wait beside the one that runs; one more is refused, and may come again."""
    worker, gate = Background(max_waiting=limit), Gate()
    assert worker.submit(gate)
    assert gate.entered.wait(LONG_S)
    assert all(worker.submit(lambda: None) for _ in range(limit))
    assert not worker.submit(lambda: None)
    assert worker.statistics() == BackgroundStatistics(waiting=limit, done=0, failed=0, refused=1, dropped=0)
    gate.open.set()
    assert worker.drain(LONG_S)
    assert worker.submit(lambda: None)
    assert worker.drain(LONG_S)
    assert worker.statistics() == BackgroundStatistics(
        waiting=0, done=limit + 2, failed=0, refused=1, dropped=0
    )


def test_drain_says_when_it_took_too_long() -> None:
    """A job that still runs makes drain return False, also when no other waits."""
    worker, gate = Background(), Gate()
    worker.submit(gate)
    assert gate.entered.wait(LONG_S)
    assert not worker.drain(0.0)
    gate.open.set()
    assert worker.drain(LONG_S)


@pytest.mark.parametrize("error", [ValueError("a bad job"), SystemExit("a bad job")])
def test_failed_job_is_logged_and_counted(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """An exception ends its job only: it is logged with its traceback, and the next job runs."""
    worker, done = Background(), threading.Event()

    def bad() -> None:
        raise error

    with caplog.at_level(logging.ERROR, logger="echo_core.codegen.machine.background"):
        worker.submit(bad)
        worker.submit(done.set)
        assert worker.drain(LONG_S)
    assert done.is_set()
    assert worker.statistics() == BackgroundStatistics(waiting=0, done=2, failed=1, refused=0, dropped=0)
    assert "a bad job" in caplog.text
    assert "Traceback" in caplog.text


def test_job_may_submit_another() -> None:
    """A job that has more to do asks for it, and drain waits for that too."""
    worker, done = Background(), threading.Event()

    def first() -> None:
        worker.submit(done.set)

    worker.submit(first)
    assert worker.drain(LONG_S)
    assert done.is_set()


def test_finished_job_is_let_go() -> None:
    """What a job refers to is not kept alive by the idle thread."""
    worker, gate = Background(), Gate()
    gate.open.set()
    left = weakref.ref(gate)
    worker.submit(gate)
    del gate
    assert worker.drain(LONG_S)
    gc.collect()
    assert left() is None


def test_threads_submit_at_once() -> None:
    """Of many jobs from many threads each is done once or refused."""
    worker, taken, done = Background(max_waiting=8), list[bool](), list[int]()

    def submit_many() -> None:
        taken.extend([worker.submit(lambda: done.append(0)) for _ in range(500)])

    threads = [threading.Thread(target=submit_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worker.drain(LONG_S)
    statistics = worker.statistics()
    assert statistics.done == len(done) == taken.count(True)
    assert statistics.refused == taken.count(False)
    assert len(taken) == 2000


def test_module_has_one_worker() -> None:
    """The functions of the module share a thread and its counts."""
    done = threading.Event()
    before = background.statistics()
    assert background.submit(done.set)
    assert background.drain(LONG_S)
    assert done.is_set()
    assert background.statistics().done == before.done + 1


def test_exit_does_not_wait_for_jobs() -> None:
    """An interpreter whose thread is in a job, with more waiting, exits at once and in order."""
    code = """
import threading
from echo_core.codegen.machine import background
entered = threading.Event()
def forever():
    entered.set()
    threading.Event().wait()
background.submit(forever)
background.submit(forever)
entered.wait()
"""
    assert python(code) == ""


def test_submit_at_exit_is_harmless() -> None:
    """A job submitted when the interpreter goes down is taken or refused, without an exception."""
    code = """
import atexit
from echo_core.codegen.machine import background
atexit.register(lambda: print(background.submit(lambda: None) in (True, False)))
"""
    assert python(code).strip() == "True"


IN_CHILD = f"""
import os, sys, threading
from echo_core.codegen.machine import background, engine

LONG_S = {LONG_S}
engine.FORK_WAIT_S = background.FORK_WAIT_S = LONG_S  # a machine that is busy takes its time for any job

def check_in_child(check):
    child = os.fork()
    if not child:
        try:
            check()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_child_of_a_fork_has_its_own_thread() -> None:
    """After a fork, parent and child both go on, each with a thread of the usual name."""
    python(
        IN_CHILD
        + """
def check():
    ran = []
    assert background.submit(lambda: ran.append(threading.current_thread().name))
    assert background.drain(LONG_S) and ran == ["echo-compiler"]

check()
for _ in range(20):
    check_in_child(check)
    check()
"""
    )


def test_child_of_a_fork_takes_over_what_waits() -> None:
    """A fork waits for the job that runs; those behind it are done by both processes."""
    python(
        IN_CHILD
        + """
ran, entered, forking = [], threading.Event(), threading.Event()

class Forking:
    def running(self):
        entered.set()
        forking.wait()
        ran.append("running")

    def waiting(self):
        ran.append("waiting")

os.register_at_fork(before=forking.set)  # registered last, so called before the worker's own hook

def check():
    assert background.drain(LONG_S)
    assert ran == ["running", "waiting"], ran

jobs = Forking()
background.submit(jobs.running)
entered.wait()
background.submit(jobs.waiting)
check_in_child(check)
check()
"""
    )


def test_fork_does_not_wait_for_a_long_job() -> None:
    """A job that does not end in time is lost to the child, which does the others."""
    python(
        IN_CHILD
        + """
background.FORK_WAIT_S = 0.1
ran, entered, forked = [], threading.Event(), threading.Event()

def long():
    entered.set()
    forked.wait()
    ran.append("long")

def check():
    assert background.drain(LONG_S)
    assert ran == ["other"], ran

background.submit(long)
entered.wait()
background.submit(lambda: ran.append("other"))
check_in_child(check)
forked.set()
assert background.drain(LONG_S) and ran == ["long", "other"]
"""
    )


def test_job_may_fork() -> None:
    """A fork from inside a job does not wait for that job."""
    python(
        IN_CHILD
        + """
def check():
    done = threading.Event()
    assert background.submit(done.set) and done.wait(LONG_S)

forked = []
def job():
    check_in_child(check)
    forked.append(True)

background.submit(job)
assert background.drain(LONG_S) and forked
"""
    )


def test_forks_of_a_compiling_process_are_not_held_up() -> None:
    """With jobs that compile a fork meets no deadlock and no time limit, and its child compiles too."""
    python(
        IN_CHILD
        + """
import time
from echo_core.codegen.machine.engine import compile_ir, load, native_target

text = "define i64 @f(i64 %a) {\\n  ret i64 %a\\n}\\n"
target = native_target()

def job():
    load(compile_ir(text, target), ["f"])

def check():
    assert background.submit(job) and background.drain(LONG_S)
    assert background.statistics().failed == 0

start = time.perf_counter()
for _ in range(20):
    while background.submit(job):
        pass
    child = os.fork()
    if not child:
        os._exit(background.statistics().failed)
    assert os.waitpid(child, 0)[1] == 0
assert time.perf_counter() - start < LONG_S
assert background.drain(LONG_S) and background.statistics().failed == 0
check_in_child(check)
"""
    )


# ---------------------------------------------------------------------------------------------------
# Work for others


def payers_of(*budgets: Budget | None) -> Payers:
    payers = Payers()
    for budget in budgets:
        payers.add(budget)
    return payers


def overdrawn() -> Budget:
    """For longer than any test takes."""
    budget = Budget(Allowance(1.0, 0.001))
    budget.charge(1000.0)
    return budget


def test_work_for_who_has_gone_is_dropped() -> None:
    """It waits behind a job meanwhile; what it refers to is let go, and its payers are told."""
    worker, gate, done = Background(), Gate(), list[int]()
    worker.submit(gate)
    assert gate.entered.wait(LONG_S)
    budget = Budget(Allowance(1.0, 0.05))
    payers = payers_of(budget)
    for number in range(10):
        assert worker.submit(functools.partial(done.append, number), payers)
    budget.end()
    gate.open.set()
    assert worker.drain(LONG_S)
    assert done == []
    assert payers.was_dropped
    assert worker.statistics() == BackgroundStatistics(waiting=0, done=1, failed=0, refused=0, dropped=10)


def test_work_that_somebody_else_wants_too_is_done() -> None:
    worker, gone, done = Background(), Budget(Allowance(1.0, 0.05)), threading.Event()
    gone.end()
    worker.submit(done.set, payers_of(gone, Budget(Allowance(1.0, 0.05))))
    assert worker.drain(LONG_S)
    assert done.is_set()


def test_a_job_whose_budget_is_overdrawn_is_overtaken() -> None:
    """And dropped when its payer has gone, though nothing else wakes the thread."""
    worker, order, budget = Background(), list[str](), overdrawn()
    worker.submit(functools.partial(order.append, "late"), payers_of(budget))
    worker.submit(functools.partial(order.append, "paid"), payers_of(Budget(Allowance(1.0, 0.05))))
    worker.submit(functools.partial(order.append, "free"))
    assert not worker.drain(0.0)
    while len(order) < 2:
        assert not worker.drain(0.001)
    assert order == ["paid", "free"]
    budget.end()
    assert worker.drain(LONG_S)
    assert worker.statistics().dropped == 1


def test_a_job_is_charged_for_the_processor_time_that_it_takes() -> None:
    worker, budget = Background(), Budget(Allowance(0.02, 0.001, now=lambda: 0.0))

    def work() -> None:
        end_s = time.thread_time() + 0.03
        while time.thread_time() < end_s:
            pass

    worker.submit(work, payers_of(budget))
    assert worker.drain(LONG_S)
    assert 9.0 < budget.wait_s() < 1000.0


def test_jobs_that_are_put_off_cost_those_that_are_done_nothing() -> None:
    """However many they are: their budget is asked now and then, not for each job that is done."""
    asked = 0

    def now() -> float:
        nonlocal asked
        asked += 1
        return 0.0

    began = time.monotonic()
    worker, order, budget = Background(), list[int](), Budget(Allowance(1.0, 0.001, now=now))
    budget.charge(1000.0)
    for number in range(1000):
        worker.submit(functools.partial(order.append, -number), payers_of(budget))
    for number in range(1000):
        worker.submit(functools.partial(order.append, number))
    while len(order) < 1000:
        assert not worker.drain(0.001)
    assert order == list(range(1000))
    assert asked < 1000 * (4 + 2 * (time.monotonic() - began) / LONGEST_WAIT_S)
    budget.end()
    assert worker.drain(LONG_S)
    assert worker.statistics().dropped == 1000
