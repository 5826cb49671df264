"""The same particles in files of each codec, read by the same Spark job: the log's reader beside others.

A log is read by its data source, Parquet by Spark itself, and what the other codecs wrote by `mapInArrow`
over their files, whose messages lie in a binary column of Arrow. The job is a checksum of all columns and the
number of rows, which every codec must agree on. Codecs take turns, so that a slow minute affects all.
"""

from __future__ import annotations

import importlib
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import echo_core as echo
from echo_core.spark_eval.console import Progress, demand_writable, say
from echo_core.spark_eval.pipeline import checksum_of
from echo_core.spark_eval.runtime.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PER_MESSAGE = 100
FILES = 8
RECORDS_OF_GOALS = 1_000_000

# Codec: (required and desired ratio of its time to ours) at so many records.
GOALS: dict[str, tuple[float, float]] = {
    "parquet": (0.9, 1.0),
    "msgpack array": (3, 3),
    "xml etree": (8, 12),
}
OTHERS = ("msgpack array", "pickle of rows", "xml etree")
CODECS = ("echo", "parquet", *OTHERS)


class ReadersError(echo.EchoError):
    """The readers gave different rows, or cannot be compared."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading by one codec."""

    codec: str
    run: int
    records: int
    seconds: float
    bytes: int
    checksum: int
    rows: int


# ---------------------------------------------------------------------------
# Files


