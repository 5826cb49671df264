"""What components do so that a watchdog knows that they work: they answer its questions."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any, Self

from echo_core.errors import ChannelError, unexpected
from echo_core.events import event
from echo_core.handles.channels import Channel
from echo_core.handles.nodes import Node
from echo_core.values.backlog import Backlog

CHANNEL = "watchdog"  # by default

# Questions and answers that wait for who is held up are as good as none: the last ones will do.
LATEST = Backlog(events=16, when_full="drop_oldest")


@event
class Ping:
    """A watchdog asks all components whether they work."""

    number: int


@event
class Pong:
    """One of them does."""

    component: str
    number: int  # of the question
    pid: int


def join(channel: str) -> tuple[Node, Channel[Any]]:
    """With a node of its own: a component that drains has not to wait for questions, nor for answers."""
    node = Node()
    try:
        return node, node.channel(channel, Ping, Pong)
    except BaseException:
        node.close()
        raise


class Answering:
    """Answers a watchdog in a component's name, until it is closed.

    The thread that reads the link answers, so a process that is stopped, or in which nobody gets the
    interpreter's lock, does not. With `within_s` nor does one that has not called `beat` for so long.
    """

    def __init__(self, component: str, *, within_s: float | None = None, channel: str = CHANNEL) -> None:
        if not component:
            raise unexpected(ChannelError, "what the component is called", repr(component))
        if within_s is not None and not within_s > 0:
            raise unexpected(ChannelError, "a time above 0", repr(within_s))
        self._component, self._within_s = component, within_s
        self._beat_at = time.monotonic()
        self._node, joined = join(channel)
        self._answers = joined.source(Pong, name=component, backlog=LATEST)
        self._questions = joined.sink(Ping, self._answer)

    def _answer(self, ping: Ping) -> None:
        if self._within_s is None or time.monotonic() - self._beat_at <= self._within_s:
            self._answers.submit(Pong(self._component, ping.number, os.getpid()))

    def beat(self) -> None:
        """The component's own loop goes round. Costs next to nothing."""
        self._beat_at = time.monotonic()

    def close(self) -> None:
        """From here on a watchdog hears nothing; to do so before the end of the process is not needed."""
        self._node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def answer_watchdog(component: str, *, within_s: float | None = None, channel: str = CHANNEL) -> Answering:
    """Has this process answer the watchdog of this user on this host, whether there is one by now or not.

    Arguments:
        component: what the watchdog calls it.
        within_s: answer only while `beat` of what is returned was called in so many seconds: a component
            whose own loop hangs is started again, too.
        channel: the name of the watchdog's channel.

    Raises:
        ChannelError: an argument is wrong; and whatever `echo.channel` raises.

    >>> with echo.answer_watchdog("camera", within_s=5) as heart:
    ...     for picture in range(3):
    ...         heart.beat()
    """
    return Answering(component, within_s=within_s, channel=channel)
