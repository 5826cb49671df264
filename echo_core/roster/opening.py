"""How a node comes to be on a channel: it creates it, finds it in this process, or joins who is on it."""

from __future__ import annotations

import contextlib
import logging
import math
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from echo_core.errors import ClosedError, LinkError, RefusedError, TimedOutError, WireError, bare
from echo_core.formats.format import Format
from echo_core.roster import presence, seats
from echo_core.roster.announcements import in_words
from echo_core.roster.bookkeeping import books
from echo_core.roster.claims import Claims
from echo_core.roster.homes import Home
from echo_core.roster.ids import ChannelId, Member
from echo_core.roster.meetings import has_gone
from echo_core.roster.memberships import Membership
from echo_core.roster.neighbours import Neighbours
from echo_core.roster.places import Transport, reachable
from echo_core.roster.seats import HELD
from echo_core.roster.together import here
from echo_core.transports.addresses import UnixAddress, crosses_hosts, known_addresses
from echo_core.transports.handshake.words import Identity
from echo_core.transports.protocol.messages import Refusal, word_of
from echo_core.transports.repeats import Repeats
from echo_core.values.waits import DEFAULT_WAIT_S

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5  # between attempts to open a channel
_HASTY_S = 0.5  # an attempt that has no more tells less than one before it
_FIRST_ATTEMPT_S = 2.0  # by name: a holder that is stopped is silent, and others let newcomers in, too
_PATIENT_S, _TELL_S = 3.0, 60.0  # who waits for a channel that is not there says so, now and then
_MAX_BESIDE = 64  # channels of a node by which it lets others in: each takes a descriptor
_ATTEMPT_S = DEFAULT_WAIT_S  # of which none takes longer, where there is time for more
_PARTING_S = 1.0  # for the end of a link to be seen, or what a new one tells
_ON_ITS_HOST = "from another host, its node needs an address that others can reach: Node(host=...)"
_UNKNOWN = word_of(Refusal.UNKNOWN_CHANNEL)
_FINAL = frozenset({word_of(Refusal.WRONG_KEY), word_of(Refusal.VERSION)})  # time does not change them


def never() -> bool:
    """Whoever has called does not give up."""
    return False


