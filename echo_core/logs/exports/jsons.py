"""What JSON has for events: from records, by way of objects that compiled code makes of them.

Numbers, text and truth are JSON's own; NaN and infinities are the texts "NaN", "Infinity" and "-Infinity".
Times are texts as in ISO 8601 with nine digits behind the second, durations numbers of seconds as text. Bytes
are in base64, enums the names of their members, complex numbers lists of two.

Python's times end at the microsecond, and a number without a name is no member. So records are read as those
of a format in which both are integers, which lie there in the same bytes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from echo_core.codegen.codecs import codec as codec_of
from echo_core.codegen.plain.records import as_array, nested
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout
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
    has_parts,
)
from echo_core.logs.views.batches import FAULTS, Batch

_Form = Callable[[Any], Any] | None  # None: the value is JSON's as it is


class JsonReader:
    """Of one format, which is this machine's."""

    def __init__(self, format_: Format, max_objects: int | None) -> None:
        layout = format_.layout
        record = cast("Record", _with_integers(layout.record))
        sender = Format(Layout(layout.byte_order, layout.pointer_size, record))
        codec = codec_of(None, sender=sender, max_objects=max_objects)
        self._decode, self._decode_many = codec.decode, codec.decode_many
        self._form = _record_form(layout.record, layout)

    def values(self, batch: Batch) -> Iterator[dict[str, Any] | None]:
        """A dict for each event, or None where it cannot be decoded. Infinities and NaN are still numbers."""
        for event in self._events(batch):
            yield None if event is None else self._form(event)

    def _events(self, batch: Batch) -> Iterator[Any]:
        if batch.is_fixed:
            try:
                return iter(self._decode_many(batch.array().view(np.uint8).data))
            except FAULTS:  # which of them is wrong?
                pass
        return (self._event(batch, i) for i in range(len(batch)))

    def _event(self, batch: Batch, i: int) -> Any:
        try:
            return self._decode(batch.native_record(i))
        except FAULTS as error:
            batch.tell_failed(i, error)
            return None


def dumped(value: Any) -> str:
    """JSON text of what a reader gives."""
    try:
        return _DUMP(value)
    except ValueError:  # NaN, or an infinity
        return _DUMP(_with_texts(value))


_DUMP = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _with_texts(value: Any) -> Any:
    """The same with texts for numbers that JSON does not have."""
    given: Any = value  # without the types of what it holds, of which nothing is known
    if isinstance(value, dict):
        return {name: _with_texts(item) for name, item in given.items()}
    if isinstance(value, list):
        return [_with_texts(item) for item in given]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# ---------------------------------------------------------------------------
# The format that is read


def _with_integers(type_: Type) -> Type:
    """The type with integers for times and members, and without classes."""
    match type_:
        case Record():
            fields = tuple(
                replace(field, type=_with_integers(field.type), default=None) for field in type_.fields
            )
            return Record(type_.name, type_.size, type_.alignment, fields)
        case StaticArray() | Sequence():
            return replace(type_, element=_with_integers(type_.element), container=None)
        case Nullable():
            return Nullable(_with_integers(type_.element))
        case Enumeration():
            return Scalar(Kind.INT, type_.size)
        case Scalar(kind=Kind.TIMESTAMP | Kind.DURATION):
            return Scalar(Kind.INT, 8)
        case _:
            return type_


# ---------------------------------------------------------------------------
# From values of its classes to JSON's


def _record_form(record: Record, layout: Layout) -> Callable[[Any], dict[str, Any]]:
    """Of a record that lies somewhere in a layout."""
    members = [(field.name, _form_of(field.type, layout)) for field in record.fields]

    def form(event: Any) -> dict[str, Any]:
        values = ((name, make, getattr(event, name)) for name, make in members)
        return {name: value if make is None else make(value) for name, make, value in values}

    return form


def _form_of(type_: Type, layout: Layout) -> _Form:
    match type_:
        case Record():
            return _record_form(type_, layout)
        case Nullable():
            return _optional_form(_form_of(type_.element, layout))
        case StaticArray(element=Record() as element) | Sequence(element=Record() as element):
            form = _record_form(element, layout)
            return partial(_rows, _row_decoder(element, layout), form, len(type_.shape))
        case StaticArray() | Sequence():
            return partial(_list, _form_of(type_.element, layout), len(type_.shape))
        case Enumeration():
            names = {number: name for name, number in type_.members}
            return lambda number: names.get(number, number)
        case Blob():
            return _bytes
        case Scalar():
            return _SCALARS.get(type_.kind)
        case _:
            return None


def _optional_form(form: _Form) -> _Form:
    return None if form is None else lambda value: None if value is None else form(value)


def _list(form: _Form, dimensions: int, values: Any) -> list[Any]:
    items: list[Any] = values.tolist() if isinstance(values, np.ndarray) else values
    if form is None:
        return items
    if dimensions > 1:
        return [_list(form, dimensions - 1, row) for row in items]
    return list(map(form, items))


def _row_decoder(record: Record, layout: Layout) -> Callable[[bytes], list[Any]] | None:
    """From records that lie one behind another to objects; None: these vary in size, and do not lie so."""
    if has_parts(record):
        return None
    integers = cast("Record", _with_integers(record))
    sender = Format(Layout(layout.byte_order, layout.pointer_size, integers))
    return codec_of(None, sender=sender).decode_many


def _rows(
    decode_many: Callable[[bytes], list[Any]] | None,
    form: Callable[[Any], Any],
    dimensions: int,
    values: Any,
) -> list[Any]:
    """Records of fixed size are in a numpy array, where text is bytes, and a UUID is, too."""
    array = as_array(values)
    if decode_many is None or array is None:
        return _list(form, dimensions, values)
    return nested([form(row) for row in decode_many(array.tobytes())], array.shape)


def _bytes(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _duration(nanoseconds: int) -> str:
    sign = "-" * (nanoseconds < 0)
    return f"{sign}{abs(nanoseconds) // 10**9}.{abs(nanoseconds) % 10**9:09}"


_SCALARS: dict[Kind, Callable[[Any], Any]] = {
    Kind.COMPLEX: lambda number: [number.real, number.imag],
    Kind.TIMESTAMP: lambda nanoseconds: f"{np.datetime64(nanoseconds, 'ns')}Z",
    Kind.DURATION: _duration,
    Kind.UUID: str,
    Kind.BYTES: _bytes,
}
