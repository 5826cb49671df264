"""Where a process spends its time: samples by perf, and which part of the system each of them hit."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import re
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

SAMPLES_PER_S = 4999  # in step with nothing; many more would slow down what they measure
_LIMIT_S = 300
_LINE = re.compile(
    r"\s*(.+?)\s+(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}):\s+[0-9a-f]+\s+(.+?) \(([^()]*(?: \(deleted\))?)\)$"
)


class Part(enum.Enum):
    """A reader's parts of the system, in the order in which a report has them."""

    KERNEL = "kernel, and the way into it"
    LOCKS = "locks: the GIL's, the outbox's"
    INTERPRETER = "interpreter: handlers, loops"
    OBJECTS = "Python objects: made, freed"
    NUMPY = "numpy"
    CODEC = "encoding, decoding (C)"
    LINKS = "links (C)"
    REST = "copies, clock and all else"


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process was at, at one moment."""

    at_ns: int
    processor: int
    pid: int
    command: str
    symbol: str
    library: str

    @property
    def part(self) -> Part:
        return part_of(self.library, self.symbol)


class Profile:
    """What all processors are at while it is open, and can be asked for once it is closed.

    Whole processors are sampled, which takes a privilege: sampling processes makes each change between them
    slower by microseconds.
    """

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as unfinished:
            folder = unfinished.enter_context(tempfile.TemporaryDirectory())
            self._path = str(Path(folder, "samples"))
            (told, tell), (hear, say) = os.pipe(), os.pipe()
            self._orders = unfinished.enter_context(os.fdopen(tell, "wb", 0))
            self._answers = unfinished.enter_context(os.fdopen(hear, "rb"))
            self._recorder = _start(told, say, self._path)
            unfinished.callback(self._end)
            self._order(b"enable\n")
            self._unfinished = unfinished.pop_all()
        return self

    def _order(self, order: bytes) -> None:
        self._orders.write(order)
        if not self._answers.readline():
            msg = f"perf ended with {self._recorder.wait(_LIMIT_S)}"
            raise OSError(msg)

    def _end(self) -> None:
        self._recorder.kill()
        self._recorder.wait()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._unfinished:
            if kind is None:
                self._order(b"stop\n")
                self._recorder.wait(_LIMIT_S)
                self._samples = list(_parse(_script(self._path)))

    @property
    def period_ns(self) -> float:
        """From one sample of a processor that is busy to the next, as it really was: idle ones have none."""
        gaps: list[int] = []
        for processor in {sample.processor for sample in self._samples}:
            times = sorted(sample.at_ns for sample in self._samples if sample.processor == processor)
            gaps += [later - sooner for sooner, later in pairwise(times)]
        return statistics.median(gaps)

    def of(self, process: int | str, began_ns: int, ended_ns: int) -> list[Sample]:
        """What a process, given by its number, or those of a name were at in that time."""
        return [
            sample
            for sample in self._samples
            if began_ns <= sample.at_ns < ended_ns and process in (sample.pid, sample.command)
        ]


def _start(told: int, say: int, path: str) -> subprocess.Popen[bytes]:
    """Samples nothing before it is told to."""
    control = ["--delay=-1", f"--control=fd:{told},{say}"]
    clock = ["-k", "CLOCK_MONOTONIC"]  # Python's perf_counter_ns, and the floor's
    what = ["-a", "-e", "cpu-clock", "-F", str(SAMPLES_PER_S)]
    command = ["perf", "record", "-q", *what, *control, *clock, "-o", path]
    try:
        return subprocess.Popen(
            command, pass_fds=[told, say], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    finally:
        os.close(told)
        os.close(say)


def _script(path: str) -> list[str]:
    command = ["perf", "script", "-i", path, "-F", "comm,pid,cpu,time,ip,sym,dso", "--ns"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LIMIT_S)
    return done.stdout.splitlines()


@functools.cache
def unavailable() -> str | None:
    """Why perf cannot be used here; None: it can."""
    try:
        with Profile():
            pass
    except (OSError, subprocess.SubprocessError) as error:
        return f"perf does not sample processors here: {error}"
    return None


def _parse(lines: Iterable[str]) -> Iterator[Sample]:
    for line in lines:
        found = _LINE.match(line)
        if found:
            command, pid, processor, seconds, fraction, symbol, library = found.groups()
            at_ns = int(seconds) * 10**9 + int(fraction)
            yield Sample(at_ns, int(processor), int(pid), command, symbol, library)


def counts(samples: Iterable[Sample]) -> dict[Part, int]:
    """How many hit each part."""
    found = Counter(sample.part for sample in samples)
    return {part: found[part] for part in Part}


def costliest(samples: Iterable[Sample], part: Part, most: int) -> list[tuple[str, int]]:
    """The functions of a part that were hit most, and how often."""
    return Counter(sample.symbol for sample in samples if sample.part is part).most_common(most)


# -----------------------------------------------------------------------
# Parts

_BY_LIBRARY = (
    (re.compile(r"\[kernel|\[guest|^\[(?!vdso|unknown)"), Part.KERNEL),
    (re.compile(r"/links\."), Part.LINKS),
    (re.compile(r"/_c/(events|code)\.|^//anon|^\[unknown\]|memfd:"), Part.CODEC),
    (re.compile(r"numpy|multiarray|openblas"), Part.NUMPY),
)
# C libraries have functions of several parts.
_LOCKS = re.compile(r"pthread_|lll_|_gil$|PyEval_(Save|Restore)Thread|PyThread_|PyThreadState_|sem_")
_CALLS = re.compile(r"^_*(libc_)?(GI_)*_*(syscall|send|recv|sendmsg|recvmsg|ppoll|poll|read|write)(64)?$")
_INTERPRETER_LIBRARY = re.compile(r"python3")
_OBJECTS = re.compile(
    r"alloc|free|_new$|_New|GC_|gc_|From(Double|Long|Unsigned|Size|Ssize|String|SizeT)|Free|Dealloc|clear_slots",
    re.IGNORECASE,
)


@functools.cache
def part_of(library: str, symbol: str) -> Part:
    """By the library that a sample hit, and in those that do many things by the function."""
    for pattern, part in _BY_LIBRARY:
        if pattern.search(library):
            return part
    if _LOCKS.search(symbol):
        return Part.LOCKS
    if _CALLS.search(symbol):
        return Part.KERNEL
    if _INTERPRETER_LIBRARY.search(library):
        return Part.OBJECTS if _OBJECTS.search(symbol) else Part.INTERPRETER
    return Part.REST
