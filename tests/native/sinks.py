"""Events of every kind of class, and what tests of links want to know of a sink."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import echo_core as echo
from echo_core._c.links import Delivery, Outlet


@dataclass
class Plain:
    id: int
    x: float
    tag: echo.Chars[8]


@dataclass(slots=True)
class Slotted:
    id: int
    x: float
    tag: echo.Chars[8]


@echo.event
class Native:
    id: int
    x: float
    tag: echo.Chars[8]


@echo.event
class NativeParts:
    id: int
    name: str
    tags: list[str]


@dataclass(slots=True)
class SlottedParts:
    id: int
    name: str
    tags: list[str]


EVENTS: tuple[Any, ...] = (
    Plain(1, 0.5, "a"),
    Slotted(2, 1.5, "b"),
    Native(3, 2.5, "c"),
    NativeParts(4, "näme", ["one", "two"]),
    SlottedParts(5, "", []),
    NativeParts(6, "n" * 3000, ["t"] * 300),
    SlottedParts(7, "n" * 3000, ["t"] * 300),
)


def class_of(event: Any) -> type[Any]:
    """As type checkers are content with."""
    cls: type[Any] = event.__class__
    return cls


event_names = [f"{type(event).__name__}{event.id}" for event in EVENTS]


def record_size(codec: echo.Codec[Any]) -> int:
    """Of what it encodes; 0 where records vary."""
    return codec.format.size_bytes if codec.format.is_fixed else 0


@dataclass
class Sink:
    """A handler that keeps what it is given, and the errors that are reported."""

    events: list[Any] = field(default_factory=list[Any])
    errors: list[BaseException] = field(default_factory=list[BaseException])

    def __call__(self, event: Any) -> None:
        self.events.append(event)

    def on_error(self, error: BaseException) -> None:
        """What is no Exception it leaves to the thread."""
        if isinstance(error, Exception):
            self.errors.append(error)


def outlet_of(codec: echo.Codec[Any], cls: type[Any]) -> Outlet:
    return Outlet(cls, codec.encode, record_size=record_size(codec))


def deliver(sink: Any, codec: echo.Codec[Any], **options: Any) -> Delivery:
    return Delivery(sink, codec.decode, sink.on_error, record_size=record_size(codec), **options)