class Opening:
    """Of one node. Each membership that is returned has one handle more; opens the books itself."""

    def __init__(self, home: Home, neighbours: Neighbours) -> None:
        self._home = home
        self._neighbours = neighbours
        self._joining = Claims[bytes]()  # the channel that each call of `open` is joining

    def create(self, name: str, types: tuple[Format, ...]) -> Membership:
        """A new channel."""
        with books.changing():
            self._demand_open()
            membership = Membership(self._home, ChannelId.new(self._own_member()), name, types)
            membership.is_proven = True
            return membership

    def create_again(
        self, name: str, types: tuple[Format, ...], id_: ChannelId, timeout_s: float = DEFAULT_WAIT_S
    ) -> Membership:
        """The channel of that id, which this node holds from now on. RefusedError: another one does.

        Where it is open here, or in another node of this process, it keeps what was declared of it.
        """
        call, limit = object(), time.monotonic() + timeout_s
        with self._joining.until_end_of(call):
            known = self._find_or_claim(id_.uid, timeout_s, call, partial(self._find_known, id_))
            membership = known or self._make_again(name, types, id_)
            had_seat = membership.seat is not None
            try:
                self._hold(membership, _left_s(limit))
                self._claim(membership, replace(id_, members=(self._own_member(),)), _left_s(limit))
            except BaseException:
                if membership.seat is not None and not had_seat:
                    membership.seat.leave()
                    membership.seat = None
                membership.let_go()
                raise
            with books.changing():
                membership.learn(name, types)
                membership.is_proven = True
                presence.gather(membership)
                presence.stand(membership)
            return membership

    def create_or_open(
        self, name: str, types: tuple[Format, ...], id_: ChannelId, timeout_s: float
    ) -> Membership:
        """The channel of that id as somebody on this host holds it, or as this node does from now on."""
        limit, pauses, attempt_s = time.monotonic() + timeout_s, _pauses(), _FIRST_ATTEMPT_S
        while True:
            try:
                return self.create_again(name, types, id_, _left_s(limit) / 2)  # the rest is for who holds it
            except RefusedError as error:
                if error.code != HELD:
                    raise
            pause_s = next(pauses)
            try:
                ways = self._home.place.transports
                return self._try_to_open(id_, ways, min(_left_s(limit), attempt_s), name=name)
            except (LinkError, TimedOutError) as error:  # who has held it may be about to leave
                if _is_final(error) or _is_over(limit):
                    raise
            self._rest(min(pause_s, _left_s(limit) / 2))
            attempt_s = min(2 * attempt_s, _ATTEMPT_S)

    def _find_known(self, id_: ChannelId) -> Membership | None:
        """What this node has already."""
        known = self._home.memberships.get(id_.uid)
        if known is not None:
            _demand_key(known, id_)
            known.handles += 1
        return known

    def _make_again(self, name: str, types: tuple[Format, ...], id_: ChannelId) -> Membership:
        with books.changing():
            self._neighbours.listen()  # what others are told of this node has its addresses from the start
            found = self._join_in_process(id_, self._home.place.transports)
            return found or Membership(self._home, id_.identity, name, types)

    def keep(self, membership: Membership) -> ChannelId:
        """The channel's identity; who has created it holds it from now on, so that nobody else does."""
        membership.demand_open()
        if _seated(membership) is None:
            call, find = object(), partial(_seated, membership)
            with self._joining.until_end_of(call):  # another thread may be about to take the seat
                if self._find_or_claim(membership.id.uid, DEFAULT_WAIT_S, call, find) is None:
                    self._hold(membership, DEFAULT_WAIT_S)
        return membership.id.identity

    def _hold(self, membership: Membership, timeout_s: float) -> None:
        """On this host, where it may have the seat from before another one came to hold the channel."""
        if membership.seat is not None:
            if membership.is_creator:
                msg = f"Expected nobody to hold channel `{membership.name}`, this node does"
                raise RefusedError(msg, code=HELD)
            return
        seat = self._neighbours.take_seat(membership.id, timeout_s)
        with books.changing():
            is_late = membership.is_closing
            membership.seat = seat
        if is_late:
            seat.leave()

    def _claim(self, membership: Membership, id_: ChannelId, timeout_s: float) -> None:
        """RefusedError: a node of another host holds the channel, which is linked to this one."""
        with contextlib.suppress(TimedOutError):  # who has just left, or come, may not be known as that
            free = partial(self._is_free, membership)
            books.wait_for(free, min(_PARTING_S, timeout_s), lambda: "the channel's holder to leave")
        with books.changing():
            holder = membership.attendance.holder()
            if holder is None or membership.is_creator:
                membership.id = id_
                presence.stand(membership)
                return
        msg = f"Expected nobody to hold channel `{membership.name}`, node {in_words(holder)} does"
        raise RefusedError(msg, code=HELD, hint="close it there, or open the channel instead")

    @staticmethod
    def _is_free(membership: Membership) -> bool:
        return membership.is_creator or membership.attendance.is_free

    def _own_member(self) -> Member:
        return Member(self._home.id, self._neighbours.listen(), self._home.host_id)

    def open(
        self,
        id_: ChannelId,
        ways: Sequence[Transport],
        timeout_s: float | None,
        *,
        wait: bool = False,
        is_given_up: Callable[[], bool] = never,
    ) -> Membership:
        """The channel of that id. Tries again until time is up; `wait`: even where nobody knows it yet.

        `is_given_up`: asked after each attempt, and whenever the books were open.

        RefusedError: a member says no. LinkError: none can be reached. TimedOutError: one does not answer.
        """
        began = time.monotonic()
        limit = math.inf if timeout_s is None else began + timeout_s
        attempts, pauses, waits = 0, _pauses(), Repeats(period_s=_TELL_S)
        problem: LinkError | TimedOutError | None = None
        while True:
            attempts, pause_s = attempts + 1, next(pauses)
            left_s = _left_s(limit)
            try:
                return self._try_to_open(id_, ways, min(left_s, _ATTEMPT_S))
            except (LinkError, TimedOutError) as error:
                if not (wait or self._may_change(error, id_, ways)) or _is_final(error):
                    raise
                if problem is None or left_s > _HASTY_S:
                    problem = bare(error)
                waited_s = time.monotonic() - began
                if wait and waited_s >= _PATIENT_S:
                    said = "%r is waited for, by now for %.1f s: %s"
                    waits.say(logging.WARNING, said, id_, waited_s, problem)
                if _is_over(limit) or self._rest(min(pause_s, _left_s(limit) / 2), is_given_up):
                    raise _after(problem, attempts, time.monotonic() - began) from problem.__cause__

    def _may_change(self, error: Exception, id_: ChannelId, ways: Sequence[Transport]) -> bool:
        """Whether an attempt that failed may succeed soon, though nobody creates the channel meanwhile."""
        is_unknown = isinstance(error, RefusedError) and error.code == _UNKNOWN
        others = [address for member in self._others(id_) for address in member.addresses]
        return not is_unknown and bool(reachable(others if id_.members else [id_.seat], ways))

    def _rest(self, pause_s: float, is_given_up: Callable[[], bool] = never) -> bool:
        """Between attempts; the next one finds out if the node is closed meanwhile. Whether there is none."""
        with contextlib.suppress(TimedOutError):
            books.wait_for(lambda: self._home.is_closed or is_given_up(), pause_s, lambda: "the channel")
        return is_given_up()

    def _try_to_open(
        self, id_: ChannelId, ways: Sequence[Transport], timeout_s: float, *, name: str = ""
    ) -> Membership:
        """`name`: of the channel, where that is known before anybody has told it."""
        call, limit = object(), time.monotonic() + timeout_s
        with self._joining.until_end_of(call):
            found = self._find_or_claim(id_.uid, timeout_s, call, partial(self._find, id_, ways))
            return found or self._join(id_, ways, _left_s(limit), name)

    def _find_or_claim(
        self, uid: bytes, timeout_s: float, call: object, find: Callable[[], Membership | None]
    ) -> Membership | None:
        """What is there, once no other thread is at it; None: it is this call's to make."""
        limit = time.monotonic() + timeout_s
        while True:
            with books.changing():
                self._demand_open()
                if self._is_settled(uid):
                    found = find()
                    if found is None:
                        self._joining.add(call, uid)
                    return found
            what = partial(str.format, "channel {} to be opened", uid.hex()[:8])
            books.wait_for(partial(self._is_settled, uid), _left_s(limit), what, asked_s=timeout_s)

    def _is_settled(self, uid: bytes) -> bool:
        """Whether no other thread is opening the channel, or closing its last handle."""
        known = self._home.memberships.get(uid)
        return uid not in self._joining.all() and (known is None or known.handles > 0)

    def _find(self, id_: ChannelId, ways: Sequence[Transport]) -> Membership | None:
        """What this process has already, unless it is to be joined again."""
        self._neighbours.listen()
        known = self._home.memberships.get(id_.uid)
        if known is None:
            return self._join_in_process(id_, ways)
        _demand_key(known, id_)
        return None if self._is_cut_off(known, id_) else self._find_known(id_)

    def _is_cut_off(self, membership: Membership, id_: ChannelId) -> bool:
        """Whether all others of a channel are gone; they may be back, if by a link."""
        others = [address for member in self._others(id_) for address in member.addresses]
        if not membership.is_creator:
            others.append(id_.seat)
        return bool(reachable(others, self._home.place.transports)) and membership.is_alone

    def _join_in_process(self, id_: ChannelId, ways: Sequence[Transport]) -> Membership | None:
        """The channel of another node of this process, which events reach without a link."""
        others = [other for other in here(id_.uid) if other.home.joins_in_process and other.is_proven]
        if not (self._home.joins_in_process and "process" in ways and others):
            return None
        _demand_key(others[0], id_)
        membership = Membership(self._home, id_, others[0].name, others[0].types)
        membership.is_proven = True
        presence.gather(membership)
        return membership

    def _join(self, id_: ChannelId, ways: Sequence[Transport], timeout_s: float, name: str) -> Membership:
        with books.changing():
            membership = self._home.memberships.get(id_.uid)
            if membership is None:
                membership = Membership(self._home, id_, name, ())
            else:
                membership.handles += 1
        try:
            self._reach(membership, id_, ways, timeout_s)
        except BaseException as error:
            if not (membership.is_proven and has_gone(error)):  # else the channel goes on without the others
                membership.let_go()
                raise
        with books.changing():
            membership.is_proven = True
            presence.gather(membership)
        self._sit_beside(membership)
        return membership

    def _sit_beside(self, membership: Membership) -> None:
        """Where somebody else holds the channel here, newcomers find this node if that one is stopped."""
        is_held_here = membership.id.seat in membership.id.addresses and not membership.is_creator
        if membership.side_seat is not None or not is_held_here or len(self._home.memberships) > _MAX_BESIDE:
            return
        seat = self._neighbours.sit_beside(membership.id)
        with books.changing():
            is_late = membership.is_closing
            membership.side_seat = seat
        if is_late and seat is not None:
            seat.leave()

    def _reach(
        self, membership: Membership, id_: ChannelId, ways: Sequence[Transport], timeout_s: float
    ) -> None:
        """Links to a member, at last to who holds the channel on this host.

        Each gets its share of the time, and of what those before it have left.
        """
        limit = time.monotonic() + timeout_s
        attempts = [partial(self._join_member, membership, member, ways) for member in self._others(id_)]
        if reachable([id_.seat], ways):
            attempts += [partial(join, membership, ways) for join in (self._join_holder, self._join_beside)]
        problems: list[LinkError | TimedOutError] = []
        for position, attempt in enumerate(attempts):
            try:
                return attempt(_left_s(limit) / (len(attempts) - position))
            except (LinkError, TimedOutError) as error:
                if _is_final(error):
                    raise
                problems.append(bare(error))
        try:
            raise self._most_telling(problems, id_)
        finally:
            problems.clear()  # else an error refers to this frame, and that to the error

    def _join_member(
        self, membership: Membership, member: Member, ways: Sequence[Transport], timeout_s: float
    ) -> None:
        try:
            self._neighbours.join(membership, member.node, member.addresses, ways, timeout_s)
        except LinkError as error:
            is_here = member.host == self._home.host_id
            if isinstance(error, RefusedError) or is_here or any(map(crosses_hosts, member.addresses)):
                raise
            raise _reworded(error, f"{error}; {_ON_ITS_HOST}") from error.__cause__

    def _join_holder(self, membership: Membership, ways: Sequence[Transport], timeout_s: float) -> None:
        limit = time.monotonic() + timeout_s
        seat = membership.id.seat
        try:
            holder = self._neighbours.holder_of(membership.id, timeout_s)
        except LinkError as error:
            who = seats.process_at(seat)
            raise _reworded(
                error, f"{who} holds the channel and does not answer: {error}"
            ) from error.__cause__
        if holder is None:
            msg = f"nobody holds the channel on this host, at {seat}"
            raise LinkError(msg) from ConnectionRefusedError()
        self._join_seated(membership, holder, seat, ways, _left_s(limit))

    def _join_beside(self, membership: Membership, ways: Sequence[Transport], timeout_s: float) -> None:
        """Any member lets others in: a holder may be stopped."""
        limit, side_seats = time.monotonic() + timeout_s, membership.id.side_seats
        for position, seat in enumerate(side_seats):
            share_s = _left_s(limit) / (len(side_seats) - position)
            with contextlib.suppress(LinkError, TimedOutError, WireError):  # that one is stopped too
                member = self._neighbours.node_at(membership.id, seat, share_s)
                if member is not None:
                    return self._join_seated(membership, member, seat, ways, _left_s(limit))
        msg = "no other member on this host lets others in"
        raise LinkError(msg) from ConnectionRefusedError()

    def _join_seated(
        self,
        membership: Membership,
        found: Identity,
        seat: UnixAddress,
        ways: Sequence[Transport],
        timeout_s: float,
    ) -> None:
        member = Member(found.node_id, (seat, *known_addresses(found.addresses)), found.host_id)
        self._join_member(membership, member, ways, timeout_s)
        with books.changing():
            membership.id = replace(membership.id, members=(member,))

    def _most_telling(
        self, problems: Sequence[LinkError | TimedOutError], id_: ChannelId
    ) -> LinkError | TimedOutError:
        """Silence tells more than nobody there, and that more than who has left; with the words of all."""
        if id_.members and not self._others(id_):
            msg = f"this process refused the channel {id_!r}: it has created the channel, and closed it"
            return RefusedError(msg, code=_UNKNOWN)
        if not problems:
            msg = f"Expected a way to the seat of {id_!r}, got none"
            return LinkError(msg, hint="an identity alone leads nowhere but there, by `shm` or `unix`")
        of_members = problems[: len(id_.members)] or problems
        first = min(of_members, key=lambda error: (has_gone(error), isinstance(error, RefusedError)))
        return first if len(problems) == 1 else _reworded(first, "; ".join(map(str, problems)))

    def _others(self, id_: ChannelId) -> list[Member]:
        """The members that an id names, without this node, and how this host can reach them."""
        return [
            member.seen_from(self._home.host_id) for member in id_.members if member.node != self._home.id
        ]

    def _demand_open(self) -> None:
        if self._home.is_closed:
            msg = f"Expected node `{self._home.name}` to be open, it has been closed"
            raise ClosedError(msg, hint="after a fork, the child makes a node of its own")


