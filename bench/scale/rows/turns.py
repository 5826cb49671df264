"""Sizes that are measured in processes of their own, one after the other within each round."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from bench.scale.growth import Rounds
from bench.transport.processes.worker import Station

T = TypeVar("T")


def in_its_turn(station: Station, turn: int, turns: int, rounds: int, measure: Callable[[], T]) -> list[T]:
    """What this process measures while all others wait; `turn` is the number of its size, or -1 for none."""
    measured: list[T] = []
    for _ in range(rounds):
        for each in range(turns):
            station.exchange()
            if each == turn:
                measured.append(measure())
    station.exchange()
    return measured


def rounds_of(sizes: Sequence[int], measured: Sequence[Sequence[float]]) -> Rounds:
    """By size."""
    return dict(zip(sizes, measured, strict=True))


def resident_kib() -> float:
    """Memory of this process, but for what it shares with others through files."""
    fields = Path("/proc/self/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE") / 1024
