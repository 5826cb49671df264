"""What other nodes may use of this one's processor, and have used: also beyond their links.

A peer that is slowed down could else come again, and have all at once that it may have at first. It is known
by its node id and the channel whose key it has proven with it: a node id alone is a name that anybody can
take. Nor does it help to come under another name each time: what nodes use at first that were not known is
also used of what newcomers of a channel have together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from echo_core.codegen.machine.budgets import Allowance
from echo_core.transports.limits import (
    COMPILING_S,
    COMPILING_SHARE,
    HEARING_S,
    HEARING_SHARE,
    MAX_KNOWN_NODES,
    NEWCOMERS,
)

_Claim = tuple[bytes, bytes]  # a node id, and the channel whose key goes with it
_NEWCOMERS = b""  # the node id of all who are not known


@dataclass(slots=True, eq=False)
class Allowances:
    """Of one node on one channel."""

    compiling: Allowance  # what is compiled for its formats
    hearing: Allowance  # what it says
    has_rested: bool = False  # it was made to wait, which is told once

    def begin_anew(self) -> None:
        """The node links again: it is told of again where it has all that it may have at first."""
        self.has_rested = self.has_rested and not self.hearing.is_whole


class KnownNodes:
    """The allowances of those that were linked to one node. Called with the books open."""

    __slots__ = ("_by_claim", "_now")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._by_claim: dict[_Claim, Allowances] = {}  # who was linked last is the last
        self._now = now

    def allowances(self, node_id: bytes, uid: bytes) -> Allowances:
        """Of a node that has proven a channel's key, and links now."""
        newcomers = self._kept((_NEWCOMERS, uid), self._newcomers)
        known = self._kept((node_id, uid), partial(self._newcomer, newcomers))
        known.begin_anew()
        return known

    def _kept(self, claim: _Claim, make: Callable[[], Allowances]) -> Allowances:
        """Of too many those go that were not looked for in the longest time."""
        found = self._by_claim.pop(claim, None) or make()
        if len(self._by_claim) >= MAX_KNOWN_NODES:
            del self._by_claim[next(iter(self._by_claim))]
        self._by_claim[claim] = found
        return found

    def _newcomers(self) -> Allowances:
        return Allowances(
            Allowance(NEWCOMERS * COMPILING_S, NEWCOMERS * COMPILING_SHARE, self._now),
            Allowance(NEWCOMERS * HEARING_S, NEWCOMERS * HEARING_SHARE, self._now),
        )

    def _newcomer(self, newcomers: Allowances) -> Allowances:
        return Allowances(
            Allowance(COMPILING_S, COMPILING_SHARE, self._now, newcomers.compiling),
            Allowance(HEARING_S, HEARING_SHARE, self._now, newcomers.hearing),
        )
