"""Attendance: who is on a channel as one node knows it, and whom that node has to be linked to.

Without I/O: it is told what has happened and what time it is, and says what is to be said to whom
(`take_words`) and whom to try to link to (`due`). Who should be linked is compared with who is, always.

Two members need a link where one has sources and the other sinks. Besides that, news have to get about: all
members put each other into one order (who holds the channel, then by node id), and each wants a link to the
first of them that it can reach, and the first to all. So who can reach each other ends up around one member.

What is known of a member is its own word, which carries a number that only it raises. Each node passes on
what is news to it; nothing goes round twice. Who has seen a member leave, or knows its process to be gone,
says so in the member's place under the same number; a member that hears so of itself raises its number.
Nobody's word of others may be far above what is known: a number that its owner cannot exceed would make the
owner vanish.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from echo_core.transports import addresses
from echo_core.transports.addresses import UNKNOWN_HOST
from echo_core.transports.limits import MAX_MEMBERS, MAX_VERSION
from echo_core.transports.protocol.messages import Member, Standing

GRACE_S = 0.3  # for the node of the smaller id, which links first: else both would at once
LASTING_S = 5.0  # a link that has ended before counts as an attempt that failed
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0
_LONGEST_WAIT_HERE_S = 0.4  # for who comes to hold the channel on this host: that nobody does costs 0.1 ms
_NEW_ADDRESS_S = 1.0
_JITTER = 0.25
_ATTEMPTS_TO_PASS_OVER = 2  # in vain, for the next in order
_MAX_DOUBLINGS = 16
MAX_HEARSAY = 256  # members that nobody who is linked tells of, and that were never linked to
HEARSAY_S = 1.0  # between two attempts to link to any of them, at first
_HEARSAY_PART = 1 / 30  # of the time for which nobody has told of it, once that is longer
STRANGER_S = 0.05  # between two attempts to link to any others that were never linked to, in the long run
_STRANGERS_AT_ONCE_S = 6.4
EPOCH = 1 << 16  # what a node says of itself on a channel that it opens again is so much above the last time
LEAP = 1 << 40  # by so much a number of a node may be above those that are known here
_UNLINKED_S, _UNCALLED_S = 2.0, 10.0  # until components are told of a member that cannot be linked to
_FAILURES_TO_TELL = 2
_FEW = 128  # members, among whom a look at all of them costs less than half a millisecond
_PAUSE_S = 50e-6  # for each of many, from one look at all of them to the next: a tenth of the time at most

SENDS, TAKES, HOLDS, LEFT = (standing.value for standing in Standing)  # flags cost more than numbers


@dataclass(slots=True, eq=False)
class _Known:
    """Another member, and how it stands with the link to it."""

    member: Member
    heard_at: float
    is_named: bool = False  # by the channel's id; whoever holds the channel now may be at its addresses
    is_linked: bool = False
    is_here: bool = False  # in this process: what is linked needs no link
    has_met: bool = False  # was linked at some time
    is_rival: bool = False  # has held the channel while this node did, which is settled
    is_tried: bool = False  # an attempt is under way
    is_crossed: bool = False  # the last one was answered: another link is being made, or ended
    is_wanted: bool = False
    failures: int = 0
    retry_at: float = -math.inf
    linked_at: float = 0.0
    wanted_at: float = 0.0
    missed_at: float = math.inf  # since when it is tried in vain
    problem: str = ""  # of the last attempt
    told: str = ""  # why it cannot be linked to, as components were told
    tellers: set[bytes] = field(default_factory=set[bytes])  # linked members that say that it is there
    untold_at: float = math.inf  # since when there are none

    @property
    def has_left(self) -> bool:
        return bool(self.member.standing & LEFT)

    @property
    def is_stranger(self) -> bool:
        """Known by the words of others alone."""
        return not (self.has_met or self.is_named)

    @property
    def is_hearsay(self) -> bool:
        return not (self.tellers or self.has_met or self.is_named or self.is_linked)

    @property
    def holds(self) -> bool:
        """By its own word, on a link: of others one hears that they hold it long after they are gone."""
        says_so = bool(self.member.standing & HOLDS) and self.member.version > 0
        return says_so and self.is_linked and not self.has_left

    @property
    def rank(self) -> tuple[int, bool]:
        """Of what is said of one member the highest counts."""
        return self.member.version, self.has_left

    @property
    def place(self) -> tuple[bool, bytes]:
        return place_of(self.member)


def place_of(member: Member) -> tuple[bool, bytes]:
    """Where a member stands in the order that all members agree on."""
    return not member.standing & HOLDS, member.node_id


def usable(member: Member, host_id: bytes) -> tuple[str, ...]:
    """Those of a member's addresses that mean anything on a host: no loopback, no Unix sockets of another."""
    return addresses.usable(member.addresses, member.host_id, host_id)


