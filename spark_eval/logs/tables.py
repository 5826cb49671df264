"""What a log says of itself, as tables: `.option("view", "streams")`, `"gaps"`, `"damage"`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

import echo_core as echo

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_STREAM = (
    "channel string, channel_id string, source string, source_id string, epoch decimal(20,0), "
    "first bigint, last bigint"
)
SCHEMAS = {
    "streams": f"{_STREAM}, events bigint, node string, event string, token string",
    "gaps": f"{_STREAM}, cause string, segment bigint, offset bigint",
    "damage": f"{_STREAM}, what string, segment bigint, begin bigint, end bigint",
}


class TableReader(DataSourceReader):
    """One of them, in one task."""

    def __init__(self, path: str, view: str, schema: StructType) -> None:
        self._path = path
        self._view = view
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """A record batch."""
        pa: Any = importlib.import_module("pyarrow")
        arrow_of = importlib.import_module("pyspark.sql.pandas.types").to_arrow_schema
        with echo.open_log(self._path, on_damage="report") as log:
            if self._view != "streams":
                log.verify()  # damage is found where somebody looks
            rows = list(_ROWS[self._view](log))
        yield pa.RecordBatch.from_pylist(rows, schema=arrow_of(self._schema, timezone="UTC"))


def _of_stream(stream: Any) -> dict[str, Any]:
    if stream is None:
        return dict.fromkeys(("channel", "channel_id", "source", "source_id", "epoch"))
    key = stream.key
    return {
        "channel": key.channel_name,
        "channel_id": key.channel.hex(),
        "source": key.source_name,
        "source_id": key.source.hex(),
        "epoch": importlib.import_module("decimal").Decimal(key.epoch),
    }


def _streams(log: Any) -> Iterator[dict[str, Any]]:
    for stream in log.streams:
        yield _of_stream(stream) | {
            "node": stream.key.node,
            "event": stream.format.name,
            "token": str(stream.format.token),
            "first": stream.first,
            "last": stream.last,
            "events": stream.events,
        }


def _gaps(log: Any) -> Iterator[dict[str, Any]]:
    streams = {stream.number: stream for stream in log.streams}
    for gap in log.gaps:
        yield _of_stream(streams.get(gap.stream)) | {
            "first": gap.first,
            "last": gap.last,
            "cause": gap.cause,
            "segment": gap.position.segment,
            "offset": gap.position.offset,
        }


def _damage(log: Any) -> Iterator[dict[str, Any]]:
    streams = {stream.number: stream for stream in log.streams}
    for each in log.damage:
        first, last = each.missing or (None, None)
        yield _of_stream(streams.get(each.stream)) | {
            "first": first,
            "last": last,
            "what": each.what,
            "segment": each.segment,
            "begin": each.start,
            "end": each.end,
        }


_ROWS = {"streams": _streams, "gaps": _gaps, "damage": _damage}
