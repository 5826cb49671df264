"""Outgoing streams: the way of one source's events over one link, at the source's end."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Self

from echo_core._c import links
from echo_core.errors import ClosedError
from echo_core.streams.conversations import Conversation
from echo_core.streams.flow import Counts, Flow
from echo_core.streams.origins import Origin
from echo_core.streams.stages import Stages
from echo_core.transports.fields import shown
from echo_core.transports.protocol.link_state import OwnStream
from echo_core.transports.protocol.messages import Ack, Handled, Missed
from echo_core.transports.threads import log


class OutgoingStream(links.OutgoingStream):
    """Offered when the source is opened or the peer joins; flows while the peer has sinks for it.

    Its C half has the backlog and the policy. `told` is what the link's protocol remembers of it.
    """

    __slots__ = (
        "_flow",
        "_flushed_at",
        "conversation",
        "has_ended",
        "is_flowing",
        "origin",
        "stages",
        "told",
        "told_filtered",
        "was_cut",
    )

    def __new__(cls, origin: Origin, conversation: Conversation, told: OwnStream) -> Self:
        backlog = origin.backlog
        return super().__new__(
            cls,
            conversation.link,
            told.number,
            f"source `{origin.name}` to {conversation.name}",
            origin.outlet,
            max_events=backlog.events,
            max_bytes=backlog.size_bytes,
            policy=backlog.policy,
            timeout_ns=backlog.timeout_ns,
            delay_ns=origin.delay_ns,
            max_payload=conversation.max_payload,
        )

    def __init__(self, origin: Origin, conversation: Conversation, told: OwnStream) -> None:
        self.origin = origin
        self.conversation = conversation
        self.told = told
        self.stages: Stages = ()
        self.is_flowing = False
        self.has_ended = False
        self.was_cut = False  # it has ended with its link
        self.told_filtered = 0  # events that did not pass, of a derived source, as the peer knows
        self._flow = Flow()
        self._flushed_at = 0  # events of the source up to which all are known to have arrived by this stream

    def attached(self, sinks: int, first: int, limit_events: int, limit_bytes: int) -> None:
        """The peer has so many sinks for it now, which take so much in all before more is granted.

        `first`: the number from which on they want what is kept.
        """
        self.grant(limit_events, limit_bytes)
        self.origin.forget_unreachable(self.link)
        has_begun = self in self.origin.streams
        if sinks > 0 and not self.is_flowing:
            self._begin(first)
        elif sinks == 0:
            self.origin.pause(self)
            if self.origin.receipts is not None:
                self.origin.receipts.leave(self)
        self.is_flowing = sinks > 0
        if has_begun or sinks > 0:
            self.origin.set_remote_sinks(self, sinks)

    def _begin(self, first: int) -> None:
        """Events flow from here on, right behind those that are kept."""
        with suppress(ClosedError):  # the source is closed by now
            self._flushed_at, kept = self.origin.begin(self, first)
            self.origin.kept += kept
            self._track(self._flushed_at, kept)

    def track(self) -> None:
        """The source has begun to ask who has its events: also of sinks that were there before."""
        if self.is_flowing:
            self._track(self.origin.outlet.sequence, 0)

    def _track(self, started: int, kept: int) -> None:
        if self.origin.receipts is not None:
            who = self.conversation
            self.origin.receipts.enter(self, who.name, who.node_id, started, kept)

    def ask(self, number: int, first: int) -> None:
        """What has become of all events by now, of those from number `first` on?"""
        self.conversation.command(
            partial(self.conversation.protocol.ask, self.told, number, first), behind=self
        )

    def hear_answer(self, said: Ack | Missed | Handled) -> None:
        """How far the peer's sinks have come, or what they do not have."""
        if self.origin.receipts is not None:
            self.origin.receipts.hear(self, said)

    def ask_flush(self) -> int | None:
        """The number of a flush that the peer has been asked for; None: there is nothing to wait for."""
        if self.has_ended or not self.is_flowing or self.conversation.is_over:
            return None
        number = self.conversation.protocol.flush()
        self.conversation.unanswered.add(number)
        self.conversation.send(behind=self)
        return number

    def events_under_way(self, sequence: int) -> int:
        """Of the events up to that number, how many are not known to have arrived."""
        return max(0, sequence - self._flushed_at)

    def note_flushed(self, sequence: int) -> None:
        """The peer has handed over all events up to that number."""
        self._flushed_at = max(self._flushed_at, sequence)

    def look(self, now: float) -> bool:
        """Logs where it drops events or stands still, and what has become of that. False: look again."""
        queued, confirmed, sent = self.queued_events, self.confirmed, self.sent  # in this order: they go on
        for said in self._flow.look(now, Counts(queued, sent - confirmed, sent + confirmed, self.dropped)):
            self._warn(said)
        return queued == 0 and sent == confirmed

    def _warn(self, said: str) -> None:
        words = shown(self.origin.channel), self.origin.name, self.conversation.name, said
        log.warning("channel `%s`: source `%s` to %s %s", *words)

    def withdraw(self) -> None:
        """The source is closed: the peer hears so behind its last event."""
        if self.origin.receipts is not None:
            self.origin.receipts.ask_last(self)
        self.close()  # first: the stream's number may be another's behind CLOSED
        self.conversation.command(partial(self.conversation.protocol.close, self.told), behind=self)

    def end(self) -> int:
        """No more events go this way but those that are queued: the channel is left, or the link is over.

        Returns how many were under way when the link was lost.
        """
        self.has_ended, self.was_cut = True, self.conversation.is_over
        self.told.owner = None  # else the two would refer to each other, and keep the link
        has_begun = self in self.origin.streams
        if self.conversation.is_lost and has_begun and self.origin.outlet.sequence > self._flushed_at:
            self.origin.loss = f"at {self.conversation.name}: {self.conversation.farewell}"
        self.close()
        self.give_up()
        if said := self._flow.finish(self.dropped):
            self._warn(said)
        self.origin.remove(self)
        if self.origin.receipts is not None:
            reason = self.conversation.farewell or "it has left the channel, or this node has"
            self.origin.receipts.end(self, reason, is_lost=self.conversation.is_lost)
        # The origin keeps the stream while events are queued. Nobody looks after that of a closed channel, so
        # that the two would refer to each other, and keep the link.
        del self.origin
        return self.unconfirmed if self.conversation.is_lost else 0
