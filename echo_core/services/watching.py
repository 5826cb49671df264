"""What becomes of a component that is watched. Without I/O: what happens goes in, what to do comes out.

             answer      silence             exit            time is up
  RUNNING                SUSPECT             STARTING/start
  SUSPECT    RUNNING     the third:          STARTING/start
                         STARTING/kill,start
  STARTING   RUNNING                         RESTING         RESTING/kill
  RESTING                                                    STARTING/start
  GAVE_UP

A cell that is empty does nothing. Where it would be started once more than `restarts` times in `within_s`, it
is GAVE_UP instead, until `reset`. It begins as SUSPECT: who is there already answers, and is not started.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from echo_core.errors import ChannelError, unexpected


class State(enum.Enum):
    """How it stands with a component."""

    RUNNING = "running"  # it answers
    SUSPECT = "suspect"  # it has not answered of late
    STARTING = "starting"  # it was started, and has not answered yet
    RESTING = "resting"  # it did not come up, and is started again after a while
    GAVE_UP = "gave up"  # it was started too often


class Act(enum.Enum):
    """What is to be done, in this order."""

    KILL = "kill"
    START = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a component may take for what, in seconds, and how often it may be started.

    It is suspect when a question has found no answer, and killed at the third (`silences`). It has `start_s`
    to answer first. One that does not come up is started again after `rest_s`, then twice as long, and so on
    to `most_rest_s`. After so many `restarts` in `within_s` nobody tries any more.
    """

    silences: int = 3
    start_s: float = 10.0
    rest_s: float = 1.0
    most_rest_s: float = 60.0
    restarts: int = 5
    within_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("silences", "restarts"):
            if getattr(self, name) < 1:
                raise unexpected(ChannelError, f"at least 1 as {name}", repr(getattr(self, name)))
        for name in ("start_s", "rest_s", "most_rest_s", "within_s"):
            if not getattr(self, name) > 0:
                raise unexpected(ChannelError, f"a time above 0 as {name}", repr(getattr(self, name)))


Acts = tuple[Act, ...]


class Watching:
    """One component. Each call says what has happened by `now`, in seconds; what it returns is to be done."""

    def __init__(self, patience: Patience) -> None:
        self.state = State.SUSPECT
        self.due: float | None = None  # when time is up, and `passed` is to be called
        self.why = "nobody has answered yet"
        self._patience = patience
        self._silences = 0
        self._rests = 0  # since it last answered
        self._has_run = False
        self._restarts: deque[float] = deque()  # when

    @property
    def restarts(self) -> int:
        """How many there were of late."""
        return len(self._restarts)

    def answered(self, now: float) -> Acts:
        """It has answered."""
        return self._go("answer", now)

    def silent(self, now: float) -> Acts:
        """It was asked, and has not answered in time."""
        return self._go("silence", now)

    def exited(self, now: float, why: str) -> Acts:
        """Its process has ended, or could not be started."""
        return self._go("exit", now, why)

    def passed(self, now: float) -> Acts:
        """Perhaps its time is up."""
        return self._go("time is up", now) if self.due is not None and now >= self.due else ()

    def reset(self, now: float) -> Acts:
        """Somebody has seen to it that it can run: one that was given up is started."""
        if self.state is not State.GAVE_UP:
            return ()
        self._restarts.clear()
        self._rests = 0
        return self._start(now)

    def _go(self, happened: str, now: float, why: str = "") -> Acts:
        step = self._TABLE.get((self.state, happened))
        if step is None:
            return ()
        if why:
            self.why = why
        return step(self, now)

    # --- steps

    def _trust(self, now: float) -> Acts:
        self._has_run = True
        self._silences = self._rests = 0
        return self._enter(State.RUNNING, "it answers")

    def _doubt(self, now: float) -> Acts:
        self._silences += 1
        if self._silences < self._patience.silences:
            return self._enter(State.SUSPECT, "it does not answer")
        self.why = f"it has not answered {self._silences} times"
        return (Act.KILL, *self._start(now))

    def _start(self, now: float) -> Acts:
        while self._restarts and now - self._restarts[0] > self._patience.within_s:
            self._restarts.popleft()
        if len(self._restarts) == self._patience.restarts:
            return self._enter(State.GAVE_UP, f"{self.why}; started again {self.restarts} times")
        if self._has_run:
            self._restarts.append(now)
        self._has_run = True
        self._silences = 0
        self._enter(State.STARTING, self.why, now + self._patience.start_s)
        return (Act.START,)

    def _rest(self, now: float) -> Acts:
        rest_s = min(self._patience.rest_s * 2.0 ** min(self._rests, 64), self._patience.most_rest_s)
        self._rests += 1
        return self._enter(State.RESTING, self.why, now + rest_s)

    def _stop_and_rest(self, now: float) -> Acts:
        self.why = f"it has not answered in {self._patience.start_s:g} s"
        return (Act.KILL, *self._rest(now))

    def _enter(self, state: State, why: str, due: float | None = None) -> Acts:
        self.state, self.why, self.due = state, why, due
        return ()

    _TABLE: ClassVar[dict[tuple[State, str], Callable[[Watching, float], Acts]]] = {
        (State.RUNNING, "silence"): _doubt,
        (State.RUNNING, "exit"): _start,
        (State.SUSPECT, "answer"): _trust,
        (State.SUSPECT, "silence"): _doubt,
        (State.SUSPECT, "exit"): _start,
        (State.STARTING, "answer"): _trust,
        (State.STARTING, "exit"): _rest,
        (State.STARTING, "time is up"): _stop_and_rest,
        (State.RESTING, "time is up"): _start,
    }
