"""Runs that callgrind counts, as bench/against/workloads/counted.py has it: submits at two sources."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Generator
from typing import Any

import echo_core as echo
from bench.against.workloads.counted import Run, submitting
from bench.workload import Particle, particle
from echo_core.roster import derivations
from tests.echo_core.census import origin_of, until

EVENT = particle(7)


@contextlib.contextmanager
def never_derived() -> Generator[Run]:
    """At a channel that nothing was ever derived from."""
    with _submitting(is_derived=False) as run:
        yield run


@contextlib.contextmanager
def derived_once() -> Generator[Run]:
    """At a channel that several had derived from, and nobody does any more."""
    with _submitting(is_derived=True) as run:
        yield run


@contextlib.contextmanager
def _submitting(*, is_derived: bool) -> Generator[Run]:
    handled: collections.deque[Any] = collections.deque(maxlen=1)
    with echo.Node() as node:
        channel = node.create_channel("counted", Particle)
        channel.sink(Particle, handled.append)
        source = channel.source(Particle)
        if is_derived:
            _derive_for_a_while(channel, source)
        yield submitting(source.submit, EVENT)
    assert handled[0] is EVENT


def _derive_for_a_while(channel: echo.Channel[Any], source: echo.Source[Any]) -> None:
    """By itself, and as many of one shape."""
    came: list[Any] = []
    texts = {"id >= limit": range(8), "temp > limit and id != 3": (1.0,)}
    made = [channel.derive(where=text, limit=it) for text, limits in texts.items() for it in limits]
    for derived in made:
        derived.sink(Particle, came.append)
    assert origin_of(source).outlet.branches
    source.submit(EVENT)
    assert len(came) == 9
    for derived in made:
        derived.close()
    derivations.UNUSED_S = 0.0
    until(lambda: not origin_of(source).branchings, "the branches to end")
