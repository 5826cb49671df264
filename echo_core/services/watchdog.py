"""A watchdog: starts components, asks them whether they work, and starts those again that do not.

Its thread waits for the processes that it has started (their descriptors), for somebody's call, and for the
time of the next question. What is to be done is decided in watching.py.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from echo_core.errors import ChannelError, ClosedError, TimedOutError, unexpected
from echo_core.services.answering import CHANNEL, LATEST, Ping, Pong, join
from echo_core.services.watching import Act, Patience, State, Watching
from echo_core.transports.threads import OwnThread, failures_logged, log
from echo_core.values.notices import Notice, SourceClosed, SourceOpened

_KILL_S = 5.0  # for a process to end that was killed
_LEVELS = {
    State.RUNNING: logging.INFO,
    State.SUSPECT: logging.INFO,
    State.STARTING: logging.WARNING,
    State.RESTING: logging.WARNING,
    State.GAVE_UP: logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class ComponentState:
    """How it stands with a component: a state, since when (`time.monotonic`), and what has led there.

    `state` is "running", "suspect", "starting", "resting" or "gave up". `pid`: of the process that the
    watchdog has started, or that has answered last; None: there is none.
    """

    component: str
    state: str
    since_s: float
    why: str
    pid: int | None
    restarts: int


@dataclass(frozen=True, slots=True)
class _Program:
    command: tuple[str, ...]
    cwd: str | os.PathLike[str] | None
    env: Mapping[str, str] | None

    def start(self) -> subprocess.Popen[bytes]:
        """In a session of its own: what ends the watchdog does not end it. OSError: it cannot be started."""
        return subprocess.Popen(
            self.command, cwd=self.cwd, env=self.env, stdin=subprocess.DEVNULL, start_new_session=True
        )


class _Component:
    """One that is watched. Only the watchdog's thread changes it."""

    def __init__(self, name: str, program: _Program, patience: Patience) -> None:
        self.name, self.program = name, program
        self.watching = Watching(patience)
        self.process: subprocess.Popen[bytes] | None = None
        self.descriptor = -1  # of the process
        self.is_asked = self.has_answered = False  # since the last question
        self.pid: int | None = None
        self.told = ComponentState(name, State.SUSPECT.value, time.monotonic(), self.watching.why, None, 0)

    def start(self) -> None:
        """OSError: it cannot be started."""
        process = self.program.start()
        try:
            self.descriptor = os.pidfd_open(process.pid)
        except OSError:
            process.kill()
            process.wait()
            raise
        self.process, self.pid = process, process.pid

    def reap(self) -> int | None:
        """How its process has ended; None: it has not."""
        status = self.process.poll() if self.process is not None else None
        if status is not None:
            self._forget()
        return status

    def kill(self) -> None:
        """The process that was started, if there is one: what others have started is theirs."""
        if self.process is None:
            return
        self.process.kill()
        try:
            self.process.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            log.error("watchdog: `%s` (pid %d) was killed, and has not ended", self.name, self.process.pid)
        self._forget()

    def stop(self, limit: float) -> None:
        """Asked to end before that time, else killed."""
        if self.process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, limit - time.monotonic()))
        self.kill()

    def leave(self) -> None:
        """It goes on, and its end is nobody's to wait for here."""
        if self.process is not None:
            self.process.returncode = 0  # else subprocess would warn of a process that still runs
        self._forget()

    def _forget(self) -> None:
        self.process = self.pid = None
        fd, self.descriptor = self.descriptor, -1
        if fd >= 0:
            os.close(fd)