def written(codec: str, folder: Path, records: int, files: int = FILES) -> Path:
    """The data set as this codec has it: a log, or a folder of files."""
    path = folder / (f"{codec}.echolog" if codec == "echo" else codec.replace(" ", "-"))
    parts = [(i, records * i // files, records * (i + 1) // files) for i in range(files)]
    if codec == "echo":
        _write_log(path, parts)
    else:
        path.mkdir()
        for number, first, last in parts:
            _write_file(codec, path / f"{number:03}", first, last - first)
    return path


def _write_file(codec: str, path: Path, first: int, count: int) -> None:
    pa: Any = importlib.import_module("pyarrow")
    routes = importlib.import_module("echo_core.spark_eval.routes")
    columns = routes.particles(first, count)
    if codec == "parquet":
        schema = importlib.import_module("echo_core.spark_eval.columns.schema")
        types = schema.arrow_schema(routes.Particle)
        table = pa.table([pa.array(columns[it.name], it.type) for it in types], schema=types)
        importlib.import_module("pyarrow.parquet").write_table(table, path.with_suffix(".parquet"))
        return
    messages = pa.array(routes.route(codec).encode(columns, PER_MESSAGE), pa.binary())
    batch = pa.record_batch([messages], ["message"])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def _write_log(path: Path, parts: list[tuple[int, int, int]]) -> None:
    routes = importlib.import_module("echo_core.spark_eval.routes")
    with echo.create_log(path) as log:
        stream = log.stream(routes.Particle, channel="plasma", source="simulation")
        for _, first, last in parts:
            stream.append_array(routes.records(routes.particles(first, last - first)))


# ---------------------------------------------------------------------------
# On executors


@dataclass(frozen=True)
class ReadMessages:
    """Called by `mapInArrow`: numbers of files to a row for each particle."""

    codec: str
    folder: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa: Any = importlib.import_module("pyarrow")
        routes = importlib.import_module("echo_core.spark_eval.routes")
        decode = routes.route(self.codec).decode
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            with pa.memory_map(f"{self.folder}/{number:03}") as file:
                messages = pa.ipc.open_file(file).read_all().column(0).combine_chunks()
                for first in range(0, len(messages), routes.CHUNK):
                    columns = decode(messages.slice(first, routes.CHUNK))
                    yield pa.RecordBatch.from_arrays(columns, list(routes.NAMES))


# ---------------------------------------------------------------------------
# In the driver


def frame_of(spark: SparkSession, codec: str, path: Path, files: int = FILES) -> DataFrame:
    """The data set as rows, read by this codec."""
    if codec == "echo":
        return spark.read.format("echo").load(str(path))
    if codec == "parquet":
        return spark.read.parquet(str(path))
    schema = importlib.import_module("echo_core.spark_eval.columns.schema")
    shapes = importlib.import_module("echo_core.spark_eval.measure.workloads")
    numbers: Any = spark.range(0, files, 1, files)
    rows: DataFrame = numbers.mapInArrow(ReadMessages(codec, str(path)), schema.struct_type(shapes.Particle))
    return rows


def read_once(
    spark: SparkSession, codec: str, path: Path, records: int, run: int = 0, files: int = FILES
) -> Sample:
    """One reading of all columns."""
    begun = time.perf_counter()
    checksum, rows = checksum_of(frame_of(spark, codec, path, files))
    seconds = time.perf_counter() - begun
    size = sum(file.stat().st_size for file in path.iterdir())
    return Sample(codec, run, records, seconds, size, checksum, rows)


def measure(
    spark: SparkSession, codecs: list[str], records: int, runs: int, told: Callable[[str], None]
) -> list[Sample]:
    """The codecs in turn, so many times each after one run to warm up; ReadersError if they differ."""
    with tempfile.TemporaryDirectory(prefix="echo-readers-") as folder:
        paths = {codec: written(codec, Path(folder), records) for codec in codecs}
        samples: list[Sample] = []
        for run, codec in itertools.product(range(runs + 1), codecs):
            samples.append(read_once(spark, codec, paths[codec], records, run))
            told(codec)
    demand_agreement(samples)
    return [sample for sample in samples if sample.run]


def demand_agreement(samples: list[Sample]) -> None:
    """Raise ReadersError unless all codecs gave the same rows, and all of them."""
    if (
        len({(sample.checksum, sample.rows) for sample in samples}) != 1
        or samples[0].rows != samples[0].records
    ):
        each = sorted({f"{s.codec}: {s.checksum:x} of {s.rows} rows" for s in samples})
        msg = f"Expected one checksum of {samples[0].records} rows, got {'; '.join(each)}"
        raise ReadersError(msg)


def ratio(samples: list[Sample], codec: str) -> float:
    """Its time to ours: the median over the runs, as a disturbance affects both codecs of one."""
    by_run = {(s.codec, s.run): s.seconds for s in samples}
    runs = sorted({s.run for s in samples})
    return median(by_run[codec, run] / by_run["echo", run] for run in runs)


def report(samples: list[Sample], master: str) -> str:
    """The whole page."""
    first, codecs = samples[0], list(dict.fromkeys(sample.codec for sample in samples))
    runs = len({sample.run for sample in samples})
    lines = [
        "# Readers: files of each codec in the same Spark job",
        "",
        f"{first.records:,} particles on `{master}`, medians of {runs} runs, the codecs in turn. All gave "
        f"the checksum `{first.checksum & (2**64 - 1):016x}`.",
        "",
        "| codec | s | time, times ours | must | goal | bytes per record |",
        "|---|" + "---:|" * 5,
    ]
    for codec in codecs:
        seconds = median(s.seconds for s in samples if s.codec == codec)
        size = next(s.bytes for s in samples if s.codec == codec) / first.records
        times, goals = ratio(samples, codec), GOALS.get(codec)
        verdict = _verdict(times, goals) if goals and first.records >= RECORDS_OF_GOALS else " | "
        lines.append(f"| {codec} | {seconds:.2f} | {times:.2f} | {verdict} | {size:.0f} |")
    return "\n".join(lines) + "\n"


def _verdict(times: float, goals: tuple[float, float]) -> str:
    must, goal = goals
    return f"{must}, {'met' if times >= must else 'missed'} | {goal}, {'met' if times >= goal else 'missed'}"


# ---------------------------------------------------------------------------
# The comparison


def codecs_of(names: list[str] | None) -> list[str]:
    """The codecs named, or all; ours first."""
    asked = names or list(CODECS)
    unknown = [name for name in asked if name not in CODECS]
    if unknown:
        msg = f"Expected codecs out of {', '.join(CODECS)}, got {', '.join(unknown)}"
        raise ReadersError(msg)
    return [name for name in CODECS if name == "echo" or name in asked]


def run(names: list[str] | None, records: int, runs: int, master: str, out: Path) -> int:
    """What `compare --readers` does: measures, prints the table, and writes it."""
    codecs, records, runs = codecs_of(names), max(FILES, records), max(1, runs)
    demand_writable(out)
    with (
        Progress((runs + 1) * len(codecs), "compare") as progress,
        session(master, app="echo compare") as spark,
    ):
        samples = measure(spark, codecs, records, runs, lambda codec: progress.advance(1, codec))
    text = report(samples, master)
    say(text)
    write(out, samples, text)
    return 0


def write(folder: Path, samples: list[Sample], text: str) -> None:
    """Write `readers.parquet`, with a row per sample, and `readers.md`."""
    pa: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist([asdict(s) for s in samples]), folder / "readers.parquet")
    (folder / "readers.md").write_text(text)
