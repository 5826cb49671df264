"""Objects to bytes and back under pytest-benchmark: one group for each operation, a row for each codec."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from bench.codec.messages import checked_calls, message_codecs
from bench.codec.ours import OPERATIONS, ours
from bench.codec.peer import Task
from bench.codec.peers import peers
from bench.codec.suite import checked_tasks

NAMES = [peer.name for peer in (*ours(), *peers())]


@functools.cache
def _tasks() -> dict[str, dict[str, Task]]:
    return checked_tasks()


@functools.cache
def _message_calls() -> dict[str, dict[str, tuple[Any, Any]]]:
    return checked_calls()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_particles(benchmark: Any, operation: str, name: str) -> None:
    """Everyone's particles, alone and in lists; they were checked to come back."""
    task = _tasks()[name].get(operation)
    if task is None:
        pytest.skip(f"{name} is for lists only")
    benchmark.group = f"particle: {operation}"
    assert benchmark(task.call, task.argument) is not None


@pytest.mark.parametrize("name", [codec.name for codec in message_codecs()])
@pytest.mark.parametrize("operation", ["encode", "decode", "decode and read"])
def test_messages(benchmark: Any, operation: str, name: str) -> None:
    """Everyone's messages with variable parts; they were checked to come back."""
    call = _message_calls()[operation].get(name)
    if call is None:
        pytest.skip("decodes as another does")
    benchmark.group = f"variable parts: {operation}"
    assert benchmark(*call) is not None
