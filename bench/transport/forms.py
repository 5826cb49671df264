"""The natural forms in which programs hold particles, and how each codec's users turn them into bytes.

`n` is the number of particles in a batch; 0 is a particle alone. A message's step is its number in the
stream; END is the last one's. A form's accesses are given as text, and loops.py puts them into its loops: a
call for each would cost some forms more than their codec.
"""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import echo_core as echo
from bench import workload
from bench.codec.peer import MEMBERS, Slots, plain, values
from bench.workload import Particle, particle

END = -2
HEADER = struct.Struct("<qi4x")
DTYPE = echo.format_of(Particle).dtype


@dataclass(slots=True)
class Batch:
    """Many particles behind a header, as a program without us would hold them."""

    step: int
    count: int
    particles: Any


@dataclass(frozen=True, slots=True)
class Form:
    """One way to hold and to encode a message; None where the transport takes the form as it is."""

    name: str
    message: Any
    step: str
    """The step of `{it}`, as an expression that can be assigned to."""
    last: str | None
    """The last particle's id, where that is another field."""
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None
    records: int = 0
    """So many of an array are a message, and a receiver may get several messages in one; 0: never."""


def events(n: int, made: Callable[[Particle], Any]) -> list[Any]:
    return [made(particle(i)) for i in range(n)]


def rows(n: int) -> Any:
    """A structured array of n particles."""
    return np.array(events(n, values), DTYPE)


def _objects(
    name: str, n: int, made: Callable[[Particle], Any], batch: Any, encode: Any, decode: Any
) -> Form:
    """Particles that are objects, alone or in a list."""
    if n == 0:
        return Form(name, made(particle(0)), "{it}.id", None, encode, decode)
    message = batch(0, n, events(n, made))
    return Form(name, message, "{it}.step", "{it}.particles[-1].id", encode, decode)


def msgspec_form(n: int) -> Form:
    """Structs that are arrays and not tracked, which is msgspec at its best."""
    msgspec: Any = importlib.import_module("msgspec")
    one: Any = msgspec.defstruct("One", MEMBERS, array_like=True, gc=False)
    particles: Any = list[one]  # a type for msgspec alone
    many = msgspec.defstruct(
        "Many", [("step", int), ("count", int), ("particles", particles)], array_like=True, gc=False
    )
    decode = msgspec.msgpack.Decoder(many if n else one).decode
    encode = msgspec.msgpack.Encoder().encode

    def made(it: Particle) -> Any:
        return one(*values(it))

    return _objects("msgspec", n, made, many, encode, decode)


def pickle_form(n: int) -> Form:
    """Dataclasses by pickle's newest protocol."""

    def encode(it: Any) -> bytes:
        return pickle.dumps(it, 5)

    return _objects("pickle", n, plain, Batch, encode, pickle.loads)


def numpy_form(n: int) -> Form:
    """An array's bytes behind a packed header, read without a copy."""

    def encode(it: Batch) -> bytes:
        return b"".join((HEADER.pack(it.step, it.count), it.particles.view("u1").data))

    def decode(data: Any) -> Batch:
        step, count = HEADER.unpack_from(data)
        return Batch(step, count, np.frombuffer(data, DTYPE, count, HEADER.size))

    def decode_one(data: Any) -> Any:
        return np.frombuffer(data, DTYPE)

    if n == 0:
        return Form("numpy", rows(1), "{it}['id'][0]", None, lambda it: it.tobytes(), decode_one)
    return Form("numpy", Batch(0, n, rows(n)), "{it}.step", "{it}.particles['id'][-1]", encode, decode)


def array_form(n: int) -> Form:
    """A structured array as it is. The step stands in its first record: it has no header."""
    last = "{it}['id'][-1]" if n > 1 else None
    count = max(n, 1)
    return Form("array", rows(count), "{it}['id'][0]", last, None, None, records=count)


def in_place_form(n: int) -> Form:
    """An array behind a header in memory of the transport's, which gives and takes the form."""
    return dataclasses.replace(numpy_form(n), name="array", encode=None, decode=None)


def dataclass_form(n: int) -> Form:
    """A dataclass with slots, alone."""
    return _alone("dataclass", n, Slots)


def record_form(n: int) -> Form:
    """An `@echo.event` record, alone."""
    return _alone("record", n, Particle)


def _alone(name: str, n: int, cls: Any) -> Form:
    if n:
        msg = f"Expected a particle alone, got a batch of {n} for the form {name!r}"
        raise ValueError(msg)
    return Form(name, cls(*values(particle(0))), "{it}.id", None, None, None)


def batch_form(n: int) -> Form:
    """An `@echo.event` record with a header and an array in its variable part."""
    batch: Any = workload.Batch
    message = batch(step=0, count=n, particles=rows(n))
    return Form("batch", message, "{it}.step", "{it}.particles['id'][-1]", None, None)


MAKERS: dict[str, Callable[[int], Form]] = {
    "array": array_form,
    "batch": batch_form,
    "dataclass": dataclass_form,
    "in place": in_place_form,
    "msgspec": msgspec_form,
    "numpy": numpy_form,
    "pickle": pickle_form,
    "record": record_form,
}


def payload_bytes(n: int) -> int:
    """What the particles take in C, and the header of a batch."""
    return n * DTYPE.itemsize + HEADER.size if n else DTYPE.itemsize
