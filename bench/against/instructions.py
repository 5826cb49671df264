"""Exact instruction counts, by callgrind: what an event costs, whatever else the machine does.

A count is the difference between runs of N and of 2N events in one process, divided by N, so all that is not
an event's cancels. It is of one thread and of user space: system calls count as the instructions around
them. Each run is done a few times over, so that what varies can be seen to.
"""

from __future__ import annotations

import functools
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.against.checkouts import Checkout
from bench.against.children import Child

_MARKS = Path(__file__).with_name("marks.c")
_HEADER = "/usr/include/valgrind/callgrind.h"
_COUNTED = "bench.against.workloads.counted"


@dataclass(frozen=True, slots=True)
class Count:
    """Instructions for one event: the middle of a few repeats, and what all lie between."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """Where repeats differ by an instruction or more, their range too."""
        spread = f" ({self.low:.0f} to {self.high:.0f})" if self.high - self.low >= 1 else ""
        return f"{self.median:.0f}{spread}"


@dataclass(frozen=True, slots=True)
class Counted:
    """What is run: a `module:function`, and how many events of it."""

    run: str
    events: int


def _counted(run: str, events: int) -> Counted:
    return Counted(f"bench.against.workloads.counted:{run}", events)


# What `bench against` counts.
RUNS: Mapping[str, Counted] = {
    "submit in process, dataclass": _counted("submit_dataclass_in_process", 3000),
    "submit in process, record": _counted("submit_record_in_process", 3000),
    "submit in process, record, 20 handlers": _counted("submit_record_to_20_handlers", 1000),
    "submit and get in process, record": _counted("submit_and_get_in_process", 3000),
    "submit to a Unix socket, dataclass": _counted("submit_dataclass_to_unix_socket", 2000),
    "submit to a Unix socket, record": _counted("submit_record_to_unix_socket", 2000),
    "submit to TCP, record": _counted("submit_record_to_tcp", 2000),
    "submit to shared memory, record": _counted("submit_record_to_shared_memory", 2000),
    "submit to 4 Unix sockets, record": _counted("submit_record_to_4_unix_sockets", 2000),
    "hand over dataclasses that wait": _counted("hand_over_dataclasses", 5000),
    "hand over records that wait": _counted("hand_over_records", 5000),
    "hand over and submit, Unix socket, dataclass": _counted("trip_of_dataclass_over_unix_socket", 1000),
    "hand over and submit, Unix socket, record": _counted("trip_of_record_over_unix_socket", 1000),
    "hand over and submit, TCP, record": _counted("trip_of_record_over_tcp", 1000),
    "hand over and submit, shared memory, record": _counted("trip_of_record_over_shared_memory", 1000),
    "hand over and submit, TCP, array of 1000": _counted("trip_of_array_over_tcp", 500),
    "hand over and submit, TCP, batch of 1000": _counted("trip_of_batch_over_tcp", 500),
    "hand over and submit, shared memory, array of 1000": _counted("trip_of_array_over_shared_memory", 500),
    "submit and get, Unix socket, record": _counted("submit_and_get", 1000),
}


@functools.cache
def unavailable() -> str | None:
    """Why nothing can be counted here; None: it can."""
    missing = [name for name in ("valgrind", "setarch", "gcc") if shutil.which(name) is None]
    if not missing and not Path(_HEADER).exists():
        missing = [_HEADER]
    return f"not measured: {', '.join(missing)} missing" if missing else None


def per_event(checkout: Checkout, runs: Mapping[str, Counted]) -> dict[str, Count]:
    """Instructions for one event of each run, by its name.

    bench/against/workloads/counted.py says what a run's function is to return, and has some. A test that
    compares two ways to do something in the tree that it is run from names both here:
    `per_event(checkouts.this_tree(), {"with": Counted(...), "without": Counted(...)})`.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        marks = _built_marks(folder)
        environment = checkout.environment(folder / "cache")
        with Child(_COUNTED, environment, launcher=_launcher(folder)) as child:
            for number, counted in enumerate(runs.values()):
                child.ask("count", counted.run, str(number), counted.events, str(marks))
            checkout.check_imported(child.ask("modules"))
        totals = [marked_total(path.read_text()) for path in folder.glob("counts.*")]
    total_by_mark = dict(each for each in totals if each)
    return {
        what: count_of(total_by_mark, str(number), counted.events)
        for number, (what, counted) in enumerate(runs.items())
    }


def _launcher(folder: Path) -> Sequence[str]:
    """The same addresses in every run, and the counts of each thread on their own."""
    files = [f"--callgrind-out-file={folder / 'counts'}", f"--log-file={folder / 'log'}"]
    return ["setarch", "-R", "valgrind", "-q", "--tool=callgrind", "--separate-threads=yes", *files]


def _built_marks(folder: Path) -> Path:
    built = folder / "marks.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", built, _MARKS], check=True)
    return built


def marked_total(text: str) -> tuple[str, int] | None:
    """The mark at which a file was written, and the instructions since the one before."""
    mark = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
    total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
    return (mark[1], int(total[1])) if mark and total else None


def count_of(total_by_mark: Mapping[str, int], label: str, events: int) -> Count:
    """The first of the two marks of a repeat is that of N events, the second that of 2N."""
    each = [
        (total_by_mark[mark.replace("once", "twice")] - total) / events
        for mark, total in total_by_mark.items()
        if mark.startswith(f"{label} ") and mark.endswith("once")
    ]
    return Count(statistics.median(each), min(each), max(each))
