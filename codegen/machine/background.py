"""A thread that compiles while events are interpreted: a bounded queue of jobs, independent of what they do.

Jobs should be short. A compilation holds the GIL only in its Python part: 0.1 ms of 1.8 (16 fields), of 10
(200 fields) and of 25 (200 fields, optimised). The rest is calls through ctypes.CDLL, nearly all of it in one
call. A compilation also occupies a core. On 2 cores with other load, a spinning thread kept half to two
thirds of its speed beside compilations of 200 and 1000 fields, with gaps of 4 to 20 ms, caused by the
scheduler (4 ms without compilations). A thread may not run at all for 2 ms. This was not measured on idle
cores.

Work for a peer has payers (budgets.py): while their budgets are overdrawn it is put off, in a heap by when it
is looked at again, others' jobs overtake it, and it is dropped when they have gone.

A full queue refuses a job: its conversion stays interpreted, and the caller may submit it again later. Exit
does not wait for jobs, only for a call into LLVM in progress (see engine.py). After a fork the child has a
copy of the queue and a thread of its own. The fork waits for the running job for at most FORK_WAIT_S; a job
that takes longer is missing in the child.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from echo_core._c import locks
from echo_core.codegen.machine.budgets import Payers

# The engine must register its os.fork hooks first: hooks run in reverse order, so ours takes its lock first,
# which is the order in which a job takes both locks.
from echo_core.codegen.machine.engine import FORK_WAIT_S

MAX_WAITING_JOBS = 4096
THREAD_NAME = "echo-compiler"
LONGEST_WAIT_S = (
    0.5  # until a job that was put off is looked at again: jobs of payers that have gone are dropped
)
_LOOKED_AT_ONCE = 64  # jobs, until whoever submits one may come between

Job = Callable[[], None]


class _Waiting(NamedTuple):
    job: Job
    payers: Payers | None  # None: nobody pays for it

    @property
    def wait_s(self) -> float:
        return 0.0 if self.payers is None else self.payers.wait_s()

    @property
    def is_unwanted(self) -> bool:
        return self.payers is not None and self.payers.drop_if_gone()


class _PutOff(NamedTuple):
    until: float
    number: int  # so that no two are equal
    waiting: _Waiting


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackgroundStatistics:
    """Counters of jobs; `done` includes `failed`."""

    waiting: int
    done: int
    failed: int  # raised an exception, which was logged
    refused: int  # because the queue was full, or no thread could be started
    dropped: int  # because nobody wanted them any more


class Background:
    """A queue of jobs, and a thread that runs them in order. The first job starts the thread."""

    def __init__(self, *, max_waiting: int = MAX_WAITING_JOBS) -> None:
        self._max_waiting = max_waiting
        self._waiting: deque[_Waiting] = deque()
        self._put_off: list[_PutOff] = []  # a heap
        self._numbers = itertools.count()
        self._done = self._failed = self._refused = self._dropped = 0
        self._forking = threading.local()  # is_between_jobs: whether the forking thread has _turn
        self._make_locks()

    def _make_locks(self) -> None:
        self._running = False
        self._forks = 0  # in progress: no job starts meanwhile, or short jobs could starve a fork
        self._thread: threading.Thread | None = None
        self._turn = threading.RLock()  # held while a job runs; taken before _changed, never after it
        self._changed = threading.Condition()  # guards all the other fields

    def submit(self, job: Job, payers: Payers | None = None) -> bool:
        """Queue a job; False if the queue is full. Never blocks."""
        with locks.Held(self._changed):
            if self._count() < self._max_waiting and self._has_thread():
                self._waiting.append(_Waiting(job, payers))
                self._changed.notify_all()
                return True
            self._refused += 1
            return False

    def drain(self, timeout_s: float) -> bool:
        """Wait until no job is queued or running; False after the timeout."""
        with locks.Held(self._changed):
            return self._changed.wait_for(lambda: not (self._count() or self._running), timeout_s)

    def statistics(self) -> BackgroundStatistics:
        """Counters since the start; a forked child continues its parent's."""
        with locks.Held(self._changed):
            return BackgroundStatistics(self._count(), self._done, self._failed, self._refused, self._dropped)

    def _count(self) -> int:
        return len(self._waiting) + len(self._put_off)

    def _has_thread(self) -> bool:
        if self._thread is not None:
            return True
        thread = threading.Thread(target=self._work, name=THREAD_NAME, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is shutting down, or no more threads are available
            return False
        self._thread = thread
        return True

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._count() and not self._forks)
            with self._turn:
                wait_s = self._do_next()
            if wait_s > 0.0:
                with self._changed:
                    self._changed.wait(wait_s)

    def _do_next(self) -> float:
        """Does the first job that may begin; for how long all have to wait."""
        with self._changed:
            wait_s, waiting = self._take()
            self._running = waiting is not None
        if waiting is None:
            return wait_s
        began_s = time.thread_time()
        succeeded = _succeeds(waiting.job)
        if waiting.payers is not None:
            waiting.payers.charge(time.thread_time() - began_s)
        del waiting  # an idle thread must not keep its references alive
        self._finish(succeeded=succeeded)
        return 0.0

    def _take(self) -> tuple[float, _Waiting | None]:
        """The first job that may begin; if there is none, for how long all have to wait."""
        now = time.monotonic()
        for _ in range(min(_LOOKED_AT_ONCE, self._count())):
            first = self._next(now)
            if first is None:
                break
            if first.is_unwanted:
                self._dropped += 1
                continue
            wait_s = first.wait_s
            if wait_s == 0.0:
                return 0.0, first
            until = now + min(wait_s, LONGEST_WAIT_S)
            heapq.heappush(self._put_off, _PutOff(until, next(self._numbers), first))
        if not self._count():
            self._changed.notify_all()  # all have been dropped
        is_at_it = self._waiting or not self._put_off
        return (0.0 if is_at_it else max(0.0, self._put_off[0].until - now)), None

    def _next(self, now: float) -> _Waiting | None:
        """Who was put off for long enough goes first."""
        if self._put_off and self._put_off[0].until <= now:
            return heapq.heappop(self._put_off).waiting
        return self._waiting.popleft() if self._waiting else None

    def _finish(self, *, succeeded: bool) -> None:
        with self._changed:
            self._running = False
            self._done += 1
            self._failed += not succeeded
            self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait until no job and no `submit` is running; not for a running job that takes too long."""
        with locks.Held(self._changed):
            self._forks += 1
        self._forking.is_between_jobs = self._turn.acquire(timeout=FORK_WAIT_S)
        self._changed.acquire()

    def after_fork_in_parent(self) -> None:
        """Release the locks of `before_fork`; the child creates new ones instead."""
        self._forks -= 1
        self._changed.notify_all()
        self._changed.release()
        if self._forking.is_between_jobs:
            self._turn.release()

    def after_fork_in_child(self) -> None:
        """Continue with the queued jobs."""
        self._make_locks()
        if self._count():
            self._has_thread()


def _succeeds(job: Job) -> bool:
    try:
        job()
    except BaseException:  # noqa: BLE001 - even SystemExit must not end the thread: other jobs wait
        _log.exception("A background job failed; its conversion stays interpreted")
        return False
    return True


_shared = Background()


# Of the compiler thread of this process.
submit = _shared.submit
drain = _shared.drain
statistics = _shared.statistics

os.register_at_fork(
    before=_shared.before_fork,
    after_in_parent=_shared.after_fork_in_parent,
    after_in_child=_shared.after_fork_in_child,
)
