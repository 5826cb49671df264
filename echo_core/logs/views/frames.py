"""Arrow tables of a view: their schema, and the columns that say where events are from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from echo_core.codegen.arrow.package import pyarrow
from echo_core.codegen.arrow.schema import arrow_schema
from echo_core.formats.format import Format
from echo_core.logs.views.decoders import Array_


def schema_of(format_: Format, *, info: bool) -> Any:
    """Of the format's events, with the columns of `about` behind them where they are asked for."""
    schema = arrow_schema(format_)
    if info:
        for field in _about_fields():
            schema = schema.append(field)
    return schema


def table_of(schema: Any, batches: Iterable[Any]) -> Any:
    """All of these batches."""
    return pyarrow().Table.from_batches(batches, schema=schema)


def about(
    times_ns: Array_, numbers: Array_, source: str, source_id: str, epoch: int, channel: str
) -> dict[str, Any]:
    """Columns that say where each event is from, by their names."""
    pa, count = pyarrow(), len(times_ns)
    same = pa.scalar(source), pa.scalar(source_id), pa.scalar(epoch, pa.uint64()), pa.scalar(channel)
    values = [
        pa.array(times_ns.view("M8[ns]"), pa.timestamp("ns", "UTC")),
        pa.array(numbers),
        *(pa.repeat(each, count) for each in same),
    ]
    return dict(zip((field.name for field in _about_fields()), values, strict=True))


def _about_fields() -> list[Any]:
    pa = pyarrow()
    types = {
        "_time": pa.timestamp("ns", "UTC"),
        "_sequence": pa.uint64(),
        "_source": pa.string(),
        "_source_id": pa.string(),
        "_epoch": pa.uint64(),
        "_channel": pa.string(),
    }
    return [pa.field(name, type_, False) for name, type_ in types.items()]


def with_columns(batch: Any, columns: Mapping[str, Any]) -> Any:
    """A batch with the columns of `about` behind its own."""
    schema = batch.schema
    for field in _about_fields():
        schema = schema.append(field)
    return pyarrow().RecordBatch.from_arrays([*batch.columns, *columns.values()], schema=schema)
