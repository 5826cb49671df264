"""Memory under pytest-benchmark: what is kept goes into `extra_info`, beside the time to make it."""

from __future__ import annotations

from typing import Any

import pytest

from bench.codec.ours import ours, particles
from bench.memory import CALLS, allocated_bytes, class_codes, everyday_calls, growth_kib, live_conversions
from bench.private_cache import private_cache


@pytest.mark.parametrize("measured", [live_conversions, class_codes])
def test_code_is_small(benchmark: Any, measured: Any) -> None:
    """What a live conversion, and the code of a class, keep."""
    with private_cache():
        row = benchmark.pedantic(measured, (100,), rounds=1)
    benchmark.extra_info[row.what] = f"{row.measured:.3g} {row.unit}"
    assert row.is_reached


@pytest.mark.parametrize("peer", ours(), ids=lambda peer: peer.name)
def test_held_events(benchmark: Any, peer: Any) -> None:
    """What a decoded particle keeps."""
    task = peer.tasks(particles())["decode 1000"]
    benchmark.extra_info["bytes each"] = allocated_bytes(task.call, task.argument) / task.count
    assert len(benchmark(task.call, task.argument)) == task.count


@pytest.mark.parametrize("what", everyday_calls())
def test_nothing_grows(benchmark: Any, what: str) -> None:
    """Encoding and decoding leave nothing behind."""
    grown = benchmark.pedantic(growth_kib, (everyday_calls()[what], CALLS), rounds=1)
    benchmark.extra_info["KiB"] = grown
    assert grown <= 64
