"""Local streams: from a source to the sinks of the same process, without a link."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from echo_core._c import links
from echo_core.errors import ClosedError
from echo_core.formats.format import Format
from echo_core.streams.receipts import Receipts
from echo_core.streams.replaying import Replay
from echo_core.streams.stages import Stages
from echo_core.streams.targets import Feed, Target
from echo_core.values.event_info import Describing
from echo_core.values.keep import Keep


class Relayed(Protocol):
    """The source elsewhere that such events come from."""

    def add(self, delivery: links.Delivery) -> None:
        """They go there, too."""

    def remove(self, delivery: links.Delivery) -> None:
        """They do no longer."""

    @property
    def peer(self) -> str: ...
    @property
    def lost(self) -> int: ...
    @property
    def is_there(self) -> bool: ...


class LocalStream(Feed):
    """The way of a source's events to the sinks of its process. Called with the books open."""

    __slots__ = (
        "_deliveries",
        "_keep",
        "_outlet",
        "_past_dropped",
        "_receipts",
        "_told_dropped",
        "branch",
        "describe",
        "format",
        "has_closed",
        "relay",
        "replay",
        "stages",
    )

    def __init__(
        self, format_: Format, outlet: links.Outlet, describe: Describing, *, keep: Keep | None
    ) -> None:
        self.format = format_
        self.describe = describe
        self.stages: Stages = ()
        self.has_closed = False
        self._outlet = outlet
        self._keep = keep
        self.branch: links.Branch | None = None  # by which events come to the outlet, where it is derived
        self.replay: Replay | None = None  # where it is derived from what is kept
        self.relay: Relayed | None = None  # where its events are those of another process, judged on receipt
        self._deliveries: dict[Target, links.Delivery] = {}
        self._past_dropped = 0  # at sinks that are gone
        self._told_dropped = 0  # as components have been told
        self._receipts: Receipts | None = None  # None: nobody asks for any

    def add(self, target: Target, delivery: links.Delivery, *, is_direct: bool) -> None:
        """`is_direct`: events are handed over by reference, not as records."""
        self._deliveries[target] = delivery
        if self.relay is not None:
            self.relay.add(delivery)
        self._tell_sinks()
        join = partial(self._join, target, delivery, is_direct)
        if self._keep is None:
            join(None)
        elif not self._is_first(join):
            is_by_key = self._keep.per is not None and self.replay is None
            target.catch_up(self, self.replay or self._outlet, join, is_by_key=is_by_key)

    def _is_first(self, join: Callable[[int | None], int | None]) -> bool:
        """Whether it takes part from the first event on: else it is handed what is kept."""
        if self.replay is None:
            return join(0) is not None
        return self.replay.is_new and join(self.replay.first_number) is not None

    def _join(
        self, target: Target, delivery: links.Delivery, is_direct: bool, sequence: int | None
    ) -> int | None:
        """From now on it takes part, if the next event has that number, or whichever it has."""
        if self._deliveries.get(target) is not delivery:  # it is closed by now
            return 0
        return self._outlet.add_delivery(delivery, sequence, is_direct)

    def remove(self, target: Target) -> None:
        """The sink is closed, also while a batch is handed to it."""
        delivery = self._deliveries.get(target)
        if delivery is not None:
            delivery.close()
            if self._receipts is not None:
                self._receipts.local_sinks.miss_pending(delivery)
            self._release(target)
            self._tell_sinks()

    def tell_sinks_to(self, receipts: Receipts) -> None:
        """Which sinks there are, from now on."""
        self._receipts = receipts
        self._tell_sinks()

    def _tell_sinks(self) -> None:
        """When the source is closed, those that were there still handle what they have."""
        if self._receipts is not None:
            self._receipts.note_local(self._deliveries.values())

    def end(self) -> None:
        """No more is submitted; sinks get all that was."""
        self.has_closed = True
        for target in list(self._deliveries):
            self._release(target)

    def _release(self, target: Target) -> None:
        delivery = self._deliveries.pop(target)
        with suppress(ClosedError):  # then the outlet has let go of all
            self._outlet.direct = without(self._outlet.direct, delivery)
            self._outlet.converting = without(self._outlet.converting, delivery)
        if self.relay is not None:
            self.relay.remove(delivery)
        self._past_dropped += delivery.dropped
        target.release(self)

    @property
    def peer(self) -> str | None:
        return None if self.relay is None else self.relay.peer

    @property
    def lost(self) -> int:
        return 0 if self.relay is None else self.relay.lost

    @property
    def is_there(self) -> bool:
        return self.relay is None or self.relay.is_there

    @property
    def is_judged_here(self) -> bool:
        return self.relay is not None

    @property
    def source_id(self) -> bytes:
        return self.describe.source_id

    @property
    def next_number(self) -> int:
        return self._outlet.sequence

    @property
    def filtered(self) -> int:
        return 0 if self.branch is None else self.branch.filtered

    @property
    def sinks(self) -> int:
        return len(self._deliveries)

    @property
    def deliveries(self) -> tuple[links.Delivery, ...]:
        """Those of its sinks."""
        return tuple(self._deliveries.values())

    @property
    def dropped(self) -> int:
        """Events that sinks here have dropped."""
        return self._past_dropped + sum(delivery.dropped for delivery in self._deliveries.values())

    def newly_dropped(self) -> int:
        """How many of them since this was last asked."""
        dropped = self.dropped
        newly, self._told_dropped = dropped - self._told_dropped, dropped
        return newly


def without(items: tuple[Any, ...], item: object) -> tuple[Any, ...]:
    """A tuple that is replaced as a whole, less one of its items."""
    return tuple(other for other in items if other is not item)
