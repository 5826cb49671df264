"""One thread that compiles while events are interpreted: a bounded queue of jobs, and nothing about them.

A job should be short. Compilation leaves the GIL free but for its Python part: 0.1 ms of 1.8 (16 fields), of
10 (200 fields) and of 25 (200 fields, optimised); the rest is calls through ctypes.CDLL, of which one is
nearly all. What else it takes is a core: on 2 cores that were also busy otherwise, a spinning thread kept
half to two thirds of its speed beside compilations of 200 and 1000 fields, in gaps of 4 to 20 ms, which are
the scheduler's (it had gaps of 4 ms beside none). For 2 ms it may not run at all. Not measured on idle cores.

A full queue refuses: the caller stays interpreted and may ask again later. Exit does not wait for jobs, only
for the one call into LLVM that may be under way (see engine.py). After a fork the child has the jobs that
were waiting, and a thread of its own; the fork waits FORK_WAIT_S at most for the job that is running, and if
that is not enough, the child does without this job.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from echo_core._c import locks

# The engine's hooks for os.fork must be registered before ours: the last registered is the first to take its
# lock, and a job takes the engine's lock within ours.
from echo_core.codegen.machine.engine import FORK_WAIT_S

MAX_WAITING_JOBS = 4096
THREAD_NAME = "echo-compiler"

Job = Callable[[], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackgroundStatistics:
    """Counts of jobs; done includes failed."""

    waiting: int
    done: int
    failed: int  # raised an exception, which was logged
    refused: int  # by a full queue, or because no thread could be started


class Background:
    """A queue of jobs and the thread that does them, one after the other; the first job starts it."""

    def __init__(self, *, max_waiting: int = MAX_WAITING_JOBS) -> None:
        self._max_waiting = max_waiting
        self._waiting: deque[Job] = deque()
        self._done = self._failed = self._refused = 0
        self._make_locks()

    def _make_locks(self) -> None:
        self._running = False
        self._forks = 0  # under way: no job begins, or short jobs would take their turns past a waiting fork
        self._thread: threading.Thread | None = None
        self._turn = threading.RLock()  # held while a job runs; taken before _changed, never after it
        self._changed = threading.Condition()  # guards all the other fields

    def submit(self, job: Job) -> bool:
        """Have the job done some time later; False when the queue is full. Never waits."""
        with locks.Held(self._changed):
            if len(self._waiting) < self._max_waiting and self._has_thread():
                self._waiting.append(job)
                self._changed.notify_all()
                return True
            self._refused += 1
            return False

    def drain(self, timeout_s: float) -> bool:
        """Wait until no job waits or runs; False when that took too long."""
        with locks.Held(self._changed):
            return self._changed.wait_for(lambda: not (self._waiting or self._running), timeout_s)

    def statistics(self) -> BackgroundStatistics:
        """Counts since the start; a child of a fork goes on from its parent's."""
        with locks.Held(self._changed):
            return BackgroundStatistics(len(self._waiting), self._done, self._failed, self._refused)

    def _has_thread(self) -> bool:
        if self._thread is not None:
            return True
        thread = threading.Thread(target=self._work, name=THREAD_NAME, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is going down, or the system is out of threads
            return False
        self._thread = thread
        return True

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting and not self._forks)
            with self._turn:
                self._do_next()

    def _do_next(self) -> None:
        with self._changed:
            job = self._waiting.popleft()
            self._running = True
        succeeded = _succeeds(job)
        del job  # what it refers to is not kept alive by an idle thread
        with self._changed:
            self._running = False
            self._done += 1
            self._failed += not succeeded
            self._changed.notify_all()

    def before_fork(self) -> bool:
        """Let no job and no `submit` be under way; whether the job that ran has come to its end."""
        with locks.Held(self._changed):
            self._forks += 1
        is_between_jobs = self._turn.acquire(timeout=FORK_WAIT_S)
        self._changed.acquire()
        return is_between_jobs

    def after_fork_in_parent(self, *, is_between_jobs: bool) -> None:
        """Give back what `before_fork` took; the child makes new locks instead."""
        self._forks -= 1
        self._changed.notify_all()
        self._changed.release()
        if is_between_jobs:
            self._turn.release()

    def after_fork_in_child(self) -> None:
        """Take over the jobs that wait."""
        self._make_locks()
        if self._waiting:
            self._has_thread()


def _succeeds(job: Job) -> bool:
    try:
        job()
    except BaseException:  # noqa: BLE001 - no one else in this thread hears of a SystemExit, and others wait
        _log.exception("A background job failed; its conversion stays interpreted")
        return False
    return True


_shared = Background()
_forking = threading.local()  # is_between_jobs: what before_fork said to the thread that forks


def submit(job: Job) -> bool:
    """Have the job done by this process's compiler thread; False when its queue is full. Never waits."""
    return _shared.submit(job)


def drain(timeout_s: float) -> bool:
    """Wait until that thread has nothing to do; False when that took too long."""
    return _shared.drain(timeout_s)


def statistics() -> BackgroundStatistics:
    """Counts of this process's compiler thread."""
    return _shared.statistics()


def _before_fork() -> None:
    _forking.is_between_jobs = _shared.before_fork()


def _after_fork_in_parent() -> None:
    _shared.after_fork_in_parent(is_between_jobs=_forking.is_between_jobs)


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_shared.after_fork_in_child,
)
