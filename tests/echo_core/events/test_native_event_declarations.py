"""Any declaration: an event is as a dataclass with slots, or is one."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.events.record_fields import MAX_CHECKS, checks_of
from echo_core.codegen.events.record_types import is_native
from echo_core.codegen.plain import records
from echo_core.codegen.plain.objects import plain_of, value_of
from echo_core.formats.abi import NATIVE
from echo_core.formats.layout import Layout
from tests.echo_core.events.native_events import generic, record_codec
from tests.formats.strategies import comparable, examples, layouts, plain_values


def test_record_with_too_many_checks_stays_a_dataclass() -> None:
    """Its decoder would walk a list as long as the record."""

    @echo.event
    class Many:
        names: echo.Array[echo.Chars[1], 5000]

    assert checks_of(echo.format_of(Many).record) is None
    assert MAX_CHECKS < 5000
    assert not is_native(Many)


def slots_and_native(layout: Layout) -> tuple[type[Any], type[Any]]:
    """Two classes of one declaration: a dataclass with slots, and an event."""
    members = dataclasses.fields(echo.Format(layout).record_class())

    def bare() -> type[Any]:
        annotations = {member.name: member.type for member in members}
        fields = {member.name: dataclasses.field(metadata=member.metadata) for member in members}
        body = {"__annotations__": annotations, "__module__": __name__, **fields}
        return type(layout.record.name, (), body)

    return dataclasses.dataclass(slots=True)(bare()), echo.event(bare())


@st.composite
def samples(draw: st.DrawFn) -> tuple[type[Any], type[Any], Any, Any]:
    """Both classes of a random layout, its plain value, and the layout that they have."""
    slotted, made = slots_and_native(draw(layouts(NATIVE, depth=2)))
    layout = echo.format_of(slotted).layout
    return slotted, made, draw(plain_values(layout)), layout


@given(sample=samples())
@examples(150)
def test_any_event_behaves_as_the_dataclass_with_slots(sample: Any) -> None:
    """The same bytes, the same values, made here or received, read or not."""
    slotted, made, plain, layout = sample
    record = echo.format_of(made).record
    expected = value_of(layout.record, plain, "R")
    data = generic(slotted).encode(expected)  # and not the plain value's: Python has no nanoseconds
    names = [field.name for field in record.fields]
    found = made(**{name: getattr(expected, name) for name in names})
    functions = record_codec(made)
    assert functions is not None or not is_native(made)
    assert generic(made).encode(found) == data
    assert echo.encoder(made)(found) == data
    if functions is None:
        return
    arrived = functions.decode(data)
    assert functions.encode(found) == functions.encode(arrived) == data
    for name in names:
        wanted = comparable_value(getattr(expected, name))
        assert comparable_value(getattr(found, name)) == wanted
        assert comparable_value(getattr(arrived, name)) == wanted
    again = comparable(plain_of(record, arrived, "R"))
    assert again == comparable(plain_of(layout.record, expected, "R"))
    assert functions.encode(arrived) == data


def comparable_value(value: Any) -> Any:
    """A Python value so that `==` is strict, whatever class nested records are of."""
    if dataclasses.is_dataclass(value):
        return [comparable_value(getattr(value, field.name)) for field in dataclasses.fields(value)]
    array = records.as_array(value)
    if array is not None:
        return comparable(array) if not array.dtype.names else (array.dtype.names, array.tobytes())
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return value.__class__.__name__, [comparable_value(item) for item in items]  # pyright: ignore[reportUnknownMemberType]
    return type(value).__name__, repr(value)
