"""The Python processes of a Spark on this machine, which wait for more work until their session is over.

Spark closes the sockets of those that wait, and then has their daemon end them. Those that are faster print
that their socket is closed, each with a traceback, or with a part of one. So they are ended first, in the
same way.

Linux only; elsewhere Spark does as it does.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

_DAEMON = b"pyspark.daemon"
_END_S = 10.0  # for a daemon that is asked to end


def end_workers(jvm: int) -> None:
    """End the daemons that a JVM has started, which end their workers; returns when all of them are told."""
    for pid in daemons_of(jvm):
        with suppress(OSError):  # it has ended by itself
            _end(pid)


def daemons_of(jvm: int) -> list[int]:
    """Those that are alive: one for each kind of work that there was."""
    with suppress(OSError):
        return [pid for pid in _children(jvm) if _DAEMON in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return []


def _children(pid: int) -> list[int]:
    """A child belongs to the thread that has started it."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has ended
            found += map(int, (task / "children").read_text().split())
    return found


def _end(pid: int) -> None:
    """A daemon that is asked to hangs up on its workers before it ends itself."""
    daemon = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(daemon, signal.SIGTERM)
        select.select([daemon], [], [], _END_S)
    finally:
        os.close(daemon)
