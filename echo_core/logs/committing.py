"""Committing: what was taken is confirmed to its sources once it is on the disk.

One sync serves all that came while the last one was under way. A disk that is full, or takes long, is no
failure: what was taken is confirmed once it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue

from echo_core.errors import ClosedError, EchoError, TimedOutError
from echo_core.logs.room import NoRoomError
from echo_core.streams.taking import Held, settle
from echo_core.transports.threads import OwnThread, log

_AGAIN_S = 1.0  # until a disk that had no room is asked again


class Committer:
    """A thread that syncs where something was taken. Where the disk fails nothing is confirmed any more."""

    def __init__(self, held: Callable[[], list[Held]], sync: Callable[[], object], name: str) -> None:
        """`held`: what was taken, and is not settled; `sync`: has all of that on the disk."""
        self._held = held
        self._sync = sync
        self._name = name
        self._wakes: SimpleQueue[bool] = SimpleQueue()  # whether to go on
        self._behind: list[Held] = []  # what the disk had no room or time for
        self._thread = OwnThread(self._run, f"echo-commit {name}")
        self._thread.start()

    def wake(self) -> None:
        """Something was taken."""
        self._wakes.put(True)

    def close(self, timeout_s: float) -> None:
        """What was taken by now is settled first."""
        self._wakes.put(False)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            goes_on = self._next_wake(_AGAIN_S if self._behind else None)
            while goes_on and not self._wakes.empty():
                goes_on = self._next_wake(0.0)
            goes_on = self._commit() and goes_on

    def _next_wake(self, timeout_s: float | None) -> bool:
        try:
            return self._wakes.get(timeout=timeout_s)
        except Empty:
            return True

    def _commit(self) -> bool:
        # A later amount of a delivery has the one before in it.
        held = list({**dict(self._behind), **dict(self._held())}.items())
        try:
            if held:
                self._sync()
        except ClosedError:
            return False
        except (NoRoomError, TimedOutError):  # the log's writer has said so
            self._behind = held
            return True
        except EchoError as error:
            log.error("log `%s`: nothing is confirmed to sources any more: %s", self._name, error)
            return False
        self._behind = []
        settle(held)
        return True
