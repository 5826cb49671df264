"""A type of this machine's layout as a tree of `Value`, which C code walks to encode and decode.

The tree says where everything lies: values in the bytes of a record, and fields in instances of a class.
Types that no tree is made for (an enumeration with two members of one number, mostly) stay with the generic
codec.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from echo_core._c import events
from echo_core.codegen import cpython
from echo_core.codegen.plain.objects import runs_post_init
from echo_core.formats.abi import NATIVE
from echo_core.formats.declare import format_of
from echo_core.formats.leaves import (
    from_plain,
    is_numeric,
    number_by_member,
    pack,
    scalar_dtype,
    to_plain,
    unpack,
)
from echo_core.formats.record_class import class_of, sequence_container
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
    has_parts,
    required,
)

# The letters of numbers and bools, as the C code has them.
LEAVES = {(Kind[kind], size): letter for letter, (kind, size) in events.LEAVES.items()}


class _NoTreeError(Exception):
    """Some type inside has no tree."""


def tree_of(type_: Type) -> events.Value | None:
    """The tree of a type of this machine's layout; None where there is none."""
    if NATIVE.pointer_size != 8 or NATIVE.byte_order != "little":
        return None
    try:
        return _value(type_, {})
    except _NoTreeError:
        return None


Functions = tuple[Callable[[bytes], Any], Callable[[Any], Any]]


def part_functions(field: Field, record: Record, slow: Functions, *, is_view: bool) -> Functions:
    """Reads one field in the bytes of a whole record that has been verified; writes its bytes, or refuses.

    A sequence of numbers is a view of the record if `is_view`. The slow functions are called for what is not
    as it should be, and are returned where the field has no tree.
    """
    counted = [dimension for dimension in _counted(record) if dimension[0] == field.name]
    try:
        tree = _value(field.type, _ties(counted, field.name))
    except _NoTreeError:
        return slow
    member = field.name, tree, field.offset, 0, 0
    details = object, (member,), _tie_details(counted), (), 0, None
    whole = events.Value("r", record.size, record.alignment, details)
    part = events.Part(whole, 0, is_view, *slow)
    return part.read, part.write


def functions(type_: Type, slow: Functions) -> Functions:
    """The same for a value without variable parts, alone."""
    alone = Field("value", type_)
    return part_functions(alone, Record("Value", type_.size, 1, (alone,)), slow, is_view=False)


def _value(type_: Type, ties: dict[tuple[str, int], int]) -> events.Value:
    """`ties` are the dimensions of a field whose lengths are in other fields of its record, by number."""
    if type_.size < 1:
        raise _NoTreeError
    letter, details = _details(type_, ties)
    return events.Value(letter, type_.size, type_.alignment, details)


def _details(type_: Type, ties: dict[tuple[str, int], int]) -> tuple[str, tuple[Any, ...]]:
    match type_:
        case Scalar():
            return _scalar(type_)
        case Enumeration():
            return _enumeration(type_)
        case Text():
            return "t", ()
        case Blob():
            return "y", ()
        case Nullable():
            return "N" if type_.by_reference else "n", (_value(type_.element, ties),)
        case StaticArray():
            return "a", _elements(type_, type_.shape)
        case Sequence():
            counted = (ties[name, i] if isinstance(name, str) else -1 for i, name in enumerate(type_.shape))
            shape = ((tie,) if isinstance(n, str) else n for n, tie in zip(type_.shape, counted, strict=True))
            return "l", _elements(type_, tuple(shape))
        case Record():
            return "r", _record(type_)


# ---------------------------------------------------------------------------
# Leaves


def _scalar(scalar: Scalar) -> tuple[str, tuple[Any, ...]]:
    if scalar.kind is Kind.CHARS:
        return "s", ()
    if scalar.kind is Kind.BYTES:
        return "x", ()
    if scalar.kind is Kind.UUID and (places := _uuid_places()):
        return "U", places
    letter = LEAVES.get((scalar.kind, scalar.size))
    return (letter, ()) if letter else ("v", _functions(scalar))


@functools.cache
def _uuid_places() -> tuple[type[uuid.UUID], int, int, object] | None:
    """The class, the slots of its instances, and what the second one holds in all that are received."""
    names = "int", "is_safe"
    slots = None if cpython.problem() else cpython.plain_slot_offsets(uuid.UUID, names)
    if slots is None or not events.HAS_UUIDS:
        return None
    return uuid.UUID, slots["int"], slots["is_safe"], uuid.UUID(int=0).is_safe


