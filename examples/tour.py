"""A tour in one minute: declare an event, look at its layout, send it across machines and versions.

Of formats alone; `make demo` shows events on their way.
"""

from __future__ import annotations

import enum
from datetime import UTC, datetime

import numpy as np

import echo_core as echo


class Phase(enum.Enum):
    """What a particle is part of."""

    GAS = 1
    PLASMA = 2


@echo.event
class Particle:
    """An event of today, as this process knows it."""

    id: int
    position: echo.Array[echo.Float64, 3]
    temperature: echo.Float64 = echo.field(unit="K", aliases=("temp",), doc="of its neighbourhood")
    phase: Phase = Phase.GAS
    tag: echo.Chars[8] = echo.field(default="-")
    samples: echo.Array[echo.Float32, ...] = echo.field(default_factory=lambda: np.zeros(0, np.float32))
    note: str | None = None


# The first version, still running somewhere on a big-endian mainframe.
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
    """A line between two parts of the tour."""
    print(f"\n--- {text}\n")


def declare() -> None:
    """What the library knows of an event class."""
    heading("An event class has a layout, metadata to tell it to others, and a token that names it")
    particle = echo.format_of(Particle)
    print(particle)
    print(f"\ntoken {particle.token}, metadata of {len(particle.metadata)} bytes")


def encode_and_decode() -> None:
    """Bytes are the record as it lies in memory, variable parts after it."""
    heading("An event becomes bytes in this machine's own layout, and an event again")
    position = np.array([0.5, 1.0, 1.5])
    event = Particle(7, position, 4.0e3, Phase.PLASMA, "H+", np.ones(3, np.float32))
    data = echo.encoder(Particle)(event)
    print(f"{len(data)} bytes: {data[:32].hex(' ', 8)} ...")
    print(echo.decoder(Particle)(data))


def meet_an_older_machine() -> None:
    """A sender that never heard of this class: another machine, another language, another version."""
    heading("A sender of version 1, in C, on a big-endian machine: what becomes of its fields here")
    sender = echo.Format.from_c(PARTICLE_1, abi="s390x")
    received = echo.Format.from_metadata(sender.metadata)  # all that has to cross the wire, once
    print(echo.compare(received, echo.format_of(Particle)))

    old_class = sender.record_class()
    event = old_class(id=1, temp=300.0, position=np.zeros(3), origin="lab 4", n=2, samples=np.ones(2))
    data = echo.encoder(old_class, abi="s390x")(event)
    print(f"\nits bytes: {data[:32].hex(' ', 4)} ...")
    print(echo.decoder(Particle, sender=received)(data))


def meet_a_stranger() -> None:
    """A receiver without any class: reflection."""
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
    """What cannot work is refused before the first event, with the field and the reason."""
    heading("What does not fit is refused before the first event, and says why")

    @echo.event
    class Wrong:
        id: str
        mass: float

    try:
        echo.decoder(Wrong, sender=echo.format_of(Particle))
    except echo.IncompatibleError as error:
        print(error)


def main() -> None:
    """All parts in order."""
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
