"""Receipts: who has the events of one source for which that was asked.

A receipt is an entry in a queue, however many parties there are (parties.py), and is about those that were
there when its event was submitted. It leaves the queue when all have answered, or will not any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from itertools import count
from typing import TYPE_CHECKING

from echo_core._c import links
from echo_core.streams.parties import (
    UNDER_WAY,
    LocalParty,
    Party,
    RemoteParty,
    Standing,
    Tracked,
    Why,
)
from echo_core.transports.protocol.messages import Ack, Handled, Level, Missed, Missing
from echo_core.values.notices import HERE

if TYPE_CHECKING:
    from echo_core.streams.outgoing import OutgoingStream

MAX_RECEIPTS = 65_536  # of one source, that are open
_ASK_EVERY = 1024  # receipts for which nobody waits

NOT_SUBMITTED = Standing((), (), (), (), ())


class Receipts:
    """Of one source. Called with the books open, but by who submits: the attributes, and what is open.

    A receipt is entered before its event is submitted, so that the oldest one bounds the numbers of all.
    """

    __slots__ = (
        "_changing",
        "_local",
        "_parties",
        "_round",
        "is_fresh",
        "limit",
        "local_sinks",
        "open",
        "outlet",
        "source",
        "take_serial",
        "waiting",
    )

    def __init__(
        self, source: str, outlet: links.Outlet, changing: Callable[[], AbstractContextManager[object]]
    ) -> None:
        """`source`: what it is called. `changing`: has the books open."""
        self.source = source
        self.open: deque[Tracked] = deque()
        self.take_serial: Callable[[], int] = count().__next__
        self.is_fresh = False  # there are receipts that nobody was asked for
        self.limit = _ASK_EVERY  # of those that are open: from here on there is something to be done
        self.waiting = 0  # how many calls wait for some
        self.local_sinks = links.IncomingStream(is_local=True)  # of this process: what they are done with
        self.outlet = outlet
        self._changing = changing
        self._parties: list[Party] = []
        self._local: LocalParty | None = None  # None: there are no sinks here
        self._round = 0

    # -----------------------------------------------------------------------
    # Parties

    def enter(self, stream: OutgoingStream, name: str, node_id: bytes, started: int, kept: int) -> None:
        """Events flow to another process from number `started` on, so many of which were kept.

        To who is back, what it gets of these is sent again, and what it does not get never is.
        """
        lost = [party for party in self._elsewhere() if party.lost and party.node_id == node_id]
        for party in lost:
            party.before = started
            party.gone = f"its link was lost, and it is back without it: {party.lost}"
        party = RemoteParty(name, started if lost else started + kept, stream, node_id)
        self._parties.append(party)
        self._ask(party)
        self._go_on()

    def hear(self, stream: OutgoingStream, said: Ack | Missed | Handled) -> None:
        """What another process says of its sinks."""
        for party in self._at(stream):
            match said:
                case Missed():
                    party.note_missed(said.first, said.last, Missing(said.why))
                case Handled():
                    party.below = max(party.below, said.below)
                case Ack():
                    party.note_progress(said.number, Level(said.level), said.stored)
        self._go_on()

    def leave(self, stream: OutgoingStream) -> None:
        """No sink takes what flows there from now on: those that were there are asked once more."""
        for party in self._at(stream):
            if not party.is_leaving:
                party.until = self._ask(party)
        self._go_on()

    def end(self, stream: OutgoingStream, reason: str, *, is_lost: bool) -> None:
        """The stream has ended, and `reason` says why. `is_lost`: who was there may be back."""
        for party in self._at(stream):
            party.end(reason, self.take_serial(), is_lost=is_lost)
        self._go_on()

    def _forget_lost(self, is_known: Callable[[bytes], bool]) -> None:
        """Of those that were lost nobody tries to find any more who is not known."""
        gone = [
            party
            for party in self._elsewhere()
            if party.lost and not party.gone and not is_known(party.node_id)
        ]
        for party in gone:
            party.gone = f"its link was lost, and it has not come back: {party.lost}"

    def note_local(self, deliveries: Iterable[links.Delivery]) -> None:
        """The sinks of this process have changed."""
        self.local_sinks.sequence = self.outlet.sequence
        self.local_sinks.deliveries = tuple(deliveries)
        has_sinks = bool(self.local_sinks.deliveries)
        if has_sinks and self._local is None:
            self._local = LocalParty(HERE, self.outlet.sequence, self.local_sinks, self._answer_here)
            self._parties.append(self._local)
        elif not has_sinks and self._local is not None:
            self._local.until = self._ask(self._local)
            self._local = None
        self._go_on()

    def ask_last(self, stream: OutgoingStream) -> None:
        """The source closes: those there are asked once more, as they cannot be later."""
        for party in self._at(stream):
            self._ask(party)
        self._go_on()

    def _elsewhere(self) -> list[RemoteParty]:
        return [party for party in self._parties if isinstance(party, RemoteParty)]

    def _at(self, stream: OutgoingStream) -> list[RemoteParty]:
        return [party for party in self._elsewhere() if party.stream is stream]

    # -----------------------------------------------------------------------
    # Questions

    def ask(self) -> None:
        """Somebody wants to know: who has nothing else to answer is asked now, the others once they have."""
        if self._local is not None and self.open:
            self._local.look()
            if self._local.asked is None:
                self._ask(self._local)  # mostly sinks here are done by now, and it is answered at once
        self._settle()
        if self.is_fresh:
            self.is_fresh = False
            self._round += 1
        for party in self._elsewhere():
            if party.is_idle and party.round < self._round:
                self._ask(party)

    def ask_in_time(self) -> None:
        """For those that nobody waits for, and that become many."""
        self.ask()
        self.limit = min(len(self.open) + _ASK_EVERY, MAX_RECEIPTS)

    def tick(self, is_known: Callable[[bytes], bool]) -> None:
        """Of receipts that nobody waits for. `is_known`: whether a node may still be back."""
        if self.open:
            self._forget_lost(is_known)
            self.ask()

    def _go_on(self) -> None:
        """Something has changed."""
        if self.waiting:
            self.ask()
        else:
            self._settle()

    def _ask(self, party: Party) -> int:
        """The number of the question; receipts whose events came before have lower serials."""
        number = party.asked = self.take_serial()
        party.round = self._round
        party.ask(number, self.open[0].first if self.open else self.outlet.sequence)
        return number

    def _answer_here(self, is_all: bool) -> None:
        """Sinks of this process are done with what they were asked for, or some of it. Opens the books."""
        with self._changing():
            if is_all and self._local is not None and self._local.asked is not None:
                self._local.answer(self._local.asked)
            self._go_on()

    # -----------------------------------------------------------------------
    # Receipts

    def standing_of(self, receipt: Tracked) -> Standing:
        """Who has the event by now."""
        if receipt.standing is not None:
            return receipt.standing
        received: list[str] = []
        handled: list[str] = []
        stored: list[str] = []
        missing: list[Why] = []
        awaited: list[Why] = []
        for party in self._parties:
            if not party.concerns(receipt):
                continue
            reason, is_final, has_received = party.lacks(receipt)
            if has_received:
                received.append(party.name)
            if not reason:
                handled.append(party.name)
            elif is_final:
                missing.append(Why(party.name, reason, has_received))
            else:
                awaited.append(Why(party.name, reason, has_received))
            if not reason and party.stores(receipt):
                stored.append(party.name)
        return Standing(tuple(received), tuple(handled), tuple(stored), tuple(missing), tuple(awaited))

    def _settle(self) -> None:
        while self.open:
            self._settle_alike()
            if not self.open or not self._settle_oldest():
                break
        oldest = self.open[0] if self.open else None
        for party in self._parties:
            party.forget(oldest)
        self._parties = [party for party in self._parties if party.concerns_any(oldest)]

    def _settle_oldest(self) -> bool:
        """Whether it is settled."""
        oldest = self.open[0]
        if oldest.standing is None:
            standing = self.standing_of(oldest)
            if standing.awaited or oldest.serial == UNDER_WAY:
                return False
            oldest.standing = standing
        self.open.popleft()
        return True

    def _settle_alike(self) -> None:
        """Those that all parties have handled, to whom nothing has happened meanwhile: mostly all of them."""
        open_, number = self.open, self.open[0].first
        if not all(party.is_plain_from(number) for party in self._parties):
            return
        covered = min((party.handled for party in self._parties), default=UNDER_WAY)
        if open_[0].serial >= covered:
            return
        names = tuple(party.name for party in self._parties)
        standing = Standing(
            names, names, tuple(each.name for each in self._parties if each.stores(open_[0])), (), ()
        )
        while open_ and open_[0].serial < covered:
            open_.popleft().standing = standing
