"""The golden log: `python -m tests.echo_core.logs.golden` writes it anew, which no test does.

It holds what the format has: a fixed and a varying format, one of a big-endian machine, two streams, a gap, a
member, an acknowledgement, two segments of two writers, a sealed and a torn end.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from echo_core.formats.format import Format
from echo_core.logs.described import Level
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.logs import NAMED, TIME_NS, key_of, particles, segments_of

GOLDEN = Path(__file__).parent / "golden.echolog"
BIG = Format.from_dtype(np.dtype([("id", ">i8"), ("x", ">f8"), ("y", ">f8")]), name="Particle")


def big_particles(count: int, first: int = 0) -> bytes:
    """As a big-endian machine has them."""
    return particles(count, first).astype(BIG.dtype).tobytes()


def named(number: int) -> bytes:
    """Of any size; the log does not look into it."""
    return bytes([number % 256]) * (number * 7 % 50)


def write(path: Path) -> None:
    """In the same way each time, but for what is random and for the time."""
    key = key_of(1)
    with LogWriter(path, level=Level.SYNCED) as log:
        big = log.stream(key, BIG)
        varying = log.stream(key_of(2), NAMED)
        assert big.append_batch(big_particles(800), sequence=0, time_ns=TIME_NS)
        for number in range(60):
            assert varying.append(named(number), sequence=number, time_ns=TIME_NS + number // 20)
        big.gap(800, 809, "dropped upstream")
        log.member(key.channel, bytes(16), "joined", "a node", time_ns=TIME_NS)
        log.acknowledge("consumer", {key: 700})
        log.sync()
        assert big.append_batch(big_particles(10, 810), sequence=810, time_ns=TIME_NS + 5)
    with LogWriter(path, level=Level.SYNCED) as log:
        assert log.stream(key, BIG).append_batch(big_particles(10, 820), sequence=820, time_ns=TIME_NS + 6)
    last = segments_of(path)[-1]
    last.write_bytes(last.read_bytes()[:-100])  # within the seal: torn
    (path / "lock").unlink()


if __name__ == "__main__":
    shutil.rmtree(GOLDEN, ignore_errors=True)
    write(GOLDEN)
