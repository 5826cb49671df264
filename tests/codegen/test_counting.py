"""How many objects an event may become, and that this is asked before any is made."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core._c.events import Allowance
from echo_core.codegen.events.value_trees import tree_of
from echo_core.codegen.plain.counting import MostObjects, count_objects
from echo_core.errors import FormatError, LimitError, WireError
from echo_core.formats.abi import NATIVE
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.types import Record, Sequence, StaticArray, Type, required
from tests.codegen.test_value_trees import event_of, generic_codec
from tests.formats.strategies import examples, layouts, plain_values

needs_trees = pytest.mark.skipif(
    NATIVE.pointer_size != 8 or NATIVE.byte_order != "little", reason="trees are for other machines"
)


@dataclass
class Bit:
    x: echo.UInt8


@dataclass
class Flood:
    bits: list[Bit]


@dataclass(slots=True)
class SlottedBit:
    x: echo.UInt8


@dataclass(slots=True)
class SlottedFlood:
    bits: list[SlottedBit]


@echo.event
class LazyBit:
    x: echo.UInt8


@echo.event
class LazyFlood:
    bits: list[LazyBit]


FLOODS: list[Any] = [Flood, SlottedFlood, LazyFlood, None]


def flood(bits: int) -> bytes:
    """The record of so many one-byte records."""
    return struct.pack("<QQ", 16, bits) + bytes(bits)


def decoder_of(cls: Any, most: int | None, tier: Any = "auto") -> Any:
    sender = Format.from_metadata(format_of(Flood, abi="x86_64").metadata)
    return echo.decoder(cls, sender=sender, tier=tier, max_objects=most)


# ---------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize("tier", ["auto", "interpreted"])
@pytest.mark.parametrize("cls", FLOODS)
def test_an_event_of_too_many_objects_is_refused_in_any_kind_of_class(cls: Any, tier: str) -> None:
    """Of 10: the event, its list, and two for each of four records."""
    decode = decoder_of(cls, 10, tier)
    assert len(decode(flood(3)).bits) == 3
    assert len(decode(flood(4)).bits) == 4
    with pytest.raises(LimitError, match=r"at most 10 objects \(`max_objects`\), got one of 12 or more - at"):
        decode(flood(5))


@pytest.mark.parametrize("cls", FLOODS)
def test_63_mebibytes_of_records_cost_nothing_where_they_are_refused(cls: Any) -> None:
    """They are counted by the length of their list."""
    decode = decoder_of(cls, 250_000)
    with pytest.raises(LimitError, match="132120578"):
        decode(flood(63 << 20))


def test_without_a_limit_an_event_may_become_any_number_of_objects() -> None:
    assert len(decoder_of(Flood, None)(flood(300_000)).bits) == 300_000


@pytest.mark.parametrize("abi", ["x86_64", "s390x", "armhf"])
@pytest.mark.parametrize("cls", [Flood, LazyFlood])
def test_what_is_counted_is_what_the_event_becomes_here_whoever_sent_it(cls: Any, abi: str) -> None:
    event = Flood([Bit(1)] * 5)
    record = echo.encoder(Flood, abi=abi)(event)
    for tier in ("auto", "compiled", "interpreted"):
        decode: Any = echo.decoder(cls, sender=format_of(Flood, abi=abi), tier=tier, max_objects=12)
        assert len(decode(record).bits) == 5
        decode = echo.decoder(cls, sender=format_of(Flood, abi=abi), tier=tier, max_objects=11)
        with pytest.raises(LimitError):
            decode(record)


@dataclass
class Numbers:
    values: echo.Array[float, ...]
    names: list[str]


def test_an_array_is_one_object_however_long_it_is() -> None:
    event = Numbers(np.zeros(1000), ["a", "b"])
    record = echo.encoder(Numbers)(event)
    for tier in ("auto", "interpreted"):
        assert echo.decoder(Numbers, tier=tier, max_objects=5)(record).names == ["a", "b"]
        with pytest.raises(LimitError):
            echo.decoder(Numbers, tier=tier, max_objects=4)(record)


@dataclass
class Fixed:
    stamps: echo.Array[Bit, 4]
    x: int


@dataclass(slots=True)
class Pair:
    x: int
    y: int


@echo.event
class LazyPair:
    x: int
    y: int


@pytest.mark.parametrize("cls", [Pair, LazyPair])
@pytest.mark.parametrize("tier", ["auto", "compiled", "interpreted"])
def test_records_of_one_size_are_counted_too(cls: Any, tier: Any) -> None:
    record = echo.encoder(cls)(cls(1, 2))
    assert echo.decoder(cls, tier=tier, max_objects=3)(record) == cls(1, 2)
    with pytest.raises(LimitError):
        echo.decoder(cls, tier="auto", max_objects=2)(record)


@dataclass
class Tables:
    rows: echo.Array[str, ..., ...]


@echo.event
class LazyTables:
    rows: echo.Array[str, ..., ...]


@pytest.mark.parametrize("cls", [Tables, LazyTables])
def test_lists_of_several_dimensions_are_counted_by_python(cls: Any) -> None:
    """No tree is made for them."""
    record = echo.encoder(cls)(cls([["a", "b"], ["c", "d"]]))
    assert echo.decoder(cls, max_objects=6)(record).rows == [["a", "b"], ["c", "d"]]
    with pytest.raises(LimitError):
        echo.decoder(cls, max_objects=5)(record)


def test_a_record_that_breaks_the_rules_is_the_senders_fault_whatever_it_says() -> None:
    """A length beyond the record is no number of objects."""
    broken = struct.pack("<QQ", 16, 1 << 40) + bytes(3)
    for cls in FLOODS:
        for tier in ("auto", "interpreted"):
            with pytest.raises(WireError):
                decoder_of(cls, 10, tier)(broken)


def test_a_limit_below_0_is_refused() -> None:
    with pytest.raises(FormatError, match="max_objects"):
        echo.decoder(Flood, max_objects=-1)
    with pytest.raises(echo.ChannelError, match="event_objects"):
        echo.Limits(event_objects=-1)


# ---------------------------------------------------------------------------------------------------
# Counting


def refuse(count: int) -> None:
    raise LimitError(str(count))


def makes_structured_arrays(type_: Type) -> bool:
    """Of which the plain codec makes each record, and no other codec does."""
    type_ = required(type_)
    if isinstance(type_, Record):
        return any(makes_structured_arrays(field.type) for field in type_.fields)
    if isinstance(type_, StaticArray | Sequence):
        holds = isinstance(type_.element, Record) and type_.container is not list
        return holds or makes_structured_arrays(type_.element)
    return False


@needs_trees
@examples(300)
@given(st.data())
def test_c_code_counts_as_python_does(data: st.DataObject) -> None:
    """Whatever the format: one less than there are is too few, and as many are enough."""
    format_ = Format(data.draw(layouts(NATIVE, depth=3)))
    generic = generic_codec(format_.record_class())
    record, layout = generic.receiver.record, generic.receiver.layout
    tree = tree_of(record)
    if tree is None or makes_structured_arrays(record):
        return
    event = event_of(generic, data.draw(plain_values(layout)))
    encoded = generic.encode(event)
    count = count_objects(encoded, layout, 1 << 40)
    for most in (count, count - 1):
        walker = walker_of(generic, tree, most)
        outcome = partial(walker.decode, encoded)
        if most == count:
            outcome()
        else:
            with pytest.raises(LimitError):
                outcome()


def walker_of(generic: Any, tree: Any, most: int) -> Any:
    from echo_core._c.events import Walker

    allowance = Allowance(tree, most, refuse)
    return Walker(tree, None, generic.encode, generic.decode, allowance)


@needs_trees
@examples(100)
@given(st.data())
def test_a_damaged_record_is_counted_without_an_error(data: st.DataObject) -> None:
    """And never followed out of its bytes; who decodes it says what is wrong."""
    format_ = Format(data.draw(layouts(NATIVE, depth=2)))
    generic = generic_codec(format_.record_class())
    layout, tree = generic.receiver.layout, tree_of(generic.receiver.record)
    record = bytearray(generic.encode(event_of(generic, data.draw(plain_values(layout)))))
    for at in data.draw(st.lists(st.integers(0, len(record) - 1), max_size=5)) if record else []:
        record[at] = data.draw(st.integers(0, 255))
    assert count_objects(bytes(record), layout, 1000) >= 1
    if tree is not None:
        walker = walker_of(generic, tree, 0)
        with pytest.raises(LimitError):
            walker.decode(bytes(record))


def test_a_record_that_is_small_enough_is_not_counted() -> None:
    """One comparison with its size: 8 objects are left for lists, and a byte of them may be 2."""
    tree = tree_of(format_of(Flood).record)
    assert tree is not None
    assert Allowance(tree, 10, refuse).free_bytes == 16 + 4
    assert Allowance(tree, 1, refuse).free_bytes == -1


def test_who_does_not_refuse_is_at_fault() -> None:
    generic: Any = generic_codec(Flood)
    tree = tree_of(generic.receiver.record)
    assert tree is not None
    from echo_core._c.events import Walker

    walker = Walker(tree, None, generic.encode, generic.decode, Allowance(tree, 1, lambda count: count))
    with pytest.raises(SystemError, match="has not refused"):
        walker.decode(flood(3))


def test_the_error_names_the_event_the_limit_and_a_way_out() -> None:
    with pytest.raises(LimitError, match=r"\(`Limits.event_objects`\).* - at `Flood`: numbers come as one"):
        MostObjects(3, "Limits.event_objects").refuse("Flood", 4)
