"""Native records to a column for each field, beside memcpy of the same bytes, numpy and pyarrow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import echo_core as echo
from bench.available import made_by
from bench.convert.senders import particles
from bench.report import Row
from bench.timing import Call, all_timed, best_in_turn, timed
from bench.workload import Particle

COUNT = 1_000_000


def measure(*, quick: bool) -> Iterator[Row]:
    """Into arrays that are there; beside pyarrow, which makes its own, into new ones.

    A decoder reuses the memory of columns that nobody holds any more, as in the second table; in the third
    it finds none, which is how the others always start.
    """
    records = np.tile(particles(), COUNT // 1000)
    rounds = 5 if quick else 15
    taken = best_in_turn(all_timed(into_arrays(records), 1), rounds)
    ours = taken["ours"]
    group = f"{COUNT} records to columns that are there, {1e9 * ours / COUNT:.3g} ns each"
    yield Row("beside memcpy", ours / taken["memcpy"], 1.5, "x memcpy", group=group)
    yield Row("faster than numpy", taken["numpy"] / ours, 4, "x", at_least=True, group=group)
    taken = best_in_turn(all_timed(new_arrays(records), 1), rounds)
    ours = taken["ours"]
    group = f"{COUNT} records to new columns, the last ones dropped, {1e9 * ours / COUNT:.3g} ns each"
    yield Row("beside memcpy to new memory", ours / taken["memcpy"], None, "x memcpy", group=group)
    yield from _beside(taken, {"numpy": None, "pyarrow": 4}, group)
    calls = all_timed(new_arrays(records), 1) | {"ours": first_batch(records)}
    taken = best_in_turn(calls, rounds)
    ours = taken["ours"]
    group = f"{COUNT} records to columns in memory that is new, {1e9 * ours / COUNT:.3g} ns each"
    yield from _beside(taken, {"memcpy": None, "numpy": None, "pyarrow": 4}, group)


def _beside(taken: dict[str, float], goals: dict[str, float | None], group: str) -> Iterator[Row]:
    for peer, goal in goals.items():
        if peer in taken:
            what = f"faster than {peer}"
            yield Row(what, taken[peer] / taken["ours"], goal, "x", at_least=True, group=group)


def into_arrays(records: np.ndarray[Any, Any]) -> dict[str, Call]:
    """Columns filled by us, by memcpy and by numpy; what was filled is checked."""
    split = echo.column_decoder(Particle, tier="compiled")
    fields = records.dtype.names or ()
    columns, theirs = (
        {name: np.zeros(len(records), records.dtype[name]) for name in fields} for _ in range(2)
    )
    flat, floor = records.view(np.uint8).reshape(-1), np.zeros(records.nbytes, np.uint8)
    calls: dict[str, Call] = {
        "ours": (split.into, records, columns),
        "memcpy": (np.copyto, floor, flat),
        "numpy": (_fill, theirs, records),
    }
    for function, *arguments in calls.values():
        function(*arguments)
    for filled in (columns, theirs):
        _check(filled, records)
    assert np.array_equal(flat, floor)
    return calls


def new_arrays(records: np.ndarray[Any, Any]) -> dict[str, Call]:
    """Columns made by us, by memcpy to new memory, by numpy and, where it is there, by pyarrow; checked."""
    split = echo.column_decoder(Particle, tier="compiled")
    fields = records.dtype.names or ()

    def by_numpy(given: Any) -> dict[str, Any]:
        return {name: np.ascontiguousarray(given[name]) for name in fields}

    for made in (split(records), by_numpy(records)):
        _check(made, records)
    by_arrow = made_by({"pyarrow": lambda: [("pyarrow", _arrow_columns(records))]})
    makers = {"ours": split, "memcpy": bytes, "numpy": by_numpy, **dict(by_arrow)}
    return {name: (make, records) for name, make in makers.items()}


def _fill(columns: dict[str, Any], records: np.ndarray[Any, Any]) -> None:
    for name, column in columns.items():
        np.copyto(column, records[name])


def first_batch(records: np.ndarray[Any, Any]) -> Callable[[], float]:
    """Seconds for a decoder's first batch: later ones may find memory that an earlier one has left."""

    def first() -> float:
        split = echo.column_decoder(Particle, tier="compiled")
        return timed((split, records), 1)()

    return first


def _arrow_columns(records: np.ndarray[Any, Any]) -> Callable[[Any], dict[str, Any]]:
    """What makes Arrow's columns, checked with these records."""
    pyarrow: Any = importlib.import_module("pyarrow")

    def split(given: Any) -> dict[str, Any]:
        return {name: _arrow(pyarrow, given[name]) for name in records.dtype.names or ()}

    _check_arrow(split(records), records)
    return split


def _arrow(pyarrow: Any, column: Any) -> Any:
    """An Arrow array of one field. Text stays in as many bytes as the record has, which is the fastest."""
    if column.dtype.kind != "S":
        return pyarrow.array(column)
    data = pyarrow.py_buffer(np.ascontiguousarray(column))
    return pyarrow.Array.from_buffers(pyarrow.binary(column.itemsize), len(column), [None, data])


def _check(columns: dict[str, Any], records: np.ndarray[Any, Any]) -> None:
    assert list(columns) == list(records.dtype.names or ())
    for name, column in columns.items():
        assert np.array_equal(column, records[name])


def _check_arrow(columns: dict[str, Any], records: np.ndarray[Any, Any]) -> None:
    for name, column in columns.items():
        if records.dtype[name].kind == "S":
            assert b"".join(column.slice(0, 1000).to_pylist()) == records[name][:1000].tobytes()
        else:
            assert np.array_equal(column.to_numpy(zero_copy_only=False), records[name])
