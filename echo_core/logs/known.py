"""What a log has of each source: who goes on with it records nothing twice, and tells what is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from echo_core.logs.folders import segment_numbers
from echo_core.logs.reading import LogReader

Known = Mapping[tuple[bytes, bytes], int]
"""By the ids of channel and source, the number behind the last event that the log has, or says to lack."""


def known_of(path: str | os.PathLike[str]) -> Known:
    """Nothing where there is no log. LogError: there is one that cannot be read."""
    folder = Path(path)
    if not folder.is_dir() or not segment_numbers(os.listdir(folder)):
        return {}
    with LogReader(folder) as reader:
        keys = {stream.number: (stream.key.channel, stream.key.source) for stream in reader.streams}
        ends = [(stream.number, stream.last) for stream in reader.streams if stream.last is not None]
        ends += [(gap.stream, gap.last) for gap in reader.gaps]
    known: dict[tuple[bytes, bytes], int] = {}
    for number, last in ends:
        key = keys[number]
        known[key] = max(known.get(key, 0), last + 1)
    return known
