"""Parties: the sinks of one process, as a source knows them that asks what has become of its events.

Those of one process are asked together, for all receipts at once. They have one question to answer at a
time, and say how far they have come: what came before a question is covered by its answer. What a sink does
not have is told before that, by the numbers of events.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from echo_core._c import links
from echo_core.transports.protocol.messages import Level, Missing

if TYPE_CHECKING:
    from echo_core.streams.outgoing import OutgoingStream

UNDER_WAY = 1 << 62  # the serial of a receipt whose event is still being submitted
_NOT_STORED = (1 << 64) - 1  # as native/streams/answers.h has it
_MAX_MISSED = 1024  # ranges of one party; a peer may tell any number

WORDS = {
    Missing.DROPPED: "it was dropped on the way, or at a sink",
    Missing.FAILED: "a handler has failed, or it could not become an event there",
    Missing.CLOSED: "a sink was closed, or cut off, before it came to it",
}


class Why(NamedTuple):
    """A process that has not handled an event, and why; perhaps it has received it all the same."""

    peer: str
    reason: str
    has_received: bool


class Standing(NamedTuple):
    """Who has an event, by the names of their processes."""

    received: tuple[str, ...]
    handled: tuple[str, ...]
    stored: tuple[str, ...]
    missing: tuple[Why, ...]  # who has not handled it, nor will
    awaited: tuple[Why, ...]  # who may yet handle it


class Tracked:
    """One event that is asked for. Its number is one from `first` on, below `following`.

    It is exactly `first` unless several threads submit at once: then whatever befalls one of these events
    counts for all.
    """

    __slots__ = ("first", "following", "serial", "standing")

    first: int
    following: int
    serial: int  # among all receipts and questions of its source
    standing: Standing | None  # None: somebody may yet handle it


class Party(ABC):
    """The sinks of one process, from one moment to another."""

    def __init__(self, name: str, since: int) -> None:
        self.name = name
        self.since = since  # the number of the first event that comes to them
        self.before: float = math.inf  # from that number on it is another party's affair
        self.until: float = math.inf  # the serial from which on receipts are not about them
        self.asked: int | None = None  # the question that is not answered yet
        self.round = -1  # in which they were asked last
        self.received = self.handled = -1  # of receipts with serials below that
        self.below = 0  # they are done with events below that number
        self.lost = ""  # why their link was lost, and they may come back
        self.gone = ""  # why they answer no more
        self._missed: list[tuple[int, int, Missing]] = []
        self._stores: list[
            tuple[int, int]
        ] = []  # up to that serial what is handled is on a disk from a number on

    @abstractmethod
    def ask(self, number: int, first: int) -> None:
        """For what comes before the question; of events from number `first` on."""

    def concerns(self, receipt: Tracked) -> bool:
        return self.since <= receipt.first < self.before and (
            receipt.serial < self.until or receipt.serial == UNDER_WAY
        )

    # --- what they have said

    def note_missed(self, first: int, last: int, why: Missing) -> None:
        if len(self._missed) == _MAX_MISSED:
            (start, end, _), (other_start, other_end, _) = self._missed[:2]
            self._missed[:2] = [(min(start, other_start), max(end, other_end), why)]
        self._missed.append((first, last, why))

    def note_progress(self, number: int, level: Level, stored: int) -> None:
        """All receipts with serials below that are covered."""
        self.received = max(self.received, number)
        if level is not Level.HANDLED:
            return
        if self._stores and self._stores[-1][1] == stored:
            self._stores.pop()
        self._stores.append((number, stored))
        self.handled = max(self.handled, number)
        if self.asked is not None and number >= self.asked:
            self.asked = None

    @property
    def is_over(self) -> bool:
        """Whether there is nobody to be asked."""
        return bool(self.lost or self.gone)

    @property
    def is_idle(self) -> bool:
        """Whether they can be asked something now."""
        return self.asked is None and not self.is_over and not self.is_leaving

    @property
    def is_leaving(self) -> bool:
        """Whether no sink of theirs takes part any more: they have been asked for the last time."""
        return self.until < math.inf

    # --- what becomes of one receipt

    def missed(self, receipt: Tracked) -> Missing | None:
        """Why a sink of theirs does not have the event; None: for all that is known, each has it, or will."""
        for first, last, why in self._missed:
            if first < receipt.following and last >= receipt.first:
                return why
        return None

    def stores(self, receipt: Tracked) -> bool:
        """Of one that is handled."""
        for serial, number in self._stores:
            if receipt.serial < serial:
                return receipt.first >= number
        return False

    def lacks(self, receipt: Tracked) -> tuple[str, bool, bool]:
        """Why the event is not handled (empty: it is), whether that is final, and whether they have it."""
        missed = self.missed(receipt)
        if missed is not None:
            return WORDS[missed], True, missed is not Missing.DROPPED
        if receipt.serial < self.handled or self.is_done_with(receipt):
            return "", True, True
        has_received = receipt.serial < self.received
        if self.gone:
            return self.gone, True, has_received
        if self.lost:
            return (
                f"whether it is handled is not known, as its link was lost: {self.lost}",
                False,
                has_received,
            )
        return (
            "it has not handled it yet" if has_received else "it has not said that it has it",
            False,
            has_received,
        )

    def is_done_with(self, receipt: Tracked) -> bool:
        """Also before all is that they were asked for."""
        return receipt.following <= self.below

    def is_plain_from(self, number: int) -> bool:
        """Whether they have to do with all events from that number on, and nothing has befallen any."""
        return (
            self.since <= number
            and not (self._missed or self.is_over or self.is_leaving)
            and len(self._stores) < 2
            and all(start <= number or start == _NOT_STORED for _, start in self._stores)
        )

    def concerns_any(self, oldest: Tracked | None) -> bool:
        """Whether any receipt is about them, now or later, the oldest being that one; None: there is none."""
        if not self.is_leaving:
            return True
        return oldest is not None and (oldest.serial < self.until or oldest.serial == UNDER_WAY)

    def forget(self, oldest: Tracked | None) -> None:
        """What is about receipts before that one is needed no more; None: before all."""
        if oldest is None:
            self._missed.clear()
            del self._stores[:-1]
        elif self._missed or len(self._stores) > 1:
            self._missed = [each for each in self._missed if each[1] >= oldest.first]
            self._stores[:-1] = [each for each in self._stores[:-1] if each[0] > oldest.serial]


class RemoteParty(Party):
    """The sinks of another process, asked over one stream."""

    def __init__(self, name: str, since: int, stream: OutgoingStream, node_id: bytes) -> None:
        super().__init__(name, since)
        self.stream: OutgoingStream | None = stream  # None: that has ended
        self.node_id = node_id

    def ask(self, number: int, first: int) -> None:
        if self.stream is not None:
            self.stream.ask(number, first)

    def end(self, reason: str, serial: int, *, is_lost: bool) -> None:
        """Nobody can be asked any more, and why. `is_lost`: whoever was there may be back."""
        self.stream = self.asked = None
        self.until = min(self.until, serial)
        if is_lost:
            self.lost = reason
        else:
            self.gone = reason


class LocalParty(Party):
    """The sinks of the source's own process, which have received what is submitted."""

    def __init__(
        self, name: str, since: int, sinks: links.IncomingStream, on_answer: Callable[[bool], object]
    ) -> None:
        super().__init__(name, since)
        self.received = UNDER_WAY
        self._sinks = sinks
        self._on_answer = on_answer

    def ask(self, number: int, first: int) -> None:
        if self._sinks.await_done(self._on_answer):
            self.answer(number)

    def missed(self, receipt: Tracked) -> Missing | None:
        self.look()
        return super().missed(receipt)

    def look(self) -> None:
        """What has been missed by now, of what has been received."""
        for first, last, why in self._sinks.take_missed():
            self.note_missed(first, last, Missing(why))

    def is_done_with(self, receipt: Tracked) -> bool:
        """They have what has been submitted, so that it is enough to look at the oldest that waits."""
        oldest = self._sinks.pending_from()
        return oldest is None or receipt.following <= oldest

    def answer(self, number: int) -> None:
        self.look()
        stored = self._sinks.stored_from()
        self.note_progress(number, Level.HANDLED, _NOT_STORED if stored is None else stored)
