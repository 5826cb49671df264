"""Origins: where a source's streams begin. An event is encoded once, for all of them."""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from echo_core._c import links
from echo_core.codegen.codecs import Adoption
from echo_core.errors import ClosedError
from echo_core.formats.format import Format
from echo_core.formats.keys import KeyPlace
from echo_core.streams.controls import Controls
from echo_core.streams.local import LocalStream, without
from echo_core.streams.receipts import Receipts
from echo_core.streams.targets import Target
from echo_core.transports.limits import MAX_KEPT_BYTES, SOURCE_ID_BYTES
from echo_core.values.backlog import Backlog
from echo_core.values.demand import Demand, all_of
from echo_core.values.event_info import Describing
from echo_core.values.keep import Keep
from echo_core.values.notices import HERE
from echo_core.values.statistics import SourceStatistics

if TYPE_CHECKING:
    from echo_core.streams.branches import Branching
    from echo_core.streams.replaying import Replay
    from echo_core.streams.shapes import Shape

_MAX_ANSWERS = 16  # of sinks that cannot be reached; a peer may send any number


class Origin:
    """The working part of a source. Called with the books open; events pass only `outlet`.

    `cls` is the class of its events; None: of any that `encode` takes. `key`: by which it keeps them.
    `is_derived`: it is no source's own, and what it keeps is that of the source behind it. `peer`: another
    process, whose events these are (relaying.py).
    """

    def __init__(
        self,
        cls: type[Any] | None,
        format_: Format,
        encode: Callable[[Any], bytes],
        *,
        name: str,
        backlog: Backlog,
        delay_ns: int,
        pool: links.Pool | None,
        keep: Keep | None = None,
        key: KeyPlace | None = None,
        has_times: bool = False,
        is_derived: bool = False,
        peer: str = HERE,
    ) -> None:
        self._first_number = keep.events if keep is not None and is_derived else 0
        self.id = secrets.token_bytes(SOURCE_ID_BYTES)  # by which sinks know it again on another link
        self.cls = cls
        self.format = format_
        self.encode = encode
        self.name = name
        self.peer = peer  # the process that its events come from
        self.channel = ""  # what it is called, for the log
        self.backlog = backlog
        self.delay_ns = delay_ns
        self.is_closed = False
        self.unreachable: deque[tuple[object, str]] = deque(maxlen=_MAX_ANSWERS)  # by whom, and why
        self.loss = ""  # where and why a link was lost since the last flush, with events on the way
        self.dropped_elsewhere = 0  # events that sinks of other processes have dropped
        self.outlet = links.Outlet(
            cls,
            encode,
            record_size=format_.size_bytes if format_.is_fixed else 0,
            dtype=format_.dtype if format_.is_fixed else None,
            adopt=None if cls is None else Adoption(cls),
            keep_events=0 if keep is None or is_derived else min(keep.last, backlog.events),
            key=None if keep is None or key is None else (*key, keep.max_keys),
            keep_bytes=min(MAX_KEPT_BYTES, backlog.size_bytes),
            has_times=has_times,
            first_number=self._first_number,
        )
        self.has_times = has_times  # its events go with the time of their submission
        self.keep = keep
        self.kept = 0  # events that were sent as such
        self.branchings: list[Branching] = []  # to channels that are derived from its own
        self.base: Origin | None = None  # that it is derived from
        self.replay: Replay | None = None  # where it is derived from what is kept
        self.controls = Controls()
        self.demand: Demand | None = None  # what is wanted of it; None: that has to be looked at
        self.on_demand: Callable[[], None] | None = None  # called when that is something else
        self.receipts: Receipts | None = None  # None: nobody has asked for one
        self.shapes: dict[Hashable, Shape] = {}  # of those that are judged together
        self.outlet.pool = pool
        self.local = LocalStream(format_, self.outlet, Describing(name, self.id, peer), keep=keep)
        self._has_refusals = False
        self._has_told_forgetting = False
        self._sinks_by_stream: dict[links.OutgoingStream, int] = {}
        self._ending: list[links.OutgoingStream] = []  # no sink takes their events, but some are queued

    # -----------------------------------------------------------------------
    # Streams to other processes

    def begin(self, stream: links.OutgoingStream, first: int) -> tuple[int, int]:
        """Events leave by this stream too, behind what is kept from a number on. As `Outlet.begin`."""
        if self.replay is not None:
            return self.replay.begin(stream, first)
        return self.outlet.begin(stream, first)

    def set_remote_sinks(self, stream: links.OutgoingStream, sinks: int) -> None:
        """How many sinks there are at the end of a stream that has begun."""
        self._sinks_by_stream[stream] = sinks
        self.reconsider()

    def pause(self, stream: links.OutgoingStream) -> None:
        """No sink takes events at its end; what it has queued is still sent."""
        with suppress(ClosedError):  # then the outlet has let go of all
            self.outlet.outgoing = without(self.outlet.outgoing, stream)

    def remove(self, stream: links.OutgoingStream) -> None:
        """The stream has ended; what it still drops is counted by the outlet."""
        self.pause(stream)
        if self._sinks_by_stream.pop(stream, None) is not None:
            self._ending.append(stream)
        self._settle()
        self.reconsider()

    def _settle(self) -> None:
        self._ending = [stream for stream in self._ending if stream.queued_events]

    @property
    def is_settled(self) -> bool:
        """Whether a closed source counts nothing more: none of its events is under way.

        A submit that still has a stream, and waits for room there or elsewhere, will drop what it has left.
        """
        self._settle()
        return not (self._sinks_by_stream or self.outlet.may_drop)

    @property
    def streams(self) -> tuple[links.OutgoingStream, ...]:
        """Those that have begun."""
        return tuple(self._sinks_by_stream)

    # -----------------------------------------------------------------------
    # Sinks

    @property
    def sinks(self) -> int:
        """Those of what is derived from it included."""
        derived = sum(branching.origin.sinks for branching in self.branchings)
        return self.local.sinks + self.remote_sinks + derived

    @property
    def remote_sinks(self) -> int:
        return sum(self._sinks_by_stream.values())

    def add_local(self, target: Target, delivery: links.Delivery, *, is_direct: bool) -> None:
        """A sink of this process takes its events."""
        self.local.add(target, delivery, is_direct=is_direct)
        self.reconsider()

    def remove_local(self, target: Target) -> None:
        """It does no longer."""
        self.local.remove(target)
        self.reconsider()

    def begin_receipts(self, changing: Callable[[], AbstractContextManager[object]]) -> Receipts:
        """From now on components may ask who has its events. Those elsewhere enter by their streams."""
        self.receipts = Receipts(self.name, self.outlet, changing)
        self.local.tell_sinks_to(self.receipts)
        return self.receipts

    # -----------------------------------------------------------------------
    # What is wanted of it

    def reconsider(self) -> None:
        """What is wanted has changed; it is put together when somebody asks."""
        if self.demand is not None:
            self.demand = None
            if self.base is not None:
                self.base.reconsider()
            if self.on_demand is not None:
                self.on_demand()

    def look_at_demand(self) -> Demand:
        """What everybody wants together, those of what is derived from it included."""
        if self.demand is None:
            each = [branching.demand() for branching in self.branchings]
            if self.local.sinks or self.remote_sinks:
                each.append(Demand(self._all_fields, math.inf, 1.0))
            self.demand = replace(all_of(each), parameters=self.controls.requested)
        return self.demand

    @property
    def _all_fields(self) -> frozenset[str]:
        return frozenset(field.name for field in self.format.fields)

    def note_unreachable(self, who: object, text: str) -> bool:
        """A sink, or all behind a link, cannot take the events. True: this is the first such answer."""
        self.unreachable.append((who, text))
        is_first, self._has_refusals = not self._has_refusals, True
        return is_first

    def take_loss(self) -> str:
        """Where and why a link was lost since this was last asked; empty: none was."""
        loss, self.loss = self.loss, ""
        return loss

    def forget_unreachable(self, who: object) -> None:
        """It is gone, or takes them now."""
        for answer in [answer for answer in self.unreachable if answer[0] is who]:
            self.unreachable.remove(answer)

    # -----------------------------------------------------------------------
    # Its end

    def take_forgetting(self) -> str:
        """What is to be said, once, where it has begun to forget what it keeps by key; empty: nothing."""
        if self._has_told_forgetting or self.keep is None or not self.outlet.forgotten_keys:
            return ""
        self._has_told_forgetting = True
        return f"has begun to forget values of `{self.keep.per}`: it keeps {self.keep.max_keys} at most"

    def abandon(self) -> None:
        """In a forked child: the source is the parent's."""
        self.is_closed = True
        self.outlet.close()

    def statistics(self) -> SourceStatistics:
        self._settle()
        streams = [*self._sinks_by_stream, *self._ending]
        return SourceStatistics(
            events=self.outlet.sequence - self._first_number,
            size_bytes=self.outlet.bytes,
            dropped=self.outlet.dropped,
            dropped_at_sinks=self.local.dropped + self.dropped_elsewhere,
            kept=self.kept,
            forgotten_keys=self.outlet.forgotten_keys,
            confirmed=self.outlet.confirmed,
            unconfirmed=self.outlet.unconfirmed,
            queued_events=sum(stream.queued_events for stream in streams),
            queued_bytes=sum(stream.queued_bytes for stream in streams),
            local_sinks=self.local.sinks,
            remote_sinks=self.remote_sinks,
            filtered=self.local.filtered,
        )
