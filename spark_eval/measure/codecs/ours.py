"""This library's codecs, with the same bytes: dataclasses, events, arrays of records, columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import echo_core as echo
from echo_core.spark_eval.measure.codecs.codec import (
    Costs,
    Function,
    MeasuredCodec,
    Target,
)
from echo_core.spark_eval.measure.codecs.handwritten import writer
from echo_core.spark_eval.measure.codecs.members import columns_of
from echo_core.spark_eval.measure.workloads import (
    SENDERS,
    STEP,
    BatchArray,
    BatchRecords,
    EventShape,
    Particle,
    Sender,
    instance,
)

FOREIGN_ABI = "s390x"


@cache
def _load() -> None:
    """Import the compiler, by compiling something."""
    foreign = echo.format_of(Particle, abi=FOREIGN_ABI)
    echo.decoder(Particle, sender=foreign, tier="compiled")


def _sender_format(cls: type[Any], sender: Sender) -> echo.Format:
    """The sender's format, read from its metadata as a receiver does."""
    format_ = echo.format_of(cls, abi=FOREIGN_ABI if sender == "big-endian" else "native")
    return echo.Format.from_metadata(format_.metadata)


@dataclass(frozen=True, slots=True)
class Objects(MeasuredCodec):
    """Events of a class. `is_event`: an `@echo.event`; `is_read`: every field is read after decoding."""

    is_event: bool = False
    is_read: bool = False

    def load(self) -> None:
        _load()

    def source(self, shape: EventShape, sender: Sender, target: Target) -> Any:
        return instance(self._sender_class(shape, sender), shape.values())

    def _sender_class(self, shape: EventShape, sender: Sender) -> type[Any]:
        if self.is_event and sender == "same":
            return shape.event_class
        return shape.sender_class(sender)

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        cls = self._sender_class(shape, sender)
        if (
            sender == "big-endian"
        ):  # only its bytes are wanted, and there is code for this machine's layout alone
            return echo.encoder(cls, abi=FOREIGN_ABI, tier="interpreted")
        echo.format_of(cls)
        with costs.compiling():
            return echo.encoder(cls, tier="compiled")

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        format_ = _sender_format(self._sender_class(shape, sender), sender)
        cls = shape.event_class if self.is_event else shape.cls
        with costs.compiling():
            decode: Function = echo.decoder(cls, sender=format_, tier="compiled")
        return _then_read(decode, writer(shape.cls, "row")) if self.is_read else decode


def _then_read(decode: Function, read: Function) -> Function:
    def decode_and_read(data: Any) -> Any:
        found = decode(data)
        read(found)
        return found

    return decode_and_read


@dataclass(frozen=True, slots=True)
class Arrays(MeasuredCodec):
    """Batches with a numpy array of records; the columns are its fields, or contiguous arrays.

    The input of encoding is the event with its array ("echo array"), or columns that are first written to an
    array.
    """

    is_contiguous: bool

    def load(self) -> None:
        _load()

    def source(self, shape: EventShape, sender: Sender, target: Target) -> Any:
        if sender != "same":
            return instance(shape.sender_class(sender), shape.values())
        columns = columns_of(shape.values(), Particle)
        return columns if self.is_contiguous else _event_of(columns, echo.format_of(Particle).dtype)

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        if sender != "same":
            return Objects(self.name).encoder(shape, sender, target, costs)
        dtype = echo.format_of(Particle).dtype
        with costs.compiling():
            encode: Function = echo.encoder(BatchRecords, tier="compiled")
        return (lambda columns: encode(_event_of(columns, dtype))) if self.is_contiguous else encode

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        format_ = _sender_format(BatchRecords if sender == "same" else shape.sender_class(sender), sender)
        with costs.compiling():
            decode: Function = echo.decoder(BatchArray, sender=format_, tier="compiled")
            columns: Function = echo.column_decoder(Particle, tier="compiled")
        if self.is_contiguous:
            return lambda data: columns(decode(data).particles.view("u1"))
        names = list(echo.format_of(Particle).dtype.names or ())

        def fields(data: Any) -> dict[str, Any]:
            records = decode(data).particles
            return {name: records[name] for name in names}

        return fields


def _event_of(columns: dict[str, Any], dtype: np.dtype[Any]) -> BatchRecords:
    records = np.empty(len(columns["id"]), dtype)
    for name, column in columns.items():
        records[name] = column
    return BatchRecords(STEP, len(records), records)


OURS: tuple[Objects | Arrays, ...] = (
    Objects("echo dataclass", senders=SENDERS, targets=("objects",)),
    Objects("echo event", is_event=True, senders=SENDERS, targets=("objects",)),
    Objects(
        "echo event, read",
        is_event=True,
        is_read=True,
        senders=SENDERS,
        targets=("objects",),
        operations=("decode",),
    ),
    Arrays("echo array", False, senders=SENDERS, targets=("columns",), for_batches_only=True),
    Arrays("echo columns", True, senders=SENDERS, targets=("columns",), for_batches_only=True),
)
