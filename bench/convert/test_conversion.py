"""Conversions under pytest-benchmark: calls from Python, beside memcpy and numpy doing the same.

`python -m bench convert` times the code itself, in loops of C; there the checks and FFS are, too.
"""

from __future__ import annotations

from typing import Any

import pytest

from bench.convert.calls import ARRAY_KIB, ARRAYS, array_calls, one_record_calls, record_calls, view_calls
from bench.convert.native_form import other_ways, our_ways
from bench.convert.senders import senders, senders_with_and_without

EXTRA = {f"{name}, extra field": pair[1] for name, pair in senders_with_and_without().items()}
SENDERS = {name: sender for name, (sender, *_) in senders().items()} | EXTRA


@pytest.mark.parametrize("who", ["ours", "memcpy", "numpy"])
@pytest.mark.parametrize("count", [10, 1000, 100_000])
@pytest.mark.parametrize("name", SENDERS)
def test_records(benchmark: Any, name: str, count: int, who: str) -> None:
    """Records of fixed size from a foreign sender."""
    benchmark.group = f"{count} records: {name}"
    benchmark(*record_calls(SENDERS[name], count)[who])


@pytest.mark.parametrize("who", ["ours", "memcpy", "numpy"])
@pytest.mark.parametrize("kib", ARRAY_KIB)
@pytest.mark.parametrize(("cls", "dtype"), ARRAYS)
def test_swapped_arrays(benchmark: Any, cls: type[Any], dtype: str, kib: int, who: str) -> None:
    """Numbers from a big-endian sender."""
    benchmark.group = f"swapped {dtype}[], {kib} KiB"
    benchmark(*array_calls(cls, dtype, kib)[who])


@pytest.mark.parametrize("who", ["empty", "ours", "numpy"])
def test_one_record(benchmark: Any, who: str) -> None:
    """The whole call, beside one that does nothing."""
    benchmark.group = "one record"
    benchmark(*one_record_calls()[who])


@pytest.mark.parametrize("count", ["1000", "1000000"])
def test_same_layout(benchmark: Any, count: str) -> None:
    """A view, whatever its size."""
    benchmark.group = "same layout: a view of records"
    assert len(benchmark(*view_calls()[count])) == int(count)


@pytest.mark.parametrize("size", ["96 B", "1 MiB"])
@pytest.mark.parametrize("way", [*our_ways(), *other_ways()])
def test_native_form(benchmark: Any, way: str, size: str) -> None:
    """What has nothing to convert, small and large."""
    call, small, large = (our_ways() | other_ways())[way]
    benchmark.group = f"native form: {way}"
    assert benchmark(call, small if size == "96 B" else large) is not None
