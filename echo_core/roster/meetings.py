"""Meetings: a few threads that link to the members of channels that this node has to be linked to.

Whom and when says the attendance of each channel; the door's thread asks it four times a second, and when
something has changed. Each channel has its line: those that one channel's peers tell of, who may not be there
at all, hold up neither another channel's nor who was linked before.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from echo_core.errors import ClosedError, LinkError, RefusedError
from echo_core.roster import presence
from echo_core.roster.bookkeeping import books
from echo_core.roster.homes import Home
from echo_core.roster.memberships import Membership
from echo_core.streams.conversations import PartedError
from echo_core.transports.fields import shown
from echo_core.transports.protocol.messages import Member, Refusal, word_of
from echo_core.transports.repeats import Repeats
from echo_core.transports.threads import OwnThread, is_ending

_MAX_THREADS = 16
_MAX_THREADS_OF_ONE = 12  # channel: who does not answer takes a thread for seconds
_MAX_YOUNG, _YOUNG_S = 3, 1.0  # so many of them begun within so long: where all are slow, more make it worse
_MAX_WAITING = (
    64  # members of each kind that a thread is to link to, of all channels; but one of each channel
)
_ATTEMPT_S = 3.0  # for the first attempt to link to a member, if `connect_s` is no less; then more and more
_MAX_DOUBLINGS = 8
_REFUSALS_OF_WHO_HAS_LEFT = frozenset({word_of(Refusal.UNKNOWN_CHANNEL), word_of(Refusal.CLOSING)})
_ENDS = (ConnectionError, EOFError)  # of processes that are gone, or were while they were spoken to

Attempt = Callable[[Membership, Member, float], bytes]
"""Links to a member and shares a channel with it, within some time; returns the id of who has answered."""


class _Line:
    """Those of one channel that wait for a thread; strangers stand behind the others."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self._begun: list[float] = []  # when attempts began that are under way
        self._known: deque[Member] = deque()
        self._strangers: deque[Member] = deque()

    def __len__(self) -> int:
        return len(self._known) + len(self._strangers)

    @property
    def under_way(self) -> int:
        return len(self._begun)

    def ready(self, now: float) -> int:
        """How many a thread may take now."""
        young = sum(now - began < _YOUNG_S for began in self._begun)
        return max(0, min(len(self), _MAX_THREADS_OF_ONE - self.under_way, _MAX_YOUNG - young))

    def fill(self, now: float, share: int) -> None:
        """With `share` of each kind at most."""
        attendance = self.membership.attendance
        if self.membership.is_proven and attendance.is_due(now):
            for member in attendance.due(now, 2 * share - len(self), share - len(self._strangers)):
                (self._strangers if attendance.is_stranger(member.node_id) else self._known).append(member)

    def take(self, now: float) -> Member:
        """`end` has to follow, of the same time."""
        self._begun.append(now)
        return (self._known or self._strangers).popleft()

    def end(self, began: float) -> None:
        self._begun.remove(began)


