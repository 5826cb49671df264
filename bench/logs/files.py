"""Logs beside raw files, MCAP, Arrow IPC and Parquet; what was written is read and compared.

Files are in build/, so on the disk of the checkout; they stay in the page cache unless a row says that it
syncs. Those who write the same take turns.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import echo_core as echo
from bench.available import LEFT_OUT
from bench.report import Row, best_of
from bench.timing import best_in_turn
from bench.workload import Particle
from echo_core.logs.described import Level, Retain, StreamKey
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter

FORMAT = echo.format_of(Particle)
COUNT = 1_000_000
SIZE = COUNT * FORMAT.size_bytes
AT_ONCE = 20_000
GROUP_BYTES = 64 << 10
KEY = StreamKey(bytes(16), "channel", "node", bytes(16), "source", 1)
RETAIN = Retain(min_free=0)

Rows = np.ndarray[Any, Any]


def measure(*, quick: bool) -> list[Row]:
    """All rows that concern files."""
    rounds = 3 if quick else 9
    records = _records(COUNT)
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build", prefix="bench-logs-") as name:
        folder = Path(name)
        parts: list[Callable[[Path, Rows, int], list[Row]]] = [
            _arrays, _singles, _synced, _reading, _compressed, _crashed, _followed
        ]  # fmt: skip
        return [row for part in parts for row in part(folder, records, rounds)]


def _records(count: int) -> Rows:
    """Particles as a simulation has them: ids ascend, values vary in their last digits."""
    random = np.random.default_rng(1)
    made = np.zeros(count, FORMAT.dtype)
    for name in FORMAT.dtype.names or ():
        column = made[name]
        if column.dtype.kind in "iu":
            column[...] = np.arange(column.size).reshape(column.shape) % 100_000
        elif column.dtype.kind == "f":
            column[...] = random.integers(0, 10_000, column.shape) / 64
    return made


# --- writing


def _write(path: Path, records: Rows, *, compress: str | None = None, level: Level = Level.VOLATILE) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with LogWriter(path, level=level, compress=compress, retain=RETAIN) as log:
        stream = log.stream(KEY, FORMAT)
        for first in range(0, len(records), AT_ONCE):
            log.wait_room(AT_ONCE * FORMAT.size_bytes, 60)
            assert stream.append_batch(records[first : first + AT_ONCE], sequence=first, time_ns=1)


def _write_raw(path: Path, records: Rows) -> None:
    path.unlink(missing_ok=True)
    with path.open("wb", buffering=0) as file:
        for first in range(0, len(records), AT_ONCE):
            file.write(records[first : first + AT_ONCE].data)


def _write_mcap(path: Path, records: Rows, at_once: int) -> None:
    mcap: Any = import_module("mcap.writer")

    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        writer = mcap.Writer(file, compression=mcap.CompressionType.NONE)
        writer.start()
        schema = writer.register_schema("Particle", "", b"")
        channel = writer.register_channel("channel", "", schema)
        for first in range(0, len(records), at_once):
            writer.add_message(channel, 1, records[first : first + at_once].tobytes(), 1)
        writer.finish()


def _write_arrow(path: Path, records: Rows) -> None:
    pa: Any = import_module("pyarrow")

    table = _table(records)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=AT_ONCE)


def _write_parquet(path: Path, records: Rows) -> None:
    pq: Any = import_module("pyarrow.parquet")

    pq.write_table(_table(records), path)


def _table(records: Rows) -> Any:
    pa: Any = import_module("pyarrow")

    columns = {}
    for name in records.dtype.names or ():
        column = np.ascontiguousarray(records[name])
        width = int(np.prod(column.shape[1:]))
        flat = pa.array(column.reshape(-1).tolist() if column.dtype.kind in "SV" else column.reshape(-1))
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, width) if column.ndim > 1 else flat
    return pa.table(columns)


def _arrays(folder: Path, records: Rows, rounds: int) -> list[Row]:
    writers: dict[str, Callable[[], object]] = {
        "log": lambda: _write(folder / "a.echolog", records),
        "raw": lambda: _write_raw(folder / "raw", records),
        "MCAP": lambda: _write_mcap(folder / "a.mcap", records, 1000),
        "Arrow IPC": lambda: _write_arrow(folder / "a.arrows", records),
        "Parquet": lambda: _write_parquet(folder / "a.parquet", records),
    }
    writers = {name: write for name, write in writers.items() if _can(name, write)}
    best = best_in_turn({name: _timed(write) for name, write in writers.items()}, rounds)
    with LogReader(folder / "a.echolog") as reader:
        assert b"".join(block.records for block in reader.blocks()) == records.tobytes()
        overhead = 100 * (sum(it.stat().st_size for it in (folder / "a.echolog").glob("*.seg")) / SIZE - 1)
    group = f"{COUNT} records of {FORMAT.size_bytes} bytes written, in arrays of {AT_ONCE}; not synced"
    rows = [
        Row("log over raw write", best["raw"] / best["log"], 0.9, "x", at_least=True, group=group),
        Row("overhead in the file", overhead, 0.1, "%", group=group),
    ]
    if "MCAP" in best:
        rows.insert(1, Row("log over MCAP", best["MCAP"] / best["log"], 2, "x", at_least=True, group=group))
    return rows + [
        Row(name, SIZE / seconds / 1e9, None, "GB/s", group=group) for name, seconds in best.items()
    ]


def _can(name: str, write: Callable[[], object]) -> bool:
    try:
        write()
    except ImportError as error:
        LEFT_OUT[name] = str(error)
        return False
    return True


def _timed(call: Callable[[], object]) -> Callable[[], float]:
    def seconds() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return seconds


def _singles(folder: Path, records: Rows, rounds: int) -> list[Row]:
    some = [record.tobytes() for record in records[:100_000]]

    def write() -> None:
        path = folder / "singles.echolog"
        shutil.rmtree(path, ignore_errors=True)
        with LogWriter(path, level=Level.VOLATILE, retain=RETAIN, max_staged_bytes=64 << 20) as log:
            append = log.stream(KEY, FORMAT).append
            start = time.perf_counter()
            for number, record in enumerate(some):
                append(record, sequence=number)
            taken.append(time.perf_counter() - start)
            assert not log.statistics().lost

    taken: list[float] = []
    group = "single records, from a loop in Python"
    for _ in range(rounds):
        write()
    rate = len(some) / min(taken) / 1e6
    rows = [Row("append to a log", rate, None, "M/s", group=group)]
    if "MCAP" not in LEFT_OUT:
        seconds = best_of(2, lambda: _write_mcap(folder / "singles.mcap", records[:100_000], 1))
        mcap = len(some) / seconds / 1e6
        rows.append(Row("MCAP", mcap, None, "M/s", group=group))
        rows.append(Row("log over MCAP", rate / mcap, 10, "x", at_least=True, group=group))
    return rows


def _synced(folder: Path, records: Rows, rounds: int) -> list[Row]:
    count = GROUP_BYTES // FORMAT.size_bytes
    ours: list[float] = []
    floor: list[float] = []
    shutil.rmtree(folder / "synced.echolog", ignore_errors=True)
    fd = os.open(folder / "synced", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    data = records[:count].tobytes()
    with LogWriter(folder / "synced.echolog", level=Level.SYNCED, retain=RETAIN) as log:
        stream = log.stream(KEY, FORMAT)
        for turn in range(30 * rounds):
            start = time.perf_counter()
            stream.append_batch(records[:count], sequence=turn * count, time_ns=1)
            log.sync()
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            os.write(fd, data)
            os.fdatasync(fd)
            floor.append(time.perf_counter() - start)
    os.close(fd)
    group = f"groups of {GROUP_BYTES >> 10} KiB, each promised before the next; median"
    mine, least = statistics.median(ours), statistics.median(floor)
    return [
        Row("log over write and fdatasync", mine / least, 1.2, "x", group=group),
        Row("log", mine * 1e6, None, "us", group=group),
        Row("write and fdatasync", least * 1e6, None, "us", group=group),
        Row("events promised", count / mine / 1e6, 2.5, "M/s", at_least=True, group=group),
    ]


# --- reading


def _reading(folder: Path, records: Rows, rounds: int) -> list[Row]:
    path = folder / "a.echolog"
    _write(path, records)

    def view() -> int:
        with LogReader(path) as reader:
            return sum(len(np.frombuffer(it.records, FORMAT.dtype)) for it in reader.blocks(verify=False))

    def verify() -> None:
        with LogReader(path) as reader:
            assert not reader.verify()

    assert view() == COUNT
    group = f"{COUNT} records read"
    rows = [
        Row("opened and viewed, records not verified", 1e3 * best_of(rounds, view), 1, "ms", group=group),
        Row(
            "opened and verified",
            SIZE / best_of(rounds, verify) / 1e9,
            10,
            "GB/s",
            at_least=True,
            group=group,
        ),
    ]
    if "MCAP" not in LEFT_OUT:
        seconds = best_of(2, lambda: _read_mcap(folder / "a.mcap"))
        rows.append(
            Row("MCAP, by 1000, checksums looked at", SIZE / seconds / 1e9, None, "GB/s", group=group)
        )
    return rows


def _read_mcap(path: Path) -> int:
    mcap: Any = import_module("mcap.reader")

    with path.open("rb") as file:
        reader = mcap.NonSeekingReader(file, validate_crcs=True)
        return sum(len(message.data) for _, _, message in reader.iter_messages(log_time_order=False))


def _compressed(folder: Path, records: Rows, rounds: int) -> list[Row]:
    return [
        row
        for codec, package, goal in (("lz4", "lz4", None), ("zstd", "zstandard", 40))
        if _can(package, partial(import_module, package))
        for row in _compressed_by(codec, goal, folder / f"{codec}.echolog", records, min(rounds, 3))
    ]


def _compressed_by(codec: str, goal: int | None, path: Path, records: Rows, rounds: int) -> list[Row]:
    group = f"compressed by {codec}, columns first"
    write = best_of(rounds, lambda: _write(path, records, compress=codec))
    size = sum(it.stat().st_size for it in path.glob("*.seg"))

    def read() -> int:
        with LogReader(path) as reader:
            return sum(len(block.records) for block in reader.blocks())

    assert read() == SIZE
    seconds = best_of(rounds, read)
    return [
        Row("bytes for each record", size / COUNT, goal, "B", group=group),
        Row("written", SIZE / write / 1e9, None, "GB/s", group=group),
        Row("read", SIZE / seconds / 1e9, None, "GB/s", group=group),
    ]


def _crashed(folder: Path, records: Rows, rounds: int) -> list[Row]:
    """A segment of 255 MiB whose writer was killed: its end is found by looking at everything."""
    path = folder / "crashed.echolog"
    plain = records.view(f"V{FORMAT.size_bytes}")  # or numpy would leave the padding out
    many = np.concatenate([plain] * 3)[: (255 << 20) // FORMAT.size_bytes - 30_000]
    _write(path, many)
    (file,) = path.glob("*.seg")
    os.truncate(file, file.stat().st_size - 100)

    def open_it() -> None:
        with LogReader(path) as reader:
            assert reader.is_torn
            assert reader.streams[0].events == len(many)

    seconds = best_of(rounds, open_it)
    group = "a log of 255 MiB that was broken off"
    return [Row("opened, and all of it verified", 1e3 * seconds, 20, "ms", group=group)]


# --- following

_FOLLOWED = """
import sys, time
from echo_core.logs.described import Level, Retain
from echo_core.logs.writing import LogWriter
from bench.logs.files import FORMAT, KEY, RETAIN
with LogWriter(sys.argv[1], level=Level.VOLATILE, retain=RETAIN) as log:
    stream = log.stream(KEY, FORMAT)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        time.sleep(0.002)
        stream.append(bytes(FORMAT.size_bytes), sequence=number, time_ns=time.time_ns())
        log.flush()
"""


def _followed(folder: Path, records: Rows, rounds: int) -> list[Row]:
    """From append in one process to the record in another, which waits for it."""
    path, count = folder / "followed.echolog", 100 * rounds
    command = [sys.executable, "-c", _FOLLOWED, str(path), str(count)]
    late: list[int] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        with LogReader(path) as reader:
            position = reader.end
            process.stdin.write("go\n")
            process.stdin.flush()
            while len(late) < count and reader.wait(30):
                now = time.time_ns()
                for block in reader.blocks(since=position):
                    late += [now - it for it in block.times_ns().tolist()]
                position = reader.end
    assert len(late) == count
    group = "followed by another process, one event at a time"
    return [
        Row("p50", statistics.median(late) / 1e3, None, "us", group=group),
        Row("p99", sorted(late)[len(late) * 99 // 100] / 1e3, 100, "us", group=group),
    ]