def _functions(scalar: Scalar) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    def read(data: bytes) -> Any:
        return from_plain(scalar, unpack(scalar, data, NATIVE.byte_order, ""), "")

    def write(value: Any) -> bytes:
        return pack(scalar, to_plain(scalar, value, ""), NATIVE.byte_order)

    return read, write


def _enumeration(enumeration: Enumeration) -> tuple[str, tuple[Any, ...]]:
    if enumeration.python is None:
        return LEAVES[Kind.INT, enumeration.size], ()
    members = {number: member for member, number in number_by_member(enumeration).items()}
    if not members or len(members) < len(number_by_member(enumeration)):
        raise _NoTreeError
    numbers = tuple(sorted(members))
    return "e", (tuple(members[number] for number in numbers), numbers)


# ---------------------------------------------------------------------------
# Arrays and sequences


def _elements(type_: StaticArray | Sequence, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The element, the dimensions, what holds the elements in Python, and the dtype where that is numpy."""
    element, container = type_.element, sequence_container(type_)
    tree = _value(element, {})
    if container is np.ndarray and is_numeric(element):
        assert isinstance(element, Scalar)
        return tree, shape, np.ndarray, scalar_dtype(element, NATIVE.byte_order)
    if container is np.ndarray and isinstance(element, Record) and not has_parts(element):
        return tree, shape, np.ndarray, format_of(class_of(element)).dtype
    return tree, shape, tuple if container is tuple else list, None


# ---------------------------------------------------------------------------
# Records


def _record(record: Record) -> tuple[Any, ...]:
    """The class, its fields, those that count others, the gaps, and what is to be called in the end."""
    cls = class_of(record)
    counted = list(_counted(record))
    if len(counted) > events.MAX_TIES:
        raise _NoTreeError
    places = _places(cls, record)
    fields = tuple(
        (field.name, _value(field.type, _ties(counted, field.name)), field.offset, *places[field.name])
        for field in record.fields
    )
    shape = vars(cls).get("__echo_shape__")
    inlined = shape.record if shape is not None and not has_parts(record) else 0
    after = "__post_init__" if runs_post_init(cls) else None
    return cls, fields, _tie_details(counted), tuple(gaps(record)), inlined, after


def _counted(record: Record) -> Iterator[tuple[str, int, Field]]:
    """Each dimension whose length is in another field: owner, index, and the counting field."""
    by_name = {field.name: field for field in record.fields}
    for field in record.fields:
        type_ = required(field.type)
        if isinstance(type_, Sequence):
            for i, name in enumerate(type_.shape):
                if isinstance(name, str):
                    yield field.name, i, by_name[name]


def _ties(counted: list[tuple[str, int, Field]], name: str) -> dict[tuple[str, int], int]:
    return {(count.name, i): tie for tie, (owner, i, count) in enumerate(counted) if owner == name}


def _tie_details(counted: list[tuple[str, int, Field]]) -> tuple[tuple[int, str], ...]:
    return tuple((count.offset, _details(count.type, {})[0]) for _, _, count in counted)


def gaps(record: Record) -> Iterator[tuple[int, int]]:
    """The padding between fields and at the end."""
    end = 0
    for field in sorted(record.fields, key=lambda field: field.offset):
        if field.offset > end:
            yield end, field.offset - end
        end = max(end, field.end)
    if record.size > end:
        yield end, record.size - end


def _places(cls: type[Any], record: Record) -> dict[str, tuple[int, int]]:
    """For each field the offsets in an instance of its slot and of its bytes; 0 for none."""
    if "__echo_shape__" in vars(cls):
        return {field.name: _native_place(vars(cls)[field.name], field.type) for field in record.fields}
    names = [field.name for field in record.fields]
    slots = None if cpython.problem() else cpython.slot_offsets(cls, names)
    return {name: (slots[name] if slots else 0, 0) for name in names}


def _native_place(descriptor: events.FieldDescriptor, type_: Type) -> tuple[int, int]:
    """Bytes are copied instead of encoding the value, but for slots and what a view may have changed."""
    is_part = descriptor.form in "tyo"
    is_free = descriptor.form == "w" and not takes_any_bytes(type_)
    return descriptor.slot, 0 if is_part or is_free else descriptor.at


def takes_any_bytes(type_: Type) -> bool:
    """Whether the value is a number, or an array of numbers, whatever its bytes are; a bool is 0 or 1."""
    element = type_.element if isinstance(type_, StaticArray) else type_
    return isinstance(element, Scalar) and is_numeric(element) and element.kind is not Kind.BOOL
