"""A robot's telemetry: a time, texts, lists, and a few records within the record."""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import echo_core as echo
from bench.transport.applications import WAIT_S, Sent, Taken, demand
from bench.transport.processes.worker import Station

LAST = "last"


@echo.event
class MotorEvent:
    """One motor of several."""

    name: str
    current: float
    faults: list[int]


@echo.event
class StatusEvent:
    """How a robot does."""

    time: datetime
    robot: str
    joints: list[float]
    motors: list[MotorEvent]
    note: str | None = None


@dataclasses.dataclass(slots=True)
class MotorData:
    """The same as a dataclass, likewise the next."""

    name: str
    current: float
    faults: list[int]


@dataclasses.dataclass(slots=True)
class StatusData:
    """How a robot does."""

    time: datetime
    robot: str
    joints: list[float]
    motors: list[MotorData]
    note: str | None = None


CLASSES: dict[str, tuple[Any, Any]] = {
    "@echo.event": (StatusEvent, MotorEvent),
    "dataclass": (StatusData, MotorData),
}


def _structs() -> tuple[Any, Any]:
    """The same for msgspec."""
    msgspec: Any = importlib.import_module("msgspec")
    motor: Any = msgspec.defstruct("Motor", [("name", str), ("current", float), ("faults", list[int])])
    motors: Any = list[motor]  # a type for msgspec alone
    status = msgspec.defstruct(
        "Status",
        [
            ("time", datetime),
            ("robot", str),
            ("joints", list[float]),
            ("motors", motors),
            ("note", str | None, None),
        ],
    )
    return status, motor


def made(status: Any, motor: Any, number: int) -> Any:
    """The robot at a time, constructed as programs do it."""
    return status(
        time=datetime.now(UTC),
        robot="arm 3",
        joints=[0.1 * number, 0.2, 0.3, 0.4, 0.5, 0.6],
        motors=[motor(name=f"motor {i}", current=1.5 + i, faults=[number, i]) for i in range(3)],
        note="reference run" if number % 2 else None,
    )


class Dashboard:
    """Reads some of what it gets."""

    def __init__(self) -> None:
        self.count = 0

    def show(self, status: Any) -> bool:
        """The next one; False: it was the last."""
        if status.robot == LAST:
            return False
        number = self.count
        demand(status.joints[0] == 0.1 * number, f"the joints of {number}")
        demand(status.motors[2].faults == [number, 2], f"the faults of {number}")
        demand((status.note is None) == (number % 2 == 0), f"the note of {number}")
        self.count += 1
        return True


def _send(make: Callable[[int], Any], send: Callable[[Any], object], seconds: float) -> int:
    count, until_ns = 0, time.perf_counter_ns() + seconds * 1e9
    while time.perf_counter_ns() < until_ns:
        send(make(count))
        count += 1
    last = make(count)
    last.robot = LAST
    send(last)
    return count


def publish(station: Station, *, seconds: float, form: str) -> Sent:
    """By a channel, of classes of that form."""
    status, motor = CLASSES[form]
    channel = echo.create_channel("telemetry", status)
    source = channel.source()
    station.exchange(channel.id)
    source.wait_matched(timeout_s=WAIT_S)
    began_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
    count = _send(lambda number: made(status, motor, number), source.submit, seconds)
    source.flush(timeout_s=WAIT_S)
    cpu_ns = time.process_time_ns() - cpu_ns
    station.exchange()
    return Sent(began_ns, count, cpu_ns)


def watch(station: Station, *, form: str) -> Taken:
    """By a channel, of classes of that form."""
    channel_id, _ = station.exchange()
    dashboard = Dashboard()
    for status in echo.open_channel(channel_id).sink(CLASSES[form][0]):
        if not dashboard.show(status):
            break
    ended_ns = time.perf_counter_ns()
    station.exchange()
    return Taken(ended_ns, dashboard.count)


def push(station: Station, *, seconds: float) -> Sent:
    """By pyzmq and msgspec."""
    zmq: Any = importlib.import_module("zmq")
    encoder: Any = importlib.import_module("msgspec").msgpack.Encoder()
    status, motor = _structs()
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.bind("tcp://127.0.0.1:*")
        station.exchange(socket.getsockopt(zmq.LAST_ENDPOINT).decode())
        station.exchange()
        began_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        count = _send(
            lambda number: made(status, motor, number), lambda it: socket.send(encoder.encode(it)), seconds
        )
        station.exchange()  # all have arrived
        cpu_ns = time.process_time_ns() - cpu_ns
    return Sent(began_ns, count, cpu_ns)


def pull(station: Station) -> Taken:
    """By pyzmq and msgspec."""
    zmq: Any = importlib.import_module("zmq")
    decoder: Any = importlib.import_module("msgspec").msgpack.Decoder(_structs()[0])
    address, _ = station.exchange()
    dashboard = Dashboard()
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.connect(address)
        station.exchange()
        while dashboard.show(decoder.decode(socket.recv())):
            pass
        ended_ns = time.perf_counter_ns()
        station.exchange()
    return Taken(ended_ns, dashboard.count)
