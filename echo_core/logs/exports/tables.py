"""A view as a Parquet or an Arrow file: a column for each field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echo_core.codegen.arrow.package import optional, pyarrow

if TYPE_CHECKING:
    from echo_core.logs.views.views import View

_GROUP_BYTES = 64 << 20  # of columns in memory before they are written together


def write_parquet(view: View[Any], path: Path, *, info: bool) -> int:
    """Writes all of it; how many events."""
    parquet, schema = optional("pyarrow.parquet", "arrow"), view.arrow_schema(info=info)
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for table in _groups(view, schema, info=info):
            writer.write_table(table, row_group_size=table.num_rows)
            count += table.num_rows
    return count


def write_arrow(view: View[Any], path: Path, *, info: bool) -> int:
    """Likewise as a file of Arrow's own format."""
    ipc, schema = optional("pyarrow.ipc", "arrow"), view.arrow_schema(info=info)
    count = 0
    with ipc.new_file(path, schema) as writer:
        for batch in view.arrow_batches(info=info):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _groups(view: View[Any], schema: Any, *, info: bool) -> Iterator[Any]:
    """Batches together: a group of rows costs a reader as much as some thousands of them."""
    held: list[Any] = []
    for batch in view.arrow_batches(info=info):
        held.append(batch)
        if sum(each.nbytes for each in held) >= _GROUP_BYTES:
            yield pyarrow().Table.from_batches(held, schema=schema)
            held = []
    if held:
        yield pyarrow().Table.from_batches(held, schema=schema)
