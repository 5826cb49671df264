"""The rivals without a schema, msgpack and pickle, each used in its fastest way."""

from __future__ import annotations

import copyreg
import importlib
import io
import pickle
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import echo_core as echo
from echo_core.spark_eval.measure.codecs.codec import (
    POSITIONAL,
    Costs,
    Function,
    MeasuredCodec,
    Target,
)
from echo_core.spark_eval.measure.codecs.handwritten import (
    Style,
    batch_objects,
    batch_of_columns,
    column_maker,
    reader,
    row_columns,
    writer,
)
from echo_core.spark_eval.measure.codecs.members import members
from echo_core.spark_eval.measure.workloads import EventShape, Particle, Sender, hints, instance


def _msgpack() -> tuple[Function, Function]:
    msgpack: Any = importlib.import_module("msgpack")
    return msgpack.Packer().pack, msgpack.unpackb


def _dump(it: Any) -> bytes:
    return pickle.dumps(it, 5)


def _pickle() -> tuple[Function, Function]:
    return _dump, pickle.loads


@dataclass(frozen=True, slots=True)
class Values(MeasuredCodec):
    """Codecs of Python values: an event is a row of values, or a dict by field name."""

    functions: Callable[[], tuple[Function, Function]]
    style: Style

    @property
    def is_positional(self) -> bool:
        return self.style == "row"

    def load(self) -> None:
        self.functions()

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        dump, _ = self.functions()
        if target == "columns" and sender == "same":
            message = batch_of_columns(Particle, self.style)
        else:
            message = writer(shape.sender_class(sender, positional=self.is_positional), self.style)
        return lambda it: dump(message(it))

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        _, load = self.functions()
        if target == "objects":
            read = reader(shape.cls, self.style, is_cut=self.is_positional and sender == "extra")
            return lambda data: read(load(data))
        if self.style == "row":
            columns = row_columns(Particle)
            return lambda data: columns(load(data)[2])
        columns = column_maker(Particle, "x[{!r}]")
        return lambda data: columns(load(data)["particles"])


@dataclass(frozen=True, slots=True)
class Pickle(MeasuredCodec):
    """Pickles instances. Unpickling a class with slots refuses unknown fields, so there is no "extra"."""

    def source(self, shape: EventShape, sender: Sender, target: Target) -> Any:
        return MeasuredCodec.source(self, shape, "same", "objects" if sender != "same" else target)

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        if sender == "reordered":
            return _dump_reordered
        return _dump_columns if target == "columns" else _dump

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        if target == "objects":
            return pickle.loads
        columns = column_maker(Particle, "x.{}")
        return lambda data: columns(pickle.loads(data).particles)


class _Reordered(pickle.Pickler):
    """Pickles like a process whose class has its slots in the opposite order."""

    def reducer_override(self, obj: Any) -> Any:
        if not hasattr(obj, "__dataclass_fields__") or isinstance(obj, type):
            return NotImplemented
        state = {name: getattr(obj, name) for name in reversed(obj.__slots__)}
        new: Any = vars(copyreg)["__newobj__"]
        return new, (type(obj),), (None, state)


def _dump_reordered(it: Any) -> bytes:
    file = io.BytesIO()
    _Reordered(file, 5).dump(it)
    return file.getvalue()


def _dump_columns(columns: Any) -> bytes:
    return pickle.dumps(batch_objects(columns), 5)


@dataclass(frozen=True, slots=True)
class PickledArray(MeasuredCodec):
    """Pickles a batch with a numpy array of records, which is one block of memory."""

    def source(self, shape: EventShape, sender: Sender, target: Target) -> Any:
        batch = shape.sender_class(sender)
        event = instance(batch, shape.values())
        (cls,) = typing.get_args(hints(batch)["particles"])
        row = writer(cls, "row")
        return event.step, event.count, np.array(list(map(row, event.particles)), echo.format_of(cls).dtype)

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        return _dump

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        names = list(members(Particle))

        def fields(data: Any) -> dict[str, Any]:
            records = pickle.loads(data)[2]
            return {name: records[name] for name in names}

        return fields


BINARY: tuple[Values | Pickle | PickledArray, ...] = (
    Values("msgpack map", _msgpack, "map"),
    Values("msgpack array", _msgpack, "row", senders=POSITIONAL),
    Pickle("pickle", senders=("same", "reordered")),
    Values("pickle of rows", _pickle, "row", senders=POSITIONAL),
    PickledArray("pickle numpy", targets=("columns",), for_batches_only=True),
)
