"""From batches of a log to Arrow record batches, of the types that Spark has for a schema.

Records of a fixed size become columns by compiled code, a batch at a time; others are converted one by one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import echo_core as echo
from echo_core.spark_eval.columns.dataframes import Decoding, decoding_of
from echo_core.spark_eval.columns.reading import ColumnReader, Numbers
from echo_core.spark_eval.columns.schema import TypeNode, arrow_type, form
from echo_core.spark_eval.logs import extras

pa: Any = importlib.import_module("pyarrow")


class RowMaker:
    """Makes rows of events of one class. `schema` is Spark's: which columns, and which may be null."""

    def __init__(self, event: type[Any], schema: Any) -> None:
        arrow_of = importlib.import_module("pyspark.sql.pandas.types").to_arrow_schema
        self._event = event
        self._schema = arrow_of(schema, timezone="UTC")
        receiver = echo.format_of(event)
        self._is_fixed = receiver.is_fixed
        self._path = receiver.name
        self._types: dict[str, TypeNode] = {field.name: field.type for field in receiver.fields}
        self._fields = [name for name in schema.fieldNames() if name in self._types]
        self._leaves = [leaf for name in self._fields for leaf in _leaves(self._types[name], name)]
        self._reader = ColumnReader(receiver)
        self._decodings: dict[echo.Token, Decoding] = {}

    def rows(self, batch: Any) -> Any:
        """A record batch with a row for each event."""
        if not self._fields:
            fields: Mapping[str, Any] = {}
        elif self._is_fixed and batch.format.is_fixed:
            columns = batch.columns(self._leaves)
            fields = {name: self._assembled(self._types[name], name, columns) for name in self._fields}
        else:
            structs = self._decoding(batch.format).structs_of(batch.records())
            fields = {name: structs.field(name) for name in self._fields}
        arrays = [
            _as(fields[field.name] if field.name in fields else extras.extra_column(field.name, batch), field)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _assembled(self, node: TypeNode, path: str, columns: Mapping[str, Numbers]) -> Any:
        """The array of a field: of its one column, or of those of the nested record's fields."""
        if form(node) == "Record":
            parts = [self._assembled(it.type, f"{path}.{it.name}", columns) for it in node.fields]
            return pa.StructArray.from_arrays(parts, fields=list(arrow_type(node)))
        return self._reader.column(node, columns[path], f"{self._path}.{path}")

    def _decoding(self, sender: echo.Format) -> Decoding:
        if sender.token not in self._decodings:
            self._decodings[sender.token] = decoding_of(self._event, sender)
        return self._decodings[sender.token]


def _leaves(node: TypeNode, path: str) -> Iterator[str]:
    if form(node) != "Record":
        yield path
        return
    for member in node.fields:
        yield from _leaves(member.type, f"{path}.{member.name}")


def _as(array: Any, field: Any) -> Any:
    """With the nullability of what is inside as Spark wants it, which is part of Arrow's types."""
    return array if array.type == field.type else array.cast(field.type)


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
