"""Which names of channels have been used on this host: a list for who looks for channels by name.

    $XDG_RUNTIME_DIR/echo_core/listed      a name on each line, as JSON writes text

Whether a name's channel is there is seen at its seats, so a line means nothing by itself, and nobody who
leaves takes one away. A list that grows too long is cut: names go whose channels are not there, the oldest
first.
Whoever calls has the directory of names locked.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Generator, Iterable, Sequence

MAX_LISTED_BYTES = 256 * 1024

_FILE = "listed"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

IsThere = Callable[[str], bool]


def add(directory: int, name: str, whose_channels_are_there: Callable[[], IsThere]) -> None:
    """The name is on the list from now on. OSError: it cannot be written."""
    line = _line(name)
    with _opened(directory) as file:
        lines = _read(file)
        if line in lines:
            return
        lines.append(line)
        if sum(map(len, lines)) > MAX_LISTED_BYTES:
            lines = _cut(lines, whose_channels_are_there())
        text = b"".join(lines)
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))


def names(directory: int) -> list[str]:
    """Those on the list, the latest last. OSError: it cannot be read."""
    with _opened(directory) as file:
        return [name for name in map(_name, _read(file)) if name]


def _cut(lines: Sequence[bytes], is_there: IsThere) -> list[bytes]:
    """To half of what may be listed, and all names whose channels are there."""
    room, kept = MAX_LISTED_BYTES // 2, list[bytes]()
    for line in reversed(lines):
        room -= len(line)
        if room >= 0 or is_there(_name(line)):
            kept.append(line)
    return kept[::-1]


@contextlib.contextmanager
def _opened(directory: int) -> Generator[int]:
    file = os.open(_FILE, _FLAGS, 0o600, dir_fd=directory)
    try:
        yield file
    finally:
        os.close(file)


def _read(file: int) -> list[bytes]:
    """Whole lines: what a process has left that was killed while it wrote is none."""
    text = os.pread(file, 2 * MAX_LISTED_BYTES, 0)
    return _whole(text.splitlines(keepends=True))


def _whole(lines: Iterable[bytes]) -> list[bytes]:
    return [line for line in lines if line.endswith(b"\n")]


def _line(name: str) -> bytes:
    return json.dumps(name).encode() + b"\n"


def _name(line: bytes) -> str:
    """Empty: it is none."""
    with contextlib.suppress(ValueError):
        return str(json.loads(line)) if line.startswith(b'"') else ""
    return ""
