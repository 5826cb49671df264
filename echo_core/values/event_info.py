"""Where an event is from: what is known of it beside what it says itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventInfo:
    """What `Sink.get_with_info` gives beside an event, and a handler of two parameters gets.

    `source` is the name of its source, which several may share; `source_id` is that of one alone: 32
    hexadecimal digits, which are `Source.id` there. `peer` says in words which process the source is in.
    `number` counts the source's events from 0, also those that came to nobody here; that of an array is its
    first record's. `is_kept`: it was submitted before the sink was there, and has been kept for it.
    `submitted_ns`: when, in ns since the epoch by the clock of the source's host, as `time.time_ns()` has it;
    that of an array is its first record's. None: the source does not tell, which `timestamps=True` has it do.
    """

    source: str
    source_id: str
    peer: str
    number: int
    is_kept: bool = False
    submitted_ns: int | None = None


class Describing:
    """Makes the infos of one source's events of their numbers; those from `kept_from` to before `kept_until`
    were kept."""

    __slots__ = ("_known", "kept_from", "kept_until", "source_id")

    def __init__(self, source: str, source_id: bytes, peer: str) -> None:
        self.source_id = source_id
        self._known = source, source_id.hex(), peer
        self.kept_from = self.kept_until = 0

    @property
    def source(self) -> str:
        """What the source is called."""
        return self._known[0]

    def __call__(self, number: int, submitted_ns: int | None = None) -> EventInfo:
        return EventInfo(*self._known, number, self.kept_from <= number < self.kept_until, submitted_ns)

    def kept(self, number: int, submitted_ns: int | None = None) -> EventInfo:
        """Of one that was kept for a sink beside others."""
        return EventInfo(*self._known, number, is_kept=True, submitted_ns=submitted_ns)
