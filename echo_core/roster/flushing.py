"""Waiting until what sources have submitted has arrived in all other processes, and saying what has not.

All processes are asked at once: one that does not answer costs the others no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from echo_core.errors import LinkError
from echo_core.roster.bookkeeping import books
from echo_core.streams.origins import Origin
from echo_core.streams.outgoing import OutgoingStream
from echo_core.values.waits import Wait, Waits


def flushing(origins: Sequence[Origin], streams: Iterable[OutgoingStream]) -> Waits:
    """It is over when every process has handed over all that the sources had submitted by now.

    `streams`: of these sources. LinkError, behind the wait: links were lost since the last flush, with events
    that may not have arrived.
    """
    asked: list[_Flush] = []
    try:
        with books.changing():
            for stream in streams:
                if not stream.has_ended:  # since they were looked up
                    asked.append(_Flush(stream))  # noqa: PERF401 - an interrupt leaves no flush behind
        yield Wait(lambda: all(flush.is_over for flush in asked), lambda: _awaited(asked))
        with books.changing():
            _settle(origins, asked)
    finally:
        with books.changing():
            for flush in asked:
                flush.forget()


class _Flush:
    """One of a stream. Called with the books open, but `is_over`, which only looks."""

    __slots__ = ("_conversation", "_number", "_origin", "_sequence", "_stream")

    def __init__(self, stream: OutgoingStream) -> None:
        self._stream = stream
        self._origin = stream.origin
        self._conversation = stream.conversation
        self._sequence = stream.origin.outlet.sequence
        self._number = stream.ask_flush()

    @property
    def is_answered(self) -> bool:
        """Also where nobody had to be asked."""
        return self._number is None or self._number not in self._conversation.unanswered

    @property
    def is_over(self) -> bool:
        """Answered; or whoever would answer has left, and needs no more."""
        return self.is_answered or self._stream.has_ended

    def awaited(self) -> str:
        events = self._stream.events_under_way(self._sequence)
        what = "1 event" if events == 1 else f"{events} events"
        return f"from {self._conversation.name} for {what} of `{self._origin.name}`"

    def settle(self) -> LinkError | None:
        """What is known when it is over."""
        if self.is_answered:
            self._stream.note_flushed(self._sequence)
        return self._conversation.lost() if not self.is_answered and self._stream.was_cut else None

    def forget(self) -> None:
        if self._number is not None:
            self._conversation.unanswered.discard(self._number)


def _awaited(asked: Sequence[_Flush]) -> str:
    return "an answer " + ", and ".join(flush.awaited() for flush in asked if not flush.is_over)


def _settle(origins: Sequence[Origin], asked: Sequence[_Flush]) -> None:
    said = [str(lost) for flush in asked if (lost := flush.settle()) is not None]
    losses = [(origin, origin.take_loss()) for origin in origins]
    if not said:  # else it is the same loss
        said = [
            f"Expected all events of `{origin.name}` to arrive, some are not known to have arrived {loss}"
            for origin, loss in losses
            if loss
        ]
    if said:
        raise LinkError("; ".join(said))
