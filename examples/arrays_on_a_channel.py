"""Many records at once: a numpy array is sent as it is, lent in shared memory, and read in place.

Two nodes of one process, which share memory as two processes of one machine do.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import echo_core as echo

COUNT = 1_000_000


@echo.event
class Particle:
    """A record of fixed size: an array of it is a numpy structured array."""

    id: int
    position: echo.Array[echo.Float32, 3]
    mass: float


class Totals:
    """A handler of batches. What it is given is read-only, and stays what it is for as long as it is kept."""

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
    """A million records from an array of one's own, and a million written in place."""
    with echo.Node(transports=["shm"]) as here, echo.Node(transports=["shm"]) as there:
        channel = here.create_channel("particles", Particle)
        totals = Totals()
        there.open_channel(channel.id).sink(Particle, totals, batch=True)
        source = channel.source()
        source.wait_matched()

        particles = np.zeros(COUNT, echo.format_of(Particle).dtype)
        particles["mass"] = 1.0
        source.submit_array(particles)  # copied once, to where the other side reads

        loaned = source.loan(COUNT)  # where the other side reads; as it was left, so every field is filled in
        loaned["id"] = np.arange(COUNT)
        loaned["position"] = 0.0
        loaned["mass"] = 2.0
        source.submit_array(loaned)  # not copied; nothing may be written to it from here on

        source.flush()
        totals.is_complete.wait(10.0)
        print(f"{totals.count:,} particles in {totals.batches} batches, together {totals.mass:,.0f}")


if __name__ == "__main__":
    main()