@dataclass(frozen=True, slots=True)
class Unlinkable:
    """A member that has to be linked to and cannot be; `why` in words."""

    member: Member
    why: str


class Attendance:
    """Of one channel in one node. `now` is any clock that does not go back."""

    def __init__(self, own: Member, *, forget_s: float, chance: random.Random) -> None:
        """`own`: what others are told of this node. `forget_s`: how long somebody lost is tried again."""
        self.own = own
        self._forget_s = forget_s
        self._chance = chance
        self._known: dict[bytes, _Known] = {}
        self._linked: dict[bytes, _Known] = {}  # of them; few where many are known
        self._words: list[tuple[bytes, Member]] = []
        self._is_settled = True  # whether all that is wanted is known to be
        self._next_at = math.inf
        self._review_at = -math.inf  # not before then, where there are many
        self._hearsay_at = self._strangers_at = -math.inf  # when some may be tried again

    # -----------------------------------------------------------------------
    # What is said, and what is to be done

    def take_words(self) -> list[tuple[bytes, Member]]:
        """What is to be said to whom, in order; each is returned once."""
        words, self._words = self._words, []
        return words

    def is_due(self, now: float) -> bool:
        """Whether it is time to call `due`."""
        return now >= self._review_at and (not self._is_settled or now >= self._next_at)

    def due(self, now: float, room: int, strangers: int | None = None) -> list[Member]:
        """Whom to try to link to now; each attempt has to end in `meet` or `fail`.

        `room` of them at most, and so many `strangers`: of these only others say that they are there.
        """
        self._review(now)
        tried: list[Member] = []
        left = room if strangers is None else min(room, strangers)
        self._next_at = math.inf
        for known in sorted(self._wanted(), key=lambda known: (known.is_stranger, known.failures)):
            if known.is_tried or not usable(known.member, self.own.host_id):
                continue
            ready_at = max(known.retry_at, self._allowed_at(known))
            if ready_at > now or len(tried) >= room or (known.is_stranger and not left):
                self._next_at = min(self._next_at, max(ready_at, now))
                continue
            known.is_tried = True
            tried.append(known.member)
            left -= known.is_stranger
            self._count_attempt(known, now)
        hearsay = (known.untold_at for known in self._known.values() if known.is_hearsay)
        self._next_at = min(self._next_at, min(hearsay, default=math.inf) + self._forget_s)
        return tried

    def _allowed_at(self, known: _Known) -> float:
        """Who was never linked to may not be there at all: what others say costs only so much."""
        if known.is_hearsay:
            return self._hearsay_at
        return self._strangers_at if known.is_stranger else -math.inf

    def _count_attempt(self, known: _Known, now: float) -> None:
        if known.is_hearsay:
            self._hearsay_at = now + max(HEARSAY_S, (now - known.untold_at) * _HEARSAY_PART)
        elif known.is_stranger:
            self._strangers_at = max(self._strangers_at, now - _STRANGERS_AT_ONCE_S) + STRANGER_S

    def unlinkable(self, now: float) -> list[Unlinkable]:
        """Members whom components are to be told of now; of each once, and again when the reason changes."""
        found: list[Unlinkable] = []
        for known in self._wanted():
            why = self._why_unlinked(known, now)
            if why and why != known.told:
                known.told = why
                found.append(Unlinkable(known.member, known.problem or why))
        return found

    def patience(self, node_id: bytes) -> int:
        """How often in a row it could not be linked to."""
        known = self._known.get(node_id)
        return 0 if known is None else known.failures

    def is_stranger(self, node_id: bytes) -> bool:
        """Whether it was never linked to; nor is it who is looked for by the channel's id."""
        known = self._known.get(node_id)
        return known is None or known.is_stranger

    def present(self) -> list[Member]:
        """Others that are there for all that is known: who is linked, or in this process, comes first."""
        there = [known for known in self._known.values() if known.is_linked or known.tellers]
        return [known.member for known in sorted(there, key=lambda known: not known.is_linked)]

    def holder(self) -> Member | None:
        """Another node that holds the channel, and is linked."""
        return next((known.member for known in self._known.values() if known.holds), None)

    @property
    def is_free(self) -> bool:
        """Whether all that are linked have said by now that they do not hold the channel."""
        linked = self._linked.values()
        return all(known.member.version > 0 and not known.holds for known in linked)

    def rival(self, node_id: bytes) -> Member | None:
        """That node, if it is linked and holds the channel as this one does; each is returned once."""
        known = self._known.get(node_id)
        if known is None or known.is_rival or not (known.holds and self.own.standing & HOLDS):
            return None
        known.is_rival = True
        return known.member

    @property
    def is_taken(self) -> bool:
        """Whether another member has sinks, or keeps a derived channel open."""
        return any(
            known.member.standing & TAKES and known.member.version > 0 and not known.has_left
            for known in self._known.values()
            if known.is_linked or known.tellers  # who is lost takes nothing, however long it is looked for
        )

    @property
    def members(self) -> int:
        """Others on the channel."""
        return sum(not known.has_left and known.member.version > 0 for known in self._known.values())

    def others(self) -> list[tuple[Member, bool]]:
        """Others on the channel, and whether each is linked, or in this process; those first."""
        there = [
            known
            for known in self._known.values()
            if (known.is_linked or known.tellers) and known.member.version > 0 and not known.has_left
        ]
        linked_first = sorted(there, key=lambda known: not known.is_linked)
        return [(known.member, known.is_linked) for known in linked_first]

    @property
    def missing(self) -> int:
        """Members that should be linked and are not."""
        return sum(known.member.version > 0 and not known.has_left for known in self._wanted())

    def expected_senders(self) -> list[bytes]:
        """Nodes elsewhere with sources that are linked, or are for all that is known about to be."""
        return [
            node_id
            for node_id, known in self._known.items()
            if known.member.standing & SENDS
            and known.member.version > 0
            and not known.has_left
            and not known.is_here
            and (known.is_linked or (bool(known.tellers) and known.failures == 0))
        ]

    # -----------------------------------------------------------------------
    # What has happened here

    def name(self, node_id: bytes, addresses: tuple[str, ...], host_id: bytes = UNKNOWN_HOST) -> None:
        """A node that the channel's id names: who holds the channel may come back to its addresses."""
        if node_id != self.own.node_id:
            member = Member(0, node_id, 0, HOLDS, host_id, "", addresses)
            self._known[node_id] = _Known(member, 0.0, is_named=True)

    def stand(self, standing: int) -> None:
        """What this node has on the channel has changed."""
        if standing != self.own.standing:
            self._say_of_own(replace(self.own, standing=standing, version=self.own.version + 1))

    def meet(self, member: Member, now: float, *, is_here: bool = False) -> bool:
        """There is a link; `member` is what the handshake has told. Whether the link was lost before."""
        known = self._known.setdefault(member.node_id, _Known(member, now))
        if known.is_linked:
            return False
        if known.member.version == 0:
            known.member = replace(member, standing=known.member.standing)
        was_lost = known.has_met and not known.has_left
        known.is_linked, known.is_here, known.linked_at = True, is_here, now
        self._linked[member.node_id] = known
        known.has_met, known.is_tried, known.told, known.missed_at = True, False, "", math.inf
        self._is_settled = False
        self._words += [
            (member.node_id, self.own),
            *((member.node_id, other) for other in self._present(known)),
        ]
        return was_lost

    def lose(self, node_id: bytes, now: float, *, is_liar: bool = False) -> None:
        """A link has ended; its node may well be there. `is_liar`: what it has told counts for nothing."""
        known = self._known.get(node_id)
        if known is None or not known.is_linked:
            return
        self._unlink(known, now, is_liar=is_liar)
        if now - known.linked_at >= LASTING_S:
            known.failures = 0
        self._back_off(known, now)

    def expects(self, node_id: bytes) -> bool:
        """Whether a member may be linked again, for all that is known: nobody has said that it has left."""
        known = self._known.get(node_id)
        return known is not None and not known.has_left

    def part(self, node_id: bytes, now: float) -> None:
        """A member has said that it leaves the channel."""
        known = self._known.get(node_id)
        if known is not None:
            self._unlink(known, now)
            self._bury(known, now)

    def fail(
        self,
        node_id: bytes,
        now: float,
        *,
        problem: str = "",
        is_gone: bool = False,
        is_crossed: bool = False,
    ) -> bool:
        """An attempt has failed; `is_gone`: its process is. Whether this is the first failure in a row.

        `is_crossed`: only because another link is being made or ended, so that nobody need be told.
        """
        known = self._known.get(node_id)
        if known is None or known.is_linked:
            return False
        known.is_tried, known.problem, known.is_crossed = False, problem, is_crossed
        is_first = known.failures == 0
        is_near = known.is_named and known.member.host_id == self.own.host_id
        self._back_off(known, now, _LONGEST_WAIT_HERE_S if is_near else _LONGEST_WAIT_S)
        if not known.is_named and (is_gone or now - known.missed_at > self._forget_s):
            self._bury(known, now)
        return is_first and known.member.version > 0

    def replaced(self, node_id: bytes) -> None:
        """Somebody else has answered at the addresses of a node."""
        known = self._known.get(node_id)
        if known is not None and not known.is_linked:
            known.is_tried, self._is_settled = False, False
            known.member = replace(known.member, standing=known.member.standing | LEFT)

    # -----------------------------------------------------------------------
    # What others say

    def hear(self, teller: bytes, member: Member, now: float) -> None:
        """A linked member tells of itself or of another one."""
        if member.node_id == self.own.node_id:
            self._contradict(member)
            return
        known = self._known.get(member.node_id)
        if teller != member.node_id and self._is_beyond(member, known):
            return
        has_left = bool(member.standing & LEFT)
        if known is None:
            if has_left or not self._makes_room():
                return
            known = self._known[member.node_id] = _Known(replace(member, version=-1), now)
        if has_left and known.is_linked:
            self._words.append((member.node_id, member))  # who is wrongly said to be gone says so itself
            return
        was_hearsay = known.is_hearsay
        known.tellers = set() if has_left else {*known.tellers, teller}
        is_own_word = teller == member.node_id and member != known.member
        if is_own_word or (member.version, has_left) > known.rank:
            self._learn(known, member, now)
            self._pass_on(member, teller)
        elif was_hearsay and not has_left:
            self._pass_on(known.member, teller)

    def _learn(self, known: _Known, member: Member, now: float) -> None:
        if known.member.addresses != member.addresses:
            known.retry_at, known.told = min(known.retry_at, now + _NEW_ADDRESS_S), ""
        known.member, known.heard_at = member, now
        known.missed_at = math.inf
        self._is_settled = False

    def _contradict(self, member: Member) -> None:
        """Others have a word of this node's that is none, or is of an earlier time."""
        said, own = (member.version, member.standing), (self.own.version, self.own.standing)
        if own < said and member.version < min(MAX_VERSION, own[0] + LEAP):
            self._say_of_own(replace(self.own, version=member.version + 1))

    def _is_beyond(self, member: Member, known: _Known | None) -> bool:
        """Whether its number is so high that it cannot be the member's own; nodes count from one start."""
        last = self.own.version if known is None else max(self.own.version, known.member.version)
        return member.version >= last + LEAP

    # -----------------------------------------------------------------------
    # Whom to link to

    def _review(self, now: float) -> None:
        """Compares who should be linked with who is."""
        if self._is_settled and now < self._next_at:
            return
        self._is_settled = True
        if len(self._known) > _FEW:
            self._review_at = now + len(self._known) * _PAUSE_S
        self._forget_who_is_gone(now)
        wanted = {*filter(self._is_needed, self._known.values()), *self._for_news()}
        for known in self._known.values():
            if known.is_wanted != (known in wanted):
                known.is_wanted = not known.is_wanted
                known.wanted_at = now
                known.retry_at = max(known.retry_at, now + self._grace(known))

    def _wanted(self) -> Iterator[_Known]:
        return (known for known in self._known.values() if known.is_wanted and not known.is_linked)

    def _is_needed(self, known: _Known) -> bool:
        """Whether it has sinks for sources here, or sources for sinks here."""
        own = self.own.standing
        sought = (TAKES if own & SENDS else 0) | (SENDS if own & TAKES else 0)
        return bool(known.member.standing & sought) and not known.has_left

    def _for_news(self) -> Iterator[_Known]:
        """The first in order, the next one where that has failed; and all others, if this node is the first.

        Who is first looks for the others, too: those that are cut off with another first may not know of it.
        """
        own_place, is_held = place_of(self.own), self._is_held
        for known in sorted(self._known.values(), key=lambda known: known.place):
            is_before = known.place < own_place
            if is_before and known.is_linked:
                return
            is_empty = known.has_left or known.member.version == 0
            if is_empty and (is_held or not known.is_named):
                continue
            if usable(known.member, self.own.host_id):
                yield known
                if is_before and known.failures < _ATTEMPTS_TO_PASS_OVER and not is_empty:
                    return

    @property
    def _is_held(self) -> bool:
        """Whether who holds the channel is linked, or this node; else another may come in its place."""
        linked = [self.own, *(known.member for known in self._linked.values())]
        return any(member.standing & HOLDS for member in linked)

    def _grace(self, known: _Known) -> float:
        """One of the two links first, where it can: who has the smaller id, or is not the first in order."""
        if known.is_named or not self._can_call(known):
            return 0.0
        own, other = known.place, place_of(self.own)
        if self._is_needed(known):
            own, other = (False, self.own.node_id), (False, known.member.node_id)
        return self._about(GRACE_S) if own > other else 0.0

    def _can_call(self, known: _Known) -> bool:
        return bool(usable(self.own, known.member.host_id))

    def _why_unlinked(self, known: _Known, now: float) -> str:
        if known.has_met or known.is_crossed or known.is_hearsay or not self._is_needed(known):
            return ""
        has_way = bool(usable(known.member, self.own.host_id))
        since_s = now - known.wanted_at
        if not has_way and not self._can_call(known):
            return (
                "it has no address that this host can reach, nor has this node"
                if since_s > _UNLINKED_S
                else ""
            )
        if has_way and known.failures >= _FAILURES_TO_TELL and since_s > _UNLINKED_S:
            return "none of its addresses answers"
        if not has_way and since_s > _UNCALLED_S:
            return "it has no address that this host can reach, and has not linked to this node"
        return ""

    # -----------------------------------------------------------------------
    # Who is known

    def _present(self, to: _Known) -> Iterator[Member]:
        for known in self._known.values():
            if known is not to and not known.has_left and known.member.version > 0:
                yield known.member

    def _say_of_own(self, own: Member) -> None:
        self.own = own
        self._is_settled = False
        self._pass_on(own, own.node_id)

    def _pass_on(self, member: Member, teller: bytes) -> None:
        not_told = {teller, member.node_id}
        self._words += [(node_id, member) for node_id in self._linked if node_id not in not_told]

    def _unlink(self, known: _Known, now: float, *, is_liar: bool = False) -> None:
        known.is_linked = known.is_here = False
        self._linked.pop(known.member.node_id, None)
        self._is_settled = False
        node_id, hearsay = known.member.node_id, 0
        for other_id, other in list(self._known.items()):
            if node_id in other.tellers:
                other.tellers.discard(node_id)
                other.untold_at = now
                hearsay += other.is_hearsay
                if other.is_hearsay and (is_liar or hearsay > MAX_HEARSAY):
                    del self._known[other_id]

    def _bury(self, known: _Known, now: float) -> None:
        """Remembered as gone, so that who has not heard of it yet does not bring it back."""
        if not known.has_left:
            known.member = replace(known.member, standing=known.member.standing | LEFT)
            known.tellers.clear()
            known.heard_at, known.failures, known.missed_at = now, 0, math.inf
            self._is_settled = False
            self._pass_on(known.member, known.member.node_id)

    def _forget_who_is_gone(self, now: float) -> None:
        """Who has left, and who was never there for all that is known."""
        for node_id, known in list(self._known.items()):
            has_left = known.has_left and not known.is_named and now - known.heard_at > self._forget_s
            if has_left or (known.is_hearsay and now - known.untold_at >= self._forget_s):
                del self._known[node_id]

    def _makes_room(self) -> bool:
        """What is only hearsay, or gone, makes room for who is there."""
        if len(self._known) < MAX_MEMBERS:
            return True
        for node_id, known in self._known.items():
            if known.is_hearsay or (known.has_left and not known.is_linked and not known.is_named):
                del self._known[node_id]
                return True
        return False

    def _back_off(self, known: _Known, now: float, longest_s: float = _LONGEST_WAIT_S) -> None:
        known.missed_at = min(known.missed_at, now)
        wait_s = min(longest_s, _FIRST_WAIT_S * 2.0 ** min(known.failures, _MAX_DOUBLINGS))
        known.failures += 1
        known.retry_at = now + self._about(wait_s) + self._grace(known)
        self._is_settled = False

    def _about(self, wait_s: float) -> float:
        """So that who was lost at once does not come back at once."""
        return wait_s * self._chance.uniform(1 - _JITTER, 1 + _JITTER)
