"""Places: by which transports a node may be reached and reach others, and what it lets them cost it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from echo_core.errors import ChannelError, unexpected
from echo_core.transports import limits
from echo_core.transports.addresses import Address, TcpAddress, UnixAddress
from echo_core.values.waits import DEFAULT_WAIT_S

Transport = Literal["process", "shm", "unix", "tcp"]
ALL_TRANSPORTS: tuple[Transport, ...] = get_args(Transport)

_MAX_PAYLOAD_BYTES = 2**31 - 1  # that a link takes
_MAX_WINDOW = 2**62  # that credit is counted with
_LEAST_STALL_S = 1e-9  # it counts nanoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a node lets others cost it.

    `payload_bytes` bounds one event that is received, and all that one frame brings; `event_objects` how many
    Python objects it may become (a sink refuses it otherwise); `delay_s` how long events are held back to be
    sent together while a link is busy; a peer that reads nothing for `stall_s` while something waits for it
    loses its link, and so does a host that has vanished. `window_events` and `window_bytes` bound what one
    source may have under way to here before sinks have finished with some of it. `connect_s` is the time for
    linking to another process, `links` the number of processes that may link to this one. A member of a
    channel that is lost without a goodbye is looked for during `forget_s`.
    """

    payload_bytes: int = limits.DEFAULT_PAYLOAD_BYTES
    event_objects: int = limits.DEFAULT_EVENT_OBJECTS
    delay_s: float = 100e-6
    stall_s: float = 30.0
    connect_s: float = DEFAULT_WAIT_S
    links: int = 1024
    forget_s: float = 600.0
    window_events: int = 262_144
    window_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        least, most = limits.MIN_PAYLOAD_BYTES, _MAX_PAYLOAD_BYTES
        if not least <= self.payload_bytes <= most:
            raise unexpected(ChannelError, f"payload_bytes from {least} to {most}", self.payload_bytes)
        if self.event_objects < 0:
            raise unexpected(ChannelError, "event_objects from 0 on", self.event_objects)
        if not self.stall_s >= _LEAST_STALL_S:
            raise unexpected(ChannelError, "stall_s above 0", f"{self.stall_s!r}")
        if not (1 <= self.window_events <= _MAX_WINDOW and 1 <= self.window_bytes <= _MAX_WINDOW):
            raise unexpected(ChannelError, "window_events and window_bytes from 1 to 2**62", f"{self!r}")
        if not (self.delay_s >= 0 and self.connect_s >= 0 and self.links >= 0 and self.forget_s >= 0):
            raise unexpected(ChannelError, "delay_s, connect_s, links and forget_s from 0 on", f"{self!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How a node may be reached, and reach others."""

    transports: tuple[Transport, ...]
    listens_at: TcpAddress
    advertised_host: str
    spin_ns: int

    @property
    def shares_memory(self) -> bool:
        return "shm" in self.transports

    @property
    def is_local(self) -> bool:
        return self.shares_memory or "unix" in self.transports

    @property
    def is_exposed(self) -> bool:
        """Whether other hosts can reach it."""
        return "tcp" in self.transports and not self.listens_at.is_loopback


def checked(transports: Sequence[str]) -> tuple[Any, ...]:
    """Names of transports; ChannelError for any other."""
    unknown = [transport for transport in transports if transport not in ALL_TRANSPORTS]
    if unknown or not transports or isinstance(transports, str):
        raise unexpected(ChannelError, f"transports out of {', '.join(ALL_TRANSPORTS)}", f"{transports!r}")
    return tuple(transports)


def reachable(addresses: Sequence[Address], ways: Sequence[Transport]) -> list[Address]:
    """The addresses that may be used, the best ones first."""
    is_local = "shm" in ways or "unix" in ways
    unix = [address for address in addresses if isinstance(address, UnixAddress) and is_local]
    tcp = [address for address in addresses if isinstance(address, TcpAddress) and "tcp" in ways]
    return [*unix, *tcp]
