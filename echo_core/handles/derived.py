"""Derived channels: what `Channel.derive` makes, channels whose sources follow those of another one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

from echo_core.codegen.expressions.deriving import Derived, Selection
from echo_core.codegen.expressions.reading import Expression
from echo_core.codegen.expressions.sorts import as_python
from echo_core.errors import ChannelError, ExpressionError, unexpected
from echo_core.formats.format import Format
from echo_core.handles.channels import Channel
from echo_core.roster import derivations, presence
from echo_core.roster.bookkeeping import books
from echo_core.roster.derivations import Epoch
from echo_core.roster.memberships import Membership
from echo_core.roster.opening import Opening
from echo_core.roster.together import mates_of
from echo_core.streams.incoming import IncomingStream
from echo_core.transports.limits import MAX_DERIVED_DEPTH, MAX_NAME_BYTES, UID_BYTES
from echo_core.transports.protocol.link import cut
from echo_core.transports.protocol.messages import Derive
from echo_core.values.waits import DEFAULT_WAIT_S, Wait, Waits


class DerivedChannel(Channel[Any]):
    """A channel whose events are those of another one that pass, or what is selected of them.

    Made by `Channel.derive`. Whoever opens it by its `id` has a `Channel`, like any other.
    """

    __slots__ = ("_base", "_derived", "_has_base")

    def __init__(
        self,
        membership: Membership,
        cls: type[Any] | None,
        opening: Opening,
        base: Membership,
        derived: Derived,
    ) -> None:
        """Takes over one handle of each membership."""
        super().__init__(membership, cls, opening)
        self._base = base
        self._has_base = True  # its handle of the base is not given back yet
        self._derived = derived

    @property
    def parameters(self) -> dict[str, Any]:
        """The values that were last set here."""
        derived = self._derived
        return {name: as_python(named.sort, derived.value_of(name)) for name, named in derived.names.items()}

    def set(self, *, timeout_s: float | None = DEFAULT_WAIT_S, **parameters: object) -> dict[str, int]:
        """Other parameters, all at once, between two events of each source; blocks until all judge by them.

        Arguments:
            timeout_s: how long that may take; None is without limit. They are set all the same.
            parameters: their new values; the others stay as they are.

        Returns:
            By the `EventInfo.source_id` of each source on this channel the number of the first event, among
            those that pass, which was judged by them. Sources that come later have them from the start; one
            that judges by what somebody else has set meanwhile is left out.

        Raises:
            ExpressionError: there is no such parameter, or a value has another type than its first one.
            TimedOutError: not all have answered in time; the message names those that have not.
            ChannelError: a handler calls it that runs on a thread which reads a link, and sources elsewhere
                would have to answer; nothing is set.
            ClosedError: the channel is closed.

            numbers = hot.set(limit=320.0, timeout_s=1)
        """
        self._demand_open()
        with books.changing():
            self._demand_open()
            descent = self._membership.descent
            if descent is None:
                msg = f"the channel that `{self.name}` is derived from"
                raise unexpected(ChannelError, msg, "one that this node has left")
            derived = self._derived.with_values(parameters)
            if any(not stream.is_held_back for stream in self._membership.incoming):
                books.demand_thread_that_waits(lambda: "answers of sources")
            epoch = derivations.next_epoch(self._membership, descent)
            derivations.adjust(self._membership, epoch, derived.derivation.values)
            self._derived = derived
        books.wait_for_all(self._setting(epoch), timeout_s)
        with books.changing():
            return dict(self._numbers(epoch))

    def _setting(self, epoch: Epoch) -> Waits:
        yield Wait(lambda: not self._behind(epoch), lambda: self._awaited(epoch))

    def _behind(self, epoch: Epoch) -> list[IncomingStream]:
        """Sources elsewhere that judge by what was set before, for all that is known."""
        return [each for each in tuple(self._membership.incoming) if each.is_behind_of(epoch)]

    def _awaited(self, epoch: Epoch) -> str:
        behind = self._behind(epoch)
        return "an answer from " + ", ".join(f"`{each.name}` of {each.peer}" for each in behind)

    def _numbers(self, epoch: Epoch) -> Iterator[tuple[str, int]]:
        for stream in self._membership.incoming:
            judged = stream.judged
            if judged is not None and (judged.epoch, judged.node_id) == epoch:
                yield stream.told.source_id.hex(), judged.number
        for mate in mates_of(self._membership):
            if mate.descent is not None and mate.descent.epoch == epoch:
                for branching in mate.descent.branchings:
                    yield branching.origin.id.hex(), branching.first

    def _end(self, limit: float) -> None:
        """Then the base, of which it has a handle of its own."""
        try:
            super()._end(limit)
        finally:
            with books.changing():
                has_base, self._has_base = self._has_base, False
                if has_base and not self._membership.is_closing:
                    presence.stand(self._membership)
            if has_base:
                self._base.let_go()

    def __repr__(self) -> str:
        return f"DerivedChannel({self.name!r}, {self._membership.id!r})"


def condition_of(
    where: Expression | None,
    on_change: Expression | None,
    select: Selection | None,
    *,
    every: int,
    min_interval_s: float,
) -> Expression | None:
    """What events are judged by: rates alone take all. ExpressionError: nothing is asked for."""
    if where is not None or on_change is not None:
        return where
    if every != 1 or min_interval_s != 0:
        return "True"
    if select is None:
        raise unexpected(ExpressionError, "a condition, a rate or fields to select", "none of them")
    return None


def derived_from(
    base: Membership, declared: type[Any] | Format, derived: Derived, name: str, opening: Opening
) -> DerivedChannel:
    """The channel that is derived; `base` gets another handle, which it keeps."""
    # What can be set is the deriver's own; equal derivations without that are one channel.
    salt = secrets.token_bytes(UID_BYTES) if derived.names else bytes(UID_BYTES)
    data = derived.derivation.to_bytes()
    uid = base.id.derived(salt, data).uid
    said = f"{base.name}: {name}" if name else f"{base.name}, derived {uid.hex()[:8]}"
    told = Derive(0, salt, cut(said, MAX_NAME_BYTES), data)
    cls = declared if derived.derivation.output is None and isinstance(declared, type) else None
    if derivations.depth_of(base) >= MAX_DERIVED_DEPTH:
        expected = f"a channel that is derived less than {MAX_DERIVED_DEPTH} deep"
        raise unexpected(ChannelError, expected, f"`{base.name}`")
    is_settled = partial(derivations.is_settled, base, uid)
    while True:
        with books.changing():
            base.demand_open()
            if is_settled():
                return _begun(base, told, cls, opening, derived)
        books.wait_for(is_settled, DEFAULT_WAIT_S, lambda: f"channel `{said}` to be left before")


def _begun(
    base: Membership, told: Derive, cls: type[Any] | None, opening: Opening, derived: Derived
) -> DerivedChannel:
    child = derivations.derive(base, told, derived.derivation)
    channel = DerivedChannel(child, cls, opening, base, derived)
    base.handles, child.handles = base.handles + 1, child.handles + 1
    try:
        presence.stand(child)
        derivations.tell_who_is_missing(child)
    except BaseException:  # an interrupt: nobody has the handles
        child.let_go()
        base.let_go()
        raise
    return channel
