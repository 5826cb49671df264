"""The records of one block that a view takes, in each of the forms that it can give them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from echo_core.errors import ConversionError, EchoError, LimitError, WireError
from echo_core.formats.format import Format
from echo_core.logs.blocks import Block
from echo_core.logs.described import Position, StreamInfo
from echo_core.logs.views.decoders import Array_, Decoder
from echo_core.logs.views.frames import about, with_columns
from echo_core.logs.views.marks import LoggedInfo, Mark
from echo_core.logs.views.selections import Rows

# Events that are decoded at once: as many as stay in a cache until they are used.
_AT_ONCE = 1024

FAULTS = (WireError, ConversionError, LimitError)
_LOST: Any = object()

# Tells of an event that cannot be decoded: the batch, its row, and why. It raises, or the event is left out.
Failed = Callable[["Batch", int, EchoError], None]


class Batch:
    """Events of one source that lie side by side in a log, of one format and in its order.

    `len` says how many there are. Nothing is decoded before it is asked for.
    """

    def __init__(self, block: Block, rows: Rows, decoder: Decoder, before: Position, failed: Failed) -> None:
        self._block = block
        self._rows = rows
        self._decoder = decoder
        self._before = before
        self._failed = failed

    def __len__(self) -> int:
        rows = self._rows
        return rows.stop - rows.start if isinstance(rows, slice) else len(rows)

    def __repr__(self) -> str:
        return f"Batch({len(self)} of `{self.format.name}` from `{self.source}`)"

    # -----------------------------------------------------------------------
    # Where they are from

    @property
    def format(self) -> Format:
        """Of the records in the log."""
        return self._block.format

    @property
    def is_fixed(self) -> bool:
        """Whether records have one size, in the log and as the class has them."""
        return self._decoder.is_fixed

    @property
    def stream(self) -> StreamInfo:
        """The stream that they are of."""
        return self._block.stream

    @property
    def event_format(self) -> Format:
        """Of what they become: the class's, on this machine."""
        return self._decoder.receiver

    @cached_property
    def channel(self) -> str:
        """The channel's name."""
        return self._block.stream.key.channel_name

    @cached_property
    def channel_id(self) -> str:
        """The channel's id: 32 hexadecimal digits."""
        return self._block.stream.key.channel.hex()

    @property
    def source(self) -> str:
        """The source's name."""
        return self._block.stream.key.source_name

    @property
    def source_id(self) -> str:
        """The source's id: 32 hexadecimal digits."""
        return self._block.stream.key.source.hex()

    @cached_property
    def epoch(self) -> int:
        """Which run of the source it is: its numbers begin anew with each."""
        return self._block.stream.key.epoch

    @cached_property
    def sequences(self) -> Array_:
        """The events' numbers."""
        chosen: Array_ = self._block.sequences()[self._rows]
        return chosen

    @cached_property
    def times_ns(self) -> Array_:
        """The records' times, in ns since the epoch."""
        chosen: Array_ = self._block.times_ns()[self._rows]
        return chosen

    @property
    def mark(self) -> Mark:
        """The place behind these events."""
        return self.mark_behind(len(self) - 1)

    def mark_behind(self, i: int) -> Mark:
        """The place behind the `i`-th of these events."""
        return self.info(i).mark

    def info(self, i: int) -> LoggedInfo:
        """Where the `i`-th of these events is from."""
        return LoggedInfo(
            *self._origin,
            self._numbers[i],
            submitted_ns=self._times[i],
            channel=self.channel,
            channel_id=self.channel_id,
            epoch=self.epoch,
            behind=self._before,
        )

    @cached_property
    def _origin(self) -> tuple[str, str, str]:
        return self.source, self.source_id, self._block.stream.key.node

    @cached_property
    def _numbers(self) -> list[int]:
        numbers: list[int] = self.sequences.tolist()
        return numbers

    @cached_property
    def _times(self) -> list[int]:
        times: list[int] = self.times_ns.tolist()
        return times

    # -----------------------------------------------------------------------
    # What they are

    def events(self) -> list[Any]:
        """Instances of the class."""
        return [event for events in self.lists() for event in events]

    def lists(self) -> Iterator[list[Any]]:
        """The same, some at a time: what has been used leaves the cache to what comes next."""
        for events, is_whole in self._decoded():
            yield events if is_whole else [event for event in events if event is not _LOST]

    def numbered(self) -> Iterator[tuple[Any, int]]:
        """Each event that can be decoded, and which one of these it is."""
        first = 0
        for events, is_whole in self._decoded():
            pairs = zip(events, range(first, first + len(events)), strict=True)
            first += len(events)
            yield from (pairs if is_whole else (pair for pair in pairs if pair[0] is not _LOST))

    def with_infos(self) -> Iterator[tuple[Any, LoggedInfo]]:
        """Each event with where it is from."""
        return ((event, self.info(i)) for event, i in self.numbered())

    def _decoded(self) -> Iterator[tuple[list[Any], bool]]:
        """Some events at a time, and whether all of them could be decoded; `_LOST` stands for others."""
        decode = self._decode_many if self._decoder.is_fixed else self._decode_each
        for first in range(0, len(self), _AT_ONCE):
            last = min(first + _AT_ONCE, len(self))
            try:
                yield decode(first, last), True
            except FAULTS:  # which of them is wrong?
                yield [self._decode_one(i) for i in range(first, last)], False

    def _decode_many(self, first: int, last: int) -> list[Any]:
        size = self._block.format.size_bytes
        return self._decoder.codec.decode_many(self.data[first * size : last * size])

    def _decode_each(self, first: int, last: int) -> list[Any]:
        decode, record = self._decoder.codec.decode, self._block.record
        return [decode(record(row)) for row in self._row_numbers(first, last)]

    def _decode_one(self, i: int) -> Any:
        try:
            return self._decode_each(i, i + 1)[0]
        except FAULTS as error:
            self._failed(self, i, error)
            return _LOST

    def array(self) -> Array_:
        """A structured array of the class's records, which nobody may write to.

        It is the log's own memory where the records lie there as the class has them, and converted else.
        FormatError for a class or a format with variable parts.
        """
        array = self._decoder.array(self.data)
        array.flags.writeable = False
        return array

    def columns(self, names: Sequence[str] | None = None) -> dict[str, Array_]:
        """An array for each field, or for each one that is named; `cell.x` is a field of a nested record.

        FormatError for fields with variable parts.
        """
        columns = self._decoder.columns(names)
        return columns(self.data if columns.is_fixed else self.records())

    def columns_into(self, columns: dict[str, Array_], names: Sequence[str] | None, first: int) -> None:
        """Fills such arrays from an index on."""
        decoder, last = self._decoder.columns(names), first + len(self)
        room = {name: column[first:last] for name, column in columns.items()}
        decoder.into(self.data if decoder.is_fixed else self.records(), room)

    def dtypes(self, names: Sequence[str] | None) -> dict[str, np.dtype[Any]]:
        """Of the columns."""
        return self._decoder.columns(names).dtypes

    def arrow(self, *, info: bool = False, schema: Any = None) -> Any:
        """A `pyarrow.RecordBatch`.

        `info`: with columns that say where each event is from. `schema`: of those fields that are wanted, in
        the types that are, as `echo.arrow_decoder` has it.
        """
        decoder = self._decoder
        reader = decoder.arrow(schema)
        if decoder.is_fixed:
            made = reader.of_columns(decoder.columns(reader.columns)(self.data), len(self))
        else:
            made = reader.of_records(map(decoder.convert, self.records()))
        return with_columns(made, self._about()) if info else made

    def _about(self) -> dict[str, Any]:
        key = self._block.stream.key
        return about(
            self.times_ns, self.sequences, key.source_name, key.source.hex(), key.epoch, key.channel_name
        )

    # -----------------------------------------------------------------------
    # The bytes of it

    @property
    def data(self) -> memoryview:
        """The records of a fixed size, one behind the other."""
        size, records, rows = self._block.format.size_bytes, self._block.records, self._rows
        if isinstance(rows, slice):
            return records[rows.start * size : rows.stop * size]
        # As opaque bytes: numpy copies fields of records one by one, and leaves out what is between them.
        gathered: Array_ = np.frombuffer(records, f"V{size}")[rows]
        return gathered.view(np.uint8).data.toreadonly()

    def records(self, first: int = 0, last: int | None = None) -> Iterator[memoryview]:
        """Each record as it lies in the log; or those of some events, by their places."""
        return map(self._block.record, self._row_numbers(first, len(self) if last is None else last))

    def runs(self, most_bytes: int) -> Iterator[tuple[int, int]]:
        """Places of events of one time whose numbers follow each other: of the first, and behind the last."""
        apart = (np.diff(self.times_ns) != 0) | (np.diff(self.sequences) != 1)
        cuts = [0, *(np.flatnonzero(apart) + 1).tolist(), len(self)]
        step = max(1, most_bytes // self.format.size_bytes)
        for first, last in itertools.pairwise(cuts):
            for start in range(first, last, step):
                yield start, min(start + step, last)

    def native_records(self) -> Iterator[bytes]:
        """Each as a record of the class, as this machine has it."""
        return map(self._decoder.convert, self.records())

    def native_record(self, i: int) -> bytes:
        """Likewise the `i`-th."""
        record: bytes = self._decoder.convert(next(self.records(i, i + 1)))
        return record

    def tell_failed(self, i: int, error: EchoError) -> None:
        """The `i`-th cannot be decoded: it is left out, and told, or raised where damage is."""
        self._failed(self, i, error)

    def _row_numbers(self, first: int, last: int) -> Sequence[int]:
        rows = self._rows
        if isinstance(rows, slice):
            return range(rows.start + first, rows.start + last)
        numbers: list[int] = rows[first:last].tolist()
        return numbers
