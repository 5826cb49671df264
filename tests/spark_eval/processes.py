"""Which processes of a test there are, by a mark in their environment, which every child inherits."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

MARK = "ECHO_TEST_MARK"
LIMIT_S = 120.0


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


def left(mark: str) -> list[str]:
    """Those that do not end, though they have the time that a busy machine takes; none is known earlier."""
    deadline = time.monotonic() + LIMIT_S
    while (found := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
