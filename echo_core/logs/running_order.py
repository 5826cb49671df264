"""The order in which events of several streams are played: that of their times, a run of one stream at once.

Blocks of one stream are read one after the other, and only the next of each is held. Times within a block
never go back here: what the clock did when it was set is played at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from echo_core.logs.blocks import Block

_LONG_AGO, _NEVER = -(1 << 63), (1 << 63) - 1


class Run(NamedTuple):
    """Events of one block that follow one another: `first` to before `last`, as indices."""

    block: Block
    first: int
    last: int
    time_ns: int
    """Of its first event."""

    @property
    def events(self) -> int:
        return self.last - self.first

    def events_until(self, time_ns: int) -> int:
        """How many of them have that time or an earlier one."""
        return int(np.count_nonzero(self.block.times_ns()[self.first : self.last] <= time_ns))


class _Cursor:
    """Where one stream is."""

    __slots__ = ("_block", "_blocks", "_index", "_since_ns", "_times", "_until_ns", "number", "time_ns")

    def __init__(self, number: int, blocks: Iterator[Block], since_ns: int, until_ns: int) -> None:
        self.number = number
        self._blocks = blocks
        self._since_ns, self._until_ns = since_ns, until_ns
        self._block: Block | None = None
        self._times: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._index = 0
        self.time_ns = 0  # of the next event

    def __lt__(self, other: _Cursor) -> bool:
        return (self.time_ns, self.number) < (other.time_ns, other.number)

    def advance(self) -> bool:
        """To the next event between the two times, if there is one."""
        while self._index >= len(self._times):
            self._block = next(self._blocks, None)
            if self._block is None:
                return False
            self._begin(self._block)
        self.time_ns = int(self._times[self._index])
        return True

    def _begin(self, block: Block) -> None:
        times = np.maximum.accumulate(block.times_ns())
        self._index = int(np.searchsorted(times, self._since_ns, "left"))
        self._times = times[: int(np.searchsorted(times, self._until_ns, "right"))]

    def take(self, until_ns: int) -> Run:
        """The next event, and those behind it up to that time."""
        assert self._block is not None
        first, time_ns = self._index, self.time_ns
        self._index = max(first + 1, int(np.searchsorted(self._times, until_ns, "right")))
        return Run(self._block, first, self._index, time_ns)


class RunningOrder:
    """Of streams, each an iterator of its blocks."""

    def __init__(
        self, streams: Iterable[Iterator[Block]], *, since_ns: int | None = None, until_ns: int | None = None
    ) -> None:
        """`since_ns`, `until_ns`: only events with times from the one to the other."""
        bounds = _LONG_AGO if since_ns is None else since_ns, _NEVER if until_ns is None else until_ns
        cursors = [_Cursor(number, blocks, *bounds) for number, blocks in enumerate(streams)]
        self._cursors = [cursor for cursor in cursors if cursor.advance()]
        heapify(self._cursors)

    @property
    def time_ns(self) -> int | None:
        """Of the next event; None: there is none."""
        return self._cursors[0].time_ns if self._cursors else None

    def take(self, until_ns: int = _NEVER) -> Run:
        """The next event, and others of its stream up to that time that no other stream's come before."""
        cursor = self._cursors[0]
        others = [other.time_ns for other in self._cursors[1:3]]  # in a heap the second is one of these
        run = cursor.take(min([until_ns, *others]))
        if cursor.advance():
            heapreplace(self._cursors, cursor)
        else:
            heappop(self._cursors)
        return run
