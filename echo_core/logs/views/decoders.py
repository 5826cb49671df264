"""From the records of one format in a log to what a view gives: events, arrays, columns.

A decoder is made once for a class and a format, whichever logs and views ask for it, and compiled in the
background. Metadata in a log may come from anybody: what is compiled for it is charged to the log, as a
peer's is to the peer, and an event may become so many objects as one on a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from echo_core.codegen.arrow.reading import ArrowReader
from echo_core.codegen.batches.arrays import ArrayDecoder, array_decoder, records_decoder
from echo_core.codegen.batches.column_decoding import ColumnDecoder
from echo_core.codegen.codecs import Codec, encoder
from echo_core.codegen.conversion import Conversion, Converter, have_done
from echo_core.codegen.events.compiled import Ways
from echo_core.codegen.machine.budgets import Allowance, Budget, Payers
from echo_core.codegen.plain.counting import MostObjects
from echo_core.errors import FormatError, IncompatibleError, unexpected
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.kept import Kept
from echo_core.formats.record_class import class_of
from echo_core.formats.token import Token
from echo_core.formats.types import Record
from echo_core.streams.receptions import Wanted
from echo_core.transports.limits import COMPILING_S, COMPILING_SHARE

Array_ = np.ndarray[Any, Any]

# Decoders that no view uses any more stay up to so many fields, at 3 KB each; each counts as some more.
_KEPT_FIELDS = 4096
_EACH_FIELDS = 16


class Decoder:
    """Of one class and one format. What is not asked for is never made.

    IncompatibleError where no path leads from the format to the class.
    """

    def __init__(self, wanted: Wanted, sender: Format, most: MostObjects | None) -> None:
        self.cls = wanted.class_for(sender)
        self.sender = sender
        self.receiver = format_of(self.cls)
        self.report = wanted.compare(sender, self.cls)
        self.report.raise_if_refused()
        self.is_fixed = sender.is_fixed and self.receiver.is_fixed
        self.payers = Payers()
        self._is_lossy = wanted.is_lossy
        self._most = most
        self._columns: dict[tuple[str, ...] | None, Columns] = {}

    @cached_property
    def codec(self) -> Codec[Any]:
        """What makes events."""
        return Codec(
            self.cls,
            self.receiver,
            self.sender,
            lossy=self._is_lossy,
            tier="auto",
            ways=Ways.DECODE,
            report=self.report,
            most=self._most,
            payers=self.payers,
        )

    @cached_property
    def array(self) -> ArrayDecoder:
        """What makes structured arrays; FormatError where records vary in size."""
        self.demand_fixed()
        return records_decoder(
            self.cls,
            self.sender,
            lossy=self._is_lossy,
            tier="auto",
            report=self.report,
            payers=self.payers,
        )

    def columns(self, names: Sequence[str] | None) -> Columns:
        """What makes columns of these names, or of all; FormatError for a field that varies in size."""
        key = None if names is None else tuple(names)
        if key not in self._columns:
            self._columns[key] = Columns(self, key)
        return self._columns[key]

    def narrowed(self, names: Sequence[str]) -> Decoder:
        """To a class of these fields alone, so that nothing else is converted."""
        wanted = Wanted(_with_fields(self.receiver.record, names), is_array=False, is_lossy=self._is_lossy)
        narrowed = Decoder(wanted, self.sender, self._most)
        narrowed.payers = self.payers
        return narrowed

    @cached_property
    def convert(self) -> Converter:
        """From a record to one of the class's format."""
        try:
            conversion = Conversion(self.sender, self.receiver, lossy=self._is_lossy, report=self.report)
        except IncompatibleError:  # a default that only the class can make
            return partial(_by_object, self.codec.decode, encoder(self.cls))
        conversion.begin("auto", self.payers)
        return conversion.call

    @cached_property
    def arrow(self) -> ArrowReader:
        """From what `columns` or `convert` makes to Arrow batches."""
        return ArrowReader(self.receiver)

    def demand_fixed(self) -> None:
        """FormatError for records that vary in size, in the log or as the class has them."""
        for format_ in (self.receiver, self.sender):
            if not format_.is_fixed:
                raise unexpected(
                    FormatError,
                    "records of one size",
                    f"`{format_.name}`, which has variable parts",
                    hint="`columns([names])` takes fields that have none, `arrow()` takes all",
                )


class Columns:
    """From records to columns, also where the records vary in size and the fields that are named do not."""

    def __init__(self, decoder: Decoder, names: tuple[str, ...] | None) -> None:
        self.is_fixed = decoder.is_fixed
        if names is None:
            decoder.demand_fixed()
        elif not decoder.is_fixed:
            decoder = decoder.narrowed([name.split(".")[0] for name in names])
        receiver = decoder.receiver
        self._convert = None if self.is_fixed else decoder.convert
        arrays = decoder.array if self.is_fixed else array_decoder(decoder.cls)
        self._columns = ColumnDecoder(receiver, arrays, names)
        self.dtypes = self._columns.dtypes
        have_done(self._columns.compile, "auto", decoder.payers)

    def __call__(self, records: memoryview | Iterable[memoryview]) -> dict[str, Array_]:
        """A new array for each; of records in one piece where they are fixed, else of each."""
        return self._columns(self._together(records))

    def into(self, records: memoryview | Iterable[memoryview], columns: Mapping[str, Array_]) -> None:
        """Fills arrays of `dtypes` from their start."""
        self._columns.into(self._together(records), columns)

    def _together(self, records: Any) -> Any:
        return records if self._convert is None else b"".join(map(self._convert, records))


class Decoders:
    """Those of this process, by what is wanted and from which format."""

    def __init__(self) -> None:
        self._known: Kept[tuple[Wanted, Token, MostObjects | None], Decoder] = Kept(_KEPT_FIELDS)

    def of(self, wanted: Wanted, sender: Format, most: MostObjects | None, budget: Budget) -> Decoder:
        """`budget`: of the log that the format is in."""
        key = wanted, sender.token, most
        found = self._known.get(key)
        if found is None or not found.payers.add(budget):  # its users left before it was compiled
            found = Decoder(wanted, sender, most)
            found.payers.add(budget)
            self._known.put(key, found, sender.record.leaves + _EACH_FIELDS)
        return found


DECODERS = Decoders()


def new_budget() -> Budget:
    """What may be compiled for the formats of one log, which is what may be for those of one peer."""
    return Budget(Allowance(COMPILING_S, COMPILING_SHARE))


def _by_object(decode: Callable[[Any], Any], encode: Callable[[Any], bytes], record: memoryview) -> bytes:
    return encode(decode(record))


def _with_fields(record: Record, names: Sequence[str]) -> type[Any]:
    """A class of those fields alone."""
    field_by_name = {field.name: field for field in record.fields}
    for name in names:
        if name not in field_by_name:
            raise unexpected(
                FormatError, f"a field out of {', '.join(field_by_name)}", f"`{name}`", path=record.name
            )
    fields = tuple(field_by_name[name] for name in dict.fromkeys(names))
    return class_of(Record(record.name, record.size, record.alignment, fields, record.aliases))
