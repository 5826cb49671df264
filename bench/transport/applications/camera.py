"""A camera's frames: half a MiB of pixels, a number and a time."""

from __future__ import annotations

import importlib
import struct
import time
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


def publish(station: Station, *, seconds: float) -> Sent:
    """By a channel."""
    seen = images()
    channel = echo.create_channel("camera", Frame)
    source = channel.source()
    station.exchange(channel.id)
    source.wait_matched(timeout_s=WAIT_S)
    count, began_ns, cpu_ns = 0, time.perf_counter_ns(), time.process_time_ns()
    while time.perf_counter_ns() < began_ns + seconds * 1e9:
        frame = Frame(number=count, time=time.time(), pixels=seen[count % len(seen)])
        source.submit(frame)
        count += 1
    source.submit(Frame(LAST, time.time(), seen[0]))
    source.flush(timeout_s=WAIT_S)
    cpu_ns = time.process_time_ns() - cpu_ns
    station.exchange()
    return Sent(began_ns, count, cpu_ns)


def watch(station: Station) -> Taken:
    """By a channel."""
    channel_id, _ = station.exchange()
    screen = Screen()
    sink = echo.open_channel(channel_id).sink(Frame)
    for frame in sink:
        if frame.number == LAST:
            break
        screen.show(frame.number, frame.pixels)
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
