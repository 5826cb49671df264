"""How much may wait, and what becomes of what no longer finds room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from echo_core._c import links
from echo_core.errors import ChannelError

WhenFull = Literal["pace", "block", "drop_oldest", "drop_newest", "error"]

_POLICIES: dict[str, int] = {
    "pace": links.PACE,
    "block": links.BLOCK,
    "drop_oldest": links.DROP_OLDEST,
    "drop_newest": links.DROP_NEWEST,
    "error": links.ERROR,
}
_TIMEOUTS_S = {"pace": 0.1, "block": 30.0}  # that are meant where none is given; others never wait
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The events that may wait at one place: at a source for each of its streams, before a thread for a sink.

    `when_full`: "pace" has whoever brings the next one wait while events go on being taken; once none has
    been for `timeout_s` (0.1 s), the oldest of those that wait is dropped, and so for each that comes until
    one is taken again. "block" has it wait for at most `timeout_s` (30 s), then raises BacklogError.
    "drop_oldest" of those that wait; "drop_newest", the one that comes; or "error": BacklogError. What is
    dropped is counted, and whoever receives sees the gap. Events of an array count one by one; an event or an
    array that is larger than the bound is taken where nothing else waits.
    """

    events: int = 100_000
    size_bytes: int = 64 * 1024 * 1024
    when_full: WhenFull = "pace"
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if self.events < 1 or self.size_bytes < 1:
            msg = f"Expected room for at least one event, got {self.events} events, {self.size_bytes} bytes"
            raise ChannelError(msg)
        if self.when_full not in _POLICIES:
            msg = f"Expected one of {', '.join(_POLICIES)}, got {self.when_full!r}"
            raise ChannelError(msg)
        if self.timeout_s is not None and not self.timeout_s >= 0:
            msg = f"Expected a time of at least 0, got {self.timeout_s!r}"
            raise ChannelError(msg)

    @property
    def policy(self) -> int:
        """The number by which `links` knows it."""
        return _POLICIES[self.when_full]

    @property
    def timeout_ns(self) -> int:
        """How long its policy waits; what is given, or what suits the policy."""
        timeout_s = self.timeout_s
        return nanoseconds(_TIMEOUTS_S.get(self.when_full, 0.0) if timeout_s is None else timeout_s)


def nanoseconds(seconds: float | None) -> int:
    """A time for `links`: none is for ever, which is -1; 30 years are the longest, as ticks have to fit."""
    if seconds is None:
        return -1
    if not seconds >= 0:
        msg = f"Expected a time of at least 0, got {seconds!r}"
        raise ChannelError(msg)
    return int(min(seconds, 1e9) * _NS_PER_S)
