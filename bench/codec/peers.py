"""The codecs that a Python user would take today, each at its best on the same particle.

Every peer turns a particle into bytes and back into an object of its own or of the same class, alone and in
lists of a thousand, and is checked to keep every value. Those that need no schema are here.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import ormsgpack

from bench.codec.array_peers import array_peers
from bench.codec.peer import MEMBERS, Peer, Plain, plain, row, values
from bench.codec.schema_peers import schema_peers
from bench.codec.xml_peers import xml_peers
from bench.workload import Particle

msgpack: Any = importlib.import_module("msgpack")  # it comes without types

# The particle as msgspec likes it: with names, and best as an array without them.
Named: Any = msgspec.defstruct("Named", MEMBERS)
Array: Any = msgspec.defstruct("Array", MEMBERS, array_like=True, gc=False)


def peers() -> list[Peer]:
    """All of them."""
    return [*_pickles(), *_packs(), *_msgspecs(), *schema_peers(), *xml_peers(), *array_peers()]


def _pickles() -> list[Peer]:
    """The dataclass as it is, and its values alone, which is what its best users pickle."""

    def dump(it: Any) -> bytes:
        return pickle.dumps(it, 5)

    def dump_values(it: Any) -> bytes:
        return pickle.dumps(row(it), 5)

    def load_values(data: bytes) -> Any:
        return Plain(*pickle.loads(data))

    def dump_rows(given: list[Any]) -> bytes:
        return pickle.dumps([row(it) for it in given], 5)

    def load_rows(data: bytes) -> list[Any]:
        return [Plain(*it) for it in pickle.loads(data)]

    whole = Peer("pickle", plain, (dump, pickle.loads), (dump, pickle.loads))
    rows = Peer("pickle of a tuple", plain, (dump_values, load_values), (dump_rows, load_rows))
    return [whole, rows]


def _packs() -> list[Peer]:
    """The fastest that each does with a class: its values as an array, and its constructor."""
    return [
        _pack("msgpack", msgpack.Packer().pack, msgpack.unpackb),
        _pack("ormsgpack", ormsgpack.packb, ormsgpack.unpackb),
        _pack("orjson", orjson.dumps, orjson.loads),
    ]


def _pack(name: str, pack: Any, unpack: Any) -> Peer:
    def encode(it: Any) -> Any:
        return pack(row(it))

    def decode(data: Any) -> Any:
        return Plain(*unpack(data))

    def encode_list(given: list[Any]) -> Any:
        return pack([row(it) for it in given])

    def decode_list(data: Any) -> list[Any]:
        return [Plain(*it) for it in unpack(data)]

    return Peer(name, plain, (encode, decode), (encode_list, decode_list))


def _msgspecs() -> list[Peer]:
    """msgpack of the same dataclass, of a Struct, and of a Struct that is an array and not tracked."""
    encode = msgspec.msgpack.Encoder().encode

    def peer(name: str, cls: Any, made: Callable[[Particle], Any]) -> Peer:
        one, many = msgspec.msgpack.Decoder(cls).decode, msgspec.msgpack.Decoder(list[cls]).decode
        return Peer(name, made, (encode, one), (encode, many))

    return [
        peer("msgspec", Plain, plain),
        peer("msgspec Struct", Named, lambda it: Named(*values(it))),
        peer("msgspec array_like", Array, lambda it: Array(*values(it))),
    ]
