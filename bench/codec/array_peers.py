"""numpy and pyarrow as codecs: for lists of particles only, which they hold as records or as columns."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import echo_core as echo
from bench.codec.peer import FIELDS, SINGLE, Peer, Plain, field_type, plain, row
from bench.workload import Particle


def _numpy() -> list[Peer]:
    dtype = echo.format_of(Particle).dtype

    def back(given: tuple[Any, ...]) -> Any:
        return Plain(*given[:-2], given[-2].decode(), given[-1])

    def encode_list(given: list[Any]) -> bytes:
        return np.array([row(it) for it in given], dtype).tobytes()

    def decode_list(data: bytes) -> list[Any]:
        return list(map(back, np.frombuffer(data, dtype).tolist()))

    return [Peer("numpy", plain, None, (encode_list, decode_list))]


def _arrow_schema(pyarrow: Any) -> Any:
    """The particle's columns, each of its own width."""
    widths = {
        "cell": pyarrow.int32(),
        "kind": pyarrow.int16(),
        "flags": pyarrow.uint8(),
        "owner": pyarrow.uint32(),
        **dict.fromkeys(SINGLE, pyarrow.float32()),
    }
    wide = {int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_(), str: pyarrow.string()}
    return pyarrow.schema([(name, widths.get(name, wide[field_type(name)])) for name in FIELDS])


def _pyarrow() -> list[Peer]:
    """A record batch without its schema, which both sides know."""
    pyarrow: Any = importlib.import_module("pyarrow")
    schema = _arrow_schema(pyarrow)
    ipc: Any = importlib.import_module("pyarrow.ipc")

    def encode_list(given: list[Any]) -> Any:
        columns = zip(schema.types, zip(*map(row, given), strict=True), strict=True)
        arrays = [pyarrow.array(column, type_) for type_, column in columns]
        return pyarrow.record_batch(arrays, schema=schema).serialize()

    def decode_list(data: Any) -> list[Any]:
        batch = ipc.read_record_batch(data, schema)
        return list(map(Plain, *(column.to_pylist() for column in batch.columns)))

    return [Peer("pyarrow", plain, None, (encode_list, decode_list))]


ARRAY_PEERS: dict[str, Callable[[], list[Peer]]] = {"numpy": _numpy, "pyarrow": _pyarrow}
