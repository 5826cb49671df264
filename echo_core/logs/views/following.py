"""Events of a log as they are added: by a writer that is at work, and across what it begins and removes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from echo_core.logs.blocks import Block
from echo_core.logs.described import Gap, Position
from echo_core.logs.reading import LogReader
from echo_core.logs.views.batches import Batch
from echo_core.logs.views.marks import START, LoggedInfo, Mark

if TYPE_CHECKING:
    from echo_core.logs.views.views import View

T = TypeVar("T")

_Found = tuple[Any, Batch | None, int]  # an event or a gap, and which one of a batch

_LOOK_S = 0.2  # how soon whoever waits sees that it was closed


class Follow(Generic[T]):
    """Iterates over a log while it grows, in a `for` or an `async for`; `Log.follow` makes one.

    It ends when it is closed, which any thread may do, or when nothing has come for `timeout_s`. It has the
    files open by itself, so the log may be closed before. Only one thread iterates.
    """

    def __init__(self, view: View[T], since: Mark | Position | str | None, timeout_s: float | None) -> None:
        log = view.log
        self._shows_gaps = view.shows_gaps
        self._timeout_s = timeout_s
        self._start = START if since is None else Mark.of(since)
        self._reader = LogReader(log.path, on_damage=log.on_damage)
        self._run = log.run(view.wanted, view.selection, self._reader, self._start)
        self._tell = log.tell_missing
        # The end of the last block that was read.
        self._read = None if since is None else self._start.position
        self._demand_kept()
        self._ready = self._taken()
        self._last: tuple[Batch, int] | None = None  # the event that was given last: its row in a batch
        # A thread may still wait for an asynchronous iteration that is over.
        self._fetching = threading.Lock()
        self._is_closed = False

    def _demand_kept(self) -> None:
        """LogError where retention has removed what follows the mark: nobody could tell what that was."""
        if self._read is not None:
            next(self._reader.blocks(since=self._read, chosen=lambda _: False), None)

    @property
    def mark(self) -> Mark:
        """The place behind the event that was given last, from which another `follow` goes on."""
        return self._start if self._last is None else self._last[0].mark_behind(self._last[1])

    def with_info(self) -> Iterator[tuple[T, LoggedInfo]]:
        """Each event with where it is from; with a `Gap` that is shown there is None."""
        for event in self:
            is_gap = isinstance(event, Gap) and self._shows_gaps
            info: Any = None if is_gap or self._last is None else self._last[0].info(self._last[1])
            yield event, info

    def __iter__(self) -> Follow[T]:
        return self

    def __next__(self) -> T:
        while (found := next(self._ready, None)) is None:
            if not self._fetch():
                raise StopIteration
        return self._given(found)

    def __aiter__(self) -> Follow[T]:
        return self

    async def __anext__(self) -> T:
        import asyncio  # with half of the standard library: for who has a loop already

        while (found := next(self._ready, None)) is None:
            if not await asyncio.to_thread(self._fetch):
                raise StopAsyncIteration
        return self._given(found)

    def _given(self, found: _Found) -> T:
        event, batch, row = found
        if batch is not None:
            self._last = batch, row
        given: T = event
        return given

    def _fetch(self) -> bool:
        """Waits until there is more to read. False: it has been closed, or the time is up."""
        deadline = math.inf if self._timeout_s is None else time.monotonic() + self._timeout_s
        with self._fetching:
            while not self._is_closed:
                left = deadline - time.monotonic()
                if self._reader.wait(max(0.0, min(left, _LOOK_S))):
                    self._ready = self._taken()
                    return True
                if left <= 0:
                    break
        return False

    def _taken(self) -> Iterator[_Found]:
        """What is taken of the blocks that have been added, and what is missing before each."""
        for piece in self._run.pieces(self._blocks()):
            if isinstance(piece, Batch):
                for event, row in piece.numbered():
                    yield event, piece, row
            else:
                self._tell(piece, self._reader)
                if self._shows_gaps:
                    yield piece, None, 0

    def _blocks(self) -> Iterator[Block]:
        """All that are behind the last one: also those that nothing is taken of are behind us then.

        What retention removes before it is read is missing by its numbers, as what is lost otherwise.
        """
        reader, end = self._reader, self._reader.end
        is_removed = self._read is not None and self._read.segment < reader.first_segment
        yield from reader.blocks(
            since=None if is_removed else self._read, until=end, chosen=self._run.chooses
        )
        self._read = end

    def close(self) -> None:
        """Ends the iteration, also from another thread."""
        self._is_closed = True
