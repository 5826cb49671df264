"""The library's own threads, where components' code runs that nobody has called: handlers, hooks, notices."""

from __future__ import annotations

import threading
from collections.abc import Callable


class OwnThread(threading.Thread):
    """One of them. No exit of a process waits for it."""

    def __init__(self, target: Callable[[], object], name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)


def is_failure(error: BaseException) -> bool:
    """Whether what components' code has raised is to be reported, and nothing more; else it is the thread's.

    In a thread of the library all is: whoever exits there would end what others have in it, and no signal
    comes there. A thread that has been forked is a component's: it is the main one of its process.
    """
    thread = threading.current_thread()
    is_own = isinstance(thread, OwnThread) and thread is not threading.main_thread()
    return is_own or isinstance(error, Exception)
