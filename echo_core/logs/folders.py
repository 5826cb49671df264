"""The files of a log: which segments are in its folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from echo_core.errors import LogError, unexpected
from echo_core.logs import limits
from echo_core.transports.fields import shown

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


def demand_log_or_nothing(names: Iterable[str], path: Path) -> None:
    """LogError for a folder of others: what is there is not to be mixed with a log, or removed with one."""
    names = list(names)
    others = sorted(name for name in names if name != LOCK and not name.startswith("."))
    if others and not segment_numbers(names):
        raise unexpected(
            LogError,
            "a log, or an empty folder",
            f"one that holds `{shown(others[0])}` and no segment",
            path=str(path),
            hint="name a folder of its own, such as run.echolog",
        )


class Folder:
    """The folder of one log, to read from: it stays that of this log, whatever is put in its place.

    It holds a descriptor, so no folder that is made later can be taken for it.
    """

    def __init__(self, path: Path) -> None:
        self._fd = -1  # first: `close` may come at any time
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._absent(error) from error
        self._identity = _identity(os.fstat(self._fd))

    def _absent(self, error: OSError) -> LogError:
        return unexpected(LogError, "a log", error.strerror, path=str(self._path))

    def numbers(self) -> list[int]:
        """Of the segments that are there, ascending."""
        self._demand_open()
        try:
            return segment_numbers(os.listdir(self._fd))
        except OSError as error:
            raise self._absent(error) from error

    def has(self, number: int) -> bool:
        """Whether there is this segment."""
        self._demand_open()
        try:
            os.stat(segment_name(number), dir_fd=self._fd)
        except OSError:
            return False
        return True

    def open(self, number: int) -> int | None:
        """A descriptor to read a segment from; None: there is none. LogError: it is not to be read."""
        self._demand_open()
        path = str(segment_path(self._path, number))
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # for a pipe it would wait
        try:
            fd = os.open(segment_name(number), flags, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unexpected(LogError, "a segment", error.strerror, path=path) from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise unexpected(LogError, "a segment", "something that is no file", path=path)
        return fd

    def demand_in_place(self) -> None:
        """LogError where the path leads elsewhere by now: nothing more comes here."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise self._absent(error) from error
        if _identity(found) != self._identity:
            hint = "open it again to read the other one"
            what = "the log that was opened", "another one in its place"
            raise unexpected(LogError, *what, path=str(self._path), hint=hint)

    def _demand_open(self) -> None:
        if self._fd < 0:
            raise unexpected(LogError, "a log that is open", "one that was closed", path=str(self._path))

    def close(self) -> None:
        """Gives the descriptor back."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
