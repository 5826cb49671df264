"""A complete job with each codec: encodes particles into messages, shuffles, decodes and hashes them.

Executors do the same for every codec: generate columns, encode them into a binary column with a hundred
particles per message, repartition, and decode to columns, of which Spark computes a checksum. Codecs take
turns, so that a slow minute of the machine affects all. The job runs with both settings of
`spark.shuffle.compress`, each in a session of its own, because Spark reads the setting when it starts.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import echo_core as echo
from echo_core.spark_eval.console import Progress, demand_writable, say
from echo_core.spark_eval.runtime.session import default_master, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS_PER_PARTITION = 125_000  # few, large tasks: each costs Spark 25 ms
RECORDS_OF_GOALS = 1_000_000  # a smaller job is mostly Spark's own work

# Codec: (required and desired ratio of its time to ours, largest ratio of our bytes to its bytes).
GOALS: dict[str, tuple[float, float, float]] = {
    "msgpack map": (1.5, 2, 0.60),
    "msgpack array": (1.5, 2, 0),
    "pickle": (1.4, 2, 0.70),
    "pickle of rows": (1.4, 2, 0),
    "xml etree": (5, 8, 0.27),
}


class PipelineError(echo.EchoError):
    """The codecs produced different rows, or the job cannot be run."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a job."""

    records: int
    per_message: int = 100
    partitions: int = 2

    @property
    def messages(self) -> int:
        return self.records // self.per_message


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one codec. `encode_s`, `decode_s` and `shuffle_s` are sums over all tasks.

    The first two are spent in Python, the third in writing the shuffle and waiting for it; `seconds` is what
    the whole job took, Spark's own work and the making of the data included.
    """

    codec: str
    run: int
    is_compressed: bool
    records: int
    messages: int
    seconds: float
    encode_s: float
    shuffle_s: float
    decode_s: float
    payload_bytes: int
    shuffle_bytes: int
    checksum: int
    rows: int


# ---------------------------------------------------------------------------
# On executors


@dataclass(frozen=True)
class EncodeMessages:
    """Called by `mapInArrow`: message numbers to messages."""

    codec: str
    per_message: int
    spent_ns: Any
    payload_bytes: Any

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa = importlib.import_module("pyarrow")
        routes = importlib.import_module("echo_core.spark_eval.routes")
        route = routes.route(self.codec)
        for numbers in _chunks(batches, routes.CHUNK):
            first = numbers[0].as_py() * self.per_message
            columns = routes.particles(first, len(numbers) * self.per_message)
            begun = time.perf_counter_ns()
            messages = route.encode(columns, self.per_message)
            self.spent_ns.add(time.perf_counter_ns() - begun)
            self.payload_bytes.add(sum(map(len, messages)))
            yield pa.RecordBatch.from_arrays([pa.array(messages, pa.binary())], ["message"])


@dataclass(frozen=True)
class DecodeMessages:
    """Called by `mapInArrow`: messages to a row per particle."""

    codec: str
    spent_ns: Any

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa = importlib.import_module("pyarrow")
        routes = importlib.import_module("echo_core.spark_eval.routes")
        route = routes.route(self.codec)
        for messages in _chunks(batches, routes.CHUNK):
            begun = time.perf_counter_ns()
            columns = route.decode(messages)
            self.spent_ns.add(time.perf_counter_ns() - begun)
            yield pa.RecordBatch.from_arrays(columns, list(routes.NAMES))


def _chunks(batches: Iterator[Any], size: int) -> Iterator[Any]:
    for batch in batches:
        for first in range(0, batch.num_rows, size):
            yield batch.column(0).slice(first, size)


# ---------------------------------------------------------------------------
# In the driver


def run_once(spark: SparkSession, codec: str, size: Size, run: int = 0) -> Sample:
    """Run the whole job with one codec."""
    context = spark.sparkContext
    encode_ns, decode_ns, payload = (context.accumulator(0) for _ in range(3))
    numbers: Any = spark.range(0, size.messages, 1, size.partitions)
    encoded = numbers.mapInArrow(
        EncodeMessages(codec, size.per_message, encode_ns, payload), "message binary"
    )
    rows = _decoded(encoded.repartition(size.partitions), DecodeMessages(codec, decode_ns))
    group = f"pipeline-{time.monotonic_ns()}"
    context.setJobGroup(group, codec)
    begun = time.perf_counter()
    checksum, count = checksum_of(rows)
    seconds = time.perf_counter() - begun
    shuffle_bytes, shuffle_ns = _shuffled(context, group)
    return Sample(
        codec=codec,
        run=run,
        is_compressed=context.getConf().get("spark.shuffle.compress", "true") == "true",
        records=size.records,
        messages=size.messages,
        seconds=seconds,
        encode_s=encode_ns.value / 1e9,
        shuffle_s=shuffle_ns / 1e9,
        decode_s=decode_ns.value / 1e9,
        payload_bytes=payload.value,
        shuffle_bytes=shuffle_bytes,
        checksum=checksum,
        rows=count,
    )


def _decoded(messages: Any, step: DecodeMessages) -> DataFrame:
    schema = importlib.import_module("echo_core.spark_eval.columns.schema")
    shapes = importlib.import_module("echo_core.spark_eval.measure.workloads")
    rows: DataFrame = messages.mapInArrow(step, schema.struct_type(shapes.Particle))
    return rows


def checksum_of(rows: DataFrame) -> tuple[int, int]:
    """A checksum of all values and the number of rows, as an even number of equal rows has checksum 0."""
    functions = importlib.import_module("pyspark.sql.functions")
    hashed = functions.bit_xor(functions.xxhash64(*rows.columns))
    (found,) = rows.agg(hashed, functions.count("*")).collect()
    return int(found[0] or 0), int(found[1])


def _shuffled(context: Any, group: str) -> tuple[int, int]:
    """Bytes written for shuffles, and nanoseconds of writing them and waiting for them."""
    scala = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    tracker = context.statusTracker()
    stages = {s for job in tracker.getJobIdsForGroup(group) for s in tracker.getJobInfo(job).stageIds}
    attempts = [scala.statusStore().lastStageAttempt(stage) for stage in sorted(stages)]
    spent = sum(it.shuffleWriteTime() + it.shuffleFetchWaitTime() * 1_000_000 for it in attempts)
    return sum(it.shuffleWriteBytes() for it in attempts), spent


def measure(
    spark: SparkSession, codecs: list[str], size: Size, runs: int, told: Callable[[str], None]
) -> list[Sample]:
    """The codecs in turn, so many times each after one run that does not count.

    PipelineError where they do not agree.
    """
    samples: list[Sample] = []
    for run, codec in itertools.product(range(runs + 1), codecs):
        sample = run_once(spark, codec, size, run)
        told(codec)
        if run:
            samples.append(sample)
    demand_agreement(samples)
    return samples


def demand_agreement(samples: list[Sample]) -> None:
    """Raise PipelineError unless all codecs produced the same rows, and all of them."""
    found = {(sample.checksum, sample.rows) for sample in samples}
    if len(found) != 1 or samples[0].rows != samples[0].records:
        each = sorted({f"{s.codec}: {s.checksum:x} of {s.rows} rows" for s in samples})
        msg = f"Expected one checksum of {samples[0].records} rows, got {'; '.join(each)}"
        raise PipelineError(msg)


# ---------------------------------------------------------------------------
# The report


def table(samples: list[Sample]) -> str:
    """A Markdown table with the medians of each codec."""
    header = (
        "| codec | whole job s | times ours | encode s | shuffle s | decode s "
        "| payload B/record | shuffle B/record, lz4 | not compressed |"
    )
    lines = [header, "|---|" + "---:|" * 8]
    for codec in dict.fromkeys(sample.codec for sample in samples):
        own, plain = (_medians(samples, codec, is_compressed=it) for it in (True, False))
        cells = [f"{own['seconds']:.2f}", f"{_ratio(samples, codec):.1f}"]
        cells += [f"{own[name]:.2f}" for name in ("encode_s", "shuffle_s", "decode_s")]
        cells += [f"{own[name] / own['records']:.0f}" for name in ("payload_bytes", "shuffle_bytes")]
        cells.append(f"{plain['shuffle_bytes'] / plain['records']:.0f}" if plain else "")
        lines.append(f"| {codec} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _medians(samples: list[Sample], codec: str, *, is_compressed: bool) -> dict[str, float]:
    """The median of each number of the codec's samples; empty if there are none."""
    rows = [asdict(s) for s in samples if s.codec == codec and s.is_compressed == is_compressed]
    names = [name for name, value in rows[0].items() if name != "codec" and value is not None] if rows else []
    return {name: median(row[name] for row in rows) for name in names}


