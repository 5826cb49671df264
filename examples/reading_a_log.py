"""A run is recorded, and then read in each way that there is: also by a class that has changed since.

python examples/reading_a_log.py
"""

import tempfile
from pathlib import Path

import echo_core as echo


@echo.event
class Reading:
    sensor: int
    celsius: float


@echo.event(name="Reading")
class NewReading:
    """Two years later: a field has another name, one is new, and the order is another."""

    temperature: float = echo.field(aliases=("celsius",))
    sensor: int
    unit: str = "C"


def record(path: Path) -> None:
    """What flows on a channel is kept."""
    with (
        echo.create_channel("plant", Reading) as channel,
        channel.source(name="plc") as source,
        channel.record(path),
    ):
        for i in range(10_000):
            source.submit(Reading(i % 4, 20.0 + i / 1000))


def read(path: Path) -> None:
    with echo.open_log(path) as log:
        print(log)

        first = next(iter(log[Reading]))
        print("as it was written:", first)
        print("as a newer class:", next(iter(log[NewReading])))
        print("as a class that is made:", next(iter(log[None])))

        hot = log[Reading].where("celsius > limit and sensor == 1", limit=29.99)
        for event, info in hot.with_info():
            print(f"number {info.number} of {info.source}: {event.celsius:.3f}")

        total = sum(float(array["celsius"].sum()) for array in log[Reading].arrays())
        print(f"the mean of {len(log[Reading])} is {total / len(log[Reading]):.3f}")

        print("written as CSV:", hot.export(path.parent / "hot.csv"), "events")
        print((path.parent / "hot.csv").read_text().splitlines()[0])
        print(log.verify())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.echolog"
        record(path)
        read(path)
