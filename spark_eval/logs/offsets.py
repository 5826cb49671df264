"""Where a stream is in a log, as Spark keeps it: `{"log": "6f..", "offset": 4160, "segment": 3}`.

That is the end of a verified block, of the log that has this id. Spark compares offsets by their text, so the
names are always in this order.
"""

from __future__ import annotations

from collections.abc import Mapping

import echo_core as echo

Offset = dict[str, str | int]


class OffsetError(echo.EchoError):
    """A place in a log that is none, or that the log no longer has."""


def offset_of(log_id: str, segment: int, offset: int) -> Offset:
    """The end of a block, as Spark keeps it."""
    return {"log": log_id, "offset": offset, "segment": segment}


def place_of(offset: Mapping[str, object], log_id: str) -> tuple[int, int]:
    """Segment and offset; OffsetError for what this source has not written, or of another log."""
    match dict(offset):
        case {"log": str() as log, "offset": int() as place, "segment": int() as segment, **others}:
            if segment >= 0 and place >= 0 and not others:
                _demand_same(log, log_id)
                return segment, place
        case _:
            pass
    msg = f"Expected a place in a log, such as {offset_of(log_id, 1, 4096)}, got {dict(offset)}"
    raise OffsetError(msg, hint="the checkpoint is of another source")


def _demand_same(log: str, log_id: str) -> None:
    if log != log_id:
        msg = f"Expected a place in the log {log_id}, got one in {log}"
        raise OffsetError(msg, hint="the log was replaced, or the checkpoint is of another: take a new one")
