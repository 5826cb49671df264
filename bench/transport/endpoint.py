"""What a transport under test has to do: one end of it in each process."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.transport.forms import Form


class Part(enum.Enum):
    """What a process does in a measurement. Ping and source are process 0."""

    PING = "ping"
    PONG = "pong"
    SOURCE = "source"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Role:
    """A process's part, its number, and how many receive what it sends."""

    part: Part
    index: int
    receivers: int

    @property
    def sends(self) -> bool:
        return self.part is not Part.SINK

    @property
    def receives(self) -> bool:
        return self.part is not Part.SOURCE


class End:
    """One process's end. Opened in two steps, so that addresses need not be known before."""

    calls_handlers = False
    """It calls `handle` for every event, and has no `receive`."""
    handle: Callable[[Any], object]
    send: Callable[[Any], object]
    receive: Callable[[], Any]

    def __init__(self, role: Role, form: Form) -> None:
        self.role = role
        self.form = form

    def offer(self) -> Any:
        """What the other processes need to find this one."""
        return None

    def join(self, offers: Sequence[Any]) -> None:
        """Connects to the others, whose offers are in the order of their numbers, and waits for them."""

    def flush(self) -> None:
        """Lets go of what is still held back."""

    def close(self) -> None:
        """Ends it, once every process is done."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A transport with one of its forms, by a name that a report and a command line can use."""

    transport: str
    form: str
    make: Callable[[int], Form]
    """The form for a batch of so many."""
    open: Callable[[Role, Form], End]
    launcher: tuple[str, ...] = ()
    """What starts its processes, if Python is not enough."""

    @property
    def name(self) -> str:
        return f"{self.transport}/{self.form.replace(' ', '-')}"

    @property
    def is_ours(self) -> bool:
        return self.transport.startswith("echo-")

    def is_meant_by(self, names: Sequence[str]) -> bool:
        """By its whole name, or by its transport's."""
        return self.name in names or self.transport in names
