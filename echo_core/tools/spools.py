"""Lines on their way to stdout: sinks' threads make them, the main thread writes them.

So nobody but the main thread ever waits for who reads them, and a signal finds it at that. Who makes lines
waits once too many have not been written, and its sink's queue drops what is oldest there.

The main thread takes no lock here: a signal may end what it does at any place, also where a lock has been
taken, and nobody would give it back. A `SimpleQueue` is C, in which no handler runs.
"""

from __future__ import annotations

import contextlib
import select
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

_MOST_LETTERS = 1024 * 1024  # that wait to be written
_LOOK_S = 1.0  # how long somebody waits for room at most, before it looks again
_CLOSED = select.POLLERR | select.POLLNVAL


class Spool:
    """So many lines at most; without a limit any number."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._adding = threading.Lock()  # of who makes lines
        self._room: SimpleQueue[None] = SimpleQueue()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._waiting: deque[str] = deque()
        self._added = 0  # letters, by who makes lines
        self._taken = 0  # letters, by the main thread
        self._error: BaseException | None = None
        self._is_closed = False
        self._output = select.poll()
        with contextlib.suppress(OSError):  # it has no descriptor
            self._output.register(sys.stdout.fileno(), 0)  # says when nobody reads any more
        self.lines = 0

    def add(self, make: Callable[[], str | None]) -> None:
        """The line that `make` makes, if any; what it raises is raised where lines are written."""
        with self._adding:
            while self._added - self._taken >= _MOST_LETTERS and not self.is_full():
                with contextlib.suppress(Empty):
                    self._room.get(timeout=_LOOK_S)
            if self.is_full():
                return
            try:
                line = make()
            except BaseException as error:  # noqa: BLE001 - the main thread ends with it
                self._error, line = error, None
            if line is not None:
                self._waiting.append(line)
                self._added += len(line)
                self.lines += 1
            if self.is_full():
                self.wake()

    def is_full(self) -> bool:
        """Whether no more lines are taken."""
        has_enough = self._limit is not None and self.lines >= self._limit
        return has_enough or self._is_closed or self._error is not None

    def write(self) -> None:
        """What waits. BrokenPipeError: nobody reads it, or would read it."""
        text = "".join([self._waiting.popleft() for _ in range(len(self._waiting))])
        self._taken += len(text)
        if self._room.empty():
            self._room.put(None)
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
        if any(events & _CLOSED for _, events in self._output.poll(0)):
            raise BrokenPipeError
        if self._error is not None:
            raise self._error

    def wake(self) -> None:
        """Ends a call of `wait`."""
        self._wakes.put(None)

    def wait(self, seconds: float) -> None:
        """Until there is something to do, or time is up."""
        with contextlib.suppress(Empty):
            self._wakes.get(timeout=seconds)
            while True:
                self._wakes.get_nowait()

    def close(self) -> None:
        """No more lines are taken, and nobody waits to add one."""
        self._is_closed = True
        self._room.put(None)
