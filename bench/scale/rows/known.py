"""Formats that a process knows: what each takes to have, what a conversion from it, and what a lookup."""

from __future__ import annotations

import dataclasses
import gc
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import echo_core as echo
from bench.private_cache import private_cache
from bench.scale.growth import Growth, Study, marginal, medians
from bench.scale.rows.turns import in_its_turn, resident_kib, rounds_of
from bench.transport.processes import session
from bench.transport.processes.worker import Station, Task

_SAMPLE = 10  # of all that are known, spread evenly: those that are looked up
_FIELDS: list[tuple[str, Any]] = [("id", int), ("x", float), ("name", str)]
_COST = {"declared": "format of a class", "read": "format of a peer", "converted": "conversion from a peer's"}


@dataclass(frozen=True, slots=True)
class Seen:
    """KiB and seconds of all that were made, by stage; seconds of each lookup in every round."""

    kib: dict[str, float]
    making_s: dict[str, float]
    lookups_s: list[dict[str, float]]


def formats(quick: bool) -> Study:
    """Classes with three fields, the same of big-endian peers, and decoders from those to these."""
    sizes = (10, 50, 200) if quick else (10, 100, 1000, 10_000)
    tasks = [
        Task(know, {"size": size, "turn": turn, "turns": len(sizes), "rounds": 3 if quick else 9})
        for turn, size in enumerate(sizes)
    ]
    seen: list[Seen] = session.run(tasks, limit_s=900)
    amounts = {size: size for size in sizes}
    growths: list[Growth] = []
    for stage, what in _COST.items():
        kib = marginal(rounds_of(sizes, [[it.kib[stage]] for it in seen]), amounts)
        making = marginal(rounds_of(sizes, [[it.making_s[stage]] for it in seen]), amounts, 1e6)
        growths.append(Growth(f"{what}: memory", "KiB each", kib, resolution=1.0))
        growths.append(Growth(f"{what}: made", "us each", making))
    for lookup in seen[0].lookups_s[0]:
        costs = medians(rounds_of(sizes, [[each[lookup] for each in it.lookups_s] for it in seen]), 1e9)
        growths.append(Growth(lookup, "ns", costs))
    note = f"Lookups are of {_SAMPLE} formats, spread over all that are known, in turn."
    return Study("formats", "formats that a process knows", growths, (note,))


def know(station: Station, *, size: int, turn: int, turns: int, rounds: int) -> Seen:
    """Declares them, reads what peers say of theirs, and makes conversions."""
    with private_cache():
        _Stages(3).run()  # whatever is there once for all
        stages = _Stages(size)
        kib, making_s = stages.run()
        lookups = stages.lookups()
        measured = in_its_turn(
            station, turn, turns, rounds, lambda: {name: lookup() for name, lookup in lookups.items()}
        )
    return Seen(kib, making_s, measured)


class _Stages:
    """All of a size; kept, as programs keep what they use."""

    def __init__(self, size: int) -> None:
        self._classes = [
            dataclasses.make_dataclass(f"Type{size}_{i}", [*_FIELDS, (f"f{i}", float)], slots=True)
            for i in range(size)
        ]
        self._formats: list[echo.Format] = []
        self._metadata: list[bytes] = []
        self._senders: list[echo.Format] = []
        self._decoders: list[Callable[[bytes], Any]] = []

    def run(self) -> tuple[dict[str, float], dict[str, float]]:
        """Memory and time of each stage."""
        stages: dict[str, Callable[[], None]] = {
            "declared": self._declare,
            "read": self._read,
            "converted": self._convert,
        }
        kib: dict[str, float] = {}
        making_s: dict[str, float] = {}
        for name, stage in stages.items():
            if name == "read":
                self._metadata = [echo.format_of(cls, abi="s390x").metadata for cls in self._classes]
            gc.collect()
            before, began = resident_kib(), time.process_time()
            stage()
            making_s[name] = time.process_time() - began
            gc.collect()
            kib[name] = resident_kib() - before
        return kib, making_s

    def _declare(self) -> None:
        self._formats = [echo.format_of(cls) for cls in self._classes]

    def _read(self) -> None:
        self._senders = [echo.Format.from_metadata(metadata) for metadata in self._metadata]

    def _convert(self) -> None:
        self._decoders = [
            echo.decoder(cls, sender=sender, tier="compiled")
            for cls, sender in zip(self._classes, self._senders, strict=True)
        ]

    def lookups(self) -> dict[str, Callable[[], float]]:
        """Seconds for one of each kind, over a sample."""
        step = max(1, len(self._classes) // _SAMPLE)
        classes, metadata = self._classes[::step], self._metadata[::step]
        calls = list(zip(self._decoders[::step], map(_record_of, classes), strict=True))
        for decode, data in calls:
            assert decode(data).id == 7

        def decode_all(pairs: Sequence[tuple[Callable[[bytes], Any], bytes]]) -> None:
            for decode, data in pairs:
                decode(data)

        def read_all(all_metadata: Sequence[bytes]) -> None:
            for each in all_metadata:
                echo.Format.from_metadata(each)

        def find_all(all_classes: Sequence[Any]) -> None:
            for cls in all_classes:
                echo.format_of(cls)

        return {
            "format_of a class": _each(find_all, classes),
            "from_metadata of a known format": _each(read_all, metadata),
            "decode an event": _each(decode_all, calls),
        }


def _record_of(cls: Any) -> bytes:
    return echo.encoder(cls, abi="s390x", tier="interpreted")(cls(7, 2.5, "name", 1.5))


def _each(function: Callable[[Any], None], items: Sequence[Any]) -> Callable[[], float]:
    timer = timeit.Timer("f(x)", globals={"f": function, "x": items})
    number = max(1, 40 * _SAMPLE // len(items))
    timer.timeit(number)
    return lambda: timer.timeit(number) / number / len(items)
