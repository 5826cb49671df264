"""Columns of events in any Spark job: binary to structs and back, an Arrow batch at a time.

Executors need only the metadata of an event class, so the class need not be importable there. The one
exception: if a default factory of the class supplies a field that the sender lacks.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import echo_core as echo
from echo_core.spark_eval.columns.reading import ALIGNMENT, ColumnReader, Numbers, expanded
from echo_core.spark_eval.columns.schema import format_for, struct_type
from echo_core.spark_eval.columns.writing import encoder_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pa: Any = importlib.import_module("pyarrow")  # it comes without types

MAX_BYTES = 16 << 20  # of events per step; a larger batch is split
_PADS = [bytes(n) for n in range(ALIGNMENT)]


# ---------------------------------------------------------------------------
# Binary to structs


def decode_column(
    frame: DataFrame,
    column: str,
    event: type[Any] | echo.Format,
    *,
    sender: echo.Format | bytes | None = None,
    keep: Sequence[str] = (),
    as_column: str = "event",
    lossy: bool = False,
    on_error: Literal["raise", "null"] = "raise",
    error_column: str | None = None,
) -> DataFrame:
    """Decode a binary column of events to structs, beside the columns in `keep`; nulls stay nulls.

    `event` is the class to decode to, or the format of the data. `sender` is the format of the data, or its
    metadata; by default the layout of the class on this machine. A corrupt event raises WireError; with
    `on_error="null"` it becomes null, and `error_column` contains the error. `lossy` is that of
    `echo.decoder`. IncompatibleError is raised here, not on an executor.
    """
    if on_error not in ("raise", "null"):
        msg = f'Expected on_error="raise" or "null", got {on_error!r}'
        raise echo.FormatError(msg)
    types = importlib.import_module("pyspark.sql.types")
    decoding = decoding_of(event, sender, lossy=lossy)
    _demand_binary(frame, column)
    fields = [frame.schema[name] for name in keep]
    fields.append(types.StructField(as_column, struct_type(decoding.receiver_format), True))
    if error_column is not None:
        fields.append(types.StructField(error_column, types.StringType(), True))
    names = [field.name for field in fields]
    _demand_names(names)
    step = DecodeStep(decoding, tuple(names), on_error == "null", error_column is not None)
    return _mapped(_selected(frame, keep, frame[column]), step, fields)


def _demand_binary(frame: Any, column: str) -> None:
    found = frame.select(column).schema.fields[0].dataType.simpleString()
    if found not in ("binary", "void"):
        msg = f"Expected a binary column, got `{column}` of {found}"
        raise echo.FormatError(msg)


def _selected(frame: Any, keep: Sequence[str], values: Any) -> Any:
    """Select the columns in `keep`, and `values` under a name that differs from theirs."""
    name, taken = "event", {kept.lower() for kept in keep}  # Spark ignores case
    while name in taken:
        name += "_"
    return frame.select(*keep, values.alias(name))


def _mapped(frame: Any, step: Callable[[Iterator[Any]], Iterator[Any]], fields: list[Any]) -> DataFrame:
    types = importlib.import_module("pyspark.sql.types")
    mapped: DataFrame = frame.mapInArrow(step, types.StructType(fields))
    return mapped


def _demand_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        msg = f"Expected columns of different names, got {names}"
        raise echo.FormatError(msg, hint="give `as_column` another one")


def decoding_of(
    event: type[Any] | echo.Format, sender: echo.Format | bytes | None = None, *, lossy: bool = False
) -> Decoding:
    """What executors need to decode; IncompatibleError if it is impossible."""
    if isinstance(event, echo.Format):
        sender = sender if sender is not None else event
        event = event.record_class()
    receiver = echo.format_of(event)
    if sender is None:
        sender = receiver
    elif not isinstance(sender, echo.Format):
        sender = echo.Format.from_metadata(sender)
    echo.compare(sender, receiver, lossy=lossy).raise_if_refused()
    return Decoding(receiver.metadata, sender.metadata, lossy, _needed_class(event, sender, lossy))


def _needed_class(cls: type[Any], sender: echo.Format, lossy: bool) -> type[Any] | None:
    """The class, if only its default factories can supply some field."""
    try:
        echo.converter(sender, echo.format_of(cls), lossy=lossy, tier="interpreted")
    except echo.IncompatibleError:
        return cls
    return None


@dataclass(frozen=True)
class Decoding:
    """The conversion of a sender's events to a receiver's structs; pickled to executors."""

    receiver: bytes
    sender: bytes
    lossy: bool = False
    cls: type[Any] | None = None

    @property
    def receiver_format(self) -> echo.Format:
        return echo.Format.from_metadata(self.receiver)

    def structs(self, events: Any) -> Any:
        """A struct array from a binary array without nulls; EchoError if an event is corrupt."""
        return _decoder(self)(events)

    def structs_of(self, records: Iterable[memoryview]) -> Any:
        """A struct array from such events one by one, wherever they lie."""
        return _decoder(self).each(records)


class _StructDecoder:
    """The functions of a Decoding, created once per process."""

    def __init__(self, decoding: Decoding) -> None:
        receiver = decoding.receiver_format
        self._sender = echo.Format.from_metadata(decoding.sender)
        self._reader = ColumnReader(receiver)
        self._size = receiver.size_bytes
        self._is_fixed = self._sender.is_fixed and receiver.is_fixed and decoding.cls is None
        self._is_same = self._sender == receiver
        self._convert = self._converter(decoding, receiver)

    def _converter(self, decoding: Decoding, receiver: echo.Format) -> Callable[[Any], Any]:
        if decoding.cls is None:
            return echo.converter(self._sender, receiver, lossy=decoding.lossy)
        decode = echo.decoder(decoding.cls, sender=self._sender, lossy=decoding.lossy)
        encode = echo.encoder(decoding.cls)
        return lambda data: encode(decode(data))

    def __call__(self, events: Any) -> Any:
        ends, data = layout_of(events)
        if self._is_fixed:
            return self._many(ends, data)
        view, places = memoryview(data.data), ends.tolist()
        return self.each(view[s:e] for s, e in itertools.pairwise(places))

    def each(self, events: Iterable[memoryview]) -> Any:
        """From events that may lie anywhere."""
        converted = [self._convert(event) for event in events]
        sizes = np.fromiter(map(len, converted), np.int64, len(converted))
        pads = -sizes % ALIGNMENT
        parts = [part for pair in zip(converted, map(_PADS.__getitem__, pads), strict=True) for part in pair]
        starts = np.cumsum(sizes + pads) - (sizes + pads)
        return self._reader.read(np.frombuffer(b"".join(parts), np.uint8), starts, len(converted))

    def _many(self, ends: Numbers, data: Numbers) -> Any:
        size = self._sender.size_bytes
        wrong = np.diff(ends) != size
        if wrong.any():
            msg = f"Expected {size} bytes, got {int(np.diff(ends)[wrong][0])}"
            raise echo.WireError(msg, path=self._sender.name)
        records = data[int(ends[0]) : int(ends[-1])]
        if not self._is_same:
            records = np.frombuffer(self._convert(records), np.uint8)
        return self._reader.read(records, None, len(ends) - 1)


_decoder = functools.lru_cache(maxsize=64)(_StructDecoder)


def layout_of(events: Any) -> tuple[Numbers, Numbers]:
    """The offsets of a binary array, from the start of its first value on, and its bytes."""
    _, offsets, data = events.buffers()
    if not len(events):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[events.offset : events.offset + len(events) + 1]
    return ends.astype(np.int64), np.frombuffer(data or b"", np.uint8)


@dataclass(frozen=True)
class DecodeStep:
    """Called by `mapInArrow`. The last input column has the events; `names` are the output columns."""

    decoding: Decoding
    names: tuple[str, ...]
    is_tolerant: bool
    tells_errors: bool

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            events = batch.columns[-1].cast(pa.binary())
            for first, count in bounded(layout_of(events)[0]):
                yield self._batch(batch.slice(first, count), events.slice(first, count))

    def _batch(self, batch: Any, events: Any) -> Any:
        present = events.is_valid().to_numpy(zero_copy_only=False)
        given = events.drop_null()
        structs, errors = self._tolerant(given) if self.is_tolerant else (self._strict(given, present), None)
        columns = [*batch.columns[:-1], expanded(structs, present)]
        if self.tells_errors:
            errors = errors if errors is not None else pa.nulls(len(given), pa.string())
            columns.append(expanded(errors, present))
        return pa.RecordBatch.from_arrays(columns, list(self.names))

    def _strict(self, events: Any, present: Numbers) -> Any:
        try:
            return self.decoding.structs(events)
        except echo.EchoError:
            event, error = next(iter(self._damaged(events, 0)))
            msg = f"{error} (row {np.flatnonzero(present)[event]} of {len(present)} in its batch)"
            raise type(error)(msg) from None

    def _tolerant(self, events: Any) -> tuple[Any, Any]:
        """The structs, with nulls for corrupt events, and their errors."""
        try:
            return self.decoding.structs(events), None
        except echo.EchoError:
            wrong = dict(self._damaged(events, 0))
        sound = np.array([row not in wrong for row in range(len(events))])
        errors = pa.array(
            [str(wrong[row]) if row in wrong else None for row in range(len(events))], pa.string()
        )
        return expanded(self.decoding.structs(events.filter(pa.array(sound))), sound), errors

    def _damaged(self, events: Any, first: int) -> Iterator[tuple[int, echo.EchoError]]:
        """The corrupt events of a batch, found by bisection."""
        if len(events) == 0:
            return
        try:
            self.decoding.structs(events)
        except echo.EchoError as error:
            if len(events) == 1:
                yield first, error
                return
            half = len(events) // 2
            yield from self._damaged(events.slice(0, half), first)
            yield from self._damaged(events.slice(half), first + half)


def bounded(ends: Numbers, limit: int = MAX_BYTES) -> Iterator[tuple[int, int]]:
    """Split rows into runs (first, count) of at most `limit` bytes, or one row; no rows give an empty run."""
    first, rows = 0, len(ends) - 1
    while first < rows:
        last = int(np.searchsorted(ends, int(ends[first]) + limit, "right")) - 1
        count = max(1, last - first)
        yield first, count
        first += count
    if not rows:
        yield 0, 0


# ---------------------------------------------------------------------------
# Structs to binary


def encode_column(
    frame: DataFrame,
    event: type[Any] | echo.Format,
    column: str | None = None,
    *,
    keep: Sequence[str] = (),
    as_column: str = "event",
    abi: str | echo.Abi = "native",
) -> DataFrame:
    """Encode structs to a binary column of events, beside the columns in `keep`; nulls stay nulls.

    The structs are in `column`, or by default made of the columns of the frame. `abi` names the machine whose
    layout is written. A value that its field cannot hold raises EncodeError.
    """
    functions = importlib.import_module("pyspark.sql.functions")
    types = importlib.import_module("pyspark.sql.types")
    format_ = _demand_encodable(event, abi)
    given: Any = frame.schema if column is None else frame.schema[column].dataType
    missing = [field.name for field in format_.fields if field.name not in getattr(given, "names", ())]
    if missing:
        msg = f"Expected a column for each field, got none for {', '.join(missing)}"
        raise echo.FormatError(msg, path=format_.name)
    fields = [*(frame.schema[name] for name in keep), types.StructField(as_column, types.BinaryType(), True)]
    _demand_names([field.name for field in fields])
    if column is None:
        structs = functions.struct(*(frame[field.name] for field in format_.fields))
    else:
        structs = frame[column]
    frame = _selected(frame, keep, structs)
    step = EncodeStep(format_.metadata, abi, tuple(field.name for field in fields))
    return _mapped(frame, step, fields)


def _demand_encodable(event: type[Any] | echo.Format, abi: str | echo.Abi) -> echo.Format:
    """The format to write: that of the class for this ABI, or the given one."""
    if not isinstance(event, echo.Format):
        return echo.format_of(event, abi=abi)
    if not event.is_fixed and echo.format_of(format_for(event).record_class(), abi=abi) != event:
        msg = f"Expected a format with variable parts as `{abi}` lays it out, got another layout"
        raise echo.FormatError(msg, path=event.name, hint="give the abi of the machine that it came from")
    return event


@dataclass(frozen=True)
class EncodeStep:
    """Called by `mapInArrow`. The last input column has the structs; `names` are the output columns."""

    metadata: bytes
    abi: str | echo.Abi
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        encode = _encoder(self.metadata, self.abi)
        size = echo.Format.from_metadata(self.metadata).size_bytes
        for batch in batches:
            rows = max(1, MAX_BYTES // max(size, batch.nbytes // max(1, batch.num_rows)))
            for first in range(0, max(1, batch.num_rows), rows):
                part = batch.slice(first, rows)
                structs = part.columns[-1]
                present = structs.is_valid().to_numpy(zero_copy_only=False)
                events = expanded(encode(structs.drop_null()), present)
                yield pa.RecordBatch.from_arrays([*part.columns[:-1], events], list(self.names))


@functools.lru_cache(maxsize=64)
def _encoder(metadata: bytes, abi: str | echo.Abi) -> Callable[[Any], Any]:
    return encoder_of(echo.Format.from_metadata(metadata), abi)
