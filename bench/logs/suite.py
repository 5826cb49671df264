"""Event logs: what `python -m bench logs` measures."""

from __future__ import annotations

from collections.abc import Iterator

from bench.logs import files, reading, recording
from bench.report import Row


def measure(*, quick: bool) -> Iterator[Row]:
    """Their files, then what is read of them, and what is recorded and played."""
    yield from files.measure(quick=quick)
    yield from reading.measure(quick=quick)
    yield from recording.measure(quick=quick)
