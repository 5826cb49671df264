"""Other processes for tests: a script that runs to its end, or an actor that one talks to line by line."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.forks import ERRORS_BUT_FORKS

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0
AGAIN_S = 20.0

_PREFACE = f"""
import contextlib, faulthandler, os, signal, sys, threading, time
LIMIT_S = {LIMIT_S}
faulthandler.dump_traceback_later(LIMIT_S - 20, exit=True)  # before who waits for it gives up
import echo_core as echo
from tests.echo_core.channel_events import Plain
def say(*words):
    print(*words, flush=True)
def hear():
    return sys.stdin.readline().strip()
"""


class Actor:
    """A process that runs a script; the script can `say` words and `hear` lines."""

    def __init__(self, script: str, *arguments: str, forks: bool = False, namespace: str = "") -> None:
        """`namespace`: a network namespace, which is another host to the library."""
        entering = ["ip", "netns", "exec", namespace] if namespace else []
        self._process = subprocess.Popen(
            [*entering, sys.executable, "-c", _PREFACE + script, *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYTHONWARNINGS": ERRORS_BUT_FORKS if forks else "error",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that what it forks ends with it
        )
        self._heard = b""
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self, limit_s: float = LIMIT_S) -> str:
        """The next line that it says."""
        assert self._process.stdout is not None
        limit = time.monotonic() + limit_s
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, limit - time.monotonic()))
            data = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                self._end_group()
                pytest.fail(f"expected a line, got silence and {self._process.communicate()!r}")
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def has_said(self, line: str) -> bool:
        """Whether it has said that by now; does not wait."""
        assert self._process.stdout is not None
        if select.select([self._process.stdout], [], [], 0)[0]:
            self._heard += os.read(self._process.stdout.fileno(), 1 << 16)
        return line.encode() + b"\n" in self._heard

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def interrupt(self) -> None:
        """Ctrl-C, and again where that had no effect.

        Between its last look for signals and the system call of a sleep CPython has a gap: what comes there
        is noticed when the sleep is over.
        """
        self.signal(signal.SIGINT)
        try:
            self._process.wait(AGAIN_S)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGINT)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self, limit_s: float = LIMIT_S) -> tuple[int, str, str]:
        """How it has ended: code, the rest of what it said, and what stands on its stderr."""
        try:
            out, err = self._process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            self._process.wait()
            self._end_group()
            out, err = self._process.communicate()
            pytest.fail(f"expected an end within {limit_s} s, got {err.decode()}")
        return self._process.returncode, (self._heard + out).decode(), err.decode()

    def demand_quiet_end(self, code: int = 0, limit_s: float = LIMIT_S) -> str:
        """What it said, if it has ended with that code, and nothing on stderr."""
        returned, out, err = self.end(limit_s)
        if (returned, err) != (code, ""):
            pytest.fail(f"ended with {returned}, having said {out!r} and\n{err}", pytrace=False)
        return out

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_group()
        self._process.communicate()

    def _end_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
