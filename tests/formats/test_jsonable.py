"""Events as JSON has them, and back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import math
import uuid
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.plain.records import read, write
from echo_core.formats.abi import NATIVE
from echo_core.formats.types import Kind, Record, Scalar, innermost
from tests.formats.strategies import comparable, examples, layouts, plain_values


class Mode(enum.Enum):
    """Two names."""

    OFF = 0
    BRIGHT = 7


@echo.event
class Cell:
    """Something nested."""

    x: float


@echo.event
class Sample:
    """One field of each kind that JSON has not."""

    mode: Mode
    taken: dt.datetime
    took: dt.timedelta
    id: uuid.UUID
    phase: complex
    raw: bytes
    tag: echo.Bytes[2]
    cells: list[Cell]
    grid: echo.Array[echo.Float32, 2, 2]
    times: list[dt.datetime]
    note: str | None = None


SAMPLE = Sample(
    Mode.BRIGHT,
    dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC),
    dt.timedelta(seconds=1.5),
    uuid.UUID(int=1),
    1 - 2j,
    b"\x00\xff",
    b"ab",
    [Cell(1.0), Cell(math.inf)],
    np.array([[1, 2], [math.nan, -math.inf]], "f4"),
    [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
)
VALUES: dict[str, Any] = {
    "mode": "BRIGHT",
    "taken": "2026-01-02T03:04:05.000006000Z",
    "took": "1.500000000",
    "id": "00000000-0000-0000-0000-000000000001",
    "phase": [1.0, -2.0],
    "raw": "AP8=",
    "tag": "YWI=",
    "cells": [{"x": 1.0}, {"x": "Infinity"}],
    "grid": [[1.0, 2.0], ["NaN", "-Infinity"]],
    "times": ["2026-01-01T00:00:00.000000000Z"],
    "note": None,
}


def has_times(record: Record) -> bool:
    """Whether it has times anywhere, which JSON has in microseconds and records in nanoseconds."""
    for field in record.fields:
        leaf, _ = innermost(field.type)
        if isinstance(leaf, Record) and has_times(leaf):
            return True
        if isinstance(leaf, Scalar) and leaf.kind in (Kind.TIMESTAMP, Kind.DURATION):
            return True
    return False


def test_each_kind_of_value_is_what_json_has() -> None:
    """As the module's table says."""
    assert echo.jsonable(SAMPLE) == VALUES


def test_what_json_has_is_the_event_again() -> None:
    """Of a declared class, and of one that was made for a format."""
    record = echo.encoder(Sample)(SAMPLE)
    assert echo.encoder(Sample)(echo.from_jsonable(Sample, VALUES)) == record
    met = echo.Format.from_metadata(echo.format_of(Sample).metadata)
    made = echo.from_jsonable(met, json.loads(json.dumps(VALUES)))
    assert echo.encoder(met.record_class())(made) == record


@examples(40)
@given(st.data())
def test_any_event_survives_json(data: st.DataObject) -> None:
    """Random formats with random values, which are the same again, as NaN is: JSON has one of these."""
    layout = data.draw(layouts(NATIVE))
    assume(not has_times(layout.record))
    format_ = echo.Format(layout)
    message = write(data.draw(plain_values(layout)), layout)
    event: Any = echo.decoder(None, sender=format_)(message)
    text = json.dumps(echo.jsonable(event), allow_nan=False)
    cls = cast("Any", type(event))
    encode, native = echo.encoder(cls), echo.format_of(cls).layout
    again = encode(echo.from_jsonable(format_, json.loads(text)))
    assert comparable(read(again, native)) == comparable(read(encode(event), native))


def test_numpy_scalars_and_subclasses_are_values_too() -> None:
    """As components may have put them into an event."""

    class Number(int):
        pass

    made = _holder(np.float32(1.5), Number(3), np.datetime64("2026-01-01T00:00:00", "ns"), Cell(0.0))
    assert echo.jsonable(made) == {
        "a": 1.5,
        "b": 3,
        "c": "2026-01-01T00:00:00.000000000Z",
        "d": {"x": 0.0},
    }


def _holder(a: Any, b: Any, c: Any, d: Any) -> Any:
    cls = dataclasses.make_dataclass("Holder", ["a", "b", "c", "d"])
    return cls(a, b, c, d)


