"""Many records as a column for each field: a contiguous numpy array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_uint64, c_void_p
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from echo_core.codegen.batches.arrays import Array_, ArrayDecoder, records_decoder
from echo_core.codegen.batches.memory import MIN_BYTES, Spare, cache_bytes
from echo_core.codegen.conversion import GENERATOR_VERSION, Buffer, Tier, check_tier, have_done
from echo_core.codegen.emit.columns import LINE, Column, emit, lead_of
from echo_core.codegen.machine import engine
from echo_core.codegen.machine.store import load_code
from echo_core.errors import FormatError, unexpected
from echo_core.formats.declare import format_of
from echo_core.formats.dtypes import type_dtype
from echo_core.formats.format import Format
from echo_core.formats.types import Record, Type, round_up


def column_decoder(
    cls: type[Any], *, sender: Format | None = None, lossy: bool = False, tier: Tier = "auto"
) -> ColumnDecoder:
    """A callable from many records of a sender to columns: a contiguous numpy array for each field, by name.

    A nested record's fields have names of their own (`cell.x`); a static array is a column of rows, and an
    optional value one of pairs. `pyarrow.table` takes columns of numbers without copying them again.
    Columns are new at every call. They reuse the memory of columns that are no longer referred to: the
    decoder keeps up to one batch.

    Arguments:
        cls: an event class without variable parts.
        sender: the format of the records; by default the class's own on this machine.
        lossy: whether to consent to conversions that may lose, as in `codec`.
        tier: when to compile, as in `codec`.

    Raises:
        FormatError: the class or the sender's format has variable parts, or `tier` is not known.
        IncompatibleError: the sender's format cannot be converted.

    The callable raises WireError for bytes that are not whole records, and ConversionError.

    >>> @echo.event
    ... class Point:
    ...     x: float
    ...     n: echo.Int16
    >>> data = echo.codec(Point).encode_many([Point(1.0, 2), Point(2.0, 3)])
    >>> echo.column_decoder(Point)(data)["n"].tolist()
    [2, 3]
    """
    check_tier(tier)
    columns = ColumnDecoder(format_of(cls), records_decoder(cls, sender, lossy=lossy, tier=tier))
    have_done(columns.compile, tier)
    return columns


class _Room(NamedTuple):
    """Room for small columns in one piece, each on a cache line of its own.

    numpy takes a field out of such a record in a fifth of the time in which it makes an array of any memory.
    """

    rows: int  # that each of the columns has room for
    dtype: np.dtype[Any]  # of the piece
    offsets: tuple[int, ...]

    @staticmethod
    def of(dtypes: Sequence[tuple[str, np.dtype[Any]]], bits: int) -> _Room:
        """For all counts of so many bits."""
        count, offsets, end = (1 << bits) - 1, list[int](), 0
        for _, dtype in dtypes:
            offsets.append(end)
            end = round_up(end + count * dtype.itemsize, LINE)
        names, formats = [name for name, _ in dtypes], [(dtype, (count,)) for _, dtype in dtypes]
        whole = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": max(end, 1)})
        return _Room(count, whole, tuple(offsets))


class ColumnDecoder:
    """Records to columns: by numpy until code is ready. Call it, or have columns filled that are there."""

    def __init__(self, format_: Format, records_of: ArrayDecoder, names: Sequence[str] | None = None) -> None:
        """`names`: those of the columns that are wanted, in their order; by default all."""
        self._format = format_
        self._records_of = records_of
        self._leaves = _chosen(_leaves(format_.record, 0, ""), names, format_.name)
        self.dtypes = {
            name: type_dtype(type_, format_.byte_order, format_.name) for name, type_, _ in self._leaves
        }
        self._columns = tuple(Column(at, type_.size) for _, type_, at in self._leaves)
        self._spare = {name: Spare() for name in self.dtypes}
        self._code: Callable[..., None] | None = None
        self._rooms = cache(partial(_Room.of, tuple(self.dtypes.items())))

    def __call__(self, data: Buffer) -> dict[str, Array_]:
        """A new array for each field."""
        records = self._records_of(data)
        if records.nbytes < MIN_BYTES:
            columns, places = self._together(len(records))
        else:
            columns = {
                name: self._spare[name].empty(len(records), dtype) for name, dtype in self.dtypes.items()
            }
            places = None
        self._fill(records, list(columns.values()), places)
        return columns

    def _together(self, count: int) -> tuple[dict[str, Array_], list[int]]:
        """Small columns in one piece of memory, and their places; a piece for each would cost more."""
        room = self._rooms(max(count, 1).bit_length())
        block = np.empty((), room.dtype)
        columns = {name: block[name] for name in self.dtypes}
        if count < room.rows:
            columns = {name: column[:count] for name, column in columns.items()}
        base: int = block.ctypes.data
        return columns, [base + at for at in room.offsets]

    def into(self, data: Buffer, columns: Mapping[str, Array_]) -> int:
        """Fills arrays of `dtypes` from their start, and says how many records there were."""
        records = self._records_of(data)
        # Each is asked for once: what is checked is what is filled, and is held until it is.
        held = [_fitting(columns.get(name), name, dtype, records) for name, dtype in self.dtypes.items()]
        self._fill(records, held, None)
        return len(records)

    def _fill(self, records: Array_, columns: list[Array_], places: list[int] | None) -> None:
        if self._code is None:
            for name, column in zip(self.dtypes, columns, strict=True):
                column[: len(records)] = _field(records, name)
            return
        if places is None:
            places = [column.ctypes.data for column in columns]
        lead = lead_of(self._columns, places) if records.nbytes > cache_bytes() else None
        first = len(records) if lead is None else min(lead, len(records))
        array = c_void_p * len(places)
        self._code(records.ctypes.data, array(*places), first, False)
        if first < len(records):
            beyond = [place + first * c.size for place, c in zip(places, self._columns, strict=True)]
            self._code(records[first:].ctypes.data, array(*beyond), len(records) - first, True)

    def compile(self) -> None:
        """Has code do it from now on."""
        columns, size = self._columns, self._format.size_bytes

        def text() -> str:
            return emit(columns, size, by_vectors=engine.native_target().vector_bytes >= 32)

        identity = repr((columns, size)).encode() + GENERATOR_VERSION
        loaded = load_code("columns", identity, text, ["columns"])
        self._code = loaded.function("columns", c_void_p, c_void_p, c_uint64, c_uint64)


def _fitting(column: Array_ | None, name: str, dtype: np.dtype[Any], records: Array_) -> Array_:
    """A column that may be filled, or FormatError."""
    if (
        column is None
        or column.dtype != dtype.base
        or column.shape[1:] != dtype.shape
        or len(column) < len(records)
        or not (column.flags.c_contiguous and column.flags.writeable)
    ):
        msg = f"Expected a contiguous array of at least {len(records)} `{dtype}` as column"
        raise FormatError(msg, path=name)
    if np.may_share_memory(column, records):
        msg = "Expected a column apart from the records, got one that overlaps them"
        raise FormatError(msg, path=name)
    return column


def _leaves(record: Record, base: int, prefix: str) -> list[tuple[str, Type, int]]:
    """Each field that is a column, with its type and its place."""
    found: list[tuple[str, Type, int]] = []
    for member in record.fields:
        if isinstance(member.type, Record):
            found += _leaves(member.type, base + member.offset, f"{prefix}{member.name}.")
        else:
            found.append((prefix + member.name, member.type, base + member.offset))
    return found


def _chosen(
    leaves: list[tuple[str, Type, int]], names: Sequence[str] | None, path: str
) -> list[tuple[str, Type, int]]:
    if names is None:
        return leaves
    leaf_by_name = {leaf[0]: leaf for leaf in leaves}
    for name in names:
        if name not in leaf_by_name:
            raise unexpected(
                FormatError, f"a column out of {', '.join(leaf_by_name)}", f"`{name}`", path=path
            )
    return [leaf_by_name[name] for name in dict.fromkeys(names)]


def _field(records: Array_, path: str) -> Array_:
    for name in path.split("."):
        records = records[name]
    return records
