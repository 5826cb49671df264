"""What machine code costs under pytest-benchmark: each round is a first event, or a first compilation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from bench.compiling import Convert, ways
from bench.private_cache import private_cache

ROUNDS = 20
WAYS = ways()


@pytest.mark.parametrize("way", WAYS)
def test_first(benchmark: Any, way: str) -> None:
    """A sender that nobody has met before, in every round; the last round's conversion is checked."""
    prepare, cls, _ = WAYS[way]
    runs = itertools.count(1)
    checks: list[Callable[[Convert], None]] = []

    def prepared() -> tuple[tuple[Callable[[], Convert]], dict[str, Any]]:
        make, check = prepare(cls, next(runs))
        checks.append(check)
        return (make,), {}

    benchmark.group = "first use"
    with private_cache():
        make, check = prepare(cls, 0)  # what the first compilation of a process costs besides
        check(make())
        convert = benchmark.pedantic(_call, setup=prepared, rounds=ROUNDS)
        checks[-1](convert)


def _call(make: Callable[[], Convert]) -> Convert:
    return make()
