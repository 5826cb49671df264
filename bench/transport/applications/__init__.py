"""Applications as somebody writes them who has tuned nothing: two processes on one host, no options.

Each module has one application, in our words and in a peer's. Who sends goes on for so many seconds, then
says that this was the last one and waits until it has left; who receives looks at what it gets.
"""

from __future__ import annotations

from dataclasses import dataclass

WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Sent:
    """What a sender has done: when it began, how many messages, and the processor time of all its threads."""

    began_ns: int
    count: int
    cpu_ns: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What a receiver has got: when the last one came, and how many."""

    ended_ns: int
    count: int


def demand(is_right: bool, what: str) -> None:
    """A fast wrong answer is a failure."""
    if not is_right:
        msg = f"Expected {what} as it was sent"
        raise ValueError(msg)
