"""A tour in one minute: declare an event, look at its layout, send it across machines and versions.

This tour is about formats; `make demo` shows channels.
"""

from __future__ import annotations

import enum
from datetime import UTC, datetime

import numpy as np

import echo_core as echo


class Phase(enum.Enum):
    """The state of matter around a particle."""

    GAS = 1
    PLASMA = 2


@echo.event
class Particle:
    """The current version of an event class."""

    id: int
    position: echo.Array[echo.Float64, 3]
    temperature: echo.Float64 = echo.field(unit="K", aliases=("temp",), doc="of its neighbourhood")
    phase: Phase = Phase.GAS
    tag: echo.Chars[8] = echo.field(default="-")
    samples: echo.Array[echo.Float32, ...] = echo.field(default_factory=lambda: np.zeros(0, np.float32))
    note: str | None = None


# The first version, still used by a C program on a big-endian mainframe.
PARTICLE_1 = """
    struct Particle {
        int id;
        float temp;
        double position[3];
        char *origin;
        int n;
        float *samples __counted_by(n);
    };
"""


def heading(text: str) -> None:
    """Print a heading."""
    print(f"\n--- {text}\n")


def declare() -> None:
    """The format of an event class: layout, metadata, token."""
    heading("An event class has a layout, metadata that describes it, and a token that identifies it")
    particle = echo.format_of(Particle)
    print(particle)
    print(f"\ntoken {particle.token}, metadata of {len(particle.metadata)} bytes")


def encode_and_decode() -> None:
    """An encoded event is its record as it is in memory, followed by the variable parts."""
    heading("An event is encoded in this machine's own layout, and decoded")
    position = np.array([0.5, 1.0, 1.5])
    event = Particle(7, position, 4.0e3, Phase.PLASMA, "H+", np.ones(3, np.float32))
    data = echo.encoder(Particle)(event)
    print(f"{len(data)} bytes: {data[:32].hex(' ', 8)} ...")
    print(echo.decoder(Particle)(data))


def meet_an_older_machine() -> None:
    """Decode an event of another version, from another machine and another language."""
    heading("A sender of version 1, in C, on a big-endian machine: how its fields convert")
    sender = echo.Format.from_c(PARTICLE_1, abi="s390x")
    received = echo.Format.from_metadata(sender.metadata)  # all that a receiver needs, once
    print(echo.compare(received, echo.format_of(Particle)))

    old_class = sender.record_class()
    event = old_class(id=1, temp=300.0, position=np.zeros(3), origin="lab 4", n=2, samples=np.ones(2))
    data = echo.encoder(old_class, abi="s390x")(event)
    print(f"\nits bytes: {data[:32].hex(' ', 4)} ...")
    print(echo.decoder(Particle, sender=received)(data))


def meet_a_stranger() -> None:
    """Decode an event without a class: reflection."""
    heading("An event of a type that was never declared here")

    @echo.event
    class Reading:
        when: datetime
        volts: echo.Array[echo.Int16, ..., 2]
        labels: list[str]

    reading = Reading(datetime(2026, 1, 2, tzinfo=UTC), np.arange(6).reshape(3, 2), ["a", "b"])
    data = echo.encoder(Reading, abi="armhf")(reading)
    stranger = echo.Format.from_metadata(echo.format_of(Reading, abi="armhf").metadata)
    print(stranger)
    print()
    print(echo.decoder(None, sender=stranger)(data))


def refuse() -> None:
    """Request a decoder for an incompatible class."""
    heading("Incompatible types are refused before the first event, with a reason for each field")

    @echo.event
    class Wrong:
        id: str
        mass: float

    try:
        echo.decoder(Wrong, sender=echo.format_of(Particle))
    except echo.IncompatibleError as error:
        print(error)


def main() -> None:
    """Run all parts in order."""
    declare()
    encode_and_decode()
    meet_an_older_machine()
    meet_a_stranger()
    refuse()
    print(
        "\nNext: the tutorial in README.md, `make demo` for channels, the byte layout in docs/wire-format.md."
    )


if __name__ == "__main__":
    main()
