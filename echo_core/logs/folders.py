"""The files of a log: which segments are in its folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from echo_core.errors import LogError
from echo_core.logs import limits

SUFFIX = ".echolog"
LOCK = "lock"  # held by who writes
_SEGMENT = re.compile(r"(\d{10,19})\.seg")  # of 64 bits, and so is the next


def segment_name(number: int) -> str:
    """The name of a segment's file."""
    return f"{number:010}.seg"


def segment_numbers(names: Iterable[str]) -> list[int]:
    """Of all segments among these names, ascending. Other files are none of a log's business."""
    found = sorted(
        number
        for name in names
        if (match := _SEGMENT.fullmatch(name)) and segment_name(number := int(match[1])) == name and number
    )
    if len(found) > limits.MAX_SEGMENTS:
        msg = f"Expected at most {limits.MAX_SEGMENTS} segments, got {len(found)}"
        raise LogError(msg)
    return found


def segment_path(folder: Path, number: int) -> Path:
    """The file of a segment."""
    return folder / segment_name(number)
