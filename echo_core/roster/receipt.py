"""Filtering on receipt: what is derived from sources whose processes do not know of derived channels.

Whoever has the channel that is derived from takes their events there, where anybody here takes what is
derived, and judges them as they come (streams/relaying.py). That is for the sinks of this node: each that has
the base does so for itself, and who has the derived id alone gets nothing. Called with the books open.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from echo_core.errors import ChannelError, unexpected
from echo_core.roster import derivations, matching, vouching
from echo_core.roster.bookkeeping import books
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.origins import Origin
from echo_core.streams.relaying import Relay
from echo_core.streams.targets import Target
from echo_core.transports.limits import MAX_RELAYED
from echo_core.transports.threads import log
from echo_core.values.notices import EventsLost, SourceClosed, SourceOpened

if TYPE_CHECKING:
    from echo_core.roster.derivations import Descent
    from echo_core.roster.memberships import Membership

_MOST_PARTED = 64  # sources of one channel whose links are lost, and that may come back

# ---------------------------------------------------------------------------
# What is derived on receipt


def take_part(child: Membership, *, is_taken: bool = False) -> None:
    """Whoever takes a derived channel here gets what is derived on receipt, too. `is_taken`: a sink comes."""
    descent = child.descent
    if descent is None or not (is_taken or _is_taken(child)):
        return
    base = descent.base
    take_part(base, is_taken=True)
    for peer, stream in vouching.strangers_on(base):
        relay = _relay(base, stream)
        if _has_room(base, relay, descent):
            derivations.branch(child, relay.origin)
        else:
            error = unexpected(
                ChannelError, f"at most {MAX_RELAYED} that are filtered on receipt", "more of them"
            )
            vouching.note_elsewhere(child, peer, stream.told.source_id, stream.name, str(error))
    for origin in base.relayed:
        derivations.branch(child, origin)


def _is_taken(membership: Membership) -> bool:
    return bool(membership.targets) or any(_is_taken(child) for child in membership.derived.values())


def _relay(base: Membership, stream: IncomingStream) -> Relay:
    """A source's relay here: that which it had before its link was lost, if it is back."""
    for relay in base.relays:
        if relay.stream is stream:
            return relay
        if relay.may_go_on_with(stream):
            relay.stream = stream
            _tell_all(base, relay.origin, is_open=True)
            break
    else:
        relay = Relay(stream, base.home.receptions, lambda: base.shown)
        base.relays.append(relay)
        said = "channel `%s`: what is derived from source `%s` of %s is filtered here, on receipt: %s"
        log.info(said, base.shown, stream.name, stream.peer, "its process does not know of derived channels")
        relay.origin.on_demand = partial(_follow_demand, base, relay)
    _follow_demand(base, relay)
    return relay


def _has_room(base: Membership, relay: Relay, descent: Descent) -> bool:
    """A peer may offer any number of sources, and each has its branch on each derived channel here."""
    if any(each.base is relay.origin for each in descent.branchings):
        return True
    its = [it for it in base.relays if it.stream and relay.stream and it.stream.link is relay.stream.link]
    return sum(len(it.origin.branchings) for it in its) < MAX_RELAYED


def add(child: Membership, origin: Origin) -> None:
    """A source is derived on receipt on a channel, for the sinks of this node, and in further steps."""
    origin.channel = child.shown
    child.relayed.append(origin)
    for further in child.derived.values():
        if _is_taken(further):
            derivations.branch(further, origin)
    for target in child.targets:
        matching.connect(child, origin, target)
        catch_up_later(target)
    child.announcements.tell(SourceOpened(origin.peer, origin.name, origin.format))


def catch_up_later(target: Target) -> None:
    """A sink that is there gets what was kept before, by no thread that others wait for."""
    if target.is_behind:
        books.tell_later(partial(matching.catch_up, target))


# ---------------------------------------------------------------------------
# The sources


def _follow_demand(base: Membership, relay: Relay) -> None:
    """It takes part exactly while somebody takes what is derived."""
    is_wanted = bool(relay.origin.look_at_demand())
    if relay.stream is None and not is_wanted and relay in base.relays:
        _end(base, relay)  # nobody waits for it to come back
    if relay.stream is None or is_wanted == relay.is_attached:
        return
    if is_wanted:
        relay.begin()
        catch_up_later(relay)
        return
    relay.end()
    if relay.stream.remove(relay):
        relay.stream.feed(relay.stream.take_refusing(), partial(matching.concern, base))


def part(base: Membership, stream: IncomingStream) -> None:
    """A source's stream has ended. Where that is remembered, it may come back (streams/resuming.py)."""
    relay = next((relay for relay in base.relays if relay.stream is stream), None)
    if relay is None:
        return
    relay.part()
    _tell_all(base, relay.origin, is_open=False)
    if not base.resuming.remembers(relay):
        _end(base, relay)
    parted = [relay for relay in base.relays if not relay.is_there]
    for oldest in parted[:-_MOST_PARTED]:
        _end(base, oldest)


def _end(base: Membership, relay: Relay) -> None:
    relay.origin.on_demand = None
    _end_derived(base, relay.origin)
    relay.origin.outlet.close()
    relay.close_late()
    relay.handler.settle(at_end=True)
    base.resuming.forget(relay)
    base.relays.remove(relay)


def _end_derived(base: Membership, origin: Origin) -> None:
    for child, branching in derivations.end_branches(base, origin):
        end_relayed(child, branching.origin)
        derivations.forget_branch(child, branching)


def end_relayed(child: Membership, origin: Origin) -> None:
    """It is derived no longer, nor is anything from it; sinks get what came before."""
    _end_derived(child, origin)
    if origin not in child.relayed:
        return
    is_there = origin.local.is_there
    origin.local.end()
    for target in child.targets:
        target.forget_refusal(origin.local)
    child.announcements.tell_drops_of(origin)
    child.relayed.remove(origin)
    child.counts.add_filtered(origin.local.filtered)
    if is_there:
        child.announcements.tell(SourceClosed(origin.peer, origin.name, origin.format))
    origin.outlet.close()


def let_go(base: Membership) -> None:
    """The channel is left."""
    for relay in list(base.relays):
        _end(base, relay)
    for origin in list(base.relayed):
        end_relayed(base, origin)


def tell_losses(base: Membership, stream: IncomingStream, newly: int) -> None:
    """A source has dropped so many events, which may or may not have passed."""
    for relay in base.relays:
        if relay.stream is stream:
            for child, origin in _all_derived(base, relay.origin):
                child.announcements.tell(EventsLost(origin.peer, origin.name, newly))


def _tell_all(base: Membership, origin: Origin, *, is_open: bool) -> None:
    notice = SourceOpened if is_open else SourceClosed
    for child, derived in _all_derived(base, origin):
        child.announcements.tell(notice(derived.peer, derived.name, derived.format))


def _all_derived(base: Membership, origin: Origin) -> Iterator[tuple[Membership, Origin]]:
    """What is derived from a source, in all steps, and on which channels."""
    for child in base.derived.values():
        for branching in [] if child.descent is None else child.descent.branchings:
            if branching.base is origin:
                yield child, branching.origin
                yield from _all_derived(child, branching.origin)
