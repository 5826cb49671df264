"""Native records to columns under pytest-benchmark, beside memcpy, numpy and pyarrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.convert.columns import into_arrays, new_arrays
from bench.convert.senders import particles

RECORDS = np.tile(particles(), 100)


@pytest.mark.parametrize("who", ["ours", "memcpy", "numpy"])
def test_into_arrays(benchmark: Any, who: str) -> None:
    """Columns that are there; what everyone fills in was checked."""
    benchmark.group = f"{len(RECORDS)} records to columns that are there"
    benchmark(*into_arrays(RECORDS)[who])


@pytest.mark.parametrize("who", ["ours", "memcpy", "numpy", "pyarrow"])
def test_new_arrays(benchmark: Any, who: str) -> None:
    """New columns; what everyone makes was checked."""
    benchmark.group = f"{len(RECORDS)} records to new columns"
    assert benchmark(*new_arrays(RECORDS)[who]) is not None