class Meetings:
    """Of one node."""

    def __init__(self, home: Home, attempt: Attempt) -> None:
        self._home = home
        self._attempt = attempt
        self._lines: dict[bytes, _Line] = {}  # by channel
        self._threads = self._busy = 0
        self._failures = Repeats()

    def begin(self) -> None:
        """Has linked to whomever it is time for. Opens the books itself."""
        with books.changing():
            self._plan()
            now = time.monotonic()
            ready = sum(line.ready(now) for line in self._lines.values())
            for _ in range(min(_MAX_THREADS, self._busy + ready) - self._threads):
                if not self._start_thread():
                    return

    def tick(self) -> None:
        """Tells of members that cannot be linked to. Called with the books open."""
        now = time.monotonic()
        self._failures.settle()
        for membership in self._home.memberships.values():
            for found in membership.attendance.unlinkable(now):
                membership.announcements.tell_unlinked(membership.name, found)

    def _plan(self) -> None:
        now, open_ = time.monotonic(), self._home.memberships
        lines = {uid: line for uid, line in self._lines.items() if open_.get(uid) is line.membership}
        self._lines = {uid: lines.get(uid) or _Line(membership) for uid, membership in open_.items()}
        share = max(1, _MAX_WAITING // max(1, len(open_)))
        for line in self._lines.values():
            line.fill(now, share)

    def _start_thread(self) -> bool:
        """Without another thread, members wait for one that is there, or for the next time."""
        try:
            OwnThread(self._work, f"echo-meet-{self._home.name}").start()
        except RuntimeError as error:
            text = "node `%s`: no thread to link to members of channels: %s"
            if not is_ending():
                self._failures.say(logging.ERROR, text, self._home.name, error)
            return False
        self._threads += 1
        return True

    def _work(self) -> None:
        while True:
            with books.changing():
                line = self._next_line()
                if line is None or self._home.is_closed:
                    self._threads -= 1
                    return
                began = time.monotonic()
                member = line.take(began)
                self._busy += 1
            try:
                self._meet(line.membership, member)
            finally:
                with books.changing():
                    self._busy -= 1
                    line.end(began)

    def _next_line(self) -> _Line | None:
        """The one that has the fewest threads."""
        if not any(self._lines.values()):
            self._plan()
        now = time.monotonic()
        ready = (line for line in self._lines.values() if line.ready(now) > 0)
        return min(ready, key=lambda line: line.under_way, default=None)

    def _meet(self, membership: Membership, member: Member) -> None:
        if not self._is_open(membership):  # closed while this waited
            return
        try:
            answered = self._attempt(membership, member, self._time_for(membership, member))
        except Exception as error:  # noqa: BLE001 - a peer has told of it; the thread has others to link to
            self._note(membership, member, error)
            return
        with books.changing():
            if answered == member.node_id:
                membership.attendance.fail(answered, time.monotonic())  # unless it is linked
            else:
                membership.attendance.replaced(member.node_id)
            presence.converse(membership)

    def _is_open(self, membership: Membership) -> bool:
        return self._home.memberships.get(membership.id.uid) is membership and not self._home.is_closed

    def _time_for(self, membership: Membership, member: Member) -> float:
        doublings = min(_MAX_DOUBLINGS, membership.attendance.patience(member.node_id))
        return min(self._home.limits.connect_s, _ATTEMPT_S * 2.0**doublings)

    def _note(self, membership: Membership, member: Member, error: Exception) -> None:
        if isinstance(error, RefusedError) and error.code == word_of(Refusal.SAME_NODE):
            with books.changing():  # this node listens now where that one did
                membership.attendance.replaced(member.node_id)
            return
        with books.changing():
            now, is_gone = time.monotonic(), _is_certainly_gone(member, self._home.host_id, error)
            is_crossed = _is_crossing(error)
            is_first = membership.attendance.fail(
                member.node_id, now, problem=str(error), is_gone=is_gone, is_crossed=is_crossed
            )
            presence.converse(membership)
        if is_first and self._is_open(membership) and not is_crossed:
            level = logging.INFO if has_gone(error) else logging.WARNING
            who = shown(member.name) or member.node_id.hex()[:8]
            text = "channel `%s`: member `%s` cannot be reached: %s"
            self._failures.say(level, text, membership.shown, who, error)


def _is_crossing(error: Exception) -> bool:
    """It has started a link itself, has not seen the end of the last one yet, or is about to end it."""
    if isinstance(error, RefusedError):
        return error.code == word_of(Refusal.DUPLICATE)
    return isinstance(error, ClosedError | PartedError)


def has_gone(error: BaseException) -> bool:
    """Whether a node that was to be linked to has left the channel, or is nowhere: it has just closed.

    Any other error is for somebody to look at: silence, another key.
    """
    if isinstance(error, RefusedError):
        return error.code in _REFUSALS_OF_WHO_HAS_LEFT
    return is_end(error.__cause__ if isinstance(error, LinkError) else error)


def is_end(error: BaseException | None) -> bool:
    """Whether it is what is left of a process."""
    return isinstance(error, _ENDS)


def _is_certainly_gone(member: Member, host_id: bytes, error: Exception) -> bool:
    """Whether a process of this host does not listen any more at the Unix socket that was its own alone."""
    refused = isinstance(error, LinkError) and isinstance(error.__cause__, ConnectionRefusedError)
    is_here = member.host_id == host_id and any(text.startswith("unix:") for text in member.addresses)
    left = isinstance(error, RefusedError) and error.code in _REFUSALS_OF_WHO_HAS_LEFT
    return left or (refused and is_here)