def goals(samples: list[Sample]) -> str:
    """A Markdown table of the ratios and their goals."""
    lines = [f"What {RECORDS_OF_GOALS:,} particles or more must reach, and should:", ""]
    lines += [
        "| against | time, times ours | must | goal | payload, ours to its | must |",
        "|---|" + "---:|" * 5,
    ]
    ours = _medians(samples, "echo", is_compressed=True)
    for codec, (must, goal, share) in GOALS.items():
        other = _medians(samples, codec, is_compressed=True)
        if not other:
            continue
        ratio, bytes_ratio = _ratio(samples, codec), ours["payload_bytes"] / other["payload_bytes"]
        verdict = "missed" if ratio < must else "met" if ratio < goal else "goal met"
        payload = f"{bytes_ratio:.2f} | {share:.2f}" if share else f"{bytes_ratio:.2f} | "
        lines.append(f"| {codec} | {ratio:.2f}, {verdict} | {must} | {goal} | {payload} |")
    return "\n".join(lines) + "\n"


def _ratio(samples: list[Sample], codec: str) -> float:
    """The median of the ratios within each run, because a disturbance affects both codecs of a run."""
    by_run = {(s.codec, s.run): s.seconds for s in samples if s.is_compressed}
    runs = {run for _, run in by_run}
    return median(by_run[codec, run] / by_run["echo", run] for run in runs)


