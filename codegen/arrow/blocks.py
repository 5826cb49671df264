"""Values gathered from a block of bytes: at a constant step, or at any places."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, Any]

_LONG_RUN_BYTES = 256  # on average, from which copying runs is faster than indexing each item


@dataclass(frozen=True)
class Places:
    """Where values begin: with a constant step, or at irregular places.

    `base` is the start of each value's record, to which its slots are relative; None if there are no slots.
    """

    count: int
    first: int = 0
    step: int = 0
    irregular: Numbers | None = None
    base: Numbers | None = None

    def moved(self, by: int) -> Places:
        """So many bytes further on."""
        if self.irregular is None:
            return Places(self.count, self.first + by, self.step, None, self.base)
        return Places(self.count, irregular=self.irregular + by, base=self.base)

    @cached_property
    def each(self) -> Numbers:
        """All of them."""
        if self.irregular is not None:
            return self.irregular
        return self.first + self.step * np.arange(self.count, dtype=np.int64)

    def where(self, mask: Numbers) -> Places:
        """Those for which the mask is true."""
        base = None if self.base is None else self.base[mask]
        return Places(int(mask.sum()), irregular=self.each[mask], base=base)


class ByteBlock:
    """A block of bytes from which values are gathered."""

    def __init__(self, data: Numbers) -> None:
        self.data = data

    @cached_property
    def nuls(self) -> Numbers:
        """The places of all zeros: a text ends at the first zero after its start."""
        return np.flatnonzero(self.data == 0)

    def numbers(self, at: Places, dtype: Any) -> Numbers:
        """A contiguous array of the values at these places."""
        dtype = np.dtype(dtype)
        if not at.count:
            return np.empty(0, dtype)
        if at.irregular is None:
            strided: Numbers = np.ndarray((at.count,), dtype, self.data.data, at.first, (at.step,))
            return np.ascontiguousarray(strided)
        size = dtype.itemsize
        if size & (size - 1) == 0 and not np.any(at.irregular & (size - 1)):
            whole = self.data[: len(self.data) // size * size].view(dtype)
            taken: Numbers = whole[at.irregular // size]
            return taken
        windows = np.lib.stride_tricks.sliding_window_view(self.data, size)
        gathered: Numbers = np.ascontiguousarray(windows[at.irregular]).view(dtype).ravel()
        return gathered

    def rows(self, at: Places, size: int) -> Numbers:
        """`size` bytes from each place, as rows."""
        rows: Numbers = self.numbers(at, f"V{size}").view(np.uint8).reshape(at.count, size)
        return rows

    def runs(self, starts: Numbers, sizes: Numbers) -> Numbers:
        """The concatenated bytes of all runs."""
        total = int(sizes.sum())
        if are_long(len(starts), total):
            ends = (starts + sizes).tolist()
            return np.concatenate([self.data[s:e] for s, e in zip(starts.tolist(), ends, strict=True)])
        return self.data[spread(starts, sizes, 1)]


def spread(starts: Numbers, counts: Numbers, step: int) -> Numbers:
    """For all i, `counts[i]` places from `starts[i]` on, `step` apart."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before * step, counts) + np.arange(int(counts.sum()), dtype=np.int64) * step


def are_long(count: int, total_bytes: int) -> bool:
    """Whether runs of so many bytes in all are copied one by one."""
    return total_bytes >= _LONG_RUN_BYTES * count > 0


def offsets_of(counts: Numbers) -> Numbers:
    """Arrow offsets of lists or strings of these lengths."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return offsets
