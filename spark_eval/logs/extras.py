"""What a log knows of an event beside its fields: columns that are there when they are asked for.

_time        when its source submitted it, where that said so, else when it was recorded
_sequence    its number among those of its source and epoch
_source      the source's name; _source_id tells sources of one name apart
_epoch       which run of the source: numbers begin anew with each
_channel     the channel's name
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np

import echo_core as echo
from echo_core.spark_eval.columns.reading import microseconds

TIME = "_time"
SEQUENCE = "_sequence"
_MAX_NUMBER = 2**63 - 1


class Extra(NamedTuple):
    """Its types in Arrow and Spark; the rest of this module says what it is of a batch."""

    arrow: Any
    spark: Any


def extra(name: str) -> Extra:
    """One of `NAMES`."""
    pa: Any = importlib.import_module("pyarrow")
    types: Any = importlib.import_module("pyspark.sql.types")
    match name:
        case "_time":
            return Extra(pa.timestamp("us", "UTC"), types.TimestampType())
        case "_sequence":
            return Extra(pa.int64(), types.LongType())
        case "_epoch":
            return Extra(pa.decimal128(20, 0), types.DecimalType(20, 0))
        case _:
            return Extra(pa.string(), types.StringType())


NAMES = (TIME, SEQUENCE, "_source", "_source_id", "_epoch", "_channel")


def extra_column(name: str, batch: Any) -> Any:
    """The Arrow array of a batch of a log."""
    pa: Any = importlib.import_module("pyarrow")
    type_ = extra(name).arrow
    match name:
        case "_time":
            return pa.array(microseconds(np.asarray(batch.times_ns))).cast(type_)
        case "_sequence":
            return pa.array(_numbers(np.asarray(batch.sequences)))
        case "_source":
            value = batch.source
        case "_source_id":
            value = batch.source_id
        case "_epoch":
            value = importlib.import_module("decimal").Decimal(batch.epoch)
        case _:
            value = batch.channel
    return pa.repeat(pa.scalar(value, type_), len(batch))


def _numbers(sequences: Any) -> Any:
    if len(sequences) and int(sequences[-1]) > _MAX_NUMBER:
        msg = f"Expected numbers of events up to {_MAX_NUMBER}, got {int(sequences[-1])}"
        raise echo.WireError(msg, path=SEQUENCE)
    return sequences.astype(np.int64)
