"""Arrow batches of records, against batches that pyarrow makes of one Python value at a time."""

from __future__ import annotations

import sys
import uuid
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.codegen.arrow import package
from echo_core.codegen.batches.arrays import records_decoder
from echo_core.codegen.batches.column_decoding import ColumnDecoder
from echo_core.codegen.plain.records import write
from echo_core.errors import FormatError, WireError
from echo_core.formats.abi import NATIVE
from echo_core.formats.format import Format
from echo_core.formats.types import (
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Type,
)
from tests.codegen.pairs import format_of_types, format_with
from tests.formats.strategies import examples, layouts, plain_values, without_nan

pa: Any = pytest.importorskip("pyarrow")

from echo_core.codegen.arrow.reading import ArrowReader  # noqa: E402 - needs it


def arrow_value(type_: Type, plain: Any) -> Any:
    """What pyarrow makes the same Arrow value of."""
    match type_:
        case Nullable():
            return None if plain is None else arrow_value(type_.element, plain)
        case Record():
            return {field.name: arrow_value(field.type, plain[field.name]) for field in type_.fields}
        case StaticArray() | Sequence():
            return _rows(type_.element, plain, type_.shape)
        case Enumeration():
            return next(name for name, number in type_.members if number == plain)
        case Scalar(kind=Kind.UUID):
            return str(uuid.UUID(bytes=plain))
        case Scalar(kind=Kind.COMPLEX):
            half = Scalar(Kind.FLOAT, type_.size // 2)
            return {"real": arrow_value(half, plain.real), "imag": arrow_value(half, plain.imag)}
        case Scalar(kind=Kind.FLOAT):
            return np.float16(plain) if type_.size == 2 else float(plain)
        case Scalar(kind=Kind.TIMESTAMP | Kind.DURATION):
            return int(np.asarray(plain).astype(np.int64))
        case Scalar(kind=Kind.INT | Kind.UINT):
            return int(plain)
        case _:
            return plain


def _rows(element: Type, plain: Any, shape: tuple[int | str | None, ...]) -> Any:
    """Of lists without elements Python's say nothing of the dimensions inside them; the type may."""
    if not shape:
        return arrow_value(element, plain.item() if isinstance(plain, np.complexfloating) else plain)
    if not len(plain) and isinstance(shape[0], int):
        return [_rows(element, plain, shape[1:])] * shape[0]
    return [_rows(element, item, shape[1:]) for item in plain]


def batch_of(format_: Format, records: list[bytes]) -> Any:
    """By columns where the records have one size, else one by one."""
    reader = ArrowReader(format_)
    if not format_.is_fixed:
        made = reader.of_records(records)
    else:
        cls = format_.record_class()
        arrays = records_decoder(cls, format_, lossy=False, tier="interpreted")
        made = reader.of_columns(ColumnDecoder(format_, arrays)(b"".join(records)), len(records))
    made.validate(full=True)
    return made


@examples(150)
@given(data=st.data())
def test_any_layout_becomes_the_values_that_it_holds(data: st.DataObject) -> None:
    """Whatever types are combined, in whatever order they lie."""
    layout = data.draw(layouts(NATIVE))
    values = [without_nan(data.draw(plain_values(layout))) for _ in range(data.draw(st.integers(0, 3)))]
    format_ = Format(layout)
    made = batch_of(format_, [write(value, layout) for value in values])
    assert made.num_rows == len(values)
    for field, column, type_ in zip(
        made.schema, made.columns, [field.type for field in layout.record.fields], strict=True
    ):
        expected = pa.array([arrow_value(type_, value[field.name]) for value in values], field.type)
        assert column.equals(expected), field


@pytest.mark.parametrize("is_fixed", [True, False])
def test_numbers_without_a_name_and_bytes_that_are_no_text_are_refused(is_fixed: bool) -> None:
    """A conversion copies both as they are."""
    for type_, bytes_ in (
        (Enumeration("Kind", 4, (("ion", 1),)), (2).to_bytes(4, "little")),
        (Scalar(Kind.CHARS, 4), b"\xff\xff\0\0"),
    ):
        format_ = format_of_types(NATIVE, at=type_)
        reader = ArrowReader(format_)
        columns = {"at": np.frombuffer(bytes_, "V4")}
        read = partial(reader.of_columns, columns, 1) if is_fixed else partial(reader.of_records, [bytes_])
        with pytest.raises(WireError, match=r"R\.at"):
            read()


def test_numbers_are_not_copied() -> None:
    """The column that was made of the records is Arrow's column."""
    format_ = format_with(NATIVE, Field("x", Scalar(Kind.FLOAT, 8)))
    column = np.arange(100.0)
    made = ArrowReader(format_).of_columns({"x": column}, 100)
    assert made.column(0).buffers()[1].address == column.ctypes.data


def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is asked for before."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FormatError, match=r"pip install 'echo-core\[arrow\]'"):
        package.pyarrow()
