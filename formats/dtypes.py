"""Between a layout without variable parts and a numpy dtype.

An optional value is a pair of fields, `value` and `present`. Names, aliases, units and defaults have no
place in a dtype, and an enumeration becomes the integer that it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from echo_core.errors import FormatError, unexpected
from echo_core.formats.abi import NATIVE, ByteOrder
from echo_core.formats.check import check_record
from echo_core.formats.layout import Layout
from echo_core.formats.leaves import scalar_dtype
from echo_core.formats.types import (
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    StaticArray,
    Type,
)

_KINDS: dict[str, Kind] = {
    "b": Kind.BOOL,
    "i": Kind.INT,
    "u": Kind.UINT,
    "f": Kind.FLOAT,
    "c": Kind.COMPLEX,
    "M": Kind.TIMESTAMP,
    "m": Kind.DURATION,
    "S": Kind.CHARS,
    "V": Kind.BYTES,
}


def dtype_of(layout: Layout) -> np.dtype[Any]:
    """The dtype of a layout's records; FormatError where a field reaches beyond the record."""
    return type_dtype(layout.record, layout.byte_order, layout.record.name)


def type_dtype(type_: Type, byte_order: ByteOrder, path: str) -> np.dtype[Any]:
    """The dtype of one type."""
    match type_:
        case Scalar() | Enumeration():
            return scalar_dtype(type_, byte_order)
        case StaticArray():
            return np.dtype((type_dtype(type_.element, byte_order, path), type_.shape))
        case Record():
            fields = [(f.name, f.type, f.offset) for f in type_.fields]
        case Nullable() if not type_.by_reference:
            fields = [
                ("value", type_.element, 0),
                ("present", Scalar(Kind.BOOL, 1), type_.element.size),
            ]
        case _:
            raise unexpected(
                FormatError,
                "a type of fixed size",
                f"`{type_}`",
                path=path,
                hint="only records without variable parts have a dtype",
            )
    return np.dtype(
        {
            "names": [name for name, _, _ in fields],
            "formats": [type_dtype(t, byte_order, f"{path}.{name}") for name, t, _ in fields],
            "offsets": [offset for _, _, offset in fields],
            "itemsize": type_.size,
        }
    )


def layout_of(dtype: np.dtype[Any], name: str) -> Layout:
    """The layout of a structured dtype's records, which have no name of their own where `name` is empty."""
    if dtype.names is None:
        raise unexpected(FormatError, "a structured dtype", f"`{dtype}`")
    path = name or "Record"
    leaves = _leaf_orders(dtype, path)
    orders: set[ByteOrder] = {order for _, order in leaves}
    if len(orders) > 1:
        both = ", ".join(f"`{leaf}` is {order}-endian" for leaf, order in leaves)
        raise unexpected(FormatError, "one byte order throughout a record", f"both: {both[:400]}", path=path)
    byte_order = orders.pop() if orders else NATIVE.byte_order
    record = replace(_record(dtype, path), is_named=name != "")
    return Layout(byte_order, NATIVE.pointer_size, record)


def _members(dtype: np.dtype[Any]) -> list[tuple[str, np.dtype[Any], int]]:
    """Name, dtype and offset of each field."""
    fields: Any = dtype.fields  # numpy's stubs ask for literal names
    return [(name, *fields[name][:2]) for name in dtype.names or ()]


def _leaf_orders(dtype: np.dtype[Any], path: str) -> list[tuple[str, ByteOrder]]:
    """The byte order of each number in the dtype, with the field's path."""
    while dtype.subdtype is not None:  # arrays of arrays: `base` is that of the outermost alone
        dtype = dtype.base
    if dtype.names is not None:
        members = _members(dtype)
        return [leaf for name, field, _ in members for leaf in _leaf_orders(field, f"{path}.{name}")]
    if dtype.byteorder == "|":
        return []
    swapped: ByteOrder = "little" if NATIVE.byte_order == "big" else "big"
    return [(path, NATIVE.byte_order if dtype.isnative else swapped)]


def _record(dtype: np.dtype[Any], name: str) -> Record:
    fields = [
        Field(field, _type(field_dtype, f"{name}.{field}", field), offset)
        for field, field_dtype, offset in _members(dtype)
    ]
    record = Record(name, dtype.itemsize, dtype.alignment, tuple(fields), is_named=False)
    check_record(record, NATIVE.pointer_size, FormatError)
    return record


def _type(dtype: np.dtype[Any], path: str, name: str) -> Type:
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return StaticArray(_type(element, path, name), tuple(int(n) for n in shape), np.ndarray)
    if dtype.names is not None:
        return _record(dtype, name)
    if dtype.kind in "Mm" and np.datetime_data(dtype) != ("ns", 1):
        raise unexpected(
            FormatError,
            "a time in nanoseconds",
            f"`{dtype}`",
            path=path,
            hint="use datetime64[ns] or timedelta64[ns]",
        )
    if dtype.kind not in _KINDS:
        raise unexpected(
            FormatError,
            "a dtype with a native layout",
            f"`{dtype}`",
            path=path,
            hint="use numbers, bool, S, V, datetime64[ns] or nested records",
        )
    return Scalar(_KINDS[dtype.kind], dtype.itemsize)
