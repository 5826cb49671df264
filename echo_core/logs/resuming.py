"""What a writer finds in a folder, which another one may have left anyhow. Nothing of that is changed."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

from echo_core.logs.disk import Disk
from echo_core.logs.folders import segment_numbers, segment_path
from echo_core.logs.layout import Previous
from echo_core.logs.retention import Ended
from echo_core.logs.scanning import Ending, ending_of


@dataclass(frozen=True, slots=True)
class Found:
    """What there is already."""

    log_id: bytes
    """Empty: there is no log yet."""
    previous: Previous
    """How the last segment ended that has a header."""
    ends: list[Ended]
    """All segments, oldest first."""


def found_in(disk: Disk, path: Path) -> Found:
    """The segments of a folder that is locked."""
    numbers = segment_numbers(disk.names(path))
    log_id, previous = b"", Previous()
    for number in reversed(numbers):
        found = _settled(disk, segment_path(path, number))
        if found.header is not None:
            log_id = found.header.log_id
            previous = Previous(number, found.header.salt, found.length, found.crc)
            break
    return Found(log_id, previous, [_ended_before(disk, path, number) for number in numbers])


def _settled(disk: Disk, path: Path) -> Ending:
    """Where an earlier writer's segment ends; on the disk, since what is built on it must not vanish."""
    disk.sync_file(path)
    data = disk.content(path)
    try:
        return ending_of(data)
    finally:
        if isinstance(data, mmap.mmap):
            data.close()


def _ended_before(disk: Disk, path: Path, number: int) -> Ended:
    size, changed_ns = disk.status(segment_path(path, number))
    return Ended(number, size, changed_ns)
