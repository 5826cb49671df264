"""A process that records until it is killed: `python -m tests.echo_core.logs.recording_process FOLDER FIRST`.

It says of each group of events when it is promised: a line with the number of the last one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from echo_core.logs.described import Level, Retain, Rotate
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.logs import NAMED, PARTICLE, key_of, particles


def main(folder: Path, first: int) -> None:
    """Never ends."""
    log = LogWriter(folder, level=Level.SYNCED, rotate=Rotate(bytes=1 << 18), retain=Retain(min_free=0))
    fixed, varying = log.stream(key_of(1), PARTICLE), log.stream(key_of(2), NAMED)
    while True:
        for _ in range(7):
            fixed.append_batch(particles(100, first), sequence=first)
            varying.append(first.to_bytes(8, "little") * 20, sequence=first)
            first += 100
        log.sync()
        print(first - 100, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
