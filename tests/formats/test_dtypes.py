"""Between numpy's structured dtypes and formats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import echo_core as echo
from echo_core.errors import FormatError
from echo_core.formats.abi import NATIVE
from echo_core.formats.layout import Layout
from echo_core.formats.types import (
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Type,
    has_parts,
)
from tests.formats.samples import Particle, Rich
from tests.formats.strategies import layouts

NUMPY: Any = np  # whose overloads take no dtype that is not written out

DTYPES: list[tuple[str, Any]] = [
    ("numbers", [("a", "<i2"), ("b", "<u8"), ("c", "<f2"), ("d", "<c16")]),
    ("big-endian", [("a", ">i2"), ("b", ">f8"), ("c", "i1")]),
    ("bytes alone", [("a", "i1"), ("b", "?"), ("c", "S3"), ("d", "V4")]),
    ("times", [("a", "<M8[ns]"), ("b", "<m8[ns]")]),
    ("arrays", [("a", "<i4", (2, 3)), ("b", "S2", (2,))]),
    ("nested", [("a", [("x", "<i4"), ("y", "<f8", (2,))]), ("b", "<i2")]),
    ("nested in an array", [("a", [("x", "<i4")], (2,))]),
    ("offsets", {"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [8, 2], "itemsize": 16}),
]


@pytest.mark.parametrize("given", [case[1] for case in DTYPES], ids=[case[0] for case in DTYPES])
@pytest.mark.parametrize("align", [False, True])
def test_dtype_comes_back(given: Any, align: bool) -> None:
    """Packed and aligned: the same names, offsets, sizes and byte order."""
    dtype = NUMPY.dtype(given) if type(given) is dict else NUMPY.dtype(given, align=align)
    assert echo.Format.from_dtype(dtype).dtype == dtype


def test_format_has_the_dtypes_offsets() -> None:
    """Packed is packed; aligned is what C does."""
    fields = [("a", "i1"), ("b", "<f8"), ("c", "<i2")]
    packed = echo.Format.from_dtype(np.dtype(fields), name="P")
    aligned = echo.Format.from_dtype(np.dtype(fields, align=True))
    assert ([f.offset for f in packed.fields], packed.size_bytes) == ([0, 1, 9], 11)
    assert ([f.offset for f in aligned.fields], aligned.size_bytes) == ([0, 8, 16], 24)
    assert (packed.record.alignment, aligned.record.alignment) == (1, 8)
    assert (packed.name, aligned.name) == ("P", "Record")


@pytest.mark.parametrize(("order", "expected"), [("<", "little"), (">", "big"), ("=", NATIVE.byte_order)])
def test_byte_order_is_the_numbers(order: str, expected: str) -> None:
    """All numbers of a record share one."""
    assert (
        echo.Format.from_dtype(NUMPY.dtype([("a", "i1"), ("b", order + "i4", (2,))])).byte_order == expected
    )
    assert echo.Format.from_dtype(NUMPY.dtype([("a", [("b", order + "i4")], (2,))])).byte_order == expected


def test_record_without_byte_order_is_this_machines() -> None:
    """Single bytes have none."""
    assert echo.Format.from_dtype(np.dtype([("a", "i1")])).byte_order == NATIVE.byte_order


def test_what_becomes_a_dtype_is_accepted() -> None:
    """As numpy itself does."""
    assert [f.name for f in echo.Format.from_dtype("i4,f8").fields] == ["f0", "f1"]


REFUSED: list[tuple[str, Any, str]] = [
    ("no fields", "f8", "Expected a structured dtype, got `float64`"),
    (
        "both byte orders",
        [("x", "<f8"), ("y", [("z", ">i4")])],
        "Expected one byte order throughout a record, got both: `Record.x` is little-endian, "
        "`Record.y.z` is big-endian - at `Record`",
    ),
    (
        "microseconds",
        [("t", "M8[us]")],
        "Expected a time in nanoseconds, got `datetime64[us]` - at `Record.t`",
    ),
    ("ten nanoseconds", [("t", "m8[10ns]")], "Expected a time in nanoseconds, got `timedelta64[10ns]`"),
    ("objects", [("o", "O")], "Expected a dtype with a native layout, got `object` - at `Record.o`"),
    ("UTF-32", [("u", "<U4")], "Expected a dtype with a native layout, got `<U4` - at `Record.u`"),
    ("long double complex", [("g", np.clongdouble)], "Expected a size that `complex` has, got 32 bytes"),
    ("keyword", [("class", "i4")], "Expected an identifier of at most 255 bytes, got 'class'"),
    ("nothing", [("x", "f8", (0,))], "Expected a record of 1 to"),
    (
        "overlap",
        {"names": ["a", "b"], "formats": ["<i4", "<i4"], "offsets": [0, 2]},
        "Expected fields that do not overlap",
    ),
]


@pytest.mark.parametrize(
    ("given", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_dtype_without_a_format_is_refused(given: Any, message: str) -> None:
    """The message has the path and the way out."""
    with pytest.raises(FormatError) as caught:
        echo.Format.from_dtype(given)
    assert str(caught.value).startswith(message)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize != 16, reason="a long double is a double here")
def test_long_double_is_refused() -> None:
    """Its bits mean something else on each machine."""
    with pytest.raises(FormatError, match="Expected a size that `float` has, got 16 bytes"):
        echo.Format.from_dtype(np.dtype([("x", np.longdouble)]))


def test_format_with_variable_parts_has_no_dtype() -> None:
    """The path of the first of them is named."""
    with pytest.raises(FormatError) as caught:
        _ = echo.format_of(Rich).dtype
    assert caught.value.path == "Rich.samples"
    assert "Expected a type of fixed size, got `float32[...]`" in str(caught.value)
    assert not echo.format_of(Rich).is_fixed


def test_optional_value_is_a_pair() -> None:
    """Its value, and whether it is there."""
    record = Record("R", 16, 8, (Field("x", Nullable(Scalar(Kind.INT, 8))),))
    dtype = echo.Format(Layout("little", 8, record)).dtype
    assert dtype["x"].names == ("value", "present")
    assert dtype["x"].itemsize == 16
    seen = np.frombuffer((5).to_bytes(8, "little") + b"\1" + bytes(7), dtype)
    assert (seen[0]["x"]["value"], bool(seen[0]["x"]["present"])) == (5, True)


def test_optional_reference_has_no_dtype() -> None:
    """An offset of 0 is nothing that numpy knows."""
    record = Record("R", 16, 8, (Field("x", Nullable(Sequence(Scalar(Kind.INT, 8), (None,), 8))),))
    with pytest.raises(FormatError, match="Expected a type of fixed size"):
        _ = echo.Format(Layout("little", 8, record)).dtype


def test_records_are_read_by_numpy() -> None:
    """The bytes of an event are a row of an array."""
    particle = Particle(1, 2.0, 3, 4, 5, 6, 7, 8, 9, 10, 11, True, 12, 13, "tag", 14)
    for abi in ("native", "s390x", "i386"):
        encode = echo.encoder(Particle, abi=abi)
        row = np.frombuffer(encode(particle), echo.format_of(Particle, abi=abi).dtype)[0]
        assert (row["id"], row["x"], row["cell"], row["active"], row["tag"], row["owner"]) == (
            1, 2.0, 9, True, b"tag", 14,
        )  # fmt: skip


def plain_types(type_: Type) -> bool:
    """Whether a dtype says all there is to say of a type."""
    match type_:
        case Scalar():
            return type_.kind is not Kind.UUID
        case StaticArray():
            return plain_types(type_.element)
        case Record():
            return all(plain_types(field.type) for field in type_.fields)
        case _:
            return False


def test_arrays_of_arrays_keep_their_byte_order() -> None:
    dtype = np.dtype([("x", (">f8", (2,)), (3,))])
    assert echo.Format.from_dtype(dtype).dtype == dtype


@given(layouts())
def test_random_fixed_layout_has_its_sizes_in_numpy(layout: Layout) -> None:
    """Every field lies where the layout says, at the top and in nested records."""
    if has_parts(layout.record):
        return
    dtype = echo.Format(layout).dtype
    assert dtype.itemsize == layout.record.size
    assert dtype.fields is not None or not layout.record.fields
    fields: Any = dtype.fields
    for field in layout.record.fields:
        seen, offset = fields[field.name][:2]
        assert (offset, seen.itemsize) == (field.offset, field.type.size)
    if plain_types(layout.record) and layout.record.fields:
        again = echo.Format.from_dtype(dtype, name=layout.record.name)
        assert again.dtype == dtype
