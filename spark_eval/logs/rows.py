"""From batches of a log to Arrow record batches, of the types that Spark has for a schema.

Records of a fixed size become columns by compiled code, a batch at a time; others are converted one by one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import echo_core as echo
from echo_core.spark_eval.logs import extras

pa: Any = importlib.import_module("pyarrow")


class RowMaker:
    """Makes rows of events of one class. `schema` is Spark's: which columns, and which may be null."""

    def __init__(self, event: type[Any], schema: Any) -> None:
        arrow_of = importlib.import_module("pyspark.sql.pandas.types").to_arrow_schema
        self._schema = arrow_of(schema, timezone="UTC")
        known = {field.name for field in echo.format_of(event).fields}
        # A schema that somebody gave may say that an optional column has no nulls, and be right.
        wanted = [field.with_nullable(True) for field in self._schema if field.name in known]
        self._fields = pa.schema(wanted)

    def rows(self, batch: Any) -> Any:
        """A record batch with a row for each event."""
        columns: list[Any] = batch.arrow(schema=self._fields).columns if len(self._fields) else []
        column_by_name = dict(zip(self._fields.names, columns, strict=True))
        arrays = [
            column_by_name[name] if name in column_by_name else extras.extra_column(name, batch)
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def gathered(batches: Iterable[Any], most_bytes: int) -> Iterator[Any]:
    """The same rows in batches of about so many bytes: a log that is synced often has small ones."""
    held: list[Any] = []
    size = 0
    for batch in batches:
        if held and size + batch.nbytes > most_bytes:
            yield _joined(held)
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield _joined(held)


def _joined(batches: list[Any]) -> Any:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
