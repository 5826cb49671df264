"""Events with variable parts to bytes and back: a text, an array and a list of texts.

Numbers stay in a numpy array on every side, which is how programs that have many of them hold them. Codecs
that know no arrays are given its bytes, and make an array of what they read.
"""

from __future__ import annotations

import functools
import importlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.available import made_by
from bench.codec.our_messages import OURS, Function, MessageCodec, message, our_messages
from bench.report import Row
from bench.timing import medians_in_turn, seconds_each
from bench.workload import Message


@dataclass(slots=True)
class PlainMessage:
    """And as other libraries see it."""

    id: int
    name: str
    values: np.ndarray[Any, Any]
    tags: list[str]


# Pickle's time is the mark; the others are there to be seen.
GOALS = {"pickle": 1.0}


def message_codecs() -> list[MessageCodec]:
    """Ours, and the others that are installed."""
    return made_by({"ours": our_messages, "pickle": _pickles, "msgpack": _msgpack, "msgspec": _msgspecs})


def _plain(it: Message) -> Any:
    return PlainMessage(it.id, it.name, it.values, it.tags)


def _from_row(row: Any) -> Any:
    id_, name, data, tags = row
    return PlainMessage(id_, name, np.frombuffer(data), tags)


def _pickles() -> list[MessageCodec]:
    def encode(it: Any) -> bytes:
        return pickle.dumps((it.id, it.name, it.values.tobytes(), it.tags), 5)

    def decode(data: bytes) -> Any:
        return _from_row(pickle.loads(data))

    whole = MessageCodec("pickle", _plain, functools.partial(pickle.dumps, protocol=5), pickle.loads)
    return [whole, MessageCodec("pickle of a tuple", _plain, encode, decode)]


def _msgpack() -> list[MessageCodec]:
    msgpack: Any = importlib.import_module("msgpack")  # it comes without types
    pack, unpack = msgpack.Packer().pack, msgpack.unpackb

    def encode(it: Any) -> Any:
        return pack((it.id, it.name, it.values.tobytes(), it.tags))

    def decode(data: Any) -> Any:
        return _from_row(unpack(data))

    return [MessageCodec("msgpack", _plain, encode, decode)]


def _msgspecs() -> list[MessageCodec]:
    """The same dataclass by hooks, which msgspec has for such types, and a struct by hand."""
    msgspec: Any = importlib.import_module("msgspec")
    members: list[Any] = [("id", int), ("name", str), ("values", bytes), ("tags", list[str])]
    struct: Any = msgspec.defstruct("ArrayMessage", members, array_like=True, gc=False)

    def to_bytes(array: Any) -> Any:
        return array.tobytes()

    def to_array(_: type[Any], data: Any) -> Any:
        return np.frombuffer(data)

    hooked = msgspec.msgpack.Encoder(enc_hook=to_bytes).encode
    unhooked: Function = msgspec.msgpack.Decoder(PlainMessage, dec_hook=to_array).decode
    encode_struct = msgspec.msgpack.Encoder().encode
    decode_struct = msgspec.msgpack.Decoder(struct).decode

    def encode(it: Any) -> Any:
        return encode_struct(struct(it.id, it.name, it.values.tobytes(), it.tags))

    def decode(data: Any) -> Any:
        it = decode_struct(data)
        return PlainMessage(it.id, it.name, np.frombuffer(it.values), it.tags)

    return [
        MessageCodec("msgspec", _plain, hooked, unhooked),
        MessageCodec("msgspec array_like", _plain, encode, decode),
    ]


def checked_calls() -> dict[str, dict[str, tuple[Function, Any]]]:
    """What everyone is timed at, by operation and name, after each was checked to keep every value."""
    given = message()
    calls: dict[str, dict[str, tuple[Function, Any]]] = {"encode": {}, "decode": {}, "decode and read": {}}
    for codec in message_codecs():
        codec.check(given)
        event = codec.made(given)
        data = codec.encode(event)
        calls["encode"][codec.name] = codec.encode, event
        if codec.name != OURS[2]:  # it decodes as the first does
            calls["decode"][codec.name] = codec.decode, data
            calls["decode and read"][codec.name] = codec.decode_and_read, data
    return calls


def measure(*, quick: bool) -> Iterator[Row]:
    """Each way to encode and decode a message, beside all others."""
    for operation, calls in checked_calls().items():
        timed = {
            name: functools.partial(seconds_each, call, argument, 1, quick=quick)
            for name, (call, argument) in calls.items()
        }
        taken = medians_in_turn(timed, 1 if quick else 5)
        for name in OURS:
            if name in taken:
                yield from _beside(name, operation, taken)


def _beside(name: str, operation: str, taken: dict[str, float]) -> Iterator[Row]:
    mine = taken[name]
    group = f"variable parts, {name}: {operation}, {1e9 * mine:.3g} ns"
    for peer, seconds in taken.items():
        if peer not in OURS:
            what = f"faster than {peer}, {1e9 * seconds:.4g} ns"
            yield Row(what, seconds / mine, GOALS.get(peer), "x", at_least=True, group=group)
