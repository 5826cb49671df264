"""Arrow batches of a sender's records, in whatever schema is asked for."""

from __future__ import annotations

import datetime as dt
import enum
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.plain.records import write
from tests.formats.strategies import examples, layouts, plain_values, without_nan

pa: Any = pytest.importorskip("pyarrow")


class Unit(enum.Enum):
    """What a reading is in."""

    VOLT = 1
    AMPERE = 2


@echo.event
class Spot:
    """A nested record."""

    x: echo.UInt16
    label: echo.Chars[4]


@echo.event
class Reading:
    """Of one size."""

    id: echo.UInt64
    spot: Spot
    unit: Unit
    when: dt.datetime
    pair: echo.Array[echo.UInt8, 2]
    maybe: echo.Int16 | None


@echo.event
class Tagged:
    """With variable parts."""

    reading: Reading
    tags: list[str]
    note: str | None


WHEN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
READINGS = [
    Reading(i, Spot(i, f"s{i}"), Unit.VOLT, WHEN, np.array([i, 2], "u1"), i if i % 2 else None)
    for i in range(5)
]
NARROW = pa.schema(
    [
        pa.field("when", pa.timestamp("s", "UTC")),
        pa.field("id", pa.decimal128(20, 0), False),
        pa.field("spot", pa.struct([pa.field("x", pa.int32(), False)])),
        pa.field("pair", pa.list_(pa.field("element", pa.float32(), False))),
        pa.field("maybe", pa.int64()),
    ]
)
NARROWED = [
    {"when": WHEN, "id": i, "spot": {"x": i}, "pair": [i, 2], "maybe": i if i % 2 else None} for i in range(5)
]


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize("abi", ["native", "s390x"])
def test_a_schema_chooses_fields_and_their_types(abi: str, tier: Any) -> None:
    """In its order, at every depth, whether records have one size or not, from any machine."""
    readings = echo.codec(Reading, abi=abi).encode_many(READINGS)
    sender = echo.format_of(Reading, abi=abi)
    made = echo.arrow_decoder(Reading, sender=sender, schema=NARROW, tier=tier)(readings)
    assert made.schema.equals(NARROW)
    assert made.to_pylist() == NARROWED
    inside = pa.schema([pa.field("reading", pa.struct(list(NARROW)))])
    encode, sender = echo.encoder(Tagged, abi=abi), echo.format_of(Tagged, abi=abi)
    decode = echo.arrow_decoder(Tagged, sender=sender, schema=inside, tier=tier)
    made = decode.each(encode(Tagged(reading, ["a"], None)) for reading in READINGS)
    assert made.to_pylist() == [{"reading": narrowed} for narrowed in NARROWED]


def widened_field(field_: Any) -> Any:
    """Nullable, as pyarrow casts no struct that is null to one with fields that must not be."""
    return field_.with_type(widened(field_.type)).with_nullable(True)


def widened(type_: Any) -> Any:
    """Another type that holds what this one does, but for what is finer than a microsecond."""
    types = pa.types
    if types.is_struct(type_):
        return pa.struct([widened_field(field_) for field_ in type_])
    if types.is_list(type_):
        return pa.list_(widened_field(type_.value_field))
    for is_kind, wide in (
        (types.is_uint64, pa.decimal128(20, 0)),
        (types.is_integer, pa.int64()),
        (types.is_floating, pa.float64()),
        (types.is_timestamp, pa.timestamp("us", "UTC")),
        (types.is_duration, pa.duration("us")),
        (types.is_fixed_size_binary, pa.binary()),
        (types.is_string, pa.large_string()),
    ):
        if is_kind(type_):
            return wide
    return type_


