"""Receipts: what a component holds that wants to know who has an event."""

from __future__ import annotations

from typing import Literal, get_args

from echo_core.errors import ChannelError, UndeliveredError, unexpected
from echo_core.roster.bookkeeping import books
from echo_core.streams.parties import Standing, Tracked, Why
from echo_core.streams.receipts import Receipts
from echo_core.values.waits import DEFAULT_WAIT_S, Wait, Waits

Level = Literal["received", "handled", "stored"]


class Receipt(Tracked):
    """Who has an event: the result of `Source.submit_tracked`.

    It is about the sinks that took the source's events when this one was submitted. Those of one process
    answer together, by its name; those of this process are `"this process"`.
    """

    __slots__ = ("__weakref__", "_receipts")

    _receipts: Receipts

    def wait(self, timeout_s: float | None = DEFAULT_WAIT_S, *, level: Level = "handled") -> tuple[str, ...]:
        """Blocks until the event has arrived everywhere; returns the names of processes that have it.

        Arguments:
            timeout_s: how long; None is without limit.
            level: "received": each process has it, and it waits for its sinks there. "handled": handlers have
                returned, and it was taken out of queues of sinks without one. "stored": it is handled, and
                on the disk of a recorder whose level is "synced"; only such processes are returned.

        Raises:
            UndeliveredError: a process will not have it, and why; at once, whoever else has not answered.
            TimedOutError: not all have answered in time; the message has each of them.
            ChannelError: `level` is none, or this is the thread that reads the answers: a handler's.

            source.submit_tracked(Order(7)).wait(timeout_s=2)
        """
        books.wait_for_all(self._waiting(level), timeout_s)
        return self._standing_at(level)

    async def wait_async(
        self, timeout_s: float | None = DEFAULT_WAIT_S, *, level: Level = "handled"
    ) -> tuple[str, ...]:
        """As `wait`, for a task of an event loop, which goes on meanwhile.

        await source.submit_tracked(Order(7)).wait_async(timeout_s=2)
        """
        await books.await_all(self._waiting(level), timeout_s)
        return self._standing_at(level)

    @property
    def is_done(self) -> bool:
        """Whether nothing more will be known of it: each process has handled it, or will not."""
        if self.standing is None:
            self._look()
        return self.standing is not None

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """Who has not handled it by now, and why, in words."""
        standing = self._look()
        return tuple((why.peer, why.reason) for why in (*standing.missing, *standing.awaited))

    def _look(self) -> Standing:
        with books.changing():
            if self.standing is None:
                self._receipts.ask()
            return self._receipts.standing_of(self)

    def _waiting(self, level: Level) -> Waits:
        if level not in get_args(Level):
            raise unexpected(ChannelError, f"one of {', '.join(get_args(Level))} as level", f"{level!r}")
        receipts = self._receipts
        with books.changing():
            receipts.waiting += 1
        try:
            self._look()
            yield Wait(
                lambda: _is_known(receipts.standing_of(self), level),
                lambda: f"{self._words(level)} {_in_words(_awaited(receipts.standing_of(self), level))}",
            )
        finally:
            with books.changing():
                receipts.waiting -= 1

    def _standing_at(self, level: Level) -> tuple[str, ...]:
        with books.changing():
            standing = self._receipts.standing_of(self)
        lacking = _lacking(standing, level)
        if lacking:
            msg = f"Expected {self._words(level)} {_in_words(lacking)}"
            raise UndeliveredError(msg)
        if level == "stored" and not standing.stored:
            msg = f"Expected {self._words(level)} a recorder with level='synced', none has recorded it"
            raise UndeliveredError(msg)
        return {"received": standing.received, "handled": standing.handled, "stored": standing.stored}[level]

    def _words(self, level: Level) -> str:
        return f"event {self.first} of `{self._receipts.source}` to be {level} by"

    def __repr__(self) -> str:
        standing = self._receipts.standing_of(self)
        has = f"handled by {', '.join(standing.handled) or 'nobody'}"
        waits = ", ".join(why.peer for why in (*standing.missing, *standing.awaited))
        return f"Receipt({self._receipts.source} {self.first}, {has}{f', not by {waits}' if waits else ''})"


def _lacking(standing: Standing, level: Level) -> list[Why]:
    """Who will not have it at that level."""
    return [why for why in standing.missing if level != "received" or not why.has_received]


def _awaited(standing: Standing, level: Level) -> list[Why]:
    """Who may yet have it at that level."""
    return [why for why in standing.awaited if level != "received" or not why.has_received]


def _is_known(standing: Standing, level: Level) -> bool:
    return bool(_lacking(standing, level)) or not _awaited(standing, level)


def _in_words(whys: list[Why]) -> str:
    return ", and ".join(f"{why.peer}, but {why.reason}" for why in whys)
