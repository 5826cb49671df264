"""The codecs of the comparison, ours and the rivals, and how a cell is prepared."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable

from echo_core.spark_eval.measure.codecs.arrow import ARROW
from echo_core.spark_eval.measure.codecs.binary import BINARY
from echo_core.spark_eval.measure.codecs.codec import (
    Cell,
    Costs,
    Function,
    MeasuredCodec,
    Operation,
    Target,
    Work,
)
from echo_core.spark_eval.measure.codecs.members import check_columns, check_object, columns_of
from echo_core.spark_eval.measure.codecs.ours import OURS
from echo_core.spark_eval.measure.codecs.protobuf import Protobuf
from echo_core.spark_eval.measure.codecs.typed import TYPED
from echo_core.spark_eval.measure.codecs.xml import XML
from echo_core.spark_eval.measure.workloads import SHAPES, EventShape, Particle, Sender

__all__ = [
    "CODECS",
    "Cell",
    "Costs",
    "Function",
    "MeasuredCodec",
    "Operation",
    "Target",
    "Work",
    "build",
    "cells",
    "installed",
]

_ALL: tuple[MeasuredCodec, ...] = (*OURS, *BINARY, *TYPED, Protobuf("protobuf"), *ARROW, *XML)
CODECS: dict[str, MeasuredCodec] = {codec.name: codec for codec in _ALL}
_PACKAGES = {
    "msgpack map": "msgpack",
    "msgpack array": "msgpack",
    "msgspec": "msgspec",
    "msgspec struct": "msgspec",
    "protobuf": "google.protobuf",
    "arrow ipc": "pyarrow",
    "xml lxml": "lxml",
}


def installed() -> list[str]:
    """The names of codecs whose packages are installed."""
    return [name for name in CODECS if name not in _PACKAGES or _is_there(_PACKAGES[name])]


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def cells(codec: MeasuredCodec, shape: EventShape) -> list[Cell]:
    """The cells of a codec and a shape. Encoding has the sender "same" only."""
    if codec.for_batches_only and not shape.is_batch:
        return []
    targets: list[Target] = [it for it in codec.targets if it == "objects" or shape.is_batch]
    return [
        Cell(codec.name, operation, shape.name, sender, target)
        for target in targets
        for operation in codec.operations
        for sender in codec.senders
        if operation == "decode" or sender == "same"
    ]


def build(cell: Cell) -> Work:
    """Prepare a cell and check it once. Its costs do not include imports and the creation of events."""
    codec, shape = CODECS[cell.codec], SHAPES[cell.shape]
    codec.load()
    source = codec.source(shape, cell.sender, cell.target)
    is_encoding = cell.operation == "encode"
    encode, encode_costs = _made(codec.encoder, shape, cell)
    payload = encode(source)
    decode, decode_costs = _made(codec.decoder, shape, cell)
    check = _check_of(shape, cell.target)
    costs = encode_costs if is_encoding else decode_costs
    work = Work(
        function=encode if is_encoding else decode,
        argument=source if is_encoding else payload,
        records=shape.records,
        payload_bytes=memoryview(payload).nbytes,
        check=(lambda made: check(decode(made))) if is_encoding else check,
        setup_ns=costs.setup_ns,
        compile_ns=costs.compile_ns,
    )
    work.check(work.call())
    return work


def _made(
    make: Callable[[EventShape, Sender, Target, Costs], Function], shape: EventShape, cell: Cell
) -> tuple[Function, Costs]:
    costs = Costs()
    begun = time.perf_counter_ns()
    function = make(shape, cell.sender, cell.target, costs)
    costs.setup_ns = time.perf_counter_ns() - begun - costs.compile_ns
    return function, costs


def _check_of(shape: EventShape, target: Target) -> Callable[[object], None]:
    values = shape.values()
    if target == "objects":
        return lambda found: check_object(found, values, shape.cls)
    columns = columns_of(values, Particle)
    return lambda found: check_columns(found, columns)
