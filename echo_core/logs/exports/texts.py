"""A view as text: a JSON object for each line, or CSV. `jsons.py` says what values become."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from echo_core.formats.types import Record
from echo_core.logs.exports.jsons import JsonReader, dumped
from echo_core.logs.views.batches import Batch

if TYPE_CHECKING:
    from echo_core.logs.views.views import View

ABOUT = ("_time", "_sequence", "_source", "_source_id", "_epoch", "_channel")


def write_json_lines(view: View[Any], path: Path, *, info: bool) -> int:
    """A line for each event, with its type; how many."""
    count, readers = 0, _Readers(view)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for batch in view.batches():
            head = {"_type": batch.event_format.name}
            for event, about in zip(readers.values(batch), _abouts(batch, info=info), strict=True):
                if event is not None:
                    file.write(dumped({**head, **about, **event}) + "\n")
                    count += 1
    return count


def write_csv(view: View[Any], path: Path, *, info: bool) -> int:
    """A row for each event: nested records in columns such as `cell.x`, lists as JSON."""
    record, count, readers = view.event_format.record, 0, _Readers(view)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(ABOUT if info else ()), *(name for name, _ in _cells(record, None, ""))])
        for batch in view.batches():
            for event, about in zip(readers.values(batch), _abouts(batch, info=info), strict=True):
                if event is not None:
                    cells = (_cell(value) for _, value in _cells(record, event, ""))
                    writer.writerow([*about.values(), *cells])
                    count += 1
    return count


class _Readers:
    """Each is made once."""

    def __init__(self, view: View[Any]) -> None:
        self._max_objects = view.log.max_objects
        self._reader_by_token: dict[bytes, JsonReader] = {}

    def values(self, batch: Batch) -> Iterator[dict[str, Any] | None]:
        """What JSON has for each event; None for one that cannot be decoded."""
        format_ = batch.event_format
        token = bytes(format_.token)
        if token not in self._reader_by_token:
            self._reader_by_token[token] = JsonReader(format_, self._max_objects)
        return self._reader_by_token[token].values(batch)


def _abouts(batch: Batch, *, info: bool) -> Iterator[dict[str, Any]]:
    """Where each event is from; nothing, unless it is asked for."""
    if not info:
        yield from ({} for _ in range(len(batch)))
        return
    same = (batch.source, batch.source_id, batch.epoch, batch.channel)
    times = np.datetime_as_string(batch.times_ns.view("M8[ns]"))
    for time, number in zip(times.tolist(), batch.sequences.tolist(), strict=True):
        yield dict(zip(ABOUT, (f"{time}Z", number, *same), strict=True))


def _cells(record: Record, event: dict[str, Any] | None, prefix: str) -> Iterator[tuple[str, Any]]:
    """The columns of a record, with the values of an event where there is one."""
    for field in record.fields:
        value = None if event is None else event[field.name]
        inner = field.type
        if isinstance(inner, Record):
            yield from _cells(inner, value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, value


def _cell(value: Any) -> Any:
    """JSON for what has parts, and nothing for None."""
    return dumped(value) if isinstance(value, list | dict | bool) else value
