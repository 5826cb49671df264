"""Where a stream is in a log, as Spark keeps it: `{"offset": 4160, "segment": 3}`, a verified block's end.

Spark compares offsets by their text, so the names are always in this order.
"""

from __future__ import annotations

from collections.abc import Mapping

import echo_core as echo

Offset = dict[str, int]


class OffsetError(echo.EchoError):
    """A place in a log that is none, or that the log no longer has."""


def offset_of(segment: int, offset: int) -> Offset:
    """The end of a block, as Spark keeps it."""
    return {"offset": offset, "segment": segment}


def place_of(offset: Mapping[str, object]) -> tuple[int, int]:
    """Segment and offset; OffsetError for what this source has not written."""
    numbers = offset.get("segment"), offset.get("offset")
    match numbers:
        case (int() as segment, int() as place) if set(offset) == {"offset", "segment"}:
            if segment >= 0 and place >= 0:
                return segment, place
        case _:
            pass
    msg = f"Expected a place in a log, such as {offset_of(1, 4096)}, got {dict(offset)}"
    raise OffsetError(msg, hint="the checkpoint is of another source")
