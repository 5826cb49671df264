"""Queues against a model: whatever is put and got, in whatever order, one event or many in an item."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from echo_core._c.links import BLOCK, DROP_NEWEST, DROP_OLDEST, ERROR, PACE
from echo_core.errors import BacklogError, ClosedError
from tests.native.queues import is_readable, queue


class Item(NamedTuple):
    number: int
    size: int
    events: int


class QueueModel(RuleBasedStateMachine):
    """A queue does what a deque with the same rules does."""

    @initialize(
        max_events=st.integers(1, 5),
        max_bytes=st.integers(1, 30),
        policy=st.sampled_from([PACE, BLOCK, DROP_OLDEST, DROP_NEWEST, ERROR]),
        has_fd=st.booleans(),
    )
    def begin(self, max_events: int, max_bytes: int, policy: int, has_fd: bool) -> None:
        self.it = queue(max_events, max_bytes, policy)
        self.fd = self.it.fileno() if has_fd else None
        self.limits = (max_events, max_bytes)
        self.policy = policy
        self.model: deque[Item] = deque()
        self.number = self.dropped = 0
        self.sent = self.got = 0
        self.is_closed = self.has_failed = False

    def waiting(self) -> tuple[int, int]:
        """Events and bytes."""
        return sum(item.events for item in self.model), sum(item.size for item in self.model)

    def has_room(self, item: Item) -> bool:
        events, size_bytes = self.waiting()
        max_events, max_bytes = self.limits
        fits = events + item.events <= max_events and size_bytes + item.size <= max_bytes
        return not self.model or fits

    @rule(size=st.integers(0, 40), events=st.integers(1, 7))
    def put(self, size: int, events: int) -> None:
        self.number += 1
        self.sent += events
        item = Item(self.number, size, events)
        is_over = self.is_closed or self.has_failed
        has_room = is_over or self.has_room(item)
        with pytest.raises(BacklogError) if self.policy == BLOCK and not has_room else nullcontext():
            self.it.put(self.number, size, events)
        if not has_room:
            if self.policy in {DROP_OLDEST, PACE}:
                while not self.has_room(item):
                    self.dropped += self.model.popleft().events
            elif self.policy == ERROR:
                self.has_failed = is_over = True
        if not is_over and self.has_room(item):
            self.model.append(item)
        else:
            self.dropped += events

    @rule(way=st.sampled_from(["get", "get_nowait"]))
    def get(self, way: str) -> None:
        get = self.it.get_nowait if way == "get_nowait" else lambda: self.it.get(0)
        if self.model:
            item = self.model.popleft()
            assert get() == item.number
            self.got += item.events
        elif self.has_failed or self.is_closed:
            with pytest.raises(BacklogError if self.has_failed else ClosedError):
                get()
        else:
            assert get() is None

    @precondition(lambda self: not self.is_closed)
    @rule()
    def close(self) -> None:
        self.it.close()
        self.is_closed = True

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "it"):
            return
        assert (self.it.depth_events, self.it.depth_bytes) == self.waiting()
        assert self.it.dropped == self.dropped
        assert self.got + self.it.depth_events + self.it.dropped == self.sent
        assert self.it.is_closed == self.is_closed
        if self.fd is not None:
            assert is_readable(self.fd) == bool(self.model or self.is_closed or self.has_failed)


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
