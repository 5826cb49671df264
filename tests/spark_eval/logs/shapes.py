"""Events for logs: two versions of one type, and logs of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np

import echo_core as echo
from echo_core.logs.described import Rotate, StreamKey
from echo_core.logs.writing import LogWriter


@echo.event(name="Sample")
class Sample:
    """As it is now."""

    id: int
    volts: float
    tag: echo.Chars[4]
    unit: echo.UInt8 = 7


@echo.event(name="Sample")
class OldSample:
    """As it was: another width, another order."""

    volts: echo.Float32
    id: echo.Int32
    tag: echo.Chars[4]


@echo.event
class Note:
    """Of another type, and of any size."""

    id: int
    text: str


FORMAT = echo.format_of(Sample)
ROTATE = Rotate()


def samples(first: int, count: int) -> np.ndarray[Any, Any]:
    """Records, each determined by its number."""
    records = np.zeros(count, FORMAT.dtype)
    records["id"] = np.arange(first, first + count)
    records["volts"] = records["id"] / 2
    records["tag"] = np.char.mod("%03d", records["id"] % 1000)
    records["unit"] = 7
    return records


class Growing:
    """A log that is written to, block by block."""

    def __init__(self, path: Path, rotate: Rotate = ROTATE) -> None:
        self.path = path
        self.written = 0
        self._log = LogWriter(path, level="buffered", rotate=rotate)
        key = StreamKey(b"c" * 16, "plasma", "node", b"s" * 16, "sensor", 1)
        self._stream = self._log.stream(key, FORMAT)

    def grow(self, count: int, block: int = 500) -> None:
        """So many more events, in blocks of so many, which readers see."""
        for first in range(self.written, self.written + count, block):
            records = samples(first, min(block, self.written + count - first))
            assert self._stream.append_batch(records.tobytes(), sequence=first, time_ns=10**18 + first)
            self._log.sync()
        self.written += count

    def close(self) -> None:
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def written(path: Path, count: int, block: int = 500, rotate: Rotate = ROTATE) -> Path:
    """A log of so many samples."""
    with Growing(path, rotate) as log:
        log.grow(count, block)
    return path
