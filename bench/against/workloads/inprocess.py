"""From submit to handlers in the same process."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator
from typing import Any

import echo_core as echo
from bench.against.workloads import Case, Measure, repeated
from bench.codec.peer import Slots, values
from bench.transport.suites.inprocess import Counter, check
from bench.workload import Particle, particle


def cases() -> dict[str, Case]:
    """Dataclasses and records, to one handler and to twenty."""
    return {
        f"{name} to {handlers}": functools.partial(_submitting, cls, handlers)
        for name, cls in (("dataclass", Slots), ("record", Particle))
        for handlers in (1, 20)
    }


@contextlib.contextmanager
def _submitting(cls: Any, handlers: int) -> Generator[Measure]:
    event = cls(*values(particle(7)))
    counters = [Counter() for _ in range(handlers)]
    with echo.Node() as node:
        channel = node.create_channel("in process", cls)
        for counter in counters:
            channel.sink(cls, counter.handle)
        source = channel.source(cls)
        check(source, counters, event)
        yield repeated.measure_of((source.submit, event))
        assert len({counter.count for counter in counters}) == 1
        assert all(counter.latest is event for counter in counters)
