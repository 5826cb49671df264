"""A million records read from a log, beside the same in an Arrow, a Parquet and an MCAP file.

Files are in the page cache. What is read is checked by its sums, once.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import echo_core as echo
from bench.available import made_by
from bench.convert.senders import particles
from bench.report import Row
from bench.timing import Call, all_timed, best_in_turn
from bench.workload import Particle
from echo_core.logs.described import StreamKey
from echo_core.logs.writing import LogWriter

COUNT = 1_000_000
_AT_ONCE = 10_000
_EXACT = 10_000  # events that the peer decodes to objects: it takes its time


def measure(*, quick: bool) -> Iterator[Row]:
    """Objects, columns and arrays; then verifying all, and the forms that it is exported to."""
    records = np.tile(particles(), COUNT // 1000)
    rounds = 3 if quick else 9
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "run.echolog", records)
        with echo.open_log(path) as log:
            yield from _reading(log, records, rounds)
            yield from _beside(log, Path(folder), records, rounds)


def write(path: Path, records: np.ndarray[Any, Any]) -> Path:
    """A log of these records, of one source."""
    writer = LogWriter(path, level="volatile")
    stream = writer.stream(
        StreamKey(b"c" * 16, "bench", "node", b"s" * 16, "one", 1), echo.format_of(Particle)
    )
    data = records.view(np.uint8).reshape(-1).data
    size = _AT_ONCE * records.itemsize
    for first in range(0, COUNT, _AT_ONCE):
        writer.wait_room(size, 30)
        start = first * records.itemsize
        assert stream.append_batch(data[start : start + size], sequence=first, time_ns=1 + first)
    writer.close()
    return path


def _reading(log: echo.Log, records: np.ndarray[Any, Any], rounds: int) -> Iterator[Row]:
    view = log[Particle]
    assert sum(event.id for event in view) == int(records["id"].sum())
    assert all(np.array_equal(column, records[name]) for name, column in view.columns().items())
    calls: dict[str, Call] = {
        "open": (_open, log.path),
        "fresh": (_fresh, log.path),
        "objects": (_each, view),
        "columns": (view.columns,),
        "blocks": (_each_column, view),
        "arrays": (_each_array, view),
        "condition": (len, view.where("id % 2 == 0")),
        "memcpy": (records.copy,),
    }
    taken = best_in_turn(all_timed(calls, 1), rounds)
    size, group = records.nbytes, f"{COUNT} records of {records.itemsize} bytes"
    yield Row("open", 1e3 * taken["open"], 20, "ms", group=group)
    yield Row("open, then arrays, with all checksums", 1e3 * taken["fresh"], None, "ms", group=group)
    yield Row("arrays, checksums known", 1e3 * taken["arrays"], 3, "ms", group=group)
    yield Row("objects", COUNT / taken["objects"] / 1e6, 12, "M/s", at_least=True, group=group)
    yield Row("columns by the block", size / taken["blocks"] / 1e9, 6, "GB/s", at_least=True, group=group)
    yield Row("columns of all in new memory", size / taken["columns"] / 1e9, None, "GB/s", group=group)
    yield Row("counted by a condition", COUNT / taken["condition"] / 1e6, None, "M/s", group=group)
    yield Row("memcpy to new memory", size / taken["memcpy"] / 1e9, None, "GB/s", group=group)


def _open(path: Path) -> None:
    echo.open_log(path).close()


def _fresh(path: Path) -> int:
    with echo.open_log(path) as log:
        return _each_array(log[Particle])


def _each_column(view: echo.View[Any]) -> None:
    for batch in view.batches():
        batch.columns()


def _each(view: echo.View[Any]) -> None:
    for _ in view:
        pass


def _each_array(view: echo.View[Any]) -> int:
    return sum(map(len, view.arrays()))


def _beside(log: echo.Log, folder: Path, records: np.ndarray[Any, Any], rounds: int) -> Iterator[Row]:
    """Each file is written by `export`, once, and read by the package whose form it is."""
    view = log[Particle]
    group = f"{COUNT} records to an Arrow table"
    peers = dict(made_by({"pyarrow": lambda: list(_tables(view, folder).items())}))
    if peers:
        taken = best_in_turn(all_timed({"ours": (view.arrow,), **peers}, 1), rounds)
        yield Row("from a log", 1e3 * taken["ours"], None, "ms", group=group)
        for peer in peers:
            yield Row(f"from {peer}", 1e3 * taken[peer], None, "ms", group=group)
    for name, calls in made_by({"mcap": lambda: [("mcap", _mcap(view, folder))]}):
        part = view.sequences("one", 0, _EXACT)
        taken = best_in_turn(all_timed({"ours": (_each, part), name: calls}, 1), max(1, rounds // 3))
        group = f"{_EXACT} records to objects, by a checked file"
        yield Row("faster than mcap", taken[name] / taken["ours"], 10, "x", at_least=True, group=group)


def _tables(view: echo.View[Any], folder: Path) -> dict[str, Call]:
    parquet: Any = importlib.import_module("pyarrow.parquet")
    ipc: Any = importlib.import_module("pyarrow.ipc")
    for suffix in ("parquet", "arrow"):
        view.export(folder / f"run.{suffix}", info=False)

    return {
        "Parquet": (parquet.read_table, folder / "run.parquet"),
        "Arrow IPC": (lambda: ipc.open_file(str(folder / "run.arrow")).read_all(),),
    }


def _mcap(view: echo.View[Any], folder: Path) -> Call:
    reader: Any = importlib.import_module("mcap.reader")
    decoder: Any = importlib.import_module("mcap_ros2.decoder")
    view.sequences("one", 0, _EXACT).export(folder / "run.mcap")

    def each() -> int:
        with (folder / "run.mcap").open("rb") as file:
            made = reader.make_reader(file, validate_crcs=True, decoder_factories=[decoder.DecoderFactory()])
            return sum(1 for _ in made.iter_decoded_messages())

    assert each() == _EXACT
    return (each,)
