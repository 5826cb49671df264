"""Channels by the thousand: what an idle one takes, and how fast they are made and opened."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any

import echo_core as echo
from bench.codec.peer import Slots, values
from bench.report import Row
from bench.transport.outcome import Options, Outcome
from bench.transport.processes import session
from bench.transport.processes.worker import Station, Task
from bench.workload import particle

_WAIT_S = 200.0
_WARM = 100


def measure(options: Options) -> Outcome:
    """One process makes them, another opens them all over one link, and an event goes through the last."""
    count = 1000 if options.quick else 10_000
    (made_per_s, made_kib), (opened_per_s, opened_kib) = session.run(
        [Task(make, {"count": count}), Task(open_all, {})], limit_s=120
    )
    group = f"{count} channels"
    rows = [
        Row("memory for an idle channel, where it was made", made_kib, 4, "KiB", group=group),
        Row("memory for an idle channel, where it was opened", opened_kib, 4, "KiB", group=group),
        Row("channels made in a second", made_per_s, None, "", at_least=True, group=group),
        Row("channels opened in a second", opened_per_s, 1000, "", at_least=True, group=group),
    ]
    return Outcome(rows=rows)


def make(station: Station, *, count: int) -> tuple[float, float]:
    """Channels made in a second, and KiB for each."""
    node = echo.Node()
    warm = [node.create_channel(f"warm {i}", Slots) for i in range(_WARM)]
    kept: list[Any] = []
    per_s, kib = _cost(node.create_channel, [(f"channel {i}", Slots) for i in range(count)], kept)
    station.exchange([channel.id for channel in (*warm, *kept)])
    source = kept[-1].source(Slots)
    source.wait_matched(1, _WAIT_S)
    event = Slots(*values(particle(7)))
    source.submit(event)
    station.exchange()
    node.close()
    return per_s, kib


def open_all(station: Station) -> tuple[float, float]:
    """Channels opened in a second, and KiB for each."""
    ids, _ = station.exchange()
    node = echo.Node()
    warm = [node.open_channel(channel_id) for channel_id in ids[:_WARM]]
    kept: list[Any] = []
    per_s, kib = _cost(node.open_channel, [(channel_id,) for channel_id in ids[_WARM:]], kept)
    event = kept[-1].sink(Slots).get(_WAIT_S)
    assert event == Slots(*values(particle(7)))
    assert len({channel.id for channel in (*warm, *kept)}) == len(ids)
    station.exchange()
    node.close()
    return per_s, kib


def _cost(open_: Any, arguments: list[Any], kept: list[Any]) -> tuple[float, float]:
    """How many in a second, and the resident memory that each has added."""
    gc.collect()
    before, start = _resident_kib(), time.perf_counter()
    for each in arguments:
        kept.append(open_(*each))  # noqa: PERF401 - a list of its own would grow in the figure
    seconds = time.perf_counter() - start
    gc.collect()
    return len(arguments) / seconds, (_resident_kib() - before) / len(arguments)


def _resident_kib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024
