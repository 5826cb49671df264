"""Native records to a column for each field, beside memcpy of the same bytes, numpy and pyarrow."""

from __future__ import annotations

import importlib
import importlib.util
import timeit
from typing import Any

import numpy as np

import echo_core as echo
from bench.convert import particles
from bench.report import Row
from bench.workload import Particle


def measure(*, quick: bool) -> list[Row]:
    """Into arrays that are there; beside pyarrow, which makes its own, into new ones."""
    count, repeat = 1_000_000, 5 if quick else 15
    records = np.tile(particles(), count // 1000)
    split = echo.column_decoder(Particle, tier="compiled")
    names = records.dtype.names or ()
    columns = {name: np.zeros(count, records.dtype[name]) for name in names}
    for name, column in split(records).items():
        assert column.tobytes() == records[name].tobytes()

    def best(call: str, **given: Any) -> float:
        return min(timeit.repeat(call, globals=given, number=1, repeat=repeat))

    ours = best("f(r, c)", f=split.into, r=records, c=columns)
    flat, floor = records.view(np.uint8).reshape(-1), np.zeros(records.nbytes, np.uint8)
    copied = best("f(a, b)", f=np.copyto, a=floor, b=flat)
    by_numpy = best("for n in c: f(c[n], r[n])", f=np.copyto, c=columns, r=records)
    rows = [
        Row(f"{count} records to columns, {1e9 * ours / count:.3g} ns each", ours / copied, 1.5, "x memcpy"),
        Row("faster than numpy", by_numpy / ours, 4, "x", at_least=True),
    ]
    if importlib.util.find_spec("pyarrow"):
        rows.append(_arrow(records, best("f(r)", f=split, r=records), best))
    return rows


def _arrow(records: Any, ours: float, best: Any) -> Row:
    pyarrow: Any = importlib.import_module("pyarrow")
    names = [name for name in records.dtype.names if records.dtype[name].kind in "iuf"]
    theirs = best("[f(r[n]) for n in s]", f=pyarrow.array, r=records, s=names)
    return Row("faster than pyarrow, which leaves out text and bool", theirs / ours, 4, "x", at_least=True)
