"""Relays: sources of processes that do not know of derived channels, derived from where their events come.

To such a source a relay is a sink like any other. What it gets goes to an `Origin` of this process, as
records in the sender's layout, and is judged there as a source's own events are. It takes part only while
anybody here takes what is derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from echo_core._c import links
from echo_core.codegen.conversion import Conversion
from echo_core.codegen.machine.budgets import Payers
from echo_core.dispatch.handlers import Handler
from echo_core.errors import ChannelError, unexpected
from echo_core.formats.format import Format
from echo_core.formats.keys import place_of_key
from echo_core.streams.catching_up import CatchingUp, Keeper
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.origins import Origin
from echo_core.streams.receptions import Receptions, Wanted
from echo_core.streams.targets import Feed, Target
from echo_core.transports.limits import MAX_NUMBER
from echo_core.values.backlog import Backlog
from echo_core.values.keep import Keep

_ALL = Wanted(None, is_array=False, is_lossy=False)


class Relay(Target):
    """Of one source. Called with the books open; events pass only its outlet.

    Where the link is lost it stays, for the source to come back: what it has had it does not get again, and
    what is derived goes on with its numbers.
    """

    def __init__(self, stream: IncomingStream, receptions: Receptions, channel: Callable[[], str]) -> None:
        """`channel` names the one that the source is on, for the log."""
        handler = Handler(None, channel=channel, expected="what is derived from it", on_failure=None)
        super().__init__(_ALL, handler, receptions, None)
        self.source_id = stream.told.source_id
        self.stream: IncomingStream | None = stream  # None: its link is lost
        self.is_attached = False  # whether it takes the events
        self.peer = stream.peer
        self.origin = _origin(stream)
        self.origin.local.relay = self
        self._verify: Callable[..., Any] = bytes
        if not stream.format.is_fixed:
            payers = Payers()
            payers.add(stream.budget)
            conversion = Conversion(stream.format, stream.format, keeps=True)
            conversion.begin("auto", payers)
            self._verify = conversion.call
        self._has_kept = False  # whether those that come now were kept

    @property
    def is_there(self) -> bool:
        """Whether the source is."""
        return self.stream is not None

    @property
    def lost(self) -> int:
        """Events that never came here; it is not known which of them would have passed."""
        return self.statistics().lost

    def may_go_on_with(self, stream: IncomingStream) -> bool:
        """Whether a source is the one that this one's link was lost to."""
        is_it = self.stream is None and stream.told.source_id == self.source_id
        return is_it and stream.format.token == self.origin.format.token and _keep(stream) == self.origin.keep

    # -----------------------------------------------------------------------
    # The way of its events

    def begin(self) -> None:
        """Somebody takes what is derived. What the source keeps comes first, unless it has been here."""
        stream = self.stream
        assert stream is not None
        self.is_attached = True
        for origin in derived_from(self.origin):
            for delivery in origin.local.deliveries:
                stream.add_derived(delivery)
        if self.origin.keep is not None:
            stream.conversation.keeping.add(self.origin.outlet)
        stream.feed([self], _concerns)

    def end(self) -> None:
        """Nobody does. Who comes then gets from the source what that keeps by then.

        The caller has the stream feed again who is left, if that says so.
        """
        self.is_attached = False
        self.origin.outlet.forget_kept()

    def add(self, delivery: links.Delivery) -> None:
        """What is derived goes to that sink: the source has credit for that, and hears of what it drops."""
        if self.stream is not None:
            self.stream.add_derived(delivery)

    def remove(self, delivery: links.Delivery) -> None:
        """It does no longer."""
        if self.stream is not None:
            self.stream.remove_derived(delivery)

    @property
    def may_drop(self) -> bool:
        """Some of those that take what is derived may."""
        return True

    def part(self) -> None:
        """The stream has ended. What it has had is remembered where that is (resuming.py)."""
        if self.stream is not None:
            self.stream.conversation.keeping.discard(self.origin.outlet)
        self.stream, self.is_attached = None, False

    def accept(self, feed: Feed, sends: type[Any] | None = None) -> links.Delivery:
        """All that comes, as it is."""
        return self._enter(feed, self._to_outlet(self._look_at_kept))

    def catch_up(
        self, feed: Feed, keeper: Keeper, join: Callable[[int | None], int | None], *, is_by_key: bool
    ) -> CatchingUp:
        """What is kept here already, as others have it."""
        behind = CatchingUp(keeper, self._to_outlet(self._is_kept), self._most, join, is_by_key=is_by_key)
        self._behind.append(behind)
        return behind

    def _to_outlet(self, look: Callable[[int], bool]) -> links.Delivery:
        format_ = self.origin.format
        return links.Delivery(
            self.origin.outlet,
            self._verify,
            partial(self.handler.failed, self),
            record_size=format_.size_bytes if format_.is_fixed else 0,
            on_refusal=partial(self.handler.refused, self, format_.name),
            sink=self._sharers,
            describe=look,
        )

    def _look_at_kept(self, number: int) -> bool:
        """The source's event of that number is next. True: it was not kept, nor is any that follows."""
        self._mark(is_kept=self.stream is not None and number < self.stream.describe.kept_until)
        return not self._has_kept

    def _is_kept(self, _: int) -> bool:
        self._mark(is_kept=True)
        return False

    def _mark(self, *, is_kept: bool) -> None:
        """Infos of events say which were kept, and what is derived has numbers of its own."""
        if is_kept == self._has_kept:
            return
        self._has_kept = is_kept
        for origin in derived_from(self.origin):
            describe = origin.local.describe
            if is_kept:
                describe.kept_from, describe.kept_until = origin.outlet.sequence, MAX_NUMBER
            else:
                describe.kept_until = origin.outlet.sequence


def derived_from(origin: Origin) -> Iterator[Origin]:
    """All that is, also in several steps."""
    for branching in origin.branchings:
        yield branching.origin
        yield from derived_from(branching.origin)


def _origin(stream: IncomingStream) -> Origin:
    """Nothing but its branches takes anything of it."""
    format_, keep = stream.format, _keep(stream)
    return Origin(
        None,
        format_,
        _never_encoded,
        name=stream.name,
        backlog=Backlog(),
        delay_ns=0,
        pool=None,
        keep=keep,
        key=None if keep is None or keep.per is None else place_of_key(format_, keep.per),
        has_times=stream.told.times,
        peer=stream.peer,
    )


def _keep(stream: IncomingStream) -> Keep | None:
    told: Any = stream.told
    if not told.keep:
        return None
    return Keep(told.keep, told.per, told.keys) if told.keys else Keep(told.keep)


def _concerns(_format: Format, _wanted: Wanted) -> bool:
    """It takes all."""
    return True


def _never_encoded(event: object) -> bytes:
    raise unexpected(ChannelError, "records of another process", f"{event!r}")
