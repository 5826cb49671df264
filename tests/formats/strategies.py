"""Random layouts and random values for them, as hypothesis strategies; the suites share them.

A layout is placed as some ABI would place it, and now and then packed, reordered or with gaps, which no
compiler would do unasked but metadata may say. Sizes are small: what matters is how types are combined.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from echo_core.codegen.plain.records import as_array
from echo_core.formats.abi import ABI_BY_NAME, NATIVE, Abi
from echo_core.formats.layout import Layout, place
from echo_core.formats.leaves import (
    Leaf,
    integer_range,
    is_numeric,
    pack_default,
    scalar_dtype,
)
from echo_core.formats.types import (
    SIZES_BY_KIND,
    Blob,
    Default,
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
    round_up,
)


def examples(count: int) -> settings:
    """So many random examples, or that many times as ECHO_EXAMPLES says."""
    return settings(
        max_examples=count * int(os.environ.get("ECHO_EXAMPLES", "1")),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


_NAMES = ("x", "size", "größe", "_hidden", "数", "type", "self", "A")
_UNITS = ("", "", "", "K", "m/s²")
_SHORT_SIZES = range(1, 9)  # of chars and bytes


def _sizes(kind: Kind) -> SearchStrategy[int]:
    short = kind in (Kind.CHARS, Kind.BYTES)
    return st.sampled_from(_SHORT_SIZES if short else SIZES_BY_KIND[kind])


_SCALARS: SearchStrategy[Scalar] = st.one_of(
    [st.builds(Scalar, st.just(kind), _sizes(kind)) for kind in Kind]
)
_INTEGERS: SearchStrategy[Scalar] = st.builds(
    Scalar, st.sampled_from((Kind.INT, Kind.UINT)), st.sampled_from((1, 2, 4, 8))
)
_SMALL = st.integers(0, 3)
_DIMENSION = st.integers(1, 3)
_STATIC_SHAPE = st.lists(_DIMENSION, min_size=1, max_size=2).map(tuple)
_VARYING_SHAPES: tuple[tuple[int | None, ...], ...] = (
    (None,),
    (None,),
    (None,),
    (None, 2),
    (3, None),
    (None, None),
    (2, None, None),
)
_FORMS = st.sampled_from(
    ("leaf", "leaf", "leaf", "text", "blob", "enum", "optional", "array", "sequence", "record")
)
_FLAT_FORMS = st.sampled_from(("leaf", "leaf", "leaf", "text", "blob", "enum"))
_TEXT = st.text(st.characters(min_codepoint=1, max_codepoint=0x1F600, exclude_categories=["Cs"]), max_size=6)


def abis() -> SearchStrategy[Abi]:
    """Any machine that the product knows."""
    return st.sampled_from(list(ABI_BY_NAME.values()))


@st.composite
def enumerations(draw: DrawFn) -> Enumeration:
    """An enumeration of a few members, the numbers anywhere in its range."""
    size = draw(st.sampled_from((1, 2, 4, 8)))
    low, high = integer_range(Kind.INT, size)
    numbers = draw(st.lists(st.integers(low, high), min_size=1, max_size=4, unique=True))
    members = tuple((f"M{i}", number) for i, number in enumerate(numbers))
    return Enumeration(draw(st.sampled_from(("Color", "Größe"))), size, members)


@st.composite
def types(draw: DrawFn, abi: Abi = NATIVE, depth: int = 3) -> Type:
    """Any type, with at most `depth` records and wrappers inside one another."""
    match draw(_FORMS if depth > 0 else _FLAT_FORMS):
        case "text":
            return Text(abi.pointer_size)
        case "blob":
            return Blob(abi.pointer_size)
        case "enum":
            return draw(enumerations())
        case "optional":
            element = draw(types(abi, depth - 1))
            return element if isinstance(element, Nullable) else Nullable(element)
        case "array":
            return StaticArray(draw(types(abi, depth - 1)), draw(_STATIC_SHAPE))
        case "sequence":
            shape = draw(st.sampled_from(_VARYING_SHAPES))
            return Sequence(draw(types(abi, depth - 1)), shape, abi.pointer_size)
        case "record":
            return draw(records(abi, depth - 1))
        case _:
            return draw(_SCALARS)


@st.composite
def records(draw: DrawFn, abi: Abi = NATIVE, depth: int = 3) -> Record:
    """Any record that `abi` may hold; records inside it included, at most `depth` + 1 deep."""
    members = [_field(draw, i, draw(types(abi, depth))) for i in range(draw(st.sampled_from(range(6))))]
    return _placed(draw, _with_counts(draw, members), abi)


@st.composite
def layouts(draw: DrawFn, abi: Abi | None = None, depth: int = 3) -> Layout:
    """Any record of any machine, or of the one given."""
    abi = abi or draw(abis())
    return Layout(abi.byte_order, abi.pointer_size, draw(records(abi, depth)))


def _field(draw: DrawFn, index: int, type_: Type) -> Field:
    name = f"{draw(st.sampled_from(_NAMES))}{index}"
    if draw(_SMALL) < 2:
        return Field(name, type_)
    aliases = tuple(f"{name}_was{i}" for i in range(draw(st.integers(0, 2))))
    return Field(
        name,
        type_,
        default=_default(draw, type_),
        aliases=aliases,
        unit=draw(st.sampled_from(_UNITS)),
    )


def _default(draw: DrawFn, type_: Type) -> Default | None:
    match draw(_SMALL):
        case 0:
            return None
        case 1 if isinstance(type_, Nullable):
            return Default()
        case 1 | 2:
            leaf = type_.element if isinstance(type_, Nullable) else type_
            if isinstance(leaf, Leaf):
                return Default(pack_default(leaf, draw(leaf_values(leaf))))
            return Default(local=True)
        case _:
            return Default(local=True)


def _with_counts(draw: DrawFn, members: list[Field]) -> list[Field]:
    """The members, some of the sequences counted by a field of their own or by one they share."""
    counted = [i for i, member in enumerate(members) if isinstance(bare(member.type), Sequence)]
    if not counted or draw(st.booleans()):
        return members
    at = draw(st.integers(0, len(members)))
    name = f"count{len(members)}"
    for i in counted:
        if draw(st.booleans()):
            members[i] = replace(members[i], type=_counted_by(name, members[i].type))
    return [*members[:at], Field(name, draw(_INTEGERS)), *members[at:]]


def bare(type_: Type) -> Type:
    """A type, or what it is an optional one of."""
    return type_.element if isinstance(type_, Nullable) else type_


def _counted_by(name: str, type_: Type) -> Type:
    """The type with its first varying dimension held by the field of that name."""
    if isinstance(type_, Nullable):
        return Nullable(_counted_by(name, type_.element))
    assert isinstance(type_, Sequence)
    at = type_.shape.index(None)
    return replace(type_, shape=(*type_.shape[:at], name, *type_.shape[at + 1 :]))


def _placed(draw: DrawFn, members: list[Field], abi: Abi) -> Record:
    """Placed in one of several ways; some have former names, or none that anybody gave them."""
    record = _in_some_order(draw, members, abi)
    match draw(st.integers(0, 7)):
        case 6:
            return replace(record, is_named=False)
        case 7:
            return replace(record, aliases=(f"{record.name}_was0", "Old")[: draw(st.integers(1, 2))])
        case _:
            return record


def _in_some_order(draw: DrawFn, members: list[Field], abi: Abi) -> Record:
    name = draw(st.sampled_from(("Particle", "Zelle", "R2")))
    match draw(st.integers(0, 7)):
        case 6:
            return packed(name, members, [draw(_SMALL) for _ in members])
        case 7:
            return reordered(name, draw(st.permutations(members)), members, abi)
        case _:
            return place(name, members, abi)


def packed(name: str, members: list[Field], gaps: list[int]) -> Record:
    """A record of alignment 1, with so many unused bytes before each member."""
    end = 0
    fields: list[Field] = []
    for member, gap in zip(members, gaps, strict=True):
        fields.append(replace(member, offset=end + gap))
        end += gap + member.type.size
    return Record(name, max(end, 1), 1, tuple(fields))


def reordered(name: str, in_memory: list[Field], as_listed: list[Field], abi: Abi) -> Record:
    """A record whose fields lie in memory in another order than the one in which it lists them."""
    placed = place(name, in_memory, abi)
    field_by_name = {field.name: field for field in placed.fields}
    fields = tuple(field_by_name[member.name] for member in as_listed)
    tail = round_up(placed.size + 1, placed.alignment)  # and padding that no compiler would add
    return Record(name, tail, placed.alignment, fields)


# ---------------------------------------------------------------------------------------------------
# Plain values


@functools.lru_cache(maxsize=4096)
def leaf_values(leaf: Leaf, *, any_number: bool = False) -> SearchStrategy[Any]:
    """Plain values of a leaf; of an enumeration its members only, unless `any_number`."""
    match leaf:
        case Text():
            return _TEXT
        case Blob():
            return st.binary(max_size=6)
        case Enumeration():
            members = st.sampled_from([number for _, number in leaf.members])
            anything = st.integers(*integer_range(Kind.INT, leaf.size))
            return st.one_of(members, anything) if any_number else members
        case Scalar():
            return _scalar_values(leaf)


def _scalar_values(scalar: Scalar) -> SearchStrategy[Any]:
    match scalar.kind:
        case Kind.BOOL:
            return st.booleans()
        case Kind.INT | Kind.UINT:
            return st.integers(*integer_range(scalar.kind, scalar.size))
        case Kind.TIMESTAMP | Kind.DURATION:
            return st.integers(*integer_range(Kind.INT, 8))
        case Kind.FLOAT:
            return _floats(scalar.size)
        case Kind.COMPLEX:
            half = _floats(scalar.size // 2)
            return st.builds(complex, half, half)
        case Kind.CHARS:
            return _TEXT.map(lambda text: text.encode()[: scalar.size].decode(errors="ignore"))
        case Kind.UUID | Kind.BYTES:
            return st.binary(min_size=scalar.size, max_size=scalar.size)


def _floats(size: int) -> SearchStrategy[float]:
    match size:
        case 2:
            return st.floats(width=16)
        case 4:
            return st.floats(width=32)
        case _:
            return st.floats()


@st.composite
def plain_values(draw: DrawFn, layout: Layout, *, any_number: bool = False) -> dict[str, Any]:
    """A plain value that the layout's record can hold, in the form in which it is read back.

    Lists of several dimensions are empty altogether or in none of them, since a list without elements
    says nothing of the dimensions inside it.
    """
    return _Values(draw, any_number).record(layout.record)


class _Values:
    def __init__(self, draw: DrawFn, any_number: bool) -> None:
        self._draw = draw
        self._any_number = any_number

    def record(self, record: Record) -> dict[str, Any]:
        sequences = [bare(field.type) for field in record.fields]
        names = {n for s in sequences if isinstance(s, Sequence) for n in s.shape}
        count = self._draw(_SMALL) if any(isinstance(n, str) for n in names) else 0
        return {
            field.name: count if field.name in names else self.value(field.type, count)
            for field in record.fields
        }

    def value(self, type_: Type, count: int = 0) -> Any:
        """`count` is the length of every counted dimension."""
        match type_:
            case Nullable():
                must = count > 0 and _is_counted(type_.element)
                return self.value(type_.element, count) if must or self._draw(_SMALL) else None
            case StaticArray():
                return self._elements(type_.element, type_.shape)
            case Sequence():
                return self._sequence(type_, count)
            case Record():
                return self.record(type_)
            case _:
                return self._draw(leaf_values(type_, any_number=self._any_number))

    def _sequence(self, type_: Sequence, count: int) -> Any:
        shape = tuple(
            n if isinstance(n, int) else count if isinstance(n, str) else self._draw(_SMALL)
            for n in type_.shape
        )
        if not is_numeric(type_.element) and not prod(shape):
            if count:  # the counted dimension is not empty, so the others must not be
                shape = tuple(n or 1 for n in shape)
            else:
                return []
        return self._elements(type_.element, shape)

    def _elements(self, element: Type, shape: tuple[int, ...]) -> Any:
        if is_numeric(element):
            assert isinstance(element, Scalar)
            return self._numbers(element, prod(shape)).reshape(shape)
        first, *rest = shape
        if rest:
            return [self._elements(element, tuple(rest)) for _ in range(first)]
        return [self.value(element) for _ in range(first)]

    def _numbers(self, scalar: Scalar, count: int) -> np.ndarray[Any, Any]:
        size = scalar.size * count
        data = self._draw(st.binary(min_size=size, max_size=size))
        if scalar.kind is Kind.BOOL:
            return np.asarray(np.frombuffer(data, np.uint8) % 2, np.bool_)
        return np.frombuffer(data, scalar_dtype(scalar, NATIVE.byte_order))


def _is_counted(type_: Type) -> bool:
    """Whether another field holds a length of it."""
    return isinstance(type_, Sequence) and any(isinstance(n, str) for n in type_.shape)


def comparable(plain: Any) -> Any:
    """A plain value so that `==` is strict: types count, every NaN is the same, -0.0 is not 0.0.

    Arrays become nested lists, and one empty list where they have no elements.
    """
    return _COMPARABLE.get(plain.__class__, _comparable_leaf)(plain)


def _comparable_array(array: np.ndarray[Any, Any]) -> Any:
    times = array.dtype.kind in "Mm"
    return comparable((array.view(np.int64) if times else array).tolist() if array.size else [])


def _comparable_record(record: dict[str, Any]) -> Any:
    return {name: comparable(value) for name, value in record.items()}


def _comparable_list(items: list[Any]) -> Any:
    return [comparable(item) for item in items]


def _comparable_leaf(leaf: Any) -> Any:
    return type(leaf).__name__, repr(leaf)


_COMPARABLE: dict[type[Any], Callable[[Any], Any]] = {
    np.ndarray: _comparable_array,
    dict: _comparable_record,
    list: _comparable_list,
}


def without_nan(value: Any) -> Any:
    """The same with another number in the place of each that equals nothing, itself included."""
    plain: Any = value
    if isinstance(value, dict):
        return {name: without_nan(item) for name, item in plain.items()}
    if isinstance(value, list):
        return [without_nan(item) for item in plain]
    array = as_array(value)
    if array is not None:
        return np.where(array == array, array, np.ones_like(array)) if array.dtype.kind in "fc" else array
    return value if value == value else type(value)(1)
