"""Taking: a sink that has records copied as they lie, of whatever type, such as that of a log.

Nothing is decoded, and no class is made. It knows of each source where it was: numbers that never came are
told with why, once, and those that come again, over another link, are passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from echo_core._c import links
from echo_core.dispatch.handlers import Handler
from echo_core.streams.catching_up import CatchingUp, Keeper
from echo_core.streams.receptions import Receptions, Wanted
from echo_core.streams.targets import Feed, Target

Held = tuple[links.Delivery, tuple[int, int]]
"""Events, and bytes of them, that one delivery has had taken, and that are not settled."""


class Cause(StrEnum):
    """Why events of a source are not among those that were taken."""

    DROPPED = "dropped"  # by the source, or on the way: it had no room for them
    LINK = "link"  # a link was lost, and they were submitted before there was another one
    ABSENT = "absent"  # nobody was there to take them
    SUPERSEDED = "superseded"  # others of the same key came after them, and only the last is kept


class Intake(Protocol):
    """Of one source, over all its links: what takes its records."""

    next_number: int | None  # what is below was had; None: nothing was
    resumes_after: Cause  # why events are left out that would come before the next ones

    @property
    def taker(self) -> links.Taker:
        """What copies its records."""
        ...

    def gap(self, first: int, last: int, cause: Cause) -> None:
        """These never came."""


class TakingTarget(Target):
    """The working part of a recorder on one channel. As `Target`."""

    decodes = False

    def __init__(
        self,
        begin: Callable[[Feed], Intake],
        end: Callable[[Feed], None],
        handler: Handler,
        receptions: Receptions,
        *,
        on_held: Callable[[], object] | None,
        await_room: Callable[[int], bool] | None,
        on_end: Callable[[], None],
        on_fork: Callable[[], None],
    ) -> None:
        """`begin`: what takes a source's records, the same where it comes back; `end`: it has gone.

        `on_held`: called when something was taken, for which sources have no credit until it is settled;
        None: they have it at once. `await_room`: called where there is no room for so many bytes, which holds
        sources up: whether to look again; None: what finds none is dropped. `on_end`: called, with the books
        closed, once nothing more comes; perhaps again. `on_fork`: called
        in a child, whose it is not."""
        super().__init__(Wanted(None, False, False), handler, receptions, None)
        self._begin = begin
        self._end = end
        self._on_held = on_held
        self._await_room = await_room
        self._on_end = on_end
        self._on_fork = on_fork
        self._intakes: dict[Feed, Intake] = {}
        self._told_lost: dict[Feed, int] = {}  # of what feeds have lost, as intakes know
        self._dropped_before = 0  # of feeds that are gone
        self._keyed: set[Feed] = set()  # of which what is kept by key comes now

    @property
    def may_drop(self) -> bool:
        return True

    def takes(self, sends: type[Any] | None) -> bool:
        return False

    # -----------------------------------------------------------------------
    # Feeds

    def accept(self, feed: Feed, sends: type[Any] | None = None) -> links.Delivery | None:
        try:
            intake = self._begin(feed)
        except Exception as error:  # noqa: BLE001 - of a log that has failed: no fault of the source's
            self.handler.failed(self, error)
            return None
        self._intakes[feed] = intake
        self._told_lost[feed] = feed.lost
        delivery = links.Delivery(
            intake.taker,
            None,
            partial(self.handler.failed, self),
            record_size=feed.format.size_bytes if feed.format.is_fixed else 0,
            sink=self._sharers,
            on_gap=partial(self._gap, feed, intake),
            on_held=self._on_held,
            await_room=self._await_room,
        )
        if intake.next_number is not None:
            delivery.next_number = intake.next_number
        return self._enter(feed, delivery)

    def catch_up(
        self,
        feed: Feed,
        keeper: Keeper,
        join: Callable[[int | None], int | None],
        *,
        is_by_key: bool,
    ) -> CatchingUp:
        if is_by_key:
            self._keyed.add(feed)
        return super().catch_up(feed, keeper, partial(self._join, feed, join), is_by_key=is_by_key)

    def _join(self, feed: Feed, join: Callable[[int | None], int | None], sequence: int | None) -> int | None:
        number = join(sequence)
        if number is not None:
            self._keyed.discard(feed)
        return number

    def _delivery_of_kept(self, feed: Feed) -> links.Delivery | None:
        """The same: nothing else comes by it until what is kept has."""
        return self._feeds[feed][0]

    def release(self, feed: Feed) -> None:
        """The feed has ended; where its source comes back, it goes on from here."""
        if feed in self._feeds:
            delivery = self._feeds[feed][0]
            self._dropped_before += _dropped_by(delivery)
            self._keyed.discard(feed)
            try:
                self._part(feed, self._intakes.pop(feed), delivery)
            except Exception as error:  # noqa: BLE001 - likewise
                self.handler.failed(self, error)
        super().release(feed)

    def _part(self, feed: Feed, intake: Intake, delivery: links.Delivery) -> None:
        intake.next_number = delivery.next_number
        intake.resumes_after = Cause.LINK
        self._tell_rest(feed, intake)
        if not self.is_closed:
            self._end(feed)

    # -----------------------------------------------------------------------
    # What never came

    def _gap(self, feed: Feed, intake: Intake, first: int, last: int) -> None:
        """Called by a delivery, before what follows."""
        cause = self._cause(feed, intake, last)
        if cause in (Cause.DROPPED, Cause.LINK):  # which the feed counts, too
            self._told_lost[feed] = self._told_lost.get(feed, 0) + last + 1 - first
        intake.gap(first, last, cause)

    def _cause(self, feed: Feed, intake: Intake, last: int) -> Cause:
        if feed in self._keyed or (feed.is_by_key and last < feed.describe.kept_until):
            return Cause.SUPERSEDED
        held = self._feeds.get(feed)
        return intake.resumes_after if held is not None and not held[0].events else Cause.DROPPED

    def _tell_rest(self, feed: Feed, intake: Intake) -> None:
        """What was lost behind the last event that came."""
        rest, number = feed.lost - self._told_lost.pop(feed), feed.next_number
        if rest > 0 and intake.next_number is not None and number is not None:
            intake.gap(number - rest, number - 1, Cause.DROPPED)
            intake.next_number = number

    @property
    def _dropped(self) -> int:
        """What found no room."""
        return self._dropped_before + sum(_dropped_by(delivery) for delivery, _ in self._feeds.values())

    # -----------------------------------------------------------------------
    # What is held

    def held(self) -> list[Held]:
        """What has been taken, and is not settled: to be passed to `settle` once it is."""
        deliveries = [delivery for delivery, _ in (*self._feeds.values(), *self._late)]
        pending = [(delivery, delivery.held()) for delivery in deliveries]
        return [(delivery, amount) for delivery, amount in pending if amount is not None]

    # -----------------------------------------------------------------------
    # Its end

    def abandon(self) -> None:
        super().abandon()
        self._on_fork()

    def close_queue(self) -> None:
        """No more is taken."""
        self._on_end()


def _dropped_by(delivery: links.Delivery) -> int:
    """What is skipped, as it is closed, counts by itself."""
    return delivery.dropped - delivery.skipped


def settle(held: list[Held]) -> None:
    """What was taken is done with: sources have credit for more. Not with the books open."""
    for delivery, pending in held:
        delivery.done(*pending)