@examples(60)
@given(data=st.data())
def test_any_type_that_is_asked_for_is_the_cast_of_the_format_s_own(data: st.DataObject) -> None:
    """Made value by value where each lies, and by pyarrow of the whole batch."""
    layout = data.draw(layouts())
    sender = echo.Format(layout)
    values = [without_nan(data.draw(plain_values(layout))) for _ in range(data.draw(st.integers(0, 3)))]
    cls = sender.record_class()
    own = echo.arrow_decoder(cls, sender=sender, tier="interpreted")
    schema = pa.schema([widened_field(field_) for field_ in own.schema])
    records = [write(value, layout) for value in values]
    made = echo.arrow_decoder(cls, sender=sender, schema=schema, tier="interpreted").each(records)
    made.validate(full=True)
    assert made.schema.equals(schema)
    plain = own.each(records).to_struct_array()
    assert made.to_struct_array().equals(plain.cast(pa.struct(list(schema)), safe=False))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([("nothing", pa.int64())], "Expected a field out of id, spot.*, got `nothing` - at `Reading`"),
        ([("spot", pa.struct([("z", pa.int8())]))], "out of x, label, got `z` - at `Reading.spot`"),
        ([("spot", pa.int64())], "Expected a struct, got `int64` - at `Reading.spot`"),
        ([("pair", pa.int64())], "a list for each dimension of .*, got `int64` - at `Reading.pair`"),
        ([("when", pa.list_(pa.int8()))], "a type that `timestamp.*` can be cast to, got .*Reading.when"),
        ([pa.field("maybe", pa.int16(), False)], "Expected a nullable field.*Reading.maybe"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_at_once(schema: Any, said: str) -> None:
    """With the field, before there is any record; also where a log is read."""
    with pytest.raises(echo.FormatError, match=said):
        echo.arrow_decoder(Reading, schema=pa.schema(schema))


def test_what_is_no_schema_is_refused() -> None:
    """A list of fields would be one to pyarrow."""
    wrong: Any = [pa.field("id", pa.int64())]
    with pytest.raises(echo.FormatError, match=r"Expected a `pyarrow.Schema`, got `list`"):
        echo.arrow_decoder(Reading, schema=wrong)


def test_a_value_that_its_type_in_the_schema_does_not_hold_is_a_conversion_error() -> None:
    """Only times may lose what is finer."""
    decode = echo.arrow_decoder(Spot, schema=pa.schema([("x", pa.int8())]))
    encode = echo.codec(Spot).encode_many
    assert decode(encode([Spot(127, "")])).to_pylist() == [{"x": 127}]
    with pytest.raises(echo.ConversionError, match=r"Expected `int8`, got .*128.* - at `Spot\.x`"):
        decode(encode([Spot(1, ""), Spot(128, "")]))


def test_records_of_a_wrong_size_are_refused() -> None:
    """Also two that are right together, and varying ones in one piece."""
    data, decode = bytes(echo.codec(Spot).encode_many([Spot(1, "a"), Spot(2, "b")])), echo.arrow_decoder(Spot)
    assert decode(data).num_rows == 2
    with pytest.raises(echo.WireError):
        decode(data[:-1])
    with pytest.raises(echo.WireError, match="Expected 6 bytes, got 5 - at `Spot`"):
        decode.each([data[:5], data[5:]])
    with pytest.raises(echo.FormatError, match="`each` takes them"):
        echo.arrow_decoder(Tagged)(b"")


@pytest.mark.parametrize("schema", [None, pa.schema([])])
def test_batches_of_no_columns_have_rows(schema: Any) -> None:
    """As many as there are records."""
    assert echo.arrow_decoder(Spot, schema=schema)(bytes(18)).num_rows == 3
    note = echo.encoder(Tagged)(Tagged(READINGS[0], [], None))
    assert echo.arrow_decoder(Tagged, schema=schema).each([note] * 2).num_rows == 2


@dataclass(slots=True)
class Made:
    """A class whose own factory stands in for what a sender lacks."""

    x: echo.UInt16
    gain: float = field(default_factory=lambda: math.pi)


def test_a_default_that_only_its_class_can_make_is_made() -> None:
    """For records in one piece and one by one; and a sender that has no path to the class is refused."""
    data = bytes(echo.codec(Spot).encode_many([Spot(1, "a"), Spot(2, "b")]))
    decode = echo.arrow_decoder(Made, sender=echo.format_of(Spot))
    expected = [{"x": 1, "gain": math.pi}, {"x": 2, "gain": math.pi}]
    assert decode(data).to_pylist() == decode.each([data[:6], data[6:]]).to_pylist() == expected
    with pytest.raises(echo.IncompatibleError):
        echo.arrow_decoder(Made, sender=echo.format_of(Tagged))
