"""How each codec of the pipeline gets from columns to messages and back.

A message is a batch of particles. All routes get the same numpy columns and produce the same Arrow columns,
each in the fastest way of its library: zip builds and unpacks rows of Python values, a chunk of messages
becomes one column, and Arrow parses the text of XML.
"""

from __future__ import annotations

import dataclasses
import importlib
import operator
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import echo_core as echo
from echo_core.spark_eval.columns.dataframes import decoding_of
from echo_core.spark_eval.columns.schema import arrow_schema
from echo_core.spark_eval.measure.workloads import Particle

Columns = dict[str, np.ndarray[Any, Any]]
Rows = list[Any]
CHUNK = 100  # messages per step of encoding or decoding


@dataclass(slots=True)
class ParticleBatch:
    """The content of a message."""

    step: int
    count: echo.Int32
    particles: echo.Array[Particle, ...]


NAMES = tuple(field.name for field in dataclasses.fields(Particle))


def particles(first: int, count: int) -> Columns:
    """Columns of particles, determined by their numbers; fields that would be measured are random."""
    ids = np.arange(first, first + count)
    random = np.random.default_rng(first)
    x, y, z = random.normal(0, 1e3, (3, count))
    vx, vy, vz, temp = random.normal(300, 50, (4, count)).astype("f4")
    return {
        "id": ids,
        "x": x,
        "y": y,
        "z": z,
        "vx": vx,
        "vy": vy,
        "vz": vz,
        "temp": temp,
        "cell": (ids % 1000).astype("i4"),
        "kind": (ids % 6).astype("i2"),
        "flags": (ids % 256).astype("u1"),
        "active": ids % 2 == 0,
        "mass": random.choice([1.67262192e-27, 9.1093837e-31], count),
        "charge": random.choice([1.602176634e-19, -1.602176634e-19], count),
        "tag": np.char.add("p", (ids % 100).astype("U2")),
        "owner": (ids % 65536).astype("u4"),
    }


@dataclass(frozen=True)
class Route:
    """`encode` creates messages with so many particles each; `decode` creates columns from messages."""

    encode: Callable[[Columns, int], Sequence[bytes]]
    decode: Callable[[Any], list[Any]]


def _slices(total: int, size: int) -> Iterable[tuple[int, int]]:
    return ((i, min(i + size, total)) for i in range(0, total, size))


# ---------------------------------------------------------------------------
# echo


@cache
def _batch_encoder() -> Callable[[ParticleBatch], bytes]:
    return echo.encoder(ParticleBatch)


def records(columns: Columns) -> np.ndarray[Any, Any]:
    """The same particles as records."""
    made = np.zeros(len(columns["id"]), echo.format_of(Particle).dtype)
    for name, column in columns.items():
        made[name] = column
    return made


def _echo_encode(columns: Columns, size: int) -> list[bytes]:
    made, total, encode = records(columns), len(columns["id"]), _batch_encoder()
    return [encode(ParticleBatch(s // size, e - s, made[s:e])) for s, e in _slices(total, size)]


@cache
def _echo_decoding() -> Any:
    return decoding_of(ParticleBatch)


def _echo_decode(messages: Any) -> list[Any]:
    columns: list[Any] = _echo_decoding().structs(messages).field("particles").flatten().flatten()
    return columns


# ---------------------------------------------------------------------------
# Rivals that are given rows


def _rows(columns: Columns) -> Rows:
    return list(zip(*(columns[name].tolist() for name in NAMES), strict=True))


def _maps(columns: Columns) -> Rows:
    return [dict(zip(NAMES, row, strict=True)) for row in _rows(columns)]


def _arrow(columns: Iterable[Any]) -> list[Any]:
    pa = importlib.import_module("pyarrow")
    types = arrow_schema(Particle).types
    return [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]


_getter: Any = getattr(operator, "itemgetter")  # noqa: B009 - its type says nothing of several names


def _encode_maps(dump: Callable[[Any], bytes], columns: Columns, size: int) -> list[bytes]:
    rows = _maps(columns)
    return [
        dump({"step": s // size, "count": e - s, "particles": rows[s:e]}) for s, e in _slices(len(rows), size)
    ]


def _decode_maps(load: Callable[[bytes], Any], messages: Any) -> list[Any]:
    row_of: Callable[[Any], Any] = _getter(*NAMES)
    rows = [row_of(it) for message in messages.to_pylist() for it in load(message)["particles"]]
    return _arrow(zip(*rows, strict=True))


def _encode_rows(dump: Callable[[Any], bytes], columns: Columns, size: int) -> list[bytes]:
    rows = _rows(columns)
    return [dump((s // size, e - s, rows[s:e])) for s, e in _slices(len(rows), size)]


def _decode_rows(load: Callable[[bytes], Any], messages: Any) -> list[Any]:
    rows = [row for message in messages.to_pylist() for row in load(message)[2]]
    return _arrow(zip(*rows, strict=True))


def _of_maps(dump: Callable[[Any], bytes], load: Callable[[bytes], Any]) -> Route:
    return Route(lambda columns, size: _encode_maps(dump, columns, size), lambda it: _decode_maps(load, it))


def _of_rows(dump: Callable[[Any], bytes], load: Callable[[bytes], Any]) -> Route:
    return Route(lambda columns, size: _encode_rows(dump, columns, size), lambda it: _decode_rows(load, it))


# ---------------------------------------------------------------------------
# XML


def _texts(column: np.ndarray[Any, Any]) -> list[str]:
    """The numbers of a column as Python writes them, which is exact."""
    texts = list(map(str, column.tolist()))
    return list(map(str.lower, texts)) if column.dtype == bool else texts


def _xml_encode(columns: Columns, size: int) -> list[bytes]:
    etree = importlib.import_module("xml.etree.ElementTree")
    make, total = etree.SubElement, len(columns["id"])
    rows = list(zip(*(_texts(columns[name]) for name in NAMES), strict=True))
    messages: list[bytes] = []
    for s, e in _slices(total, size):
        root = etree.Element("batch", {"step": str(s // size), "count": str(e - s)})
        for row in rows[s:e]:
            particle = make(root, "particle")
            for name, text in zip(NAMES, row, strict=True):
                make(particle, name).text = text
        messages.append(etree.tostring(root))
    return messages


def _xml_decode(messages: Any) -> list[Any]:
    pa = importlib.import_module("pyarrow")
    load = importlib.import_module("xml.etree.ElementTree").fromstring
    rows = [[it.text for it in particle] for message in messages.to_pylist() for particle in load(message)]
    types = arrow_schema(Particle).types
    columns = zip(*rows, strict=True)
    return [pa.array(it, pa.string()).cast(type_) for it, type_ in zip(columns, types, strict=True)]


# ---------------------------------------------------------------------------


def _pickle_dump(value: Any) -> bytes:
    return pickle.dumps(value, 5)


def _msgpack() -> Any:
    return importlib.import_module("msgpack")


_MAKERS: dict[str, Callable[[], Route]] = {
    "echo": lambda: Route(_echo_encode, _echo_decode),
    "msgpack map": lambda: _of_maps(_msgpack().packb, _msgpack().unpackb),
    "msgpack array": lambda: _of_rows(_msgpack().packb, _msgpack().unpackb),
    "pickle": lambda: _of_maps(_pickle_dump, pickle.loads),
    "pickle of rows": lambda: _of_rows(_pickle_dump, pickle.loads),
    "xml etree": lambda: Route(_xml_encode, _xml_decode),
}
NAMES_OF_ROUTES = tuple(_MAKERS)


@cache
def route(name: str) -> Route:
    """The route of a codec."""
    return _MAKERS[name]()
