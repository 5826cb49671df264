"""Recording what another process submits, beside a handler that does nothing with it; and playing it."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import echo_core as echo
from bench.report import Row, best_of
from bench.workload import Particle

_GROUP = "recording and playing"
_SHARE = 0.9  # of what a handler is given, at least
_SOURCE = """
import sys, time
import echo_core as echo
import numpy as np
from bench.workload import Particle, particle

id_, transport, count, rounds, form = sys.argv[1:6]
count, event = int(count), particle(7)
with echo.open_channel(id_, transport=transport) as channel:
    with channel.source(Particle, backlog=echo.Backlog(when_full="block")) as source:
        array = np.zeros(10_000, source.format.dtype)
        source.wait_matched(1, 60.0)
        for _ in range(int(rounds)):
            began = time.perf_counter()
            if form == "singles":
                submit = source.submit
                for _ in range(count):
                    submit(event)
            else:
                for _ in range(count // len(array)):
                    source.submit_array(array)
            source.flush(60.0)
            print(count / (time.perf_counter() - began), flush=True)
"""


def measure(*, quick: bool) -> Iterator[Row]:
    """Single events by both transports, arrays, and playing what was recorded."""
    count, rounds = (100_000, 3) if quick else (500_000, 5)
    for transport in ("shm", "tcp"):
        handled = _rate(transport, count, rounds, "singles", path=None)
        with _log() as path:
            recorded = _rate(transport, count, rounds, "singles", path=path)
        what = f"single events over {transport}, recorded"
        yield Row(what, recorded / 1e6, _SHARE * handled / 1e6, "M/s", at_least=True, group=_GROUP)
    with _log() as path:
        rate = _rate("shm", count, rounds, "arrays", path=path, on_full="block")
        size = echo.format_of(Particle).size_bytes
        yield Row("arrays over shm, recorded", rate * size / 1e9, None, "GB/s", group=_GROUP)
    with _log() as path:
        yield Row("playing to a handler", _played(path, count, rounds) / 1e6, None, "M/s", group=_GROUP)


@contextlib.contextmanager
def _log() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "bench.echolog"


def _rate(
    transport: str, count: int, rounds: int, form: str, *, path: Path | None, on_full: Any = "drop"
) -> float:
    """Events per second, as the source sees it when all have been taken: the median of several rounds."""
    with echo.create_channel("bench", Particle) as channel, contextlib.ExitStack() as stack:
        recorder: echo.Recorder | None = None
        if path is None:
            channel.sink(Particle, deque[Particle](maxlen=1).append)
        else:
            recorder = stack.enter_context(channel.record(path, on_full=on_full))
        arguments = [channel.id, transport, str(count), str(rounds), form]
        ran = subprocess.run(
            [sys.executable, "-c", _SOURCE, *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        if recorder is not None:
            counted = recorder.statistics()
            assert counted.events + counted.dropped + counted.missing == count * rounds, counted
    return statistics.median(map(float, ran.stdout.split()))


def _played(path: Path, count: int, rounds: int) -> float:
    with echo.create_channel("bench", Particle) as channel, channel.source() as source:
        array = source.loan(count)
        with channel.record(path, on_full="block"):  # 48 MB at once are more than memory may hold
            source.submit_array(array)
    with echo.create_channel("again", Particle) as channel:
        channel.sink(Particle, deque[Particle](maxlen=1).append)

        def play() -> None:
            with echo.play(path, into=channel, speed=0) as player:
                player.wait(60.0)
                assert player.statistics().events == count

        return count / best_of(rounds, play)
