"""Many records at once: arrays and columns, with no Python object for each."""

from __future__ import annotations

import numpy as np

import echo_core as echo


@echo.event
class Particle:
    """A record of fixed size."""

    id: int
    position: echo.Array[echo.Float32, 3]
    mass: float


@echo.event
class Batch:
    """Many of them in one event."""

    step: int
    particles: echo.Array[Particle, ...]


def main() -> None:
    """A batch from a big-endian simulation becomes a numpy array, and columns."""
    particles = np.zeros(5, echo.format_of(Particle).dtype)
    particles["id"] = np.arange(5)
    particles["mass"] = 1.5
    sent = echo.encoder(Batch, abi="s390x")(Batch(1, particles))

    received = echo.decoder(Batch, sender=echo.format_of(Batch, abi="s390x"))(sent)
    print(received.particles["id"], received.particles["mass"].sum())

    records = echo.codec(Particle, abi="s390x").encode_many(
        [Particle(i, np.ones(3), i / 2) for i in range(4)]
    )
    sender = echo.format_of(Particle, abi="s390x")
    columns = echo.column_decoder(Particle, sender=sender)(records)
    print({name: column.tolist() for name, column in columns.items()})


if __name__ == "__main__":
    main()
