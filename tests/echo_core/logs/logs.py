"""What tests of logs write and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from echo_core.formats.format import Format
from echo_core.logs.described import StreamKey
from echo_core.logs.reading import LogReader

PARTICLE = Format.from_dtype(np.dtype([("id", "<i8"), ("x", "<f8"), ("y", "<f8")]), name="Particle")
NAMED = Format.from_c("struct Named { int id; char *name; };", name="Named")
TIME_NS = 1_700_000_000_000_000_000


def key_of(number: int = 1) -> StreamKey:
    """Of a source."""
    return StreamKey(
        channel=bytes([number]) * 16,
        channel_name=f"channel {number}",
        node="node",
        source=bytes([number + 100]) * 16,
        source_name=f"source {number}",
        epoch=number,
    )


def particles(count: int, first: int = 0) -> npt.NDArray[Any]:
    """Records whose values follow from their numbers."""
    made = np.zeros(count, PARTICLE.dtype)
    made["id"] = np.arange(first, first + count)
    made["x"] = made["id"] * 0.5
    made["y"] = -made["id"]
    return made


def numbered(reader: LogReader, **choice: Any) -> dict[int, list[tuple[int, bytes]]]:
    """The number and the record of all events, by stream."""
    found: dict[int, list[tuple[int, bytes]]] = {}
    for block in reader.blocks(**choice):
        events = zip(block.sequences().tolist(), map(bytes, block), strict=True)
        found.setdefault(block.stream.number, []).extend(events)
    return found


def segments_of(path: Path) -> list[Path]:
    """The files of a log, oldest first."""
    return sorted(path.glob("*.seg"))
