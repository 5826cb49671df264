"""How each field of an event class lies in its instances, and what makes and checks its values.

Numbers, times and chars are read and written in C (native/events/records: reading.c, writing.c). For all
other types this module gives two functions: `read` makes a value from the field's bytes, and `write` returns
the bytes of a value or raises an error that names the field. They are the methods of a Part, which C code
knows and uses without a call; behind it stand Python functions with the rules of `leaves.py` and
`objects.py`, so an assignment fails exactly where encoding the value would fail.

A mutable value is created once and then kept in a slot of the instance: otherwise a change to it would be
lost for the next reader and for the encoder. Arrays of fixed size need no slot: they are views of the
record's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from echo_core.codegen.events import value_trees
from echo_core.codegen.plain.objects import plain_of, value_of
from echo_core.codegen.plain.records import as_array, read, read_field, write
from echo_core.formats.abi import NATIVE
from echo_core.formats.declare import format_of
from echo_core.formats.layout import Layout
from echo_core.formats.leaves import (
    is_numeric,
    number_by_member,
    scalar_dtype,
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

# One check of a received record, as native/events/records/shapes.c wants it: what, at, size, count, numbers.
Check = tuple[str, int, int, int, bytes]

# A record that needs more checks than these is not decoded natively.
MAX_CHECKS = 4096


@dataclass(frozen=True, slots=True)
class Form:
    """How a field is stored: a letter of `enum form` (leaves.h), whether its value is mutable, converters."""

    letter: str
    is_shared: bool
    read: Callable[[Any], Any] | None
    write: Callable[[Any], Any]

    @property
    def is_kept(self) -> bool:
        """Whether its value is kept in a slot."""
        return self.letter in "ktyo"


def form_of(field: Field, layout: Layout, *, frozen: bool) -> Form:
    """The form of one field of a native layout's record."""
    path = f"{layout.record.name}.{field.name}"
    type_ = field.type
    if has_parts(type_):
        return _part_form(field, layout, path)
    if isinstance(type_, Scalar | Enumeration) or (
        isinstance(type_, Nullable) and isinstance(type_.element, Scalar | Enumeration)
    ):
        return _leaf_form(type_, path)
    if _is_array(type_):
        return Form("w", not frozen, _window_reader(cast("StaticArray", type_)), _functions(type_, path)[1])
    return Form("k", True, *_functions(type_, path))


# ---------------------------------------------------------------------------
# Values inside the record


def _leaf_form(type_: Type, path: str) -> Form:
    letter = "v"
    if isinstance(type_, Scalar):
        letter = "s" if type_.kind is Kind.CHARS else value_trees.LEAVES.get((type_.kind, type_.size), "v")
    return Form(letter, False, *_functions(type_, path))


def _is_array(type_: Type) -> bool:
    """Whether the value is a numpy array of the very bytes in the record."""
    return isinstance(type_, StaticArray) and (is_numeric(type_.element) or isinstance(type_.element, Record))


def _dtype_of(element: Type) -> np.dtype[Any]:
    if isinstance(element, Record):
        return format_of(class_of(element)).dtype
    return scalar_dtype(cast("Scalar", element), NATIVE.byte_order)


def _window_reader(type_: StaticArray) -> Callable[[Any], Any]:
    array: Callable[..., Any] = np.ndarray
    if isinstance(type_.element, Record):
        return lambda window: array(type_.shape, _dtype_of(type_.element), window)
    return partial(array, type_.shape, _dtype_of(type_.element))


def _functions(type_: Type, path: str) -> value_trees.Functions:
    """Between a value and its bytes."""
    record = Record("Value", type_.size, 1, (Field("value", type_),))
    layout = Layout(NATIVE.byte_order, NATIVE.pointer_size, record)

    def read_one(data: bytes) -> Any:
        return value_of(type_, read(data, layout)["value"], path)

    def write_one(value: Any) -> bytes:
        return write({"value": plain_of(type_, value, path)}, layout)

    reader = _member_reader(type_, path) if isinstance(type_, Enumeration) else read_one
    return value_trees.functions(type_, (reader, write_one))


