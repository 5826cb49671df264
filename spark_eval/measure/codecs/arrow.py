"""Arrow: a batch as a record batch of one row, with the particles as a list column.

Both sides know the schema, as with our formats; it is not sent with every message. Text of fixed size is
stored as binary of fixed size, which numpy reads without a copy.
"""

from __future__ import annotations

import importlib
import typing
from dataclasses import dataclass
from typing import Any

import numpy as np

from echo_core.spark_eval.measure.codecs.codec import (
    Costs,
    Function,
    MeasuredCodec,
    Target,
)
from echo_core.spark_eval.measure.codecs.handwritten import compiled, writer
from echo_core.spark_eval.measure.codecs.members import dtypes, members
from echo_core.spark_eval.measure.workloads import STEP, Batch, EventShape, Particle, Sender, hints

Column = np.ndarray[Any, Any]


def _arrow() -> Any:
    return importlib.import_module("pyarrow")


def _particle_type(cls: type[Any]) -> Any:
    pa = _arrow()
    types = {
        name: pa.binary(dtype.itemsize) if dtype.kind == "S" else pa.from_numpy_dtype(dtype)
        for name, dtype in dtypes(cls).items()
    }
    return pa.struct(list(types.items()))


def _schema(cls: type[Any]) -> Any:
    """The schema of a batch class."""
    pa = _arrow()
    (particle,) = typing.get_args(hints(cls)["particles"])
    types = {
        "int": pa.int64(),
        "float": pa.float64(),
        "text": pa.string(),
        "list": pa.list_(_particle_type(particle)),
    }
    return pa.schema(
        [(name, pa.int32() if name == "count" else types[kind.what]) for name, kind in members(cls).items()]
    )


def _array(values: Any, type_: Any, dtype: np.dtype[Any]) -> Any:
    """A column of Python values, or of numpy's."""
    pa = _arrow()
    if dtype.kind != "S":
        return pa.array(values, type_)
    column = np.asarray(values, dtype)
    return pa.FixedSizeBinaryArray.from_buffers(type_, len(column), [None, pa.py_buffer(column)])


@dataclass(frozen=True, slots=True)
class Arrow(MeasuredCodec):
    """Encodes a record batch as a message; decodes by numpy."""

    def load(self) -> None:
        importlib.import_module("pyarrow.ipc")

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        cls = shape.sender_class(sender)
        if target == "columns" and sender == "same":
            pack = _packer(cls)
            return lambda columns: pack(columns.values(), {"step": STEP, "count": len(columns["id"])})
        return _of_objects(cls)

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        schema = _schema(shape.sender_class(sender))
        read = importlib.import_module("pyarrow.ipc").read_record_batch
        at = {name: schema.get_field_index(name) for name in members(Batch)}
        struct = schema.field(at["particles"]).type.value_type
        fields = [(name, struct.get_field_index(name), it) for name, it in dtypes(Particle).items()]

        def columns(data: Any) -> dict[str, Column]:
            found = read(data, schema).column(at["particles"]).flatten()
            return {name: _numpy(found.field(i), dtype) for name, i, dtype in fields}

        def objects(data: Any) -> Batch:
            batch = read(data, schema)
            found = batch.column(at["particles"]).flatten()
            lists = [_list(found.field(i), dtype) for _, i, dtype in fields]
            step, count = (batch.column(at[name])[0].as_py() for name in ("step", "count"))
            return Batch(step, count, list(map(Particle, *lists)))

        return objects if target == "objects" else columns


def _numpy(column: Any, dtype: np.dtype[Any]) -> Column:
    if dtype.kind != "S":
        found: Column = column.to_numpy(zero_copy_only=False)
        return found
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def _list(column: Any, dtype: np.dtype[Any]) -> list[Any]:
    values: list[Any] = _numpy(column, dtype).tolist()
    return [it.decode() for it in values] if dtype.kind == "S" else values


def _packer(cls: type[Any]) -> typing.Callable[[Any, dict[str, Any]], Any]:
    """A function from the columns of particles and a batch's other values to a message."""
    pa, schema = _arrow(), _schema(cls)
    (particle,) = typing.get_args(hints(cls)["particles"])
    struct = _particle_type(particle)
    kinds = list(zip(struct, dtypes(particle).values(), strict=True))

    def pack(columns: Any, header: dict[str, Any]) -> Any:
        parts = [
            _array(column, it.type, dtype)
            for column, (it, dtype) in zip(columns, kinds)  # noqa: B905 - a cost
        ]
        particles = pa.StructArray.from_arrays(parts, fields=list(struct))
        ends = pa.array([0, len(particles)], pa.int32())
        arrays = [
            pa.ListArray.from_arrays(ends, particles, type=it.type)
            if it.name == "particles"
            else pa.array([header[it.name]], it.type)
            for it in schema
        ]
        return pa.record_batch(arrays, schema=schema).serialize()

    return pack


def _of_objects(cls: type[Any]) -> Function:
    pack = _packer(cls)
    (particle,) = typing.get_args(hints(cls)["particles"])
    row = writer(particle, "row")
    names = [name for name in members(cls) if name != "particles"]
    header = compiled(f"{{{', '.join(f'{name!r}: it.{name}' for name in names)}}}", {})
    return lambda it: pack(zip(*map(row, it.particles), strict=True), header(it))


ARROW = (Arrow("arrow ipc", for_batches_only=True),)
