"""Lines on their way to stdout: sinks' threads make them, the main thread writes them.

So nobody but the main thread ever waits for who reads them, and a signal finds it at that. Who makes lines
waits once too many have not been written, and its sink's queue drops what is oldest there.
"""

from __future__ import annotations

import contextlib
import select
import sys
import threading
from collections.abc import Callable

_MOST_LETTERS = 1024 * 1024  # that wait to be written
_CLOSED = select.POLLERR | select.POLLNVAL


class Spool:
    """So many lines at most; without a limit any number."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._wake = threading.Event()
        self._waiting: list[str] = []
        self._letters = 0
        self._error: BaseException | None = None
        self._is_closed = False
        self._output = select.poll()
        with contextlib.suppress(OSError):  # it has no descriptor
            self._output.register(sys.stdout.fileno(), 0)  # says when nobody reads any more
        self.lines = 0

    def add(self, make: Callable[[], str | None]) -> None:
        """The line that `make` makes, if any; what it raises is raised where lines are written."""
        with self._room:
            self._room.wait_for(lambda: self._letters < _MOST_LETTERS or self.is_full())
            if self.is_full():
                return
            try:
                line = make()
            except BaseException as error:  # noqa: BLE001 - the main thread ends with it
                self._error, line = error, None
            if line is not None:
                self._waiting.append(line)
                self._letters += len(line)
                self.lines += 1
            if self.is_full():
                self._wake.set()

    def is_full(self) -> bool:
        """Whether no more lines are taken."""
        has_enough = self._limit is not None and self.lines >= self._limit
        return has_enough or self._is_closed or self._error is not None

    def write(self) -> None:
        """What waits. BrokenPipeError: nobody reads it, or would read it."""
        with self._room:
            text, self._waiting, self._letters = "".join(self._waiting), [], 0
            self._room.notify_all()
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
        if any(events & _CLOSED for _, events in self._output.poll(0)):
            raise BrokenPipeError
        if self._error is not None:
            raise self._error

    def wake(self) -> None:
        """Ends a call of `wait`."""
        self._wake.set()

    def wait(self, seconds: float) -> None:
        """Until there is something to do, or time is up."""
        self._wake.wait(seconds)
        self._wake.clear()

    def close(self) -> None:
        """No more lines are taken, and nobody waits to add one."""
        with self._room:
            self._is_closed = True
            self._room.notify_all()
