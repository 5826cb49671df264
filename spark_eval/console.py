"""Output of commands: lines of text, and a progress bar for long work.

All output of spark_eval goes through here, so that a line never lands in the middle of a bar.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

import echo_core as echo

BAR_WIDTH = 30
_LINES_WITHOUT_TERMINAL = 10


def say(text: str = "", *, stream: TextIO | None = None) -> None:
    """Print a line and flush."""
    out = sys.stdout if stream is None else stream
    out.write(f"{text}\n")
    out.flush()


class OutputError(echo.EchoError):
    """The folder for results is not writable."""


def demand_writable(folder: Path) -> None:
    """Create the folder and check that it is writable, before the work instead of after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        msg = f"Expected a folder to write to, got {folder} ({error.strerror})"
        raise OutputError(msg) from None


def span(seconds: float) -> str:
    """A readable duration: `0.4 s`, `12 s`, `3 min 20 s`, `1 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Progress:
    """A progress bar that counts to `total`; if the stream is no terminal, a line for every tenth.

    The remaining time is extrapolated from the elapsed time, so steps of different cost should be mixed.
    """

    def __init__(
        self,
        total: int,
        label: str,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = max(total, 1)
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._done = 0
        self._begun = clock()
        self._width = 0
        self._lines = 0

    def __enter__(self) -> Self:
        self._draw("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            self._write("\n")
            self._width = 0

    @property
    def done(self) -> int:
        """The number of finished steps."""
        return self._done

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Add finished steps; the note says what is in progress."""
        self._done += steps
        self._draw(note)

    def extend(self, steps: int) -> None:
        """Increase the total."""
        self._total += steps

    def _draw(self, note: str) -> None:
        if self._stream.isatty():
            line = f"{self._label} {self._bar()} {self._count()} {note}".rstrip()
            self._write("\r" + line.ljust(self._width))
            self._width = len(line)
        elif self._done * _LINES_WITHOUT_TERMINAL >= self._lines * self._total:
            self._lines = self._done * _LINES_WITHOUT_TERMINAL // self._total + 1
            self._write(f"{self._label} {self._count()} {note}".rstrip() + "\n")

    def _bar(self) -> str:
        filled = min(self._done, self._total) * BAR_WIDTH // self._total
        return "[" + "#" * filled + "." * (BAR_WIDTH - filled) + "]"

    def _count(self) -> str:
        gone = self._clock() - self._begun
        if self._done >= self._total:
            return f"{self._done}/{self._total}, {span(gone)}"
        left = f", {span(gone / self._done * (self._total - self._done))} left" if self._done else ""
        return f"{self._done}/{self._total}{left}"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
