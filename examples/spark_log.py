"""From a simulation to Spark: it records what it submits, is killed, goes on; a stream follows and plots.

At the end a newer version of the program reads all of it: nothing is lost, and nothing is there twice.

    python examples/spark_log.py                                  # a few thousand events
    python examples/spark_log.py --events 10000000 --out results  # the log, a table and a plot stay there
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import echo_core as echo
from echo_core.spark_eval import session
from echo_core.spark_eval.runtime.java import SMALL_JVM, find_java

BINS = 100  # of the table, and so the points of the plot
SMALL = 1_000_000  # events, up to which it does not pay that Java optimises anything


@echo.event
class Particle:
    """What the simulation submits."""

    id: int
    energy: float
    tag: echo.Chars[8]


@echo.event(name="Particle")
class NewParticle:
    """Two years later: another name, another order, a new field."""

    joules: float = echo.field(aliases=("energy",))
    id: int = 0
    charge: int = 0


def energy_of(id_: Any, events: int) -> Any:
    """Of a particle, or of an array of them, so that everybody sees whether it is right: three pulses."""
    phase = 3 * id_ % events / events
    return 4 * phase * (1 - phase)


# ---------------------------------------------------------------------------
# The simulation, a process of its own


def simulate(path: Path, events: int) -> None:
    """Submits what the log does not have yet, and says how far the log is."""
    first = recorded(path)
    with (
        echo.create_channel("plasma", Particle) as channel,
        channel.source(name="simulation") as source,
        channel.record(path, on_full="block") as recorder,
    ):
        for id_ in range(first, events):
            source.submit(Particle(id_, energy_of(id_, events), "p"))
            if id_ % (events // 10) == 0:
                recorder.sync()
                print(id_, flush=True)


def recorded(path: Path) -> int:
    """How many events a log has, of which an earlier run may be the author."""
    if not path.exists():
        return 0
    with echo.open_log(path) as log:
        return len(log[Particle]) if log.formats else 0


def started(path: Path, events: int) -> subprocess.Popen[str]:
    """The simulation as a process."""
    command = [sys.executable, __file__, "--simulate", str(path), "--events", str(events)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill_half_way(simulation: subprocess.Popen[str]) -> None:
    """Wherever it is then."""
    assert simulation.stdout is not None
    for _ in range(5):
        simulation.stdout.readline()
    simulation.kill()
    simulation.communicate()


def go_on(path: Path, events: int) -> None:
    """To the end of it."""
    simulation = started(path, events)
    simulation.communicate()
    assert simulation.returncode == 0


# ---------------------------------------------------------------------------
# The streaming job


class Pulses:
    """What Spark calls for each batch: a table of the run, with a file for each of them, and a plot of it.

    A batch that is done again replaces its file. So each event counts once, whoever was killed.
    """

    def __init__(self, folder: Path, events: int) -> None:
        self.table = folder / "pulses"
        self.plot = folder / "pulses.svg"
        self._events = events
        self.table.mkdir(parents=True)

    def __call__(self, frame: Any, batch: int) -> None:
        functions: Any = importlib.import_module("pyspark.sql.functions")
        sums = "count(*) as events", "sum(id) as ids", "sum(energy) as energy"
        bins = functions.expr(f"cast(id * {BINS} div {self._events} as int) as bin")
        rows = frame.groupBy(bins).agg(*map(functions.expr, sums)).collect()
        self._write([row.asDict() for row in rows], self.table / f"{batch:06}.parquet")
        self._draw()

    def _write(self, rows: list[dict[str, Any]], path: Path) -> None:
        pa: Any = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), path)

    def read(self) -> Any:
        """A row for each bin, of all batches."""
        table = importlib.import_module("pyarrow.parquet").read_table(self.table)
        sums = [("events", "sum"), ("ids", "sum"), ("energy", "sum")]
        return table.group_by("bin").aggregate(sums).sort_by("bin").to_pydict()

    def _draw(self) -> None:
        figures: Any = importlib.import_module("matplotlib.figure")
        rows = self.read()
        figure = figures.Figure(figsize=(7, 3), layout="constrained")
        axes = figure.subplots()
        energies = np.divide(rows["energy_sum"], rows["events_sum"])
        axes.plot(np.array(rows["bin"]) * (self._events / BINS), energies)
        axes.set(xlim=(0, self._events), ylim=(0, None), xlabel="particle", ylabel="mean energy")
        figure.savefig(self.plot)

    def demand_all(self) -> None:
        """Each event once: of each bin there are as many, and the right ones."""
        rows, ids = self.read(), np.arange(self._events)
        bins = np.bincount(ids * BINS // self._events, minlength=BINS)
        ends = np.cumsum(bins)
        sums = (ends - bins + ends - 1) * bins // 2
        assert rows["bin"] == list(range(BINS)), "lost"
        assert rows["events_sum"] == bins.tolist(), "lost, or twice"
        assert rows["ids_sum"] == sums.tolist(), "other events"


def follow(spark: Any, path: Path, folder: Path, pulses: Pulses) -> Any:
    """The job, which runs on its own until it is stopped."""
    stream = spark.readStream.format("echo").load(str(path))
    checkpoint = str(folder / "checkpoint")
    return stream.writeStream.foreachBatch(pulses).option("checkpointLocation", checkpoint).start()


def run(events: int, folder: Path) -> None:
    """All of it."""
    path, pulses = folder / "run.echolog", Pulses(folder, events)
    conf = {"spark.driver.extraJavaOptions": SMALL_JVM} if events <= SMALL else {}
    with session("local[2]", conf=conf) as spark:
        kill_half_way(started(path, events))
        print(f"the simulation was killed; the log has {recorded(path):,} of {events:,} events")
        query = follow(spark, path, folder, pulses)
        query.processAllAvailable()  # what there is; all else comes while it runs
        begun = time.monotonic()
        go_on(path, events)
        ended = time.monotonic()
        query.processAllAvailable()
        print(
            f"it went on for {ended - begun:.1f} s, and {time.monotonic() - ended:.1f} s later "
            f"the stream had all of it, in {len(list(pulses.table.iterdir()))} batches"
        )
        query.stop()
    pulses.demand_all()
    print(f"the table: {pulses.table}, the plot: {pulses.plot}")
    read_by_the_new_version(path, events)


def read_by_the_new_version(path: Path, events: int) -> None:
    """As its own class, whichever version has recorded it."""
    with echo.open_log(path) as log:
        print(log)
        columns = log[NewParticle].columns(["id", "joules"])
    assert np.array_equal(columns["id"], np.arange(events)), "lost, or twice"
    assert np.array_equal(columns["joules"], energy_of(columns["id"], events))
    print(f"{events:,} events, each of them once")


def problem() -> str:
    """Why there is no Spark, or nothing."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install echo-core[spark]"
    return find_java().problem


def main() -> None:
    """The simulation, or all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="a new one; by default what is made goes")
    parser.add_argument("--simulate", type=Path, metavar="LOG", help="be the simulation, and record here")
    arguments = parser.parse_args()
    if arguments.simulate is not None:
        simulate(arguments.simulate, arguments.events)
    elif problem():
        print("skipped:", problem())
    elif arguments.out is not None:
        run(arguments.events, arguments.out)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(arguments.events, Path(folder))


if __name__ == "__main__":
    main()
