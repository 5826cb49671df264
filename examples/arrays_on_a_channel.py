"""Sends many records at once: numpy arrays, lent in shared memory and read in place.

Two nodes of one process share memory as two processes of one host would.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import echo_core as echo

COUNT = 1_000_000


@echo.event
class Particle:
    """Has a fixed size, so an array of it is a numpy structured array."""

    id: int
    position: echo.Array[echo.Float32, 3]
    mass: float


class Totals:
    """A handler of batches. Arrays are read-only, and stay valid as long as they are referenced."""

    def __init__(self) -> None:
        self.count = 0
        self.batches = 0
        self.mass = 0.0
        self.is_complete = threading.Event()

    def __call__(self, particles: np.ndarray[Any, Any]) -> None:
        self.count += len(particles)
        self.batches += 1
        self.mass += float(particles["mass"].sum())
        if self.count >= 2 * COUNT:
            self.is_complete.set()


def main() -> None:
    """Send a million records from an ordinary array, and a million from a loaned one."""
    with echo.Node(transports=["shm"]) as here, echo.Node(transports=["shm"]) as there:
        channel = here.create_channel("particles", Particle)
        totals = Totals()
        there.open_channel(channel.id).sink(Particle, totals, batch=True)
        source = channel.source()
        source.wait_matched()

        particles = np.zeros(COUNT, echo.format_of(Particle).dtype)
        particles["mass"] = 1.0
        source.submit_array(particles)  # copies once, into shared memory

        loaned = source.loan(COUNT)  # lies in shared memory and holds old data: fill in every field
        loaned["id"] = np.arange(COUNT)
        loaned["position"] = 0.0
        loaned["mass"] = 2.0
        source.submit_array(loaned)  # copies nothing; do not write to the array after this

        source.flush()
        totals.is_complete.wait(10.0)
        print(f"{totals.count:,} particles in {totals.batches} batches, together {totals.mass:,.0f}")


if __name__ == "__main__":
    main()
