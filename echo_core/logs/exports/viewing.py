"""A view as MCAP: its events as ROS 2 messages, which viewers show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from echo_core.codegen.plain.records import read
from echo_core.formats.format import Format
from echo_core.formats.token import Token
from echo_core.logs.exports.cdr import HEADER, cdr_of
from echo_core.logs.exports.mcap import McapWriter
from echo_core.logs.exports.ros2 import cdr_size, definition_of
from echo_core.logs.views.batches import Batch

if TYPE_CHECKING:
    from echo_core.logs.views.views import View


def write_mcap(view: View[Any], path: Path, *, info: bool) -> int:
    """Writes all of it; how many events. Where they are from is always in it: `info` changes nothing."""
    with path.open("wb") as file:
        writing = _Writing(McapWriter(file, "ros2"))
        count = sum(map(writing.add, view.batches()))
        writing.writer.close()
    return count


@dataclass(frozen=True, slots=True)
class _Message:
    """`schema`: its number. `size`: of a record that is written as it lies; None: each is made anew."""

    schema: int
    size: int | None


class _Writing:
    """A topic for each source and format, a schema for each format."""

    def __init__(self, writer: McapWriter) -> None:
        self.writer = writer
        self._messages: dict[Token, _Message] = {}
        self._topics: dict[tuple[str, str, Token], int] = {}

    def add(self, batch: Batch) -> int:
        """Writes a batch; how many events."""
        message = self._message_of(batch.event_format)
        topic = self._topic_of(batch, message)
        if message.size is None:
            self.writer.messages(topic, batch.sequences, batch.times_ns, _messages_of(batch))
        else:
            data = _first_bytes(batch.array(), message.size)
            self.writer.rows(topic, batch.sequences, batch.times_ns, HEADER, data)
        return len(batch)

    def _message_of(self, format_: Format) -> _Message:
        found = self._messages.get(format_.token)
        if found is None:
            definition = definition_of(format_)
            schema = self.writer.schema(definition.name, "ros2msg", definition.text)
            size = cdr_size(format_.record) if definition.is_record else None
            found = self._messages[format_.token] = _Message(schema, size)
        return found

    def _topic_of(self, batch: Batch, message: _Message) -> int:
        key = batch.channel_id, batch.source_id, batch.event_format.token
        if key not in self._topics:
            metadata = {"source_id": batch.source_id, "channel_id": batch.channel_id}
            topic = f"/{batch.channel}/{batch.source}"
            self._topics[key] = self.writer.channel(topic, message.schema, "cdr", metadata)
        return self._topics[key]


def _messages_of(batch: Batch) -> list[bytes]:
    layout = batch.event_format.layout
    return [cdr_of(layout.record, read(record, layout)) for record in batch.native_records()]


def _first_bytes(rows: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """So many bytes of each row, as they lie there."""
    dtype = np.dtype({"names": ["data"], "formats": [f"V{size}"], "itemsize": rows.dtype.itemsize})
    taken: np.ndarray[Any, Any] = rows.view(dtype)["data"]
    return taken