class Watchdog:
    """Starts components and sees to it that they go on working.

    Arguments:
        ping_s: how often they are asked. One that has not answered three times is killed and started again;
            one whose process ends is started again at once.
        on_change: called with a `ComponentState` in the watchdog's thread, when one changes.
        channel: the name of the channel on which they answer: all of this user on this host.

    Components call `echo.answer_watchdog`. One that answers already is not started: a watchdog that was
    killed is simply started again itself. What others have started is not killed, only started again when it
    has gone.

        with echo.Watchdog() as dog:
            dog.watch("camera", [sys.executable, "camera.py"])
            dog.wait_running(timeout_s=20)
            ...
    """

    def __init__(
        self,
        *,
        ping_s: float = 3.0,
        on_change: Callable[[ComponentState], object] | None = None,
        channel: str = CHANNEL,
    ) -> None:
        if not ping_s > 0:
            raise unexpected(ChannelError, "a time above 0 as ping_s", repr(ping_s))
        self._ping_s, self._on_change = ping_s, on_change
        self._changed = threading.Condition()  # guards the next five, and calls of the thread
        self._components: dict[str, _Component] = {}
        self._states: dict[str, ComponentState] = {}
        self._calls: deque[Callable[[float], object]] = deque()
        self._is_closed = self._has_ended = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._number = 0
        self._answering: dict[
            str, set[str]
        ] = {}  # the processes that answer in a name, whoever has started them
        try:
            self._node, joined = join(channel)
        except BaseException:
            os.close(self._wake)
            raise
        self._questions = joined.source(Ping, backlog=LATEST)
        self._answers = joined.sink(Pong, self._hear)
        self._watch = joined.watch(self._notice)
        self._thread = OwnThread(self._run, "echo-watchdog")
        self._thread.start()

    # --- for those who have one

    def watch(
        self,
        component: str,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Watches a component from now on. Where nobody answers in its name it is started.

        Arguments:
            component: as in its `echo.answer_watchdog`.
            command: the program and its arguments, as for `subprocess`.
            cwd, env: as for `subprocess`.
            patience: how long it may take to answer first, how often it is started, and so on.

        Raises:
            ChannelError: it is watched already, or an argument is wrong.
            ClosedError: the watchdog is closed.
        """
        if isinstance(command, str) or not command:
            raise unexpected(ChannelError, "a list of a program and its arguments", repr(command))
        program = _Program(tuple(command), cwd, env)
        added = _Component(component, program, patience or Patience())
        with self._changed:
            if component in self._components:
                raise unexpected(ChannelError, "one that is not watched yet", f"`{component}`")
            self._demand_open()
            self._components[component] = added
            self._states[component] = added.told
        self._call(lambda _now: None)

    def reset(self, component: str) -> None:
        """One that was given up is tried again. ChannelError: it is not watched."""
        with self._changed:
            found = self._components.get(component)
            if found is None:
                raise unexpected(ChannelError, "a component that is watched", f"`{component}`")
            self._demand_open()
        self._call(lambda now: self._act(found, found.watching.reset(now)))

    @property
    def components(self) -> dict[str, ComponentState]:
        """How it stands with each."""
        with self._changed:
            return dict(self._states)

    def wait_running(self, timeout_s: float | None = 30.0) -> None:
        """Until all answer.

        Raises:
            TimedOutError: not all do; it names those, and says why.
            ClosedError: it was closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or not self._absent(), timeout_s)
            self._demand_open()
            if absent := self._absent():
                said = "; ".join(f"`{it.component}` is {it.state}: {it.why}" for it in absent)
                msg = f"Expected all components to run within {timeout_s} s: {said}"
                raise TimedOutError(msg)

    def _absent(self) -> list[ComponentState]:
        return [it for it in self._states.values() if it.state != State.RUNNING.value]

    def close(self, *, leave: bool = False, stop_s: float = 10.0) -> None:
        """Ends what it has started, or leaves it to go on, and watches no more.

        They are told by SIGTERM, and killed where they have not ended `stop_s` later.
        """
        if threading.current_thread() is self._thread:
            raise unexpected(ChannelError, "a call of close by another thread", "one by on_change")
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            if self._has_ended:
                return
            self._has_ended = True
            os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)
        if leave:
            for each in self._components.values():
                each.leave()
        else:
            self._stop_all(stop_s)
        self._node.close()

    def _stop_all(self, stop_s: float) -> None:
        limit = time.monotonic() + stop_s
        for each in self._components.values():
            if each.process is not None:
                each.process.send_signal(signal.SIGTERM)
        for each in self._components.values():
            each.stop(limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _demand_open(self) -> None:
        if self._is_closed:
            msg = "The watchdog is closed"
            raise ClosedError(msg)

    # --- what is heard, in whichever thread

    def _call(self, call: Callable[[float], object]) -> None:
        with self._changed:
            if self._is_closed:
                return
            self._calls.append(call)
            os.eventfd_write(self._wake, 1)

    def _hear(self, pong: Pong) -> None:
        found = self._components.get(pong.component)
        if found is not None:
            self._call(partial(self._take_answer, found, pong.pid))

    def _notice(self, notice: Notice) -> None:
        if isinstance(notice, SourceOpened | SourceClosed):
            self._call(partial(self._take_source, notice))

    # --- its thread

    def _take_answer(self, component: _Component, pid: int, now: float) -> None:
        component.has_answered = True
        if component.process is None:
            component.pid = pid
        self._act(component, component.watching.answered(now))

    def _take_source(self, notice: SourceOpened | SourceClosed, now: float) -> None:
        """One that others have started has gone when nobody answers in its name any more."""
        peers = self._answering.setdefault(notice.name, set())
        if isinstance(notice, SourceOpened):
            peers.add(notice.peer)
            return
        peers.discard(notice.peer)
        if peers:
            return
        del self._answering[notice.name]
        component = self._components.get(notice.name)
        if component is not None and component.process is None:
            component.pid = None
            self._act(component, component.watching.exited(now, "it has gone"))

    def _act(self, component: _Component, acts: Sequence[Act]) -> None:
        for act in acts:
            if act is Act.KILL:
                component.kill()
            else:
                self._start(component)
        self._tell(component)

    def _start(self, component: _Component) -> None:
        try:
            component.start()
        except (OSError, ValueError) as error:
            component.watching.exited(time.monotonic(), f"it cannot be started: {error}")

    def _tell(self, component: _Component) -> None:
        watching, before = component.watching, component.told
        state, pid, restarts = watching.state.value, component.pid, watching.restarts
        if (state, pid, restarts) == (before.state, before.pid, before.restarts):
            return
        told = ComponentState(component.name, state, time.monotonic(), watching.why, pid, restarts)
        with self._changed:
            component.told = self._states[component.name] = told
            self._changed.notify_all()
        level = _LEVELS[watching.state] if told.restarts or watching.state is State.GAVE_UP else logging.INFO
        log.log(level, "watchdog: `%s` is %s: %s", told.component, told.state, told.why)
        if self._on_change is not None:
            with failures_logged("watchdog: on_change"):
                self._on_change(told)

    def _run(self) -> None:
        asked_at = time.monotonic() - self._ping_s  # at once
        while not self._is_closed:
            now = time.monotonic()
            if now - asked_at >= self._ping_s:
                asked_at = now
                self._ask(now)
            self._await(asked_at + self._ping_s)
            self._do(time.monotonic())

    def _ask(self, now: float) -> None:
        for component in self._watched():
            is_others = component.process is None and component.name in self._answering
            if component.is_asked and not component.has_answered and not is_others:
                self._act(component, component.watching.silent(now))
            component.is_asked, component.has_answered = True, False
        self._number += 1
        try:
            self._questions.submit(Ping(self._number))
        except ClosedError as error:
            log.error("watchdog: ends, for its channel has: %s", error)
            with self._changed:
                self._is_closed = True
                self._changed.notify_all()

    def _watched(self) -> list[_Component]:
        with self._changed:
            return list(self._components.values())

    def _await(self, until: float) -> None:
        """Until then, or a process has ended, or somebody calls."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        for component in self._watched():
            if component.descriptor >= 0:
                poll.register(component.descriptor, select.POLLIN)
            if component.watching.due is not None:
                until = min(until, component.watching.due)
        poll.poll(max(0.0, until - time.monotonic()) * 1000)

    def _do(self, now: float) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        while self._calls:
            self._calls.popleft()(now)
        for component in self._watched():
            status = component.reap()
            if status is not None:
                self._act(component, component.watching.exited(now, _ended(status)))
            self._act(component, component.watching.passed(now))


def _ended(status: int) -> str:
    if status >= 0:
        return f"it has ended with status {status}"
    known = -status in set(signal.Signals)  # those for real time have no names
    return f"it was ended by {signal.Signals(-status).name if known else f'signal {-status}'}"
