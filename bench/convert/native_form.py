"""Encoding what is in native form already, small and large: without a copy, the time is the same.

Beside our ways stand those that numpy, pickle and pyarrow have, with a copy or without.
"""

from __future__ import annotations

import functools
import importlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import echo_core as echo
from bench.available import made_by
from bench.convert.senders import particles
from bench.report import Row
from bench.timing import best_in_turn, timed
from bench.workload import Message, Particle

SMALL, LARGE = 96, 1024 * 1024
CONSTANT = 1.5  # as much more may a large one take

Way = tuple[Callable[[Any], Any], Any, Any]  # a call, a small argument and a large one


@echo.event
class Small:
    """Of fixed size, as large as a particle."""

    values: echo.Array[echo.Float64, 12]


@echo.event
class Large:
    """Of fixed size, a mebibyte."""

    values: echo.Array[echo.Float64, 131072]


def measure(*, quick: bool) -> Iterator[Row]:
    """A large one's time over a small one's."""
    group = "encode what is in native form: 1 MiB over 96 bytes"
    for ways, goal in ((our_ways(), CONSTANT), (our_copies(), None), (other_ways(), None)):
        for name, (call, small, large) in ways.items():
            ratio, seconds = _ratio(call, small, large, quick)
            yield Row(f"{name}, {1e9 * seconds:.3g} ns", ratio, goal, "x", group=group)


def _ratio(call: Callable[[Any], Any], small: Any, large: Any, quick: bool) -> tuple[float, float]:
    calls = {"small": timed((call, small), 1000), "large": timed((call, large), 20)}
    taken = best_in_turn(calls, 10 if quick else 50)
    return taken["large"] / taken["small"], taken["large"]


def arrays() -> tuple[Any, Any]:
    """Native records of the two sizes."""
    records = particles()
    data = records.tobytes() * 11  # numpy would leave the padding of a copy as it found it
    small, large = (size // records.itemsize * records.itemsize for size in (SMALL, LARGE))
    return np.frombuffer(data[:small], records.dtype), np.frombuffer(data[:large], records.dtype)


def our_ways() -> dict[str, Way]:
    """Records in an array, one's own or received; an event that holds what it came in."""
    small, large = arrays()
    encode, decode = echo.array_encoder(Particle), echo.array_decoder(Particle)
    for array in (small, large):
        assert np.shares_memory(decode(array), array)
        assert encode(array) == array.tobytes()
    return {
        "record array: array_encoder": (encode, small, large),
        "record array: a view by array_decoder": (decode, small, large),
        "@echo.event with variable parts, as received": _received(),
    }


def our_copies() -> dict[str, Way]:
    """Those whose result is new bytes."""
    small, large = arrays()
    convert = echo.converter(echo.format_of(Particle), echo.format_of(Particle), tier="compiled")
    assert convert(large) == large.tobytes()
    return {
        "record array, with a copy: converter of equal layouts": (convert, small, large),
        "@echo.event of fixed size, with a copy": _fixed(),
    }


def _received() -> Way:
    codec = echo.codec(Message, tier="compiled")

    def received(size: int) -> Message:
        data = codec.encode(Message(1, "name", np.arange((size - 80) / 8), []))
        event = codec.decode(data)
        assert codec.encode(event) == data
        return event

    return codec.encode, received(SMALL), received(LARGE)


def _fixed() -> Way:
    """The size is the class's, so there are two of them and an encoder for each."""

    def encoding(cls: type[Any]) -> Callable[[], bytes]:
        codec: echo.Codec[Any] = echo.codec(cls, tier="compiled")
        data = np.arange(codec.format.size_bytes / 8).tobytes()
        event = codec.decode(data)
        assert codec.encode(event) == data
        return functools.partial(codec.encode, event)

    return _called, encoding(Small), encoding(Large)


def _called(call: Callable[[], bytes]) -> bytes:
    return call()


def other_ways() -> dict[str, Way]:
    """What others do with a record array, or, where they have none, with its bytes or columns."""
    small, large = arrays()
    for array in (small, large):
        assert np.array_equal(_unpickled(*_pickled(array)), array)
    by_arrow = made_by({"pyarrow": lambda: [_arrow_way(small, large)]})
    return {
        "numpy: its buffer": (memoryview, small, large),
        "numpy: tobytes": (np.ndarray.tobytes, small, large),
        "pickle, out of band": (_pickled, small, large),
        **dict(by_arrow),
    }


def _pickled(array: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    buffers: list[pickle.PickleBuffer] = []
    return pickle.dumps(array, 5, buffer_callback=buffers.append), buffers


def _unpickled(data: bytes, buffers: list[pickle.PickleBuffer]) -> Any:
    return pickle.loads(data, buffers=buffers)


def _arrow_way(small: Any, large: Any) -> tuple[str, Way]:
    pyarrow: Any = importlib.import_module("pyarrow")
    ipc: Any = importlib.import_module("pyarrow.ipc")
    batches = [_batch(pyarrow, array) for array in (small, large)]
    assert all(ipc.read_record_batch(_serialized(batch), batch.schema).equals(batch) for batch in batches)
    return "pyarrow: a record batch of one binary column", (_serialized, batches[0], batches[1])


def _batch(pyarrow: Any, array: Any) -> Any:
    kind = pyarrow.binary(array.itemsize)
    column = pyarrow.Array.from_buffers(kind, len(array), [None, pyarrow.py_buffer(array)])
    return pyarrow.record_batch([column], names=["records"])


def _serialized(batch: Any) -> Any:
    return batch.serialize()
