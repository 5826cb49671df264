"""A camera's frames: half a MiB of pixels, a number and a time."""

from __future__ import annotations

import importlib
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import echo_core as echo
from bench.transport.applications import WAIT_S, Sent, Taken, demand
from bench.transport.processes.worker import Station

SIDE = 512
LAST = -1
_HEADER = struct.Struct("<qd")


@echo.event
class Frame:
    """What a camera sees at a time."""

    number: int
    time: float
    pixels: echo.Array[echo.UInt16, SIDE, SIDE]


@echo.event
class NamedFrame:
    """The same where there are several cameras."""

    number: int
    time: float
    camera: str
    pixels: echo.Array[echo.UInt16, SIDE, SIDE]


@echo.event
class SizedFrame:
    """The same where a camera's frames are of whatever size."""

    number: int
    time: float
    pixels: echo.Array[echo.UInt16, ..., ...]


@echo.event
class RawFrame:
    """The same where nobody cares what is in the bytes."""

    number: int
    time: float
    pixels: bytes


def _frame(number: int, pixels: Any) -> Frame:
    return Frame(number=number, time=time.time(), pixels=pixels)


def _named_frame(number: int, pixels: Any) -> NamedFrame:
    return NamedFrame(number=number, time=time.time(), camera="left", pixels=pixels)


def _sized_frame(number: int, pixels: Any) -> SizedFrame:
    return SizedFrame(number=number, time=time.time(), pixels=pixels)


def _raw_frame(number: int, pixels: Any) -> RawFrame:
    return RawFrame(number=number, time=time.time(), pixels=pixels.tobytes())


# The class of each form, and what makes one of its frames.
FORMS: dict[str, tuple[Any, Callable[[int, Any], Any]]] = {
    "@echo.event": (Frame, _frame),
    "with a name": (NamedFrame, _named_frame),
    "of any size": (SizedFrame, _sized_frame),
    "of bytes": (RawFrame, _raw_frame),
}


def images() -> list[Any]:
    """What the camera's driver gives in turn: each has its place in the turn as its first pixel."""
    chance = np.random.default_rng(1)
    made = [chance.integers(0, 4096, (SIDE, SIDE), np.uint16) for _ in range(8)]
    for place, image in enumerate(made):
        image[0, 0] = place
    return made


class Screen:
    """Looks at two pixels of each frame, and at all of the first ones."""

    def __init__(self) -> None:
        self._images = images()
        self.count = 0

    def show(self, number: int, pixels: Any) -> None:
        """The next frame."""
        image = self._images[number % len(self._images)]
        demand(number == self.count, f"frame {self.count}")
        demand(pixels[0, 0] == image[0, 0] and pixels[-1, -1] == image[-1, -1], f"the pixels of {number}")
        if number < len(self._images):
            demand(bool((pixels == image).all()), f"every pixel of {number}")
        self.count += 1


def publish(station: Station, *, seconds: float, form: str) -> Sent:
    """By a channel, of frames of that form."""
    seen = images()
    cls, made = FORMS[form]
    channel = echo.create_channel("camera", cls)
    source = channel.source()
    station.exchange(channel.id)
    source.wait_matched(timeout_s=WAIT_S)
    count, began_ns, cpu_ns = 0, time.perf_counter_ns(), time.process_time_ns()
    while time.perf_counter_ns() < began_ns + seconds * 1e9:
        source.submit(made(count, seen[count % len(seen)]))
        count += 1
    source.submit(made(LAST, seen[0]))
    source.flush(timeout_s=WAIT_S)
    cpu_ns = time.process_time_ns() - cpu_ns
    station.exchange()
    return Sent(began_ns, count, cpu_ns)


def watch(station: Station, *, form: str) -> Taken:
    """By a channel, of frames of that form."""
    channel_id, _ = station.exchange()
    screen = Screen()
    for frame in echo.open_channel(channel_id).sink(FORMS[form][0]):
        if frame.number == LAST:
            break
        pixels = frame.pixels
        if isinstance(pixels, bytes):
            pixels = np.frombuffer(pixels, np.uint16).reshape(SIDE, SIDE)
        screen.show(frame.number, pixels)
    ended_ns = time.perf_counter_ns()
    station.exchange()
    return Taken(ended_ns, screen.count)


def push(station: Station, *, seconds: float) -> Sent:
    """By pyzmq, which copies no pixels of its own."""
    zmq: Any = importlib.import_module("zmq")
    seen = images()
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.bind("tcp://127.0.0.1:*")
        station.exchange(socket.getsockopt(zmq.LAST_ENDPOINT).decode())
        station.exchange()
        count, began_ns, cpu_ns = 0, time.perf_counter_ns(), time.process_time_ns()
        while time.perf_counter_ns() < began_ns + seconds * 1e9:
            header = _HEADER.pack(count, time.time())
            socket.send_multipart([header, seen[count % len(seen)]], copy=False)
            count += 1
        socket.send_multipart([_HEADER.pack(LAST, time.time()), seen[0]], copy=False)
        station.exchange()  # all have arrived
        cpu_ns = time.process_time_ns() - cpu_ns
    return Sent(began_ns, count, cpu_ns)


def pull(station: Station) -> Taken:
    """By pyzmq, which copies no pixels of its own."""
    zmq: Any = importlib.import_module("zmq")
    address, _ = station.exchange()
    screen = Screen()
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.connect(address)
        station.exchange()
        while True:
            header, pixels = socket.recv_multipart(copy=False)
            number, _ = _HEADER.unpack(header.buffer)
            if number == LAST:
                break
            screen.show(number, np.frombuffer(pixels.buffer, np.uint16).reshape(SIDE, SIDE))
        ended_ns = time.perf_counter_ns()
        station.exchange()
    return Taken(ended_ns, screen.count)
