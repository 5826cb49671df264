"""Members of channels that others have told of: they wait here to be linked to by a few threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from echo_core.bookkeeping import books
from echo_core.transports.threads import OwnThread

_MAX_MEETINGS = 16  # threads that link to other members of channels at once
_MAX_ACQUAINTANCES = 4096  # members that wait for that

_Meeting = tuple[bytes, bytes]  # a node, and the channel for which it is to be linked to


class Meetings:
    """Each happens in a thread, which may take its time; everything but that with the books open."""

    def __init__(self, name: str, is_over: Callable[[], bool]) -> None:
        self._name = name
        self._is_over = is_over
        self._planned: set[_Meeting] = set()  # or under way
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = 0

    def __contains__(self, meeting: _Meeting) -> bool:
        return meeting in self._planned

    @property
    def are_too_many(self) -> bool:
        return len(self._waiting) >= _MAX_ACQUAINTANCES

    def add(self, meeting: _Meeting, meet: Callable[[], None]) -> None:
        """`meet` raises nothing: the thread has others to link to."""
        self._planned.add(meeting)
        self._waiting.append(partial(self._hold, meeting, meet))
        if self._threads < _MAX_MEETINGS:
            OwnThread(self._hold_all, f"echo-meet-{self._name}").start()
            self._threads += 1

    def _hold_all(self) -> None:
        while True:
            with books.changing():
                if not self._waiting or self._is_over():
                    self._threads -= 1
                    return
                hold = self._waiting.popleft()
            hold()

    def _hold(self, meeting: _Meeting, meet: Callable[[], None]) -> None:
        try:
            meet()
        finally:
            with books.changing():
                self._planned.discard(meeting)
