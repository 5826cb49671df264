"""From a simulation to Spark: it records while its events flow, is killed, goes on; a stream follows.

At the end a newer version of the program reads all of it: nothing is lost, and nothing is there twice.

    python examples/spark_log.py                      # a few thousand events
    python examples/spark_log.py --events 10000000
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import echo_core as echo
from echo_core.spark_eval import session
from echo_core.spark_eval.runtime.java import find_java


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


def energy_of(id_: int) -> float:
    """Of a particle, so that everybody can see that it is the right one."""
    return float(id_ % 8)


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
            source.submit(Particle(id_, energy_of(id_), "p"))
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


# ---------------------------------------------------------------------------
# The streaming job


class Histogram:
    """How many events of each energy there were. A batch that is done again replaces what it had."""

    def __init__(self) -> None:
        self._batches: dict[int, dict[float, int]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        rows = frame.groupBy("energy").count().collect()
        self._batches[batch] = {row["energy"]: row["count"] for row in rows}

    def counts(self) -> dict[float, int]:
        """Of all batches."""
        energies = sorted({energy for batch in self._batches.values() for energy in batch})
        return {energy: sum(batch.get(energy, 0) for batch in self._batches.values()) for energy in energies}

    def show(self) -> None:
        """As bars."""
        counts = self.counts()
        for energy, count in counts.items():
            print(f"{energy:4.0f} {'#' * (50 * count // max(counts.values()))} {count:,}")


def run(events: int, folder: Path) -> None:
    """All of it."""
    path, histogram = folder / "run.echolog", Histogram()
    with session("local[2]") as spark:
        kill_half_way(started(path, events))
        print(f"the simulation was killed; the log has {recorded(path):,} of {events:,} events")
        stream = spark.readStream.format("echo").load(str(path))
        checkpoint = str(folder / "checkpoint")
        query = stream.writeStream.foreachBatch(histogram).option("checkpointLocation", checkpoint).start()
        started(path, events).communicate()
        query.processAllAvailable()
        query.stop()
    histogram.show()
    read_by_the_new_version(path, events)


def read_by_the_new_version(path: Path, events: int) -> None:
    """As its own class, whichever version has recorded it."""
    with echo.open_log(path) as log:
        print(log)
        columns = log[NewParticle].columns(["id", "joules"])
    assert columns["id"].tolist() == list(range(events)), "lost, or twice"
    assert (columns["joules"] == columns["id"] % 8).all()
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
    parser.add_argument("--simulate", type=Path, metavar="LOG", help="be the simulation, and record here")
    arguments = parser.parse_args()
    if arguments.simulate is not None:
        simulate(arguments.simulate, arguments.events)
    elif problem():
        print("skipped:", problem())
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(arguments.events, Path(folder))


if __name__ == "__main__":
    main()
