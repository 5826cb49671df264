"""The thread that stands by: it goes on reading a link whose reader is held up by a handler.

There is one in each process that has links. When it becomes a link's reader, another one takes its place: one
that was overtaken itself and is done with its handler, or else a new one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial

from echo_core._c import links
from echo_core.transports.threads import OwnThread, failures_logged, is_ending, log

_NAME = "echo-standby"

_successors: dict[
    links.Link, tuple[str, Callable[[], object]]
] = {}  # what goes on reading, and who it is then


def watch(link: links.Link, name: str, read_on: Callable[[], object]) -> None:
    """From here on a thread called `name` calls `read_on` where the one that reads the link is held up."""
    _successors[link] = name, read_on
    stand_by()


def begin(name: str, read: Callable[[], bool]) -> None:
    """A thread called `name` reads a link. `read`: False once another one reads on; then it stands by."""
    once = [read]  # what it refers to goes with the link
    OwnThread(partial(_read, once), name).start()


def _read(once: list[Callable[[], bool]]) -> None:
    is_over = once.pop()()
    if is_over:
        stand_by()  # where there was no thread for that until now
    else:
        _stand_by()


def forget(link: links.Link) -> None:
    """The link is over."""
    _successors.pop(link, None)


def stand_by() -> None:
    """Sees to it that a thread stands by. Without one, a slow handler holds up what comes behind it."""
    if not links.wants_standby():
        return
    try:
        OwnThread(_stand_by, _NAME).start()
    except RuntimeError as error:
        if not is_ending():
            log.error("no thread to read on while a handler is slow: %s", error)


def _stand_by() -> None:
    threading.current_thread().name = _NAME
    while (link := links.stand_by()) is not None:
        stand_by()  # first: from here on this thread reads
        successor = _successors.get(link)
        if successor is not None:
            threading.current_thread().name, read_on = successor
            with failures_logged("a link that a slow handler had held up"):
                read_on()
            del read_on
            threading.current_thread().name = _NAME
        del link, successor  # this may stand by for long


os.register_at_fork(after_in_child=_successors.clear)  # links and threads are the parent's
