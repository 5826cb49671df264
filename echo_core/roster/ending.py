"""Ending: sources and sinks of one node on a channel are closed, whatever interrupts that.

Opens the books itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from echo_core.errors import ClosedError
from echo_core.roster import derivations, matching, presence
from echo_core.roster.bookkeeping import books
from echo_core.roster.together import here, mates_of
from echo_core.streams.branches import Branching
from echo_core.streams.origins import Origin
from echo_core.streams.targets import Target
from echo_core.values.backlog import nanoseconds
from echo_core.values.notices import HERE, SourceClosed

if TYPE_CHECKING:
    from echo_core.roster.memberships import Membership


def stop(membership: Membership, target: Target) -> bool:
    """Ends a sink without waiting for its handler; whether it was open.

    What an interrupt has left of it is done by the next call. The queue is closed also where one comes.
    """
    try:
        with books.changing():
            was_open, target.is_closed = not target.is_closed, True
            target.close_late()
            _remove_target(membership, target)
        return was_open
    finally:
        target.close_queue()


def _remove_target(membership: Membership, target: Target) -> None:
    """What can be done twice comes first, as an interrupt may have it begin again."""
    if not _has(membership, target, membership.targets):
        return
    for other in mates_of(membership):
        for origin in other.origins:
            origin.forget_unreachable(target)
            origin.remove_local(target)
            other.announcements.tell_drops_of(origin)
    for origin in list(membership.relayed):
        origin.forget_unreachable(target)
        origin.remove_local(target)
        membership.announcements.tell_drops_of(origin)
    for stream in membership.incoming:
        if stream.remove(target):
            stream.feed(stream.take_refusing(), partial(matching.concern, membership))
    membership.resuming.forget(target)
    target.handler.settle(at_end=True)
    membership.announcements.tell_drops_at(membership.name, target, target.drops_at_end())
    membership.targets.remove(target)
    membership.counts.add_sink(target)
    presence.stand(membership)


def close_origin(membership: Membership, origin: Origin, linger_s: float) -> None:
    """Ends a source; waits, for `linger_s` at most, until what is queued has left.

    Then what sinks would have to make room for first is dropped, and counted.
    """
    limit = time.monotonic() + linger_s
    try:
        with books.changing():
            origin.is_closed = True
        _remove_origin(membership, origin, linger_s)
    finally:  # also when the wait is interrupted
        origin.outlet.close()
        with books.changing():
            origin.unreachable.clear()  # who answered is a link, or a sink
            origin.controls.let_go()
        _close_derived(membership, origin, limit)


def _close_derived(membership: Membership, origin: Origin, limit: float) -> None:
    """What is derived from a source ends with it; where that is interrupted, the rest of it at once."""
    with books.changing():
        derived = derivations.end_branches(membership, origin)
    try:
        _close_each(derived, limit)
    finally:
        _close_each(derived, time.monotonic())


def _close_each(derived: Sequence[tuple[Membership, Branching]], limit: float) -> None:
    for child, branching in derived:
        close_origin(child, branching.origin, max(0.0, limit - time.monotonic()))
        with books.changing():
            derivations.forget_branch(child, branching)


def _remove_origin(membership: Membership, origin: Origin, linger_s: float) -> None:
    with books.changing():
        if not _has(membership, origin, membership.origins):
            return
        origin.local.end()
        origin.reconsider()
        membership.announcements.tell_drops_of(origin)
        ways = origin.streams
        for peer in membership.peers:
            stream = peer.stream_of(membership.id.uid, origin)
            if stream is not None:
                stream.withdraw()
        for other in mates_of(membership):
            for target in other.targets:
                target.forget_refusal(origin.local)
            other.announcements.tell(SourceClosed(HERE, origin.name, origin.format))
        membership.origins.remove(origin)
        membership.counts.add_source(origin)
        presence.stand(membership)
    limit = time.monotonic() + linger_s
    try:
        for way in ways:
            with contextlib.suppress(ClosedError):  # it is the process's that has forked this one
                way.drain(nanoseconds(max(0.0, limit - time.monotonic())))
    finally:  # what sinks have not granted by now is dropped
        for way in ways:
            way.give_up()


def _has(membership: Membership, end: object, ends: Sequence[object]) -> bool:
    """Nothing in a forked child: what is in the lists there is the parent's."""
    return end in ends and membership in here(membership.id.uid)


def end(membership: Membership, targets: Sequence[Target], origins: Sequence[Origin], limit: float) -> None:
    """Closes them: sinks at once, sources when what is queued has left; also when that is interrupted."""
    for target in targets:
        target.is_leaving = True
    try:
        _end_in_time(
            membership, targets, origins, limit
        )  # no loop here: CPython 3.13 jumps back outside `try`
    finally:
        for target in targets:
            stop(membership, target)
        for origin in origins:
            close_origin(membership, origin, 0.0)


def _end_in_time(
    membership: Membership, targets: Sequence[Target], origins: Sequence[Origin], limit: float
) -> None:
    for target in [target for target in targets if stop(membership, target)]:
        target.join(max(0.0, limit - time.monotonic()))
    for origin in origins:
        close_origin(membership, origin, max(0.0, limit - time.monotonic()))