def report(samples: list[Sample], master: str) -> str:
    """The whole page."""
    first = samples[0]
    checksum = f"{first.checksum & (2**64 - 1):016x}"
    runs = len({sample.run for sample in samples if sample.is_compressed})
    taken = "one run" if runs == 1 else f"medians of {runs} runs, the codecs in turn"
    held = goals(samples) if first.records >= RECORDS_OF_GOALS else ""
    return f"""\
# Pipeline: encode, shuffle, decode

{first.records:,} particles, {first.records // first.messages} to a message, on `{master}`; {taken}.
Every codec gave the checksum `{checksum}` of {first.rows:,} rows.

{table(samples)}

The whole job contains what is the same for all: making the columns, Spark's own work and the checksum. The
other times are sums over all tasks: in Python for encode and decode, writing and waiting for the shuffle.
"Times ours" is the median of the ratios within each run.

{held}"""


def write(folder: Path, samples: list[Sample], text: str) -> None:
    """Write `pipeline.parquet`, with a row per sample, and `pipeline.md`."""
    pa, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    demand_writable(folder)
    parquet.write_table(pa.Table.from_pylist([asdict(s) for s in samples]), folder / "pipeline.parquet")
    (folder / "pipeline.md").write_text(text)


# ---------------------------------------------------------------------------
# The command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m echo_core.spark_eval pipeline`."""
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N", help="how many particles")
    parser.add_argument("--per-message", type=int, default=100, metavar="N", help="particles in a message")
    parser.add_argument(
        "--runs", type=int, default=5, metavar="N", help="of each codec, after one to warm up"
    )
    parser.add_argument("--partitions", type=int, default=0, metavar="N", help="tasks on either side")
    parser.add_argument(
        "--codecs", default="", metavar="A,B", help="some of the codecs; echo is always there"
    )
    parser.add_argument("--master", default=default_master(), metavar="URL", help="default: %(default)s")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where pipeline.parquet and pipeline.md go")


def size_of(arguments: argparse.Namespace) -> Size:
    """Round to whole messages; one task per so many records, and at least two."""
    per_message = max(1, arguments.per_message)
    messages = max(1, arguments.records // per_message)
    records = messages * per_message
    partitions = arguments.partitions or max(2, round(records / RECORDS_PER_PARTITION))
    return Size(records, per_message, partitions)


def codecs_of(names: str) -> list[str]:
    """The codecs named, or all; ours first."""
    known = importlib.import_module("echo_core.spark_eval.routes").NAMES_OF_ROUTES
    asked = [name.strip() for name in names.split(",") if name.strip()] or known
    unknown = [name for name in asked if name not in known]
    if unknown:
        msg = f"Expected codecs out of {', '.join(known)}, got {', '.join(unknown)}"
        raise PipelineError(msg)
    return [name for name in known if name == "echo" or name in asked]


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the tables, and write them to `--out`."""
    size, codecs = size_of(arguments), codecs_of(arguments.codecs)
    if arguments.out is not None:
        demand_writable(arguments.out)
    runs = {"true": max(1, arguments.runs), "false": 1}
    samples: list[Sample] = []
    steps = sum(count + 1 for count in runs.values()) * len(codecs)
    with Progress(steps, "pipeline") as progress:
        for compress, count in runs.items():
            conf = {"spark.shuffle.compress": compress}
            with session(arguments.master, app="echo pipeline", conf=conf) as spark:
                samples += measure(spark, codecs, size, count, lambda codec: progress.advance(1, codec))
    demand_agreement(samples)
    text = report(samples, arguments.master)
    say(text)
    if arguments.out is not None:
        write(arguments.out, samples, text)
    return 0
