"""The same traffic in plain C, by native/floor.c, which is built on first use."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from bench.transport.processes.placement import Placement
from bench.transport.statistics import Trips

_NATIVE = Path(__file__).parent / "native"
_LIMIT_S = 300


@functools.cache
def program() -> Path:
    """The built program, kept in the user's cache under a name that tells its sources."""
    sources = sorted(_NATIVE.glob("*.[ch]"))
    digest = hashlib.blake2b(b"".join(path.read_bytes() for path in sources), digest_size=8).hexdigest()
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "echo_core-bench"
    built = folder / f"floor-{digest}"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _build([path for path in sources if path.suffix == ".c"], built)
    return built


def _build(sources: list[Path], built: Path) -> None:
    unfinished = built.with_suffix(f".{os.getpid()}")  # two processes may build at once
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-o", unfinished, *sources], check=True)
    unfinished.replace(built)


def round_trips(carrier: str, n: int, placement: Placement, *, budget_s: float, most: int) -> Trips:
    """Once warm."""
    found = _run("rtt", carrier, n, budget_s, *_cores(placement), most)
    return Trips(found["began_ns"], found["times_ns"])


def messages_per_s(
    carrier: str, n: int, placement: Placement, *, budget_s: float, stride: int, receivers: int = 1
) -> float:
    """From the first that was sent to the last that the last receiver got."""
    found = _run("stream", carrier, n, budget_s, *_cores(placement), stride, receivers)
    rate: float = found["messages"] / found["seconds"]
    return rate


def _cores(placement: Placement) -> list[int]:
    return [-1 if core is None else core for core in (placement.core(0), placement.core(1))]


def _run(*arguments: object) -> Any:
    command = [str(program()), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=_LIMIT_S)
    return json.loads(done.stdout)
