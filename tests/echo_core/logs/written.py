"""Logs for tests, written without channels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import echo_core as echo
from echo_core.logs.described import StreamKey
from echo_core.logs.writing import LogWriter

START_NS = 1_700_000_000_000_000_000
STEP_NS = 1_000_000


def key_of(source: str, channel: str = "plant", epoch: int = 1) -> StreamKey:
    """Of a source, which is known by its name here."""
    return StreamKey(
        channel.encode().ljust(16, b"-"), channel, "node", source.encode().ljust(16, b"-"), source, epoch
    )


@dataclass(frozen=True)
class Run:
    """Events of one source: numbers from `first` on, times from `START_NS` and the number's milliseconds
    on.
    """

    events: Sequence[Any]
    source: str = "one"
    first: int = 0
    abi: str = "native"
    channel: str = "plant"

    def append(self, writer: LogWriter) -> None:
        """Record by record."""
        first: Any = self.events[0]
        cls: type[Any] = first.__class__
        encode, format_ = echo.encoder(cls, abi=self.abi), echo.format_of(cls, abi=self.abi)
        stream = writer.stream(key_of(self.source, self.channel), format_)
        for number, event in zip(itertools.count(self.first), self.events, strict=False):
            assert stream.append(encode(event), sequence=number, time_ns=START_NS + number * STEP_NS)


def write(path: Path, *runs: Run) -> Path:
    """A log of these runs, in their order: each is on its own in a block, at least."""
    for run in runs:
        writer = LogWriter(path, level="volatile")
        run.append(writer)
        writer.close()
    return path
