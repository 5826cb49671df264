"""Records of a sender to Arrow batches: what components call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from echo_core.codegen.arrow.reading import ArrowReader
from echo_core.codegen.batches.arrays import records_decoder
from echo_core.codegen.batches.column_decoding import ColumnDecoder
from echo_core.codegen.codecs import decoder, encoder
from echo_core.codegen.conversion import Buffer, Converter, Tier, check_tier, converter, flat, have_done
from echo_core.errors import FormatError, IncompatibleError, WireError, unexpected
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format


def arrow_decoder(
    cls: type[Any],
    *,
    sender: Format | None = None,
    schema: Any = None,
    lossy: bool = False,
    tier: Tier = "auto",
) -> ArrowDecoder:
    """A callable from many records of a sender to a `pyarrow.RecordBatch`, with a column for each field.

    No Python object is made for a value. Records of one size may lie in one piece, as `column_decoder` takes
    them; others are given one by one to the method `each`. The package is in the extra `arrow`.

    Arguments:
        cls: an event class. If only its own default factories have what the sender lacks, objects are made.
        sender: the format of the records; by default the class's own on this machine.
        schema: a `pyarrow.Schema` of those fields that are wanted, in types to which theirs can be cast; by
            default of all, in types that hold every value (`decode.schema`). Times may be cut towards zero.
        lossy: whether to consent to conversions that may lose, as in `codec`.
        tier: when to compile, as in `codec`.

    Raises:
        FormatError: the schema does not fit the class, `tier` is not known, or pyarrow is not there.
        IncompatibleError: the sender's format cannot be converted.

    The callable raises FormatError for records that vary in size. It and `each` raise WireError for bytes
    that are not such records, for text that is not UTF-8 and for numbers that no member of an enum has, and
    ConversionError, also for a value that the type in the schema does not hold.

    >>> @echo.event
    ... class Point:
    ...     x: float
    ...     tags: list[str]
    >>> encode = echo.encoder(Point)
    >>> batch = echo.arrow_decoder(Point).each([encode(Point(1.0, ["a"])), encode(Point(2.0, []))])
    >>> batch.column("tags").to_pylist()
    [['a'], []]
    """
    check_tier(tier)
    return ArrowDecoder(cls, sender or format_of(cls), schema, lossy=lossy, tier=tier)


class ArrowDecoder:
    """Call it with records of one size in one piece, or `each` with records one by one."""

    def __init__(self, cls: type[Any], sender: Format, schema: Any, *, lossy: bool, tier: Tier) -> None:
        receiver = format_of(cls)
        self._reader = ArrowReader(receiver, schema)
        self.schema = self._reader.schema
        """Of the batches."""
        self._sender = sender
        self._convert: Converter
        self._columns: ColumnDecoder | None = None
        try:
            if sender.is_fixed and receiver.is_fixed:
                records_of = records_decoder(cls, sender, lossy=lossy, tier=tier)
                self._columns = ColumnDecoder(receiver, records_of, self._reader.columns)
                have_done(self._columns.compile, tier)
            else:
                self._convert = converter(sender, receiver, lossy=lossy, tier=tier)
        except IncompatibleError:  # perhaps for a default that only the class can make
            decode = decoder(cls, sender=sender, lossy=lossy, tier=tier)
            self._convert = partial(_by_object, decode, encoder(cls))

    def __call__(self, data: Buffer) -> Any:
        """A batch of records of one size that lie side by side."""
        if not self._sender.is_fixed:
            raise unexpected(
                FormatError,
                "records of one size",
                f"`{self._sender.name}`, which has variable parts",
                hint="`each` takes them one by one",
            )
        view, size = flat(data), self._sender.size_bytes
        if self._columns is None:
            return self.each(view[at : at + size] for at in range(0, len(view), size))
        return self._reader.of_columns(self._columns(view), len(view) // size)

    def each(self, records: Iterable[Buffer]) -> Any:
        """A batch of records that lie anywhere."""
        if self._columns is None:
            return self._reader.of_records(map(self._convert, records))
        return self(b"".join(map(self._whole, records)))

    def _whole(self, record: Buffer) -> memoryview:
        """Of the right size: others, put together, might have it again."""
        view, size = flat(record), self._sender.size_bytes
        if len(view) != size:
            raise unexpected(WireError, f"{size} bytes", len(view), path=self._sender.name)
        return view


def _by_object(decode: Callable[[Buffer], Any], encode: Callable[[Any], bytes], record: Buffer) -> bytes:
    return encode(decode(record))
