"""The descriptor of a queue after a fork: parent and child share none."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from echo_core._c.links import Queue
from tests.forks import forks
from tests.native.queues import queue

pytestmark = forks


def is_readable(it: Queue) -> bool:
    return bool(select.select([it.fileno()], [], [], 0)[0])


def succeeds_in_child(action: Callable[[], bool]) -> bool:
    """The child's answer, after which it is gone."""
    process = os.fork()
    if process == 0:
        try:
            os._exit(0 if action() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def close_or_put(it: Queue) -> bool:
    it.put(1)
    it.close()
    return True


def take(it: Queue) -> bool:
    return bool(it.get(0) == 0)


def test_what_a_child_puts_is_not_shown_to_its_parent() -> None:
    it = queue()
    assert not is_readable(it)
    assert succeeds_in_child(lambda: close_or_put(it))
    assert not is_readable(it)


def test_what_a_child_takes_is_still_shown_to_its_parent() -> None:
    it = queue()
    it.put(0)
    assert is_readable(it)
    assert succeeds_in_child(lambda: take(it))
    assert is_readable(it)
    assert it.get(0) == 0
    assert not is_readable(it)


def test_child_that_asks_has_a_descriptor_of_its_own() -> None:
    it = queue()
    it.put(0)
    assert is_readable(it)

    def follows_its_queue() -> bool:
        before = is_readable(it)
        return before and take(it) and not is_readable(it) and close_or_put(it) and is_readable(it)

    assert succeeds_in_child(follows_its_queue)
    assert is_readable(it)
