"""Statistics of the samples: medians, spread between blocks, and ratios with their ranges.

The median of a cell uses undisturbed samples only; if all samples of a block are disturbed, it uses all of
these. Ratios are computed within a block, where both sides had the same conditions, and then summarised over
blocks.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

WALL_PER_CPU_LIMIT = 1.05
SPREAD_LIMIT = 0.10
OURS = "echo"  # our codecs' names begin with this word


class Key(NamedTuple):
    """Identifies a cell, by the columns of the samples."""

    codec: str
    operation: str
    shape: str
    sender: str
    target: str

    @property
    def is_ours(self) -> bool:
        return self.codec.split()[0] == OURS


class Range(NamedTuple):
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Clock:
    """Nanoseconds per call by one clock: the median of each block, and of all samples."""

    by_block: Mapping[int, float]
    median_ns: float

    @property
    def spread(self) -> float:
        """(max - min) / median of the blocks' medians; NaN if there is only one block."""
        if len(self.by_block) < 2:
            return math.nan
        return (max(self.by_block.values()) - min(self.by_block.values())) / self.median_ns


@dataclass(frozen=True, slots=True)
class CellSummary:
    """The statistics of a cell. Divide values per call by `records` for values per record."""

    key: Key
    records: int
    payload_bytes: int
    wall: Clock
    cpu: Clock
    wall_per_cpu: float
    setup_ns: Range  # over the blocks; each builds the cell again
    compile_ns: Range
    sample_count: int
    disturbed_count: int

    @property
    def wall_ns_per_record(self) -> float:
        return self.wall.median_ns / self.records

    @property
    def cpu_ns_per_record(self) -> float:
        return self.cpu.median_ns / self.records

    @property
    def bytes_per_record(self) -> float:
        return self.payload_bytes / self.records

    @property
    def noisy(self) -> bool:
        return self.wall_per_cpu > WALL_PER_CPU_LIMIT or self.wall.spread > SPREAD_LIMIT


@dataclass(frozen=True, slots=True)
class Ratio:
    """Time of the rival / time of ours in the same cell; below 1 the rival is faster."""

    ours: Key
    rival: Key
    wall: Range
    cpu: Range

    @property
    def verdict(self) -> str:
        """The side that was faster in every block, or "tie"."""
        if self.wall.low > 1:
            return "ours"
        return "rival" if self.wall.high < 1 else "tie"


@dataclass(frozen=True, slots=True)
class Quantiles:
    p50: float
    p90: float
    largest: float


def _range(values: Iterable[float]) -> Range:
    array = np.fromiter(values, dtype=float)
    return Range(float(np.median(array)), float(array.min()), float(array.max()))


def _clock(nanoseconds: Any, blocks: Any) -> Clock:
    by_block = {int(b): float(np.median(nanoseconds[blocks == b])) for b in np.unique(blocks)}
    return Clock(by_block, float(np.median(nanoseconds)))


def _undisturbed(noisy: Any, blocks: Any) -> Any:
    """A mask of the samples to use: the quiet ones, or all samples of a block without quiet ones."""
    used = ~noisy
    for block in np.unique(blocks):
        if not used[blocks == block].any():
            used[blocks == block] = True
    return used


def _cell(key: Key, column: Mapping[str, Any]) -> CellSummary:
    used = _undisturbed(column["noisy"].astype(bool), column["block"])
    blocks, wall, cpu = column["block"][used], column["wall_ns"][used], column["cpu_ns"][used]

    def builds(name: str) -> Range:
        return _range(float(column[name][column["block"] == b].max()) for b in np.unique(column["block"]))

    return CellSummary(
        key=key,
        records=int(column["records"][0]),
        payload_bytes=int(column["payload_bytes"][0]),
        wall=_clock(wall, blocks),
        cpu=_clock(cpu, blocks),
        wall_per_cpu=float(np.median(wall / cpu)),
        setup_ns=builds("setup_ns"),
        compile_ns=builds("compile_ns"),
        sample_count=len(used),
        disturbed_count=int(column["noisy"].astype(bool).sum()),
    )


def summarise(samples: Any) -> dict[Key, CellSummary]:
    """Summarise the pyarrow table of samples; cells are ordered by name."""
    keys = list(zip(*(samples.column(name).to_pylist() for name in Key._fields), strict=True))
    rows_by_key: defaultdict[Key, list[int]] = defaultdict(list)
    for row, names in enumerate(keys):
        rows_by_key[Key(*names)].append(row)
    columns = {
        name: samples.column(name).to_numpy()
        for name in (
            "block", "noisy", "wall_ns", "cpu_ns", "records", "payload_bytes", "setup_ns", "compile_ns",
        )
    }  # fmt: skip
    return {
        key: _cell(key, {name: column[rows_by_key[key]] for name, column in columns.items()})
        for key in sorted(rows_by_key)
    }


def _ratio(ours: CellSummary, rival: CellSummary) -> Ratio | None:
    def inside_blocks(a: Clock, b: Clock) -> list[float]:
        common = sorted(a.by_block.keys() & b.by_block.keys())
        return [(b.by_block[n] / rival.records) / (a.by_block[n] / ours.records) for n in common]

    wall = inside_blocks(ours.wall, rival.wall)
    if not wall:
        return None
    return Ratio(ours.key, rival.key, _range(wall), _range(inside_blocks(ours.cpu, rival.cpu)))


def ratios(cells: Mapping[Key, CellSummary]) -> list[Ratio]:
    """The ratios of each of our cells to all rivals with equal operation, shape, sender and target."""
    rivals: defaultdict[tuple[str, ...], list[CellSummary]] = defaultdict(list)
    for key, cell in cells.items():
        if not key.is_ours:
            rivals[key[1:]].append(cell)
    pairs = (_ratio(cell, rival) for key, cell in cells.items() if key.is_ours for rival in rivals[key[1:]])
    return [ratio for ratio in pairs if ratio is not None]


def quantiles(values: Iterable[float]) -> Quantiles:
    """The quantiles of all values except NaN; NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return Quantiles(math.nan, math.nan, math.nan)
    return Quantiles(float(np.quantile(known, 0.5)), float(np.quantile(known, 0.9)), max(known))


def middle(values: Sequence[float]) -> Range:
    """Median and extremes of values, such as one rival's ratios over the shapes."""
    return _range(values)
