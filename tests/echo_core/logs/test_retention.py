"""What of a log is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_core.errors import LogError
from echo_core.logs.described import Retain, Rotate
from echo_core.logs.reading import LogReader
from echo_core.logs.retention import Ended, removable
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.logs import PARTICLE, key_of, numbered, particles, segments_of

ENDED = [Ended(number, 100, number * 1_000_000_000) for number in range(1, 6)]


@pytest.mark.parametrize(
    ("retain", "free", "gone"),
    [
        (Retain(min_free=50), 0, 0),
        (Retain(bytes=10_000, min_free=50), 100, 0),
        (Retain(bytes=10_000, min_free=150), 0, 2),
        (Retain(bytes=600, min_free=0), 0, 0),
        (Retain(bytes=599, min_free=0), 0, 1),
        (Retain(bytes=1, min_free=0), 0, 5),
        (Retain(seconds=6, min_free=0), 0, 3),
        (Retain(seconds=100, min_free=0), 0, 0),
    ],
)
def test_the_oldest_go_until_the_rest_keeps_the_rules(retain: Retain, free: int, gone: int) -> None:
    """Of size, age and free space; never the one that is written to."""
    found = removable(ENDED, retain, current_size=100, now_ns=10_000_000_000, free_bytes=free)
    assert found == ENDED[:gone]


def test_a_log_keeps_within_its_size_under_a_reader(tmp_path: Path) -> None:
    """What the reader has stays as it is; what it asks for is an error where it is gone."""
    path = tmp_path / "a.echolog"
    with LogWriter(path, rotate=Rotate(bytes=1 << 16), retain=Retain(bytes=300_000, min_free=0)) as log:
        stream = log.stream(key_of(), PARTICLE)
        stream.append_batch(particles(2000), sequence=0)
        log.sync()
        with LogReader(path) as reader:
            held = list(reader.blocks())
            position = held[0].position
            for first in range(2000, 40_000, 2000):
                stream.append_batch(particles(2000, first), sequence=first)
                log.sync()
            assert sum(file.stat().st_size for file in segments_of(path)) <= 300_000 + (1 << 16)
            assert log.statistics().removed > 0
            kept = np.concatenate([np.frombuffer(block.records, PARTICLE.dtype) for block in held])
            assert (kept == particles(2000)).all()
            assert reader.refresh()
            numbers = [number for number, _ in numbered(reader)[0]]
            assert numbers == list(range(numbers[0], 40_000))
            with pytest.raises(LogError, match="retention has removed"):
                list(reader.blocks(since=position))
    with LogReader(path) as reader:
        assert [number for number, _ in numbered(reader)[0]] == numbers


@pytest.mark.parametrize("choice", [{"bytes": 0}, {"seconds": -1}, {"min_free": -1}])
def test_rules_have_to_make_sense(choice: dict[str, Any]) -> None:
    """The message names what does not."""
    with pytest.raises(LogError, match=f"Retain.{next(iter(choice))}"):
        Retain(**choice)