def test_value_that_no_event_may_hold_is_refused() -> None:
    """An object of any other class."""
    with pytest.raises(echo.EncodeTypeError, match="a value that an event may hold"):
        echo.jsonable(_holder(object(), 0, 0, 0))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"mod": "OFF"}, "Expected a field of `Sample`, got `mod` - at `Sample`: is `mode` meant?"),
    ({"nothing_like_it": 1}, "got `nothing_like_it` - at `Sample`: it has `mode`, `taken`"),
    ({"mode": "BRIHGT"}, "got 'BRIHGT' - at `Sample.mode`: is `BRIGHT` meant?"),
    ({"mode": 3}, "Expected a member of `enum Mode`, got 3 - at `Sample.mode`: it has OFF, BRIGHT"),
    ({"taken": "soon"}, "Expected a time in ISO 8601, got 'soon' - at `Sample.taken`"),
    ({"took": "long"}, "Expected a number of seconds, got 'long' - at `Sample.took`"),
    ({"took": 1e300}, "Expected a number of seconds, got 1e.300"),
    ({"id": 7}, "Expected a UUID, got 7 - at `Sample.id`"),
    ({"phase": [1]}, r"Expected \[real, imaginary\], got \[1\] - at `Sample.phase`"),
    ({"phase": ["NaN", None]}, r"Expected \[real, imaginary\]"),
    ({"raw": "?"}, "Expected bytes in base64, got"),
    ({"cells": {}}, "Expected an array, got {} - at `Sample.cells`"),
    ({"cells": [{"y": 1}]}, r"got `y` - at `Sample.cells\[0\]`"),
    ({"cells": [{}]}, r"Expected a value, got none - at `Sample.cells\[0\].x`"),
    ({"cells": ["x" * 99]}, r"Expected an object with the fields of `Cell`, got 'x{56}\.\.\. - at"),
    ({"grid": [[1, "many"], [3, 4]]}, r"Expected a number, got 'many' - at `Sample.grid\[0\]\[1\]`"),
    ({"times": [0]}, r"Expected a time in ISO 8601, got 0 - at `Sample.times\[0\]`"),
]


@pytest.mark.parametrize(("changed", "said"), WRONG)
def test_wrong_value_is_refused_with_its_place(changed: dict[str, Any], said: str) -> None:
    """And the way out, where there is one."""
    with pytest.raises(echo.EncodeError, match=said):
        echo.from_jsonable(Sample, VALUES | changed)


def test_former_names_and_numbers_of_members_are_taken() -> None:
    """As an earlier version of a program would have said them."""

    @echo.event
    class Lamp:
        brightness: Mode = echo.field(aliases=("mode",))
        z: complex = 0j

    assert echo.from_jsonable(Lamp, {"mode": 7, "z": 2}) == Lamp(Mode.BRIGHT, 2 + 0j)


@dataclasses.dataclass
class Row:
    """Fixed in size: several lie in a numpy array."""

    label: echo.Chars[5]
    is_on: bool
    counts: echo.Array[echo.Int16, 2]
    id: uuid.UUID
    mode: Mode
    tag: echo.Bytes[3]
    limit: float | None
    ids: echo.Array[uuid.UUID, 1]
    cell: Cell


@dataclasses.dataclass
class Rows:
    """Records in two dimensions."""

    rows: echo.Array[Row, 1, 2]


ROW = {
    "label": "ab",
    "is_on": True,
    "counts": [1, 2],
    "id": "00000000-0000-0000-0000-000000000000",
    "mode": "BRIGHT",
    "tag": "AQAA",
    "limit": 1.5,
    "ids": ["00000000-0000-0001-0000-000000000000"],
    "cell": {"x": 1.0},
}
OTHER_ROW = {
    "label": "µ",
    "is_on": False,
    "counts": [1, 2],
    "id": "00000000-0000-0002-0000-000000000000",
    "mode": "OFF",
    "tag": "AAAA",
    "limit": None,
    "ids": ["00000000-0000-0003-0000-000000000000"],
    "cell": {"x": 2.0},
}


def test_records_in_an_array_are_objects_with_names() -> None:
    """As those in a list are, though numpy knows UUIDs as bytes and members of enumerations as numbers."""
    keys = [uuid.UUID(int=i << 64) for i in range(4)]  # which end with zeros
    counts = np.array([1, 2], "i2")
    first = Row("ab", True, counts, keys[0], Mode.BRIGHT, b"\x01\0\0", 1.5, cast("Any", keys[1:2]), Cell(1.0))
    second = Row("µ", False, counts, keys[2], Mode.OFF, b"\0\0\0", None, cast("Any", keys[3:]), Cell(2.0))
    event = Rows(cast("Any", [[first, second]]))
    decoded = echo.decoder(Rows)(echo.encoder(Rows)(event))
    assert isinstance(decoded.rows, np.ndarray)
    assert echo.jsonable(decoded) == echo.jsonable(event) == {"rows": [[ROW, OTHER_ROW]]}
    again = echo.from_jsonable(Rows, json.loads(json.dumps(echo.jsonable(decoded))))
    assert echo.encoder(Rows)(again) == echo.encoder(Rows)(event)


def test_rows_of_no_known_type_are_what_their_dtype_says() -> None:
    """Of a class that is no event, or with other fields than its records have."""
    rows = np.array([(b"ab", 1)], [("label", "S5"), ("number", "i4")])
    assert echo.jsonable(_holder(rows, 0, 0, 0))["a"] == [{"label": "ab", "number": 1}]
    assert echo.jsonable(Rows(rows)) == {"rows": [{"label": "ab", "number": 1}]}
