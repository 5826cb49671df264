"""The codecs that a Python user would take today, each at its best on the same particle.

Every peer turns a particle into bytes and back into an object of its own or of the same class, alone and in
lists of a thousand, and is checked to keep every value. Those that need no schema are here. A package is
imported when its peer is made, for it need not be installed.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from typing import Any

from bench.available import made_by
from bench.codec.array_peers import ARRAY_PEERS
from bench.codec.peer import MEMBERS, Peer, Plain, plain, row, values
from bench.codec.schema_peers import SCHEMA_PEERS
from bench.codec.xml_peers import xml_peers
from bench.workload import Particle


def peers() -> list[Peer]:
    """All that are installed."""
    return made_by(
        {
            "pickle": _pickles,
            "msgpack": _msgpack,
            "ormsgpack": _ormsgpack,
            "orjson": _orjson,
            "msgspec": _msgspecs,
            **SCHEMA_PEERS,
            "xml": xml_peers,
            **ARRAY_PEERS,
        }
    )


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


def _msgpack() -> list[Peer]:
    msgpack: Any = importlib.import_module("msgpack")
    return [_pack("msgpack", msgpack.Packer().pack, msgpack.unpackb)]


def _ormsgpack() -> list[Peer]:
    ormsgpack: Any = importlib.import_module("ormsgpack")
    return [_pack("ormsgpack", ormsgpack.packb, ormsgpack.unpackb)]


def _orjson() -> list[Peer]:
    orjson: Any = importlib.import_module("orjson")
    return [_pack("orjson", orjson.dumps, orjson.loads)]


def _pack(name: str, pack: Any, unpack: Any) -> Peer:
    """The fastest that each does with a class: its values as an array, and its constructor."""

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
    msgspec: Any = importlib.import_module("msgspec")
    named: Any = msgspec.defstruct("Named", MEMBERS)
    array: Any = msgspec.defstruct("Array", MEMBERS, array_like=True, gc=False)
    encode = msgspec.msgpack.Encoder().encode

    def peer(name: str, cls: Any, made: Callable[[Particle], Any]) -> Peer:
        one, many = msgspec.msgpack.Decoder(cls).decode, msgspec.msgpack.Decoder(list[cls]).decode
        return Peer(name, made, (encode, one), (encode, many))

    return [
        peer("msgspec", Plain, plain),
        peer("msgspec Struct", named, lambda it: named(*values(it))),
        peer("msgspec array_like", array, lambda it: array(*values(it))),
    ]
