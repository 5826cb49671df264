"""Which segments go: a rule over numbers, without files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from echo_core.logs.described import Retain


@dataclass(frozen=True, slots=True)
class Ended:
    """A segment that nothing is written to any more."""

    number: int
    size: int
    ended_ns: int
    """Wall time: all its events are older."""


def removable(
    ended: Iterable[Ended], retain: Retain, *, current_size: int, now_ns: int, free_bytes: int
) -> list[Ended]:
    """The oldest ones, as many as it takes for the rest to keep the rules. Those are in their order."""
    rest = list(ended)
    gone: list[Ended] = []
    size = current_size + sum(each.size for each in rest)
    while rest and retain.may_remove:
        oldest = rest[0]
        is_too_much = retain.bytes is not None and size > retain.bytes
        is_too_old = retain.seconds is not None and now_ns - oldest.ended_ns > retain.seconds * 1e9
        if not (is_too_much or is_too_old or free_bytes < retain.min_free):
            break
        gone.append(rest.pop(0))
        size -= oldest.size
        free_bytes += oldest.size
    return gone
