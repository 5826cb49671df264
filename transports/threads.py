"""The library's own threads. They run callbacks of components: handlers, hooks, notices."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Generator

log = logging.getLogger("echo_core")


class OwnThread(threading.Thread):
    """A daemon thread of the library: process exit does not wait for it."""

    def __init__(self, target: Callable[[], object], name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)


def is_ending() -> bool:
    """Whether the interpreter is on its way out: from Python 3.12 on it starts no thread any more."""
    return not threading.main_thread().is_alive()


def is_failure(error: BaseException) -> bool:
    """Whether to report an exception of a callback as a failure, instead of letting it propagate.

    In a thread of the library every exception is a failure, even SystemExit: ending the thread would stop
    other components' events, and no signal is delivered there. In a component's own thread SystemExit and
    KeyboardInterrupt propagate. That includes a library thread that forked, which is the child's main thread.
    """
    thread = threading.current_thread()
    is_own = isinstance(thread, OwnThread) and thread is not threading.main_thread()
    return is_own or isinstance(error, Exception)


@contextlib.contextmanager
def failures_logged(said: str, *words: object) -> Generator[None]:
    """What a callback raises is logged if it is a failure, and whoever has called it goes on."""
    try:
        yield
    except BaseException as error:
        if not is_failure(error):
            raise
        log.exception(said, *words)