def _seated(membership: Membership) -> Membership | None:
    """The channel, unless its creator still has to take its seat."""
    return None if membership.is_creator and membership.seat is None else membership


def _demand_key(membership: Membership, id_: ChannelId) -> None:
    if not secrets.compare_digest(membership.id.key, id_.key):
        msg = f"this process refused the channel {id_!r}: the key is not that of the channel"
        raise RefusedError(msg, code=word_of(Refusal.WRONG_KEY))


# --- trying again ---


def _left_s(limit: float) -> float:
    return max(0.0, limit - time.monotonic())


def _pauses() -> Iterator[float]:
    """Twice as long each time, up to a limit, and at random: many that wait do not come at once."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s * random.uniform(0.75, 1.25)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _is_over(limit: float) -> bool:
    """Whether there is no time for another attempt."""
    return _left_s(limit) < _FIRST_PAUSE_S / 2


def _is_final(error: Exception) -> bool:
    return isinstance(error, RefusedError) and error.code in _FINAL


def _after(error: LinkError | TimedOutError, attempts: int, seconds: float) -> LinkError | TimedOutError:
    times = "once" if attempts == 1 else f"{attempts} times"
    return _reworded(error, f"{error}; tried {times} in {seconds:.1f} s")


def _reworded(error: LinkError | TimedOutError, words: str) -> LinkError | TimedOutError:
    """An error of the same kind and cause."""
    anew = RefusedError(words, code=error.code) if isinstance(error, RefusedError) else type(error)(words)
    anew.__cause__ = error.__cause__
    return anew
