"""Which processes of a test there are, by a mark in their environment, which every child inherits."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

MARK = "ECHO_TEST_MARK"


def marked_environment(**variables: str) -> dict[str, str]:
    """This environment with a mark of its own."""
    return {**os.environ, **variables, MARK: uuid.uuid4().hex}


def processes_with(mark: str) -> list[str]:
    """The command lines of those that are alive, be it as orphans; a zombie has no environment."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def left_after(seconds: float, mark: str) -> list[str]:
    """Those that are still there when so much time has passed; none is known earlier."""
    deadline = time.monotonic() + seconds
    while (left := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
