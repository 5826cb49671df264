"""Incoming streams: the way of another process's source to here, at this end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

from echo_core._c import links
from echo_core.codegen.machine.budgets import Budget
from echo_core.errors import FormatError, WireError, unexpected
from echo_core.formats.comparing.compare import Report
from echo_core.formats.format import Format
from echo_core.formats.keys import KeyPlace, place_of_key
from echo_core.streams.catching_up import CatchingUp
from echo_core.streams.controls import Asking
from echo_core.streams.conversations import Conversation
from echo_core.streams.receptions import Wanted
from echo_core.streams.targets import Feed, Target
from echo_core.transports.limits import MAX_KEPT_BYTES
from echo_core.transports.protocol.link_state import PeerStream
from echo_core.transports.protocol.messages import Judged, Parameter, Requested
from echo_core.values.event_info import Describing
from echo_core.values.parameters import ParameterType

_PARAMETER_BYTES = 256  # of what is known of one, beside its texts


class IncomingStream(links.IncomingStream, Feed):
    """Its source sends from the first sink here to the last. Called with the books open.

    Its C half counts events and hands them to `deliveries`. `told` is what the link's protocol knows of it.
    """

    __slots__ = (
        "_derived",
        "_filtered_before",
        "_parameter_bytes",
        "_refusing",
        "_reported",
        "_starts_asked",
        "_taking",
        "_told_lost",
        "_told_sinks",
        "_waiting",
        "asking",
        "conversation",
        "describe",
        "format",
        "had",
        "has_closed",
        "has_started",
        "is_held_back",
        "judged",
        "name",
        "told",
    )

    def __new__(cls, conversation: Conversation, told: PeerStream) -> Self:
        format_ = conversation.format_of(told.metadata)
        events, size_bytes = conversation.window
        return super().__new__(
            cls,
            record_size=format_.size_bytes if format_.is_fixed else 0,
            window_events=events,
            window_bytes=size_bytes,
            keep_events=told.keep,
            keep_bytes=MAX_KEPT_BYTES,
            key=(*_key_of(format_, told.per), told.keys) if told.keys else None,
            has_times=told.times,
        )

    def __init__(self, conversation: Conversation, told: PeerStream) -> None:
        self.conversation = conversation
        self.told = told
        self.format: Format = conversation.format_of(told.metadata)
        self.name = told.name
        self.describe = Describing(told.name, told.source_id, conversation.name)
        self._taking: dict[Target, links.Delivery] = {}
        self._derived: set[links.Delivery] = set()  # of what is derived from its events here
        self._refusing: list[Target] = []  # not why: reports are long, and a peer may offer many sources
        self._reported = 0  # events dropped at sinks, as the source has been told
        self.has_started = self.has_closed = False
        self.is_held_back = False  # nobody here takes its events: its side has to prove a channel first
        self.judged: Judged | None = None  # what was last said of a derived one
        self.asking: Asking | None = None  # of its source; None: that has no parameters
        self._parameter_bytes = 0  # of what is known of these
        self._filtered_before = 0  # events that had not passed when it was offered
        self._told_lost = 0  # events lost, as components here have been told
        self.had: Mapping[Target, int] = {}  # sinks that have had its events below a number by another link
        self._waiting: dict[
            Target, CatchingUp | None
        ] = {}  # for STARTED, or until they have got what is kept
        self._told_sinks = self._starts_asked = 0  # as the source knows
        conversation.confirmations.add(self.confirm)
        if told.keep:
            conversation.keeping.add(self)

    @property
    def source_id(self) -> bytes:
        return self.told.source_id

    @property
    def is_by_key(self) -> bool:
        return self.told.keys > 0

    @property
    def next_number(self) -> int | None:
        return self.sequence if self.has_started and not self._starts_asked else None

    @property
    def link(self) -> links.Link:
        return self.conversation.link

    @property
    def budget(self) -> Budget:
        return self.conversation.compiling

    @property
    def peer(self) -> str:
        """The name of the other process."""
        return self.conversation.name

    def is_behind_of(self, epoch: tuple[int, bytes]) -> bool:
        """Whether its source judges by what was set before, for all that is known.

        What it judges by is the next thing that is said of a derived one.
        """
        if self.is_held_back:
            return False
        if self.judged is None:
            return self.conversation.offered is self
        return (self.judged.epoch, self.judged.node_id) < epoch

    def judge(self, judged: Judged) -> None:
        """What its source says of itself. What was filtered before it was offered is none of this link's."""
        if self.judged is None:
            self._filtered_before = judged.filtered
        self.judged = judged

    @property
    def parameters(self) -> list[ParameterType]:
        """What its source can be asked for."""
        return [] if self.asking is None else list(self.asking.types.values())

    def hear_parameter(self, said: Parameter) -> None:
        """Its source can be asked for something more."""
        if self.asking is None:
            self.asking = Asking()
        self.asking.hear(said)
        size_bytes = _PARAMETER_BYTES + len(said.name) + sum(map(len, said.choices))
        self._parameter_bytes += size_bytes
        self.conversation.keep_parameter(size_bytes)

    def hear_answer(self, said: Requested) -> None:
        """Its source has followed what it was asked for."""
        if self.asking is None:
            raise unexpected(WireError, "an answer to a request", said.number)
        self.asking.hear_answer(said.number)

    @property
    def filtered(self) -> int:
        return 0 if self.judged is None else max(0, self.judged.filtered - self._filtered_before)

    # -----------------------------------------------------------------------
    # Sinks

    def feed(
        self, targets: Sequence[Target], concerns: Callable[[Format, Wanted], bool]
    ) -> list[Report | Exception]:
        """Connects what can be connected, and returns why the other sinks cannot take this source's events.

        `concerns`: whether a sink ought to take a format; one that need not refuses without a word.
        """
        problems: list[Report | Exception] = []
        fed = len(self._taking)
        for target in targets:
            try:
                found = target.accept(self)
            except Exception as error:  # noqa: BLE001 - of arrays of what varies in size, say; others take it
                self._refusing.append(target)
                problems.append(error)
                continue
            if isinstance(found, links.Delivery):
                self._taking[target] = found
                found.pass_over(self.had.get(target, 0))
                self._have_wait(target, found)
            elif found is not None and concerns(self.format, target.wanted):
                target.refuse(self, found)
                self._refusing.append(target)
                problems.append(found)
        if len(self._taking) > fed:
            self._attach()
        if problems and not self._taking:
            self.report_unreachable(str(problems[0]))
        return problems

    def report_unreachable(self, text: str) -> None:
        """Tells the source that nobody here can take its events, and why."""
        self.conversation.command(partial(self.conversation.protocol.report_unreachable, self.told, text))

    def remove(self, target: Target) -> bool:
        """The sink is closed, also while a batch is handed to it. True: feed again who is left in `refusing`.

        Where nobody takes the events any more, the source has forgotten why those that are left refuse them.
        """
        delivery = self._taking.get(target)
        if delivery is not None:
            delivery.close()
            self.miss_pending(delivery)
        self.report_drops()
        self._taking.pop(target, None)
        self._waiting.pop(target, None)
        if delivery is not None:
            self._reported -= delivery.dropped
            target.release(self)
        if delivery is None and not self._takes_its_reason_along(target):
            return False
        self._attach()  # else the source would still wait in vain, because of a sink that is gone
        return not self._taking

    def _takes_its_reason_along(self, target: Target) -> bool:
        """Whether the source has been told why the sink refuses it, and no other sink has the same reason."""
        if target not in self._refusing:
            return False
        self._refusing.remove(target)
        return not self._taking and all(other.wanted != target.wanted for other in self._refusing)

    def take_refusing(self) -> list[Target]:
        """Those that refuse the source, which are to be fed again."""
        refusing, self._refusing = self._refusing, []
        return [target for target in refusing if not target.is_leaving]

    def add_derived(self, delivery: links.Delivery) -> None:
        """What is derived from its events here goes to a sink: what that drops the source is told of."""
        if delivery not in self._derived:
            self._derived.add(delivery)
            self._reported += delivery.dropped
            super().add_derived(delivery)

    def remove_derived(self, delivery: links.Delivery) -> None:
        """It does no longer."""
        if delivery in self._derived:
            self.report_drops()
            self._derived.remove(delivery)
            self._reported -= delivery.dropped
            super().remove_derived(delivery)

    def _have_wait(self, target: Target, delivery: links.Delivery) -> None:
        """Where events are kept, it gets these first."""
        if not self.told.keep:
            return
        self._waiting[target] = None
        if self._told_sinks and not self._starts_asked:
            join, is_by_key = partial(self._join, target, delivery), self.told.keys > 0
            self._waiting[target] = target.catch_up(self, self, join, is_by_key=is_by_key)

    def numbers_of_sinks(self) -> dict[Target, int]:
        """The sinks that take part in it, or are about to, and below which number they have had its events.

        Those that wait for STARTED have had none: it says which number is next.
        """
        if not self.has_started or self._starts_asked:
            return {}
        behind = {target: each.next_number for target, each in self._waiting.items() if each is not None}
        return {target: behind.get(target, self.sequence) for target in self._taking}

    def _join(self, target: Target, delivery: links.Delivery, sequence: int | None) -> int | None:
        """From now on it takes part, if the next event has that number, or whichever it has."""
        if self._taking.get(target) is not delivery:  # it is closed by now
            return 0
        number = self.add_delivery(delivery, sequence)
        if number is not None:
            self._waiting.pop(target, None)
        return number

    def _hand_on(self) -> None:
        self.deliveries = tuple(
            delivery for target, delivery in self._taking.items() if target not in self._waiting
        )

    def _attach(self) -> None:
        self._hand_on()
        if not self._taking:
            self.confirm()
        if any(target.may_drop for target in self._taking):
            self.conversation.reports.add(self.report_drops)
        else:
            self.conversation.reports.discard(self.report_drops)
        if self._taking and not self._told_sinks:
            self._starts_asked += 1
        self._told_sinks = len(self._taking)
        protocol, granted = self.conversation.protocol, self.grant()
        self.conversation.command(partial(protocol.attach, self.told, len(self._taking), granted))

    def start(self, sequence: int, kept: int) -> None:
        """Its events follow from that number on, first so many that were kept; before that none may come."""
        self.describe.kept_until = sequence + kept
        self.restart(sequence)
        self.has_started = True
        self._starts_asked -= self._starts_asked > 0
        if not self._starts_asked:
            self._waiting.clear()
            self._hand_on()
            self.had = {}  # others that come have had nothing
        self.link.bind(self.told.number, self)

    # -----------------------------------------------------------------------
    # Losses

    def report_drops(self) -> None:
        """Tells the source what sinks here have dropped since it was last told."""
        dropped = sum(delivery.dropped for delivery in (*self.deliveries, *self._derived))
        newly, self._reported = dropped - self._reported, dropped
        if newly:
            self.conversation.command(partial(self.conversation.protocol.report_dropped, self.told, newly))

    def newly_lost(self) -> int:
        """How many events the source has dropped since this was last asked."""
        lost = self.lost
        newly, self._told_lost = lost - self._told_lost, lost
        return newly

    # -----------------------------------------------------------------------

    def close(self) -> None:
        """Its source is closed: sinks expect nothing more of it, but queues may still have what came.

        That is confirmed as it is taken, as any other event: this process may be killed before.
        """
        self.has_closed = True
        self._let_go()
        self.link.forbid(self.told.number)
        self.conversation.closing.add(self)
        self.release_if_done()

    def release_if_done(self) -> None:
        """Has the source forget a stream that is closed, once all that came of it is confirmed."""
        is_done = self.confirm(self.link)
        self.report_drops()
        if is_done:
            self.conversation.command(partial(self.conversation.protocol.release, self.told))
            self.end()

    def end(self) -> None:
        """It is released, the channel left, or the link over: what is not confirmed by now never is."""
        if self not in self.conversation.closing:
            self._let_go()
            self.confirm()
            self.link.bind(self.told.number, self)  # if it has not started: it may yet, for nobody
            self.link.unbind(self.told.number)
        for delivery in tuple(self._derived):
            self.remove_derived(delivery)
        self.conversation.closing.discard(self)
        self.conversation.parameter_bytes -= self._parameter_bytes
        self._parameter_bytes = 0
        self.deliveries = ()
        self.told.owner = None  # else the two would refer to each other, and keep the link

    def _let_go(self) -> None:
        """Of its sinks, and of who looks after it while events come."""
        for target in self._taking:
            target.release(self)
        self._taking.clear()
        self._refusing.clear()
        self.conversation.reports.discard(self.report_drops)
        self.conversation.confirmations.discard(self.confirm)
        self.conversation.keeping.discard(self)


def _key_of(format_: Format, per: str) -> KeyPlace:
    """Of what a source keeps by key. WireError: no field of it can be that."""
    try:
        return place_of_key(format_, per)
    except FormatError as error:
        raise WireError(str(error)) from None
