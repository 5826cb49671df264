"""Committing: what was taken is confirmed to its sources once it is on the disk.

One sync serves all that came while the last one was under way.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue

from echo_core.errors import ClosedError, EchoError
from echo_core.streams.taking import Held, settle
from echo_core.transports.threads import OwnThread, log


class Committer:
    """A thread that syncs where something was taken. Where a sync fails nothing is confirmed any more."""

    def __init__(self, held: Callable[[], list[Held]], sync: Callable[[], object], name: str) -> None:
        """`held`: what was taken, and is not settled; `sync`: has all of that on the disk."""
        self._held = held
        self._sync = sync
        self._name = name
        self._wakes: SimpleQueue[bool] = SimpleQueue()  # whether to go on
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
            goes_on = self._wakes.get()
            while goes_on and not self._wakes.empty():
                try:
                    goes_on = self._wakes.get_nowait()
                except Empty:
                    break
            goes_on = self._commit() and goes_on

    def _commit(self) -> bool:
        held = self._held()
        try:
            if held:
                self._sync()
        except ClosedError:
            return False
        except EchoError as error:
            log.error("log `%s`: nothing is confirmed to sources any more: %s", self._name, error)
            return False
        settle(held)
        return True
