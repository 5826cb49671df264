"""What components are told of a channel: notices for those who watch it, and the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from echo_core.dispatch.slowness import Slow
from echo_core.formats.comparing.compare import Report
from echo_core.formats.comparing.lookalikes import Lookalikes
from echo_core.roster.attendance import Unlinkable
from echo_core.roster.bookkeeping import books
from echo_core.streams.origins import Origin
from echo_core.streams.targets import Target
from echo_core.transports.fields import shown
from echo_core.transports.protocol.messages import Member
from echo_core.transports.threads import log
from echo_core.values.notices import (
    HERE,
    EventsLost,
    HandlerSlow,
    HeldTwice,
    LookalikeField,
    Notice,
    PeerJoined,
    PeerLeft,
    Unlinked,
    Unreachable,
)

_REMEDY = "each node needs an address that the other one can reach: Node(host=...)"

_MOST_NAMED = 3  # channels, in one line of the log
_MAX_LOOKALIKES = 64  # that are told; a peer may offer any number of formats
_MAX_UNDERIVABLE = 64  # of one peer that are told, and peers of which that is remembered

Watcher = Callable[[Notice], object]


class Announcements:
    """Of one channel in one node. Called with the books open; handlers run in a thread of their own."""

    __slots__ = ("_has_warned", "_joining", "_level", "_lookalikes", "_underivable", "_watchers")

    def __init__(self, *, is_derived: bool = False) -> None:
        """`is_derived`: from a channel that is here, too, whose log has who comes and goes."""
        self._level = logging.DEBUG if is_derived else logging.INFO
        self._watchers: list[Watcher] = []
        self._has_warned = False
        self._joining: list[str] = []  # processes, until the log may tell of them
        self._lookalikes: set[tuple[str, str]] = set()  # pairs of names that have been told
        self._underivable: dict[str, set[tuple[str, str]]] = {}  # sources and why, that were told of a peer

    def add(self, watcher: Watcher) -> None:
        """It is told of changes from now on."""
        self._watchers.append(watcher)

    def remove(self, watcher: Watcher) -> None:
        """What has happened by now is still told."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def tell(self, notice: Notice) -> None:
        for watcher in self._watchers:
            books.tell_later(partial(watcher, notice))

    def tell_joined(self, peer: str) -> None:
        """A process shares the channel with this one now. The log has it once the channel's name is known."""
        self._joining.append(peer)
        self.tell(PeerJoined(peer))

    def log_joined(self, channel: str) -> None:
        """What it is called is known, or will not be."""
        for peer in self._joining:
            log.log(self._level, "channel `%s`: joined by `%s`", shown(channel), peer)
        self._joining.clear()

    def tell_left(self, channel: str, peer: str, reason: str, *, is_logged: bool) -> None:
        """It does no longer; `reason` is empty where it said goodbye. `is_logged`: that its link is lost."""
        self.log_joined(channel)
        if not is_logged:
            why = reason or "it said goodbye"
            log.log(self._level, "channel `%s`: left by `%s`: %s", shown(channel), peer, why)
        self.tell(PeerLeft(peer, reason))

    def tell_drops_of(self, origin: Origin) -> None:
        """What sinks of this process have dropped since that was last told."""
        newly = origin.local.newly_dropped()
        if newly:
            self.tell(EventsLost(origin.peer, origin.name, newly))

    def tell_drops_at(self, channel: str, target: Target, said: str) -> None:
        """What a sink here drops because its queue is full; empty: there is nothing to say."""
        if said:
            cls = target.wanted.cls
            takes = "any events" if cls is None else f"`{cls.__qualname__}`"
            log.warning("channel `%s`: a sink of %s %s", channel, takes, said)

    def tell_unconfirmed(self, channel: str, peer: str, origin: Origin, events: int) -> None:
        """A link is lost, and with it perhaps events that had been sent."""
        said = "channel `%s`: source `%s` to %s: %d events were sent and not confirmed when the link was lost"
        log.warning(said, channel, origin.name, peer, events)
        self.tell(EventsLost(peer, origin.name, events, is_unconfirmed=True))

    def tell_unlinked(self, channel: str, found: Unlinkable) -> None:
        """A member that has to be linked to this node cannot be."""
        who = found.member.name or found.member.node_id.hex()[:8]
        log.warning("channel `%s`: no link to `%s`: %s; %s", channel, who, found.why, _REMEDY)
        self.tell(Unlinked(who, f"{found.why}; {_REMEDY}"))

    def tell_slow(self, channel: str, target: Target, slow: Slow) -> None:
        """A handler has been at work for long, or has returned at last."""
        peer, name = target.peer_of(slow.delivery) or HERE, target.handler.name
        repeats = target.handler.slow_calls
        if slow.has_returned:
            if repeats.was_logged:
                said = "channel `%s`: handler `%s` has returned after about %.1f s"
                log.warning(said, channel, name, slow.seconds)
            return
        said = "channel `%s`: handler `%s` has been at work for %.1f s on an event of %s"
        repeats.say(logging.WARNING, said, channel, name, slow.seconds, peer)
        self.tell(HandlerSlow(peer, name, slow.seconds))

    def tell_held_twice(self, channel: str, own: Member, rival: Member, *, gives_way: bool) -> None:
        """Another node holds the channel, as this one has done until now."""
        outcome = "gives way to it, and goes on as a member" if gives_way else "goes on holding it"
        told = "channel `%s`: held by two nodes, %s and this one, %s, which %s"
        log.warning(told, shown(channel), in_words(rival), in_words(own), outcome)
        self.tell(HeldTwice(in_words(rival), gives_way))

    def tell_unreachable(self, channel: str, peer: str, source: str, problem: Report | Exception) -> None:
        """A sink here cannot take a source's events. A peer may offer many: only the first is a warning."""
        level = logging.DEBUG if self._has_warned else logging.WARNING
        self._has_warned = True
        if not isinstance(problem, Report):
            told = "channel `%s`: a sink cannot take events of `%s` from %s: %s"
            log.log(level, told, channel, source, peer, problem)
            self.tell(Unreachable(peer, source, str(problem)))
            return
        log.log(level, "channel `%s`: a sink cannot take events of %s\n%s", channel, peer, problem)
        if self._watchers:  # the text of a long report takes its time
            self.tell(Unreachable(peer, source, str(problem), problem))

    def tell_underivable(self, channel: str, peer: str, source: str, text: str) -> None:
        """A source has nothing on a derived channel; told once on each side, however often it is said."""
        told = self._underivable.pop(peer, set())
        if len(self._underivable) >= _MAX_UNDERIVABLE:  # who was heard of last is the last
            del self._underivable[next(iter(self._underivable))]
        self._underivable[peer] = told
        if (source, text) not in told and len(told) < _MAX_UNDERIVABLE:
            told.add((source, text))
            said = "channel `%s`: source `%s` of %s has nothing derived: %s"
            log.warning(said, channel, source, peer, _indented(text))
            self.tell(Unreachable(peer, source, text))

    def tell_lookalike_fields(self, channel: str, peer: str, source: str, report: Report) -> None:
        """A sink here defaults fields while a source has similar ones, which are ignored; each told once."""
        for entry in report.lookalikes:
            if self._is_news(entry.path, entry.lookalike):
                told = "channel `%s`: `%s` takes its default: `%s` of %s has `%s` instead, which is ignored"
                log.warning(told, channel, entry.path, source, peer, entry.lookalike)
                self.tell(LookalikeField(peer, source, entry.path, entry.lookalike, report))

    def tell_lookalike_types(self, channel: str, peer: str, source: str, sent: str, wanted: str) -> None:
        """A sink here takes nothing of a source, whose type has a similar name; told once."""
        if Lookalikes([sent]).of(wanted) and self._is_news(wanted, sent):
            told = "channel `%s`: a sink of `%s` takes nothing of `%s` of %s, whose events are called `%s`"
            log.warning(told, channel, wanted, source, peer, sent)

    def _is_news(self, ours: str, theirs: str) -> bool:
        is_news = (ours, theirs) not in self._lookalikes and len(self._lookalikes) < _MAX_LOOKALIKES
        self._lookalikes |= {(ours, theirs)} if is_news else set()
        return is_news

    def tell_unreachable_elsewhere(
        self, channel: str, peer: str, source: str, text: str, *, is_first: bool
    ) -> None:
        """A sink elsewhere cannot take a source's events; a peer may say so as often as it likes."""
        level = logging.WARNING if is_first else logging.DEBUG
        told = "channel `%s`: a sink of %s cannot take events of `%s`\n    %s"
        log.log(level, told, channel, peer, source, _indented(text))
        self.tell(Unreachable(peer, source, text))


def _indented(text: str) -> str:
    """Of a peer's lines none could be one of the log."""
    return text.replace("\n", "\n    ")


def log_lost(peer: str, channels: Sequence[str], reason: str) -> None:
    """A link is lost, and with it a process on these channels: one line for all of them."""
    names = [f"`{shown(channel)}`" for channel in channels[:_MOST_NAMED]]
    names += [f"{len(channels) - _MOST_NAMED} others"] if len(channels) > _MOST_NAMED else []
    carried = f" (it carried channel {', '.join(names)})" if names else ""
    log.warning("link to %s lost: %s%s", peer, reason, carried)


def in_words(member: Member) -> str:
    """Who it is, and where."""
    who = shown(member.name) or member.node_id.hex()[:8]
    return f"`{who}` at {', '.join(map(shown, member.addresses)) or 'no address that this host can reach'}"
