"""Room on the disk: how much is free, which segments make room, and what is said when there is none."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

from echo_core.errors import LogError, unexpected
from echo_core.logs.described import Retain
from echo_core.logs.disk import Disk
from echo_core.logs.folders import segment_path
from echo_core.logs.retention import Ended, removable
from echo_core.logs.segments import Clock
from echo_core.transports.fields import shown
from echo_core.transports.threads import log as _log

FULL = (errno.ENOSPC, errno.EDQUOT)
_LOOK_NS = 1_000_000_000  # how often it looks how much room the disk has


class NoRoomError(LogError):
    """The disk is full. What was taken waits, and nothing of it is lost."""


class Room:
    """That of one log. Used by one thread at a time, but for what is counted."""

    def __init__(self, disk: Disk, path: Path, retain: Retain, clock: Clock, ends: list[Ended]) -> None:
        """`ends`: the segments that nothing is written to any more, oldest first."""
        self._disk = disk
        self._path = path
        self._retain = retain
        self._clock = clock
        self._ends = ends
        self._looked_ns = self._free_bytes = 0
        self._is_told = False
        self.is_full = False
        self.removed = 0
        """Segments."""

    @property
    def segments(self) -> int:
        """How many there are that have ended."""
        return len(self._ends)

    def is_there(self, current_size: int) -> bool:
        """Whether as much is free as is to be kept free; looked at once a second.

        `current_size`: of the segment that is written to.
        """
        now = self._clock.monotonic_ns()
        if now - self._looked_ns >= _LOOK_NS or self._looked_ns == 0:
            self._looked_ns = now
            self._remove_old(current_size)
            self._free_bytes = self._disk.free_bytes(self._path)
            self.is_full = self._free_bytes < self._retain.min_free
            self._tell_full()
        return not self.is_full

    def look_again(self) -> None:
        """Soon, where there was none."""
        if self.is_full:
            self._looked_ns = 0

    def run_out(self) -> None:
        """The disk has said that there is none."""
        self.is_full, self._free_bytes = True, 0
        self._looked_ns = self._clock.monotonic_ns()
        self._tell_full()

    # --- what is told

    def _tell_full(self) -> None:
        """Once, until something is written again: from now on events wait in memory, and then are dropped."""
        if self.is_full and not self._is_told:
            self._is_told = True
            _log.warning("nothing more is recorded until there is room: %s", self.error())

    def tell_written(self) -> None:
        """There is room again, if there was none."""
        if self._is_told:
            self._is_told = False
            _log.warning("log `%s`: the disk has room again, and recording goes on", shown(str(self._path)))

    def error(self) -> NoRoomError:
        """What is missing, and what helps."""
        kept = self._retain.min_free
        got = f"{self._free_bytes:,} bytes, where {kept:,} are to stay free" if self._free_bytes else "none"
        hint = "free some, let Retain remove the oldest, or have its `min_free` keep less free"
        return unexpected(NoRoomError, "room on the disk", got, path=str(self._path), hint=hint)

    # --- what is removed

    def ended(self, number: int, size: int, current_size: int) -> None:
        """A segment has ended, and the next one has that size."""
        self._ends.append(Ended(number, size, self._clock.wall_ns()))
        self._remove_old(current_size)

    def make(self) -> bool:
        """Removes the oldest segment, where that is allowed and there is one."""
        if not (self._retain.may_remove and self._ends):
            return False
        self._remove_oldest(self._ends[0])
        return True

    def _remove_old(self, current_size: int) -> None:
        gone = removable(
            self._ends,
            self._retain,
            current_size=current_size,
            now_ns=self._clock.wall_ns(),
            free_bytes=self._disk.free_bytes(self._path),
        )
        for each in gone:
            self._remove_oldest(each)

    def _remove_oldest(self, oldest: Ended) -> None:
        with suppress(FileNotFoundError):  # somebody else has removed it
            self._disk.remove(segment_path(self._path, oldest.number))
        self._ends.remove(oldest)
        self.removed += 1
