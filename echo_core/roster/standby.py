"""The threads that stand by: they read links.

One of a process waits for all links on which nothing happens, and for readers that are held up by a handler.
It reads the link that it is told of, and another thread takes its place: one that is done with its own link
or handler, or else a new one. So a process has as many threads as it has busy links, and a few more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial

from echo_core._c import links
from echo_core.transports.threads import OwnThread, failures_logged, is_ending, log

_NAME = "echo-standby"

_attended: set[links.Link] = set()  # so that none goes before its end was followed


def attend(link: links.Link, name: str, read: Callable[[], object]) -> None:
    """From here on a thread called `name` calls `read` when something has come and nobody reads the link.

    Also where the one that does is held up. RuntimeError: there is no such thread, and none can be started.
    """
    _attended.add(link)
    link.rest(partial(_read_as, name, read))
    if links.wants_standby():
        _start()


def forget(link: links.Link) -> None:
    """The link is over."""
    _attended.discard(link)


def stand_by() -> None:
    """Sees to it that a thread stands by. Without one nobody reads links that rest, or overtakes handlers."""
    if not links.wants_standby():
        return
    try:
        _start()
    except RuntimeError as error:
        if not is_ending():
            log.error("no thread that stands by, to read links and go on where a handler is slow: %s", error)


def _start() -> None:
    OwnThread(_stand_by, _NAME).start()


def _stand_by() -> None:
    while (read := links.stand_by()) is not None:
        stand_by()  # first: from here on this thread reads
        read()
        del read  # this may stand by for long


def _read_as(name: str, read: Callable[[], object]) -> None:
    """In the thread that was called for it."""
    thread = threading.current_thread()
    before, thread.name = thread.name, name
    with failures_logged("a link that a thread stood by for"):
        read()
    thread.name = before


os.register_at_fork(after_in_child=_attended.clear)  # links and threads are the parent's
