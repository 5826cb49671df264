"""Many records at once: as a numpy structured array, and as a column for each field."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from echo_core.codegen import background, engine
from echo_core.codegen.column_code import Column, emit
from echo_core.codegen.conversion import Buffer, Conversion, Tier, check_tier
from echo_core.codegen.store import use_code
from echo_core.errors import FormatError, WireError
from echo_core.formats.compare import compare
from echo_core.formats.declare import format_of
from echo_core.formats.dtypes import type_dtype
from echo_core.formats.format import Format
from echo_core.formats.types import Record, Type

Array_ = np.ndarray[Any, Any]
ArrayDecoder = Callable[[Buffer], Array_]


def array_decoder(
    cls: type[Any], *, sender: Format | None = None, lossy: bool = False, tier: Tier = "auto"
) -> ArrayDecoder:
    """A function from many records of a sender to a numpy structured array of the class's records.

    Records that are laid out alike already are not copied: the array is a view of the buffer, and read-only
    where the buffer is.
    """
    return _records_decoder(cls, sender, lossy=lossy, tier=tier)


def _records_decoder(cls: type[Any], sender: Format | None, *, lossy: bool, tier: Tier) -> ArrayDecoder:
    receiver = format_of(cls)
    sender = sender or receiver
    dtype = receiver.dtype  # refuses variable parts, as the receiver's class has them
    _demand_fixed(sender)
    if compare(sender, receiver, lossy=lossy).is_same:
        return lambda data: _view(data, dtype, sender)
    conversion = Conversion(sender, receiver, lossy=lossy)
    conversion.begin(tier)
    convert = conversion.call
    return lambda data: _view(convert(data), dtype, receiver)


def _demand_fixed(sender: Format) -> None:
    if not sender.is_fixed:
        msg = f"Expected records of one size, got `{sender.name}`, which has variable parts"
        raise FormatError(msg, hint="convert them one by one")


def _view(data: Buffer, dtype: np.dtype[Any], sender: Format) -> Array_:
    try:
        size = memoryview(data).cast("B").nbytes
    except TypeError:
        msg = f"Expected a contiguous buffer, got `{type(data).__qualname__}`"
        raise FormatError(msg) from None
    if size % dtype.itemsize:
        msg = f"Expected records of {dtype.itemsize} bytes each, got {size} bytes"
        raise WireError(msg, path=sender.name)
    return np.frombuffer(data, dtype) if size else np.empty(0, dtype)


def column_decoder(
    cls: type[Any], *, sender: Format | None = None, lossy: bool = False, tier: Tier = "auto"
) -> ColumnDecoder:
    """A callable from many records of a sender to a contiguous numpy array for each field.

    A nested record's fields have names of their own (`cell.x`); a static array is a column of rows, and an
    optional value one of pairs. `pyarrow.table` takes columns of numbers without copying them again.
    """
    check_tier(tier)
    columns = ColumnDecoder(format_of(cls), _records_decoder(cls, sender, lossy=lossy, tier=tier))
    if tier == "compiled":
        columns.compile()
    elif tier == "auto":
        background.submit(columns.compile)
    return columns


class ColumnDecoder:
    """Records to columns: by numpy until code is ready. Call it, or have columns filled that are there."""

    def __init__(self, format_: Format, records_of: ArrayDecoder) -> None:
        self._format = format_
        self._records_of = records_of
        self._leaves = _leaves(format_.record, 0, "")
        self.dtypes = {
            name: type_dtype(type_, format_.byte_order, format_.name) for name, type_, _ in self._leaves
        }
        self._split: Any = None
        self._loaded: object = None

    def __call__(self, data: Buffer) -> dict[str, Array_]:
        """A new array for each field."""
        records = self._records_of(data)
        columns = {name: np.empty(len(records), dtype) for name, dtype in self.dtypes.items()}
        self._fill(records, list(columns.values()))
        return columns

    def into(self, data: Buffer, columns: Mapping[str, Array_]) -> int:
        """Fills arrays of `dtypes` from their start, and says how many records there were."""
        records = self._records_of(data)
        # Each is asked for once: what is checked is what is filled, and is held until it is.
        held = [_fitting(columns.get(name), name, dtype, records) for name, dtype in self.dtypes.items()]
        self._fill(records, held)
        return len(records)

    def _fill(self, records: Array_, columns: list[Array_]) -> None:
        if self._split is None:
            for name, column in zip(self.dtypes, columns, strict=True):
                column[: len(records)] = _field(records, name)
            return
        addresses = (ctypes.c_void_p * len(columns))(*(column.ctypes.data for column in columns))
        self._split(records.ctypes.data, addresses, len(records))

    def compile(self) -> None:
        """Has code do it from now on."""
        target = engine.native_target()
        columns = tuple(Column(at, type_.size) for _, type_, at in self._leaves)
        text = emit(columns, self._format.size_bytes, by_vectors=target.vector_bytes >= 32)
        loaded = use_code("columns", text, lambda: text, lambda code: engine.load(code, ["columns"]))
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
        self._loaded, self._split = loaded, prototype(loaded.addresses["columns"])


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


def _field(records: Array_, path: str) -> Array_:
    for name in path.split("."):
        records = records[name]
    return records
