"""Two links against an account: however submits, reads and closes follow one another, none goes astray."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from echo_core._c.links import (
    BLOCK,
    DROP_NEWEST,
    DROP_OLDEST,
    ERROR,
    PACE,
    Link,
    OutgoingStream,
    Outlet,
    Queue,
)
from echo_core.errors import BacklogError, LinkError
from tests.native.link_ends import Ends, eventually, link_over, sink, wires

PATIENCE_NS = 1_000_000  # of sources that wait
ARRAYS = 65  # the number of the stream that has them
LARGEST_BYTES, LONGEST = 200_000, 20_000  # above what is staged, or fits into a ring; events of an array
POLICIES = (PACE, BLOCK, DROP_OLDEST, DROP_NEWEST, ERROR)

Bounds = tuple[int, int]
bounds = st.tuples(st.integers(1, 300), st.sampled_from([1, 100, 5000, 400_000]))


@dataclass
class Settings:
    """Of one stream: how much may wait at its source, be under way, wait in its queue; and what if more."""

    backlog: Bounds
    window: Bounds
    queue: Bounds
    policy: int
    policy_there: int


settings_of = st.builds(
    Settings, bounds, bounds, bounds, st.sampled_from(POLICIES), st.sampled_from(POLICIES[:4])
)


@dataclass
class Way:
    """From a source at one end to a queue at the other, and the numbers of the events that came out."""

    one: Link
    other: Link
    number: int
    bound: Settings
    got: list[int] = field(default_factory=list[int])
    sent: int = 0

    def __post_init__(self) -> None:
        form: dict[str, Any] = {"record_size": 8, "is_array": True} if self.has_arrays else {}
        events, size_bytes = self.bound.queue
        policy = self.bound.policy_there
        self.queue = Queue(max_events=events, max_bytes=size_bytes, policy=policy, timeout_ns=-1)
        self.incoming = sink(self.other, self.queue, self.number, window=self.bound.window, **form)
        self.outlet = Outlet(None, bytes, record_size=8) if self.has_arrays else Outlet(bytes, bytes)
        self.outgoing = self._outgoing()
        self.outgoing.grant(*self.incoming.grant())
        self.outlet.outgoing = (self.outgoing,)

    def _outgoing(self) -> OutgoingStream:
        events, size_bytes = self.bound.backlog
        return OutgoingStream(
            self.one,
            self.number,
            "a source",
            self.outlet,
            max_events=events,
            max_bytes=size_bytes,
            policy=self.bound.policy,
            timeout_ns=PATIENCE_NS,
        )

    @property
    def has_arrays(self) -> bool:
        return self.number == ARRAYS

    @property
    def longest(self) -> int:
        """Events of a frame."""
        return LONGEST if self.has_arrays else 1

    def submit(self, size: int) -> None:
        """One that begins with its number."""
        with suppress(BacklogError):
            self.outlet.submit(self.sent.to_bytes(8, "little") + bytes(size - 8))
        self.sent += 1

    def submit_array(self, count: int) -> None:
        """Of numbers."""
        with suppress(BacklogError):
            self.outlet.submit_records(np.arange(self.sent, self.sent + count, dtype="<u8"))
        self.sent += count

    def read(self) -> bool:
        """The oldest that is there, if any is."""
        if not self.queue.depth_events:
            return False
        record = self.queue.get_nowait()
        numbers = np.frombuffer(record if self.has_arrays else record[:8], "<u8").tolist()
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert not self.got or self.got[-1] < numbers[0]
        self.got += numbers
        return True

    def is_read(self) -> bool:
        """Whether by now every event was read, or dropped at one of the ends."""
        while self.read():
            pass
        return len(self.got) + self.queue.dropped + self.outgoing.dropped == self.sent

    def settle(self) -> None:
        """Reads on until nothing is under way, and all is confirmed."""
        eventually(self.is_read)
        assert self.outgoing.queued_events == self.queue.depth_events == 0
        self.incoming.confirm()
        eventually(lambda: self.outgoing.confirmed == self.outgoing.sent)
        assert self.outlet.confirmed + self.outlet.dropped == self.sent

    def demand_bounds(self) -> None:
        """One frame may go beyond credit; what waits alone may have any size, and frames may be one array."""
        there, frame = self.bound.queue[0], self.longest
        drops = self.bound.policy_there in {DROP_OLDEST, DROP_NEWEST}
        most = max(there, self.bound.window[0] + frame - 1) if drops else self.granted + frame - 1
        assert self.queue.depth_events <= most
        assert self.outgoing.queued_events <= max(self.bound.backlog[0], frame)

    @property
    def granted(self) -> int:
        """Events that may be under way to a queue which paces."""
        return min(self.bound.window[0], self.bound.queue[0])

    def demand_account(self) -> None:
        """Its link has ended: what was confirmed had been read or dropped, or is in a closed queue."""
        self.outgoing.close()
        self.outgoing.give_up()
        confirmed, unconfirmed = self.outgoing.confirmed, self.outgoing.unconfirmed
        assert self.outlet.sequence == self.sent == confirmed + self.outgoing.dropped + unconfirmed
        done = len(self.got) + self.queue.dropped + (self.queue.depth_events if self.queue.is_closed else 0)
        assert confirmed <= done <= confirmed + unconfirmed
        outlet = self.outlet
        assert (outlet.confirmed, outlet.unconfirmed) == (confirmed, unconfirmed)


ways = st.integers(0, 1)


class Schedule(RuleBasedStateMachine):
    """One stream of events that vary in size, and one of arrays, over one link."""

    @initialize(kind=st.sampled_from(["tcp", "unix", "ring"]), bounds=st.tuples(settings_of, settings_of))
    def begin(self, kind: str, bounds: tuple[Settings, Settings]) -> None:
        one, other = wires(kind)
        self.ends = Ends(kind, link_over(one), link_over(other), [])
        links = self.ends.one, self.ends.other
        self.ways = [Way(*links, ARRAYS - 1, bounds[0]), Way(*links, ARRAYS, bounds[1])]
        self.ends.run()

    @rule(size=st.sampled_from([8, 9, 1000, 70_000, LARGEST_BYTES]), times=st.integers(1, 50))
    def submit(self, size: int, times: int) -> None:
        for _ in range(times):
            self.ways[0].submit(size)

    @rule(count=st.sampled_from([1, 2, 100, 9000, LONGEST]), times=st.integers(1, 10))
    def submit_array(self, count: int, times: int) -> None:
        for _ in range(times):
            self.ways[1].submit_array(count)

    @rule(way=ways, times=st.integers(1, 100))
    def read(self, way: int, times: int) -> None:
        for _ in range(times):
            self.ways[way].read()

    @rule(way=ways)
    def settle(self, way: int) -> None:
        self.ways[way].settle()

    @rule(way=ways)
    def confirm(self, way: int) -> None:
        self.ways[way].incoming.confirm()

    @rule(way=ways)
    def close_source(self, way: int) -> None:
        self.ways[way].outgoing.close()

    @rule(way=ways)
    def close_sink(self, way: int) -> None:
        self.ways[way].queue.close()
        self.ways[way].incoming.confirm()  # what is in it

    @invariant()
    def keeps_bounds(self) -> None:
        for way in getattr(self, "ways", []):
            way.demand_bounds()

    def teardown(self) -> None:
        """At any point of it the link ends."""
        if not hasattr(self, "ends"):
            return
        self.ends.one.shut()
        self.ends.other.shut()
        for runner in self.ends.runners:
            with suppress(LinkError):  # in the middle of a frame
                runner.end()
        for way in self.ways:
            way.demand_account()


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, phases=[Phase.generate]
)
