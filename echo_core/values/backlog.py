"""How much may wait, and what becomes of what no longer finds room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from echo_core._c import links
from echo_core.errors import ChannelError

WhenFull = Literal["block", "drop_oldest", "drop_newest", "error"]

_POLICIES: dict[str, int] = {
    "block": links.BLOCK,
    "drop_oldest": links.DROP_OLDEST,
    "drop_newest": links.DROP_NEWEST,
    "error": links.ERROR,
}
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The events that may wait at one place: before a link for a source, before a thread for a sink.

    `when_full`: "block" whoever brings the next one, for at most `timeout_s`; "drop_oldest" of those that
    wait; "drop_newest", the one that comes; or "error": BacklogError. What is dropped is counted, and whoever
    receives sees the gap. Events of an array count one by one; an event or an array that is larger than the
    bound is taken where nothing else waits.
    """

    events: int = 100_000
    size_bytes: int = 64 * 1024 * 1024
    when_full: WhenFull = "block"
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if self.events < 1 or self.size_bytes < 1:
            msg = f"Expected room for at least one event, got {self.events} events, {self.size_bytes} bytes"
            raise ChannelError(msg)
        if self.when_full not in _POLICIES:
            msg = f"Expected one of {', '.join(_POLICIES)}, got {self.when_full!r}"
            raise ChannelError(msg)
        if not self.timeout_s >= 0:
            msg = f"Expected a time of at least 0, got {self.timeout_s!r}"
            raise ChannelError(msg)

    @property
    def policy(self) -> int:
        """The number by which `links` knows it."""
        return _POLICIES[self.when_full]

    @property
    def timeout_ns(self) -> int:
        return nanoseconds(self.timeout_s)


def nanoseconds(seconds: float | None) -> int:
    """A time for `links`: none is for ever, which is -1; 30 years are the longest, as ticks have to fit."""
    if seconds is None:
        return -1
    if not seconds >= 0:
        msg = f"Expected a time of at least 0, got {seconds!r}"
        raise ChannelError(msg)
    return int(min(seconds, 1e9) * _NS_PER_S)
