"""Our ways to encode a message with variable parts, and what every other way is checked by.

It needs nothing but the public names of `echo_core`, so it also measures other commits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import echo_core as echo
from bench.workload import Message

Function = Callable[[Any], Any]

OURS = ("@echo.event", "dataclass", "@echo.event, as received")


@dataclass(slots=True)
class SlotsMessage:
    """The same as a plain dataclass with the event's own types."""

    id: int
    name: str
    values: echo.Array[echo.Float64, ...]
    tags: list[str]


@dataclass(frozen=True, slots=True)
class MessageCodec:
    """A way from a message to bytes and back to something with the same fields."""

    name: str
    made: Callable[[Message], Any]
    encode: Function
    decode: Function

    def check(self, message: Message) -> None:
        """Every value comes back, as what it was."""
        back = self.decode(self.encode(self.made(message)))
        assert (back.id, back.name, list(back.tags)) == (message.id, message.name, message.tags)
        assert back.values.dtype == np.float64
        assert back.values.tolist() == message.values.tolist()

    def decode_and_read(self, data: Any) -> object:
        """Some make their values when they decode, and some when a field is read."""
        event = self.decode(data)
        return event.id, event.name, event.values, event.tags


def message() -> Message:
    """What everyone encodes."""
    return Message(7, "a name of some length", np.arange(10.0), ["one", "two"])


def our_messages() -> list[MessageCodec]:
    event = echo.codec(Message, tier="compiled")
    dataclass_ = _fastest(SlotsMessage)

    def slots(it: Message) -> Any:
        return SlotsMessage(it.id, it.name, it.values, it.tags)

    def made_here(it: Message) -> Any:
        return Message(it.id, it.name, it.values, it.tags)

    def received(it: Message) -> Any:
        return event.decode(event.encode(it))

    return [
        MessageCodec(OURS[0], made_here, event.encode, event.decode),
        MessageCodec(OURS[1], slots, dataclass_.encode, dataclass_.decode),
        MessageCodec(OURS[2], received, event.encode, event.decode),
    ]


def _fastest(cls: type[Any]) -> echo.Codec[Any]:
    """Compiled, where code can be made for a class."""
    try:
        return echo.codec(cls, tier="compiled")
    except echo.CompileError:
        return echo.codec(cls, tier="interpreted")
