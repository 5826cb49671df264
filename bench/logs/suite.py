"""Event logs: what `python -m bench logs` measures."""

from __future__ import annotations

from collections.abc import Iterator

from bench.logs import reading, recording
from bench.report import Row


def measure(*, quick: bool) -> Iterator[Row]:
    """Reading them, and recording and playing."""
    yield from reading.measure(quick=quick)
    yield from recording.measure(quick=quick)
