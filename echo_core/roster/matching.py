"""Matching: which sources of a channel go to which sinks of one node, and what is told of those that do not.

Called with the books open, but where it says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from echo_core._c import links
from echo_core.codegen.machine.budgets import Budget
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.roster.belonging import concern_each_other, in_words, made_ready
from echo_core.roster.bookkeeping import books
from echo_core.roster.together import mates_of
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.origins import Origin
from echo_core.streams.receptions import Wanted
from echo_core.streams.targets import Feed, Target
from echo_core.values.notices import HERE

if TYPE_CHECKING:
    from echo_core.roster.memberships import Membership


def catch_up(target: Target) -> None:
    """Hands a new sink what sources keep; runs handlers. Not with the books open."""
    behind = target.next_behind()
    while behind is not None:
        missed = None
        try:
            while missed is None:
                behind.go_on()
                with books.changing():
                    missed = behind.take_part()
        except BaseException:  # the thread is interrupted: the sink is there all the same
            with books.changing():
                behind.take_part(is_due=True)
            raise
        target.note_missed(missed)
        behind = target.next_behind()


def connect(membership: Membership, origin: Origin, target: Target) -> None:
    """A source and a sink of this process."""
    found = target.accept(origin.local, origin.cls)
    _tell_lookalikes(membership, origin.peer, origin.name, origin.local, target)
    if isinstance(found, links.Delivery):
        origin.add_local(target, found, is_direct=target.takes(origin.cls))
    elif found is not None and concern(membership, origin.format, target.wanted):
        target.refuse(origin.local, found)
        origin.note_unreachable(target, str(found))
        membership.announcements.tell_unreachable(membership.name, origin.peer, origin.name, found)


def feed(membership: Membership, stream: IncomingStream, targets: Sequence[Target]) -> None:
    """A source elsewhere and sinks of this node, unless it is held back (vouching.py)."""
    if stream.is_held_back:
        return
    for problem in stream.feed(targets, partial(concern, membership)):
        membership.announcements.tell_unreachable(membership.name, stream.peer, stream.name, problem)
    for target in targets:
        _tell_lookalikes(membership, stream.peer, stream.name, stream, target)


def make_ready_for(membership: Membership, sender: Format, budget: Budget) -> list[object]:
    """What its sinks make of a format that a source is about to have; not with the books open."""
    wanted = {target.wanted for target in tuple(membership.targets) if target.decodes}
    return [made_ready(membership.home.receptions, membership.types, each, sender, budget) for each in wanted]


def make_ready(membership: Membership, wanted: Wanted) -> list[object]:
    """Likewise what a new sink will make of the formats of all sources elsewhere."""
    receptions, types = membership.home.receptions, membership.types
    streams = tuple(membership.incoming)
    return [made_ready(receptions, types, wanted, each.format, each.budget) for each in streams]


def concern(membership: Membership, sender: Format, wanted: Wanted) -> bool:
    """Whether a sink has to hear that it cannot take events of a format."""
    return concern_each_other(membership.types, sender, wanted)


def _tell_lookalikes(membership: Membership, peer: str, source: str, feed: Feed, target: Target) -> None:
    """Of fields where the sink takes the source's events, and of names where it does not.

    A type that the channel was declared with is no other one that was misspelt.
    """
    report = target.comparison_with(feed)
    if report is not None and report.lookalikes:
        membership.announcements.tell_lookalike_fields(membership.name, peer, source, report)
    elif (
        target.wanted.cls is not None
        and not target.wanted.knows(feed.format)
        and all(feed.format.name != declared.name for declared in membership.types)
    ):
        wanted = format_of(target.wanted.cls).name
        membership.announcements.tell_lookalike_types(membership.name, peer, source, feed.format.name, wanted)


def strangers_in_words(membership: Membership, wanted: Wanted) -> str:
    """The sources that a sink does not know, for who waits for one. Opens the books itself."""
    with books.changing():
        near = [(HERE, each.name, each.format) for other in mates_of(membership) for each in other.origins]
        return in_words(wanted, near + [(each.peer, each.name, each.format) for each in membership.incoming])
