"""A view as text: a JSON object for each line, or CSV.

Numbers, text and truth are JSON's own; NaN and infinities are the texts "NaN", "Infinity" and "-Infinity".
Times are texts as in ISO 8601 with nine digits behind the second, durations numbers of seconds as text. Bytes
are in base64, enums the names of their members, complex numbers lists of two.
"""

from __future__ import annotations

import base64
import csv
import json
import math
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from echo_core.codegen.plain.records import Plain, as_array, flat, nested, read, shape_of
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Type,
)
from echo_core.logs.views.batches import Batch

if TYPE_CHECKING:
    from echo_core.logs.views.views import View

_DUMP = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
ABOUT = ("_time", "_sequence", "_source", "_source_id", "_epoch", "_channel")


def write_json_lines(view: View[Any], path: Path, *, info: bool) -> int:
    """A line for each event, with its type; how many."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for batch in view.batches():
            head = {"_type": batch.event_format.name}
            for event, about in zip(_values(batch), _abouts(batch), strict=True):
                line = {**head, **(about if info else {}), **event}
                file.write(_DUMP(line) + "\n")
            count += len(batch)
    return count


def write_csv(view: View[Any], path: Path, *, info: bool) -> int:
    """A row for each event: nested records in columns such as `cell.x`, lists as JSON."""
    record, count = view.event_format.record, 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        names = [*(ABOUT if info else ()), *(name for name, _ in _cells(record, None, ""))]
        writer.writerow(names)
        for batch in view.batches():
            for event, about in zip(_values(batch), _abouts(batch), strict=True):
                cells = [_cell(value) for _, value in _cells(record, event, "")]
                writer.writerow([*(about.values() if info else ()), *cells])
            count += len(batch)
    return count


def _values(batch: Batch) -> Iterator[dict[str, Any]]:
    layout = batch.event_format.layout
    for data in batch.native_records():
        yield json_value(layout.record, read(data, layout))


def _abouts(batch: Batch) -> Iterator[dict[str, Any]]:
    same = (batch.source, batch.source_id, batch.epoch, batch.channel)
    times = np.datetime_as_string(batch.times_ns.view("M8[ns]"))
    for time, number in zip(times.tolist(), batch.sequences.tolist(), strict=True):
        yield dict(zip(ABOUT, (f"{time}Z", number, *same), strict=True))


def json_value(type_: Type, plain: Plain) -> Any:
    """What JSON has for a plain value."""
    match type_:
        case Nullable():
            return None if plain is None else json_value(type_.element, plain)
        case Record():
            return {field.name: json_value(field.type, plain[field.name]) for field in type_.fields}
        case StaticArray() | Sequence():
            return _list(type_.element, plain, len(type_.shape))
        case Blob():
            return base64.b64encode(plain).decode()
        case Enumeration():
            return next((name for name, number in type_.members if number == plain), int(plain))
        case Scalar():
            return _scalar(type_, plain)
        case _:
            return plain


def _list(element: Type, plain: Plain, dimensions: int) -> list[Any]:
    array = as_array(plain)
    if array is not None:
        plain = (array.view(np.int64) if array.dtype.kind in "mM" else array).tolist()
        shape = array.shape
    else:
        shape = shape_of(plain, dimensions)
    return nested([json_value(element, item) for item in flat(plain, dimensions)], shape)


def _scalar(scalar: Scalar, plain: Plain) -> Any:
    match scalar.kind:
        case Kind.FLOAT:
            return _number(plain)
        case Kind.COMPLEX:
            return [_number(plain.real), _number(plain.imag)]
        case Kind.TIMESTAMP:
            return f"{np.datetime64(plain, 'ns')}Z"
        case Kind.DURATION:
            return f"{'-' * (plain < 0)}{abs(plain) // 10**9}.{abs(plain) % 10**9:09}"
        case Kind.UUID:
            return str(uuid.UUID(bytes=plain))
        case Kind.BYTES:
            return base64.b64encode(plain).decode()
        case _:
            return plain


def _number(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


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
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else value