def _member_reader(enumeration: Enumeration, path: str) -> Callable[[bytes], Any]:
    """A received number has been checked to be a member's; that of a field that was never set may not be."""
    member_by_number = {number: member for member, number in number_by_member(enumeration).items()}
    size = enumeration.size

    def member(data: bytes) -> Any:
        try:
            return member_by_number[int.from_bytes(data[:size], NATIVE.byte_order, signed=True)]
        except KeyError:
            raise AttributeError(path) from None

    return member


# ---------------------------------------------------------------------------
# Values that are kept


def _check_array(type_: Sequence, path: str, value: Any) -> object:
    """Raises for a value that cannot be encoded. An array of the right dtype and shape is not scanned."""
    array = as_array(value)
    fits = (
        array is not None
        and array.dtype == _dtype_of(type_.element)
        and array.ndim == len(type_.shape)
        and all(n == m for n, m in zip(type_.shape, array.shape, strict=True) if isinstance(n, int))
    )
    return None if fits else plain_of(type_, value, path)


def _part_form(field: Field, layout: Layout, path: str) -> Form:
    type_ = field.type
    is_view, is_shared = _is_view(required(type_)), not _is_immutable(type_)
    letter = "o"
    if NATIVE.pointer_size == 8 and isinstance(type_, Text | Blob):
        letter = "t" if isinstance(type_, Text) else "y"
    check: Callable[[Any], object] = partial(plain_of, type_, path=path)
    if isinstance(type_, Sequence) and is_numeric(type_.element):
        check = partial(_check_array, type_, path)
    slow = partial(_read_view if is_view else _read_any, field, layout, path), check
    read_part, write_part = value_trees.part_functions(field, layout.record, slow, is_view=is_view)
    return Form(letter, is_shared and not is_view, read_part, write_part)


def _is_view(type_: Type) -> bool:
    """Whether the value can be a view of the received bytes; not bools, as a sender's true may be above 1."""
    if not isinstance(type_, Sequence) or has_parts(type_.element):
        return False
    is_number = isinstance(type_.element, Scalar) and value_trees.takes_any_bytes(type_.element)
    return sequence_container(type_) is np.ndarray and (is_number or isinstance(type_.element, Record))


def _is_immutable(type_: Type) -> bool:
    match type_:
        case StaticArray() | Record():
            return False
        case Sequence():
            return type_.container is tuple and _is_immutable(type_.element)
        case Nullable():
            return _is_immutable(type_.element)
        case _:
            return True


def _read_any(field: Field, layout: Layout, path: str, source: bytes) -> Any:
    """Reads a record that was verified on receipt, so its slots need no check."""
    return value_of(field.type, read_field(source, layout, field), path)


def _read_view(field: Field, layout: Layout, path: str, source: bytes) -> Any:
    """A read-only array, like a view of the source."""
    array = _read_any(field, layout, path, source)
    if array is not None:
        array.flags.writeable = False
    return array


# ---------------------------------------------------------------------------
# Checks of received records


def checks_of(record: Record) -> tuple[Check, ...] | None:
    """The checks that a received record must pass before a field is read; None if there are too many."""
    if _cost(record) > MAX_CHECKS:
        return None
    return tuple(_checks(record, 0))


def _cost(type_: Type) -> int:
    """An upper bound of the checks that the type needs."""
    match type_:
        case Scalar(kind=Kind.BOOL | Kind.CHARS) | Enumeration():
            return 1
        case StaticArray():
            return _cost(type_.element) * prod(type_.shape)
        case Nullable():
            return 1 + _cost(type_.element)
        case Record():
            return sum(_cost(field.type) for field in type_.fields)
        case _:
            return 0


def _checks(type_: Type, at: int) -> Iterator[Check]:
    match type_:
        case Scalar(kind=Kind.BOOL):
            yield "?", at, 1, 0, b""
        case Scalar(kind=Kind.CHARS):
            yield "s", at, type_.size, 0, b""
        case Enumeration() if type_.python is not None:
            numbers = np.array(sorted(set(number_by_member(type_).values())), np.int64)
            yield "e", at, type_.size, 0, numbers.tobytes()
        case StaticArray() if _cost(type_.element):
            for i in range(prod(type_.shape)):
                yield from _checks(type_.element, at + i * type_.element.size)
        case Nullable() if not type_.by_reference:
            inner = list(_checks(type_.element, at))
            yield "|", at + type_.element.size, 1, len(inner), b""
            yield from inner
        case Record():
            for field in type_.fields:
                yield from _checks(field.type, at + field.offset)
        case _:
            pass
