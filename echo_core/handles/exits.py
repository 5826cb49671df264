"""Exits: the nodes of a process are closed when it ends, and let go of in the children that it forks."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING

from echo_core.roster.bookkeeping import books
from echo_core.roster.together import forget_all

if TYPE_CHECKING:
    from echo_core.handles.nodes import Node

# In a child of multiprocessing. Below 0: its own children have ended. Above -5: its queues still send.
_EXIT_PRIORITY = -1
_TELLING_S = 1.0  # for components that are told of the end

_nodes: weakref.WeakSet[Node] = weakref.WeakSet()


def add(node: Node) -> None:
    """It is closed at the end of the process, if it is still there."""
    _nodes.add(node)
    _close_with_multiprocessing()


def close_all() -> None:
    """As an exit does; what is queued gets its time, and so do those who are told."""
    for node in list(_nodes):
        with contextlib.suppress(Exception):
            node.close()
    books.settle(_TELLING_S)


_is_multiprocessing_told = False


def _close_with_multiprocessing() -> None:
    """Its children end without `atexit`, but for those that it spawns; it has a list of its own.

    That is emptied when a child begins, which then calls what was registered to be called after a fork. Who
    has not loaded it is no child of its, and need not load it.
    """
    global _is_multiprocessing_told
    if _is_multiprocessing_told or "multiprocessing.util" not in sys.modules:
        return
    from multiprocessing import util

    _is_multiprocessing_told = True  # a forked child inherits what is registered
    util.register_after_fork(close_all, _finalize)
    _finalize(close_all)


def _finalize(_: object) -> None:
    from multiprocessing import process, util

    if process.parent_process() is not None:  # others go by `atexit`, in its order
        util.Finalize(None, _close_unless_used, exitpriority=_EXIT_PRIORITY)


def _close_unless_used() -> None:
    """Threads that an exit waits for may go on to submit: multiprocessing calls this before that."""
    here = threading.current_thread()
    if all(thread.daemon or thread is here for thread in threading.enumerate()):
        close_all()


def _abandon_all() -> None:
    """In a forked child: nodes are the parent's."""
    forget_all()
    for node in list(_nodes):
        node._abandon()  # pyright: ignore[reportPrivateUsage] - for this module alone
    _nodes.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_abandon_all)
