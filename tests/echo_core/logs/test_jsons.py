"""JSON of events, against a walk of their plain values."""

from __future__ import annotations

import base64
import json
import math
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.plain.records import Plain, as_array, flat, nested, shape_of
from echo_core.codegen.plain.records import write as record_of
from echo_core.formats.format import Format
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
)
from tests.echo_core.logs.test_view_properties import write
from tests.formats.strategies import examples, layouts, plain_values


def json_value(type_: Type, plain: Plain) -> Any:
    """What JSON has for a plain value."""
    match type_:
        case Nullable():
            return None if plain is None else json_value(type_.element, plain)
        case Record():
            return {field.name: json_value(field.type, plain[field.name]) for field in type_.fields}
        case StaticArray() | Sequence():
            return _list(type_.element, plain, len(type_.shape))
        case Blob():
            return base64.b64encode(plain).decode()
        case Enumeration():
            return next((name for name, number in type_.members if number == plain), int(plain))
        case Scalar():
            return _scalar(type_, plain)
        case _:
            return plain


def _list(element: Type, plain: Plain, dimensions: int) -> list[Any]:
    array = as_array(plain)
    if array is not None:
        plain = (array.view(np.int64) if array.dtype.kind in "mM" else array).tolist()
        shape = array.shape
    else:
        shape = shape_of(plain, dimensions)
    return nested([json_value(element, item) for item in flat(plain, dimensions)], shape)


def _scalar(scalar: Scalar, plain: Plain) -> Any:
    match scalar.kind:
        case Kind.FLOAT:
            return _number(plain)
        case Kind.COMPLEX:
            return [_number(plain.real), _number(plain.imag)]
        case Kind.TIMESTAMP:
            return f"{np.datetime64(plain, 'ns')}Z"
        case Kind.DURATION:
            return f"{'-' * (plain < 0)}{abs(plain) // 10**9}.{abs(plain) % 10**9:09}"
        case Kind.UUID:
            return str(uuid.UUID(bytes=plain))
        case Kind.BYTES:
            return base64.b64encode(plain).decode()
        case _:
            return plain


def _number(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def hollowed(value: Any) -> Any:
    """Lists in which there are only empty lists are empty: a plain value does not tell their number."""
    given: Any = value
    if isinstance(value, dict):
        return {name: hollowed(item) for name, item in given.items()}
    if isinstance(value, list):
        items = [hollowed(item) for item in given]
        return [] if all(item == [] for item in items) else items
    return value


@examples(60)
@given(data=st.data())
def test_json_lines_are_what_a_walk_of_plain_values_says(data: st.DataObject) -> None:
    """Of any format and from any machine."""
    format_ = Format(data.draw(layouts()))
    values = [data.draw(plain_values(format_.layout)) for _ in range(data.draw(st.integers(1, 3)))]
    records = [(i, record_of(value, format_.layout)) for i, value in enumerate(values)]
    with (
        tempfile.TemporaryDirectory() as folder,
        echo.open_log(write(folder, format_, records), on_damage="raise") as log,
    ):
        path = Path(folder) / "run.jsonl"
        assert log[None].export(path, info=False) == len(values)
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    expected = [{"_type": format_.name, **json_value(format_.record, value)} for value in values]
    found = [json.loads(line) for line in lines]
    assert hollowed(found) == hollowed(json.loads(json.dumps(expected)))


@echo.named("Row")
@dataclass
class Row:
    """Fixed in size: several lie in a numpy array, which knows text and UUIDs as bytes."""

    label: echo.Chars[5]
    id: uuid.UUID


@echo.named("Rows")
@dataclass
class Rows:
    rows: echo.Array[Row, 1, 2]


def test_records_in_an_array_are_objects_with_names(tmp_path: Path) -> None:
    """Each has its members, in as many dimensions."""
    rows = [[Row("ab", uuid.UUID(int=1)), Row("µ", uuid.UUID(int=2))]]
    record = echo.encoder(Rows)(Rows(cast("Any", rows)))
    with echo.open_log(write(str(tmp_path), echo.format_of(Rows), [(0, record)])) as log:
        log[None].export(tmp_path / "run.jsonl", info=False)
    found = json.loads((tmp_path / "run.jsonl").read_text(encoding="utf-8"))
    members = [{"label": row.label, "id": str(row.id)} for row in rows[0]]
    assert found == {"_type": "Rows", "rows": [members]}
