"""Events to plain values and back; only here are Python types known.

`plain_of` accepts what a field's declaration allows and refuses the rest with the field's path;
`value_of` makes instances without calling `__init__`, as pickle does, then calls `__post_init__`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence as AnySequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from echo_core.codegen.plain.records import (
    Plain,
    as_array,
    counted_lengths,
    extent,
    flat,
    nested,
    read,
    shape_of,
    write,
)
from echo_core.codegen.plans.verification import MAX_EXTENT
from echo_core.errors import EncodeError, EncodeTypeError, WireError, unexpected
from echo_core.formats.abi import NATIVE
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.leaves import from_plain, is_numeric, mismatch, scalar_dtype, to_plain
from echo_core.formats.record_class import class_of, sequence_container
from echo_core.formats.types import (
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Type,
    has_parts,
    required,
)


def plain_of(type_: Type, value: Any, path: str) -> Plain:
    """The plain value of a Python value; EncodeError with the field's path if its type cannot hold it."""
    match type_:
        case Nullable():
            return None if value is None else plain_of(type_.element, value, path)
        case Record():
            return _plain_record(type_, value, path)
        case StaticArray() | Sequence():
            plain = _plain_elements(type_, value, path)
            _check_shape(type_, plain, path)
            return plain
        case _:
            return to_plain(type_, value, path)


def _plain_record(record: Record, value: Any, path: str) -> dict[str, Plain]:
    cls = class_of(record)
    if not isinstance(value, cls):
        raise mismatch(cls.__qualname__, value, path)
    plain: dict[str, Plain] = {}
    for field in record.fields:
        where = f"{path}.{field.name}"
        try:
            held = getattr(value, field.name)
        except AttributeError:
            raise unexpected(
                EncodeError, f"`{field.type}`", "an attribute that was never set", path=where
            ) from None
        plain[field.name] = plain_of(field.type, held, where)
    _check_counts(record, plain, path)
    return plain


def _check_counts(record: Record, plain: dict[str, Plain], path: str) -> None:
    """A field that counts another one's elements must agree with it."""
    for name, sequence, length in counted_lengths(record, plain):
        if plain[name] != length:
            raise unexpected(
                EncodeError, f"{length}, the length of `{sequence}`", plain[name], path=f"{path}.{name}"
            )


def _plain_elements(type_: StaticArray | Sequence, value: Any, path: str) -> Plain:
    dimensions = len(type_.shape)
    untyped: Any = value  # the item type of a memoryview is not known
    array = as_array(np.asarray(untyped) if isinstance(value, memoryview) else value)
    if array is not None:
        if array.ndim != dimensions:
            raise unexpected(EncodeError, f"an array of {dimensions} dimensions", array.ndim, path=path)
        if is_numeric(type_.element):
            return plain_numbers(cast("Scalar", type_.element), array, path)
        if isinstance(type_.element, Record) and array.dtype.names is not None:
            return _plain_records(type_.element, array, path)
    items = _flattened(type_, value, path)
    plain = [plain_of(type_.element, item, f"{path}[{i}]") for i, item in enumerate(items)]
    if is_numeric(type_.element):
        dtype = _native_dtype(cast("Scalar", type_.element))
        shape = _declared_shape(type_, shape_of(value, dimensions))
        shape = shape_of(value, dimensions) if all(shape) else shape
        return np.array(plain, np.int64 if dtype.kind in "Mm" else dtype).view(dtype).reshape(shape)
    return nested(plain, shape_of(value, dimensions))


def _native_dtype(scalar: Scalar) -> np.dtype[Any]:
    return scalar_dtype(scalar, NATIVE.byte_order)


def _flattened(type_: StaticArray | Sequence, value: Any, path: str) -> list[Any]:
    """The elements of nested sequences, which must have one length at each level."""
    level = [value]
    for _ in type_.shape:
        lengths: set[int] = set()
        for item in level:
            if isinstance(item, str | bytes) or not isinstance(item, AnySequence | np.ndarray):
                raise mismatch(type_, item, path)
            lengths.add(len(cast("AnySequence[Any]", item)))
        if len(lengths) > 1:
            raise unexpected(EncodeError, "rows of one length", sorted(lengths), path=path)
        level = [element for item in level for element in item]
    return level


def _check_shape(type_: StaticArray | Sequence, plain: Plain, path: str) -> None:
    shape = shape_of(plain, len(type_.shape))
    fixed = _declared_shape(type_, shape)
    # An empty list does not tell its inner dimensions.
    if shape != fixed and (as_array(plain) is not None or all(fixed)):
        raise unexpected(EncodeError, f"the dimensions {list(fixed)}", list(shape), path=path)
    if extent(shape) > MAX_EXTENT:
        raise unexpected(EncodeError, f"dimensions of at most {MAX_EXTENT} elements", list(shape), path=path)


def _declared_shape(type_: StaticArray | Sequence, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The lengths, with the declared one where a dimension is fixed."""
    known: tuple[int | str | None, ...] = type_.shape
    return tuple(n if isinstance(n, int) else m for n, m in zip(known, shape, strict=True))


# The kinds of numpy arrays that each kind accepts; integers are accepted for floats, as with single values.
_SOURCES: dict[Kind, str] = {
    Kind.BOOL: "b",
    Kind.INT: "biu",
    Kind.UINT: "biu",
    Kind.FLOAT: "biuf",
    Kind.COMPLEX: "biufc",
    Kind.TIMESTAMP: "M",
    Kind.DURATION: "m",
}


def plain_numbers(scalar: Scalar, array: np.ndarray[Any, Any], path: str) -> np.ndarray[Any, Any]:
    """The array in this machine's form of the scalar; EncodeError where a number does not fit."""
    target = _native_dtype(scalar)
    if array.dtype.kind not in _SOURCES[scalar.kind]:
        raise unexpected(EncodeTypeError, f"an array of `{scalar}`", f"one of `{array.dtype}`", path=path)
    try:
        with np.errstate(over="ignore"):  # an overflow is found below
            converted = array.astype(target)
    except OverflowError:  # from numpy 2.5 on, for a time that is too far away
        raise _outside(scalar, next(it for it in array.flat if _is_too_far(it, target)), path) from None
    if array.dtype.kind in "fc":
        lost = _overflowed(array, converted)
    elif scalar.kind in (Kind.FLOAT, Kind.COMPLEX):
        lost = ~np.isfinite(converted)
    elif scalar.kind in (Kind.TIMESTAMP, Kind.DURATION):
        # Converted back, because a comparison would wrap both sides. NaT stays NaT.
        lost = (converted.astype(array.dtype) != array) & ~np.isnat(array)
    else:
        lost = converted != array
    if np.any(lost):
        raise _outside(scalar, array[np.unravel_index(int(np.argmax(lost)), array.shape)], path)
    return converted


def _outside(scalar: Scalar, number: object, path: str) -> EncodeError:
    return EncodeError(f"Expected numbers within the range of `{scalar}`, got {number}", path=path)


def _is_too_far(time: Any, target: np.dtype[Any]) -> bool:
    try:
        time.astype(target)
    except OverflowError:
        return True
    return False


def _overflowed(array: Any, converted: Any) -> Any:
    """Where a number, or one half of a complex one, has become infinite."""
    halves = ((array.real, converted.real), (array.imag, converted.imag))
    return np.logical_or(*(np.isfinite(given) & ~np.isfinite(held) for given, held in halves))


def _plain_records(record: Record, array: np.ndarray[Any, Any], path: str) -> Plain:
    native = _native_format(record, path)
    if array.dtype.names != native.dtype.names:
        raise unexpected(
            EncodeTypeError,
            f"an array of `{record}`",
            f"one with the fields {list(array.dtype.names or ())}",
            path=path,
        )
    if not np.can_cast(array.dtype, native.dtype, "safe"):
        raise unexpected(
            EncodeTypeError,
            f"an array of `{record}`",
            f"one of `{array.dtype}`, whose numbers may not fit",
            path=path,
            hint="convert it with `astype(format_of(...).dtype)`",
        )
    data, size = array.astype(native.dtype).tobytes(), native.size_bytes
    try:
        rows = [read(data[i : i + size], native.layout) for i in range(0, len(data), size)]
        for row in rows:
            value_of(record, row, path)  # raises for a number that is no member: numpy does not know
    except WireError as error:  # such as chars that are not UTF-8; here it is the caller's fault
        raise EncodeError(str(error), path=path) from None
    return nested(rows, array.shape)


def _native_format(record: Record, path: str) -> Format:
    if has_parts(record):
        raise unexpected(
            EncodeTypeError,
            f"a list of `{record}`",
            "a numpy array: its records have variable parts",
            path=path,
        )
    return format_of(class_of(record))


def value_of(type_: Type, plain: Plain, path: str) -> Any:
    """The Python value of a plain value."""
    match type_:
        case Nullable():
            return None if plain is None else value_of(type_.element, plain, path)
        case Record():
            return _instance(type_, plain, path)
        case StaticArray() | Sequence():
            return _elements(type_, plain, path)
        case _:
            return from_plain(type_, plain, path)


def _instance(record: Record, plain: dict[str, Plain], path: str) -> Any:
    """An instance of the record's class; fields that the plain value lacks get the class's own default."""
    cls = class_of(record)
    made = {f.name: local_default(cls, f.name) for f in record.fields if f.name not in plain}
    made |= {name: length for name, _, length in counted_lengths(record, made)}
    instance = object.__new__(cls)
    for field in record.fields:
        if field.name in made:
            value = made[field.name]
        else:
            value = value_of(field.type, plain[field.name], f"{path}.{field.name}")
        object.__setattr__(instance, field.name, value)
    if runs_post_init(cls):
        instance.__post_init__()
    return instance


def local_default(cls: type[Any], name: str) -> Any:
    """The default that the class itself has for a field."""
    field: dataclasses.Field[Any] = cls.__dataclass_fields__[name]
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


_runs_post_init: WeakKeyDictionary[type[Any], bool] = WeakKeyDictionary()


def runs_post_init(cls: type[Any]) -> bool:
    """Whether `__post_init__` exists and has no required arguments, which only a constructor could pass."""
    if not hasattr(cls, "__post_init__"):
        return False
    if cls not in _runs_post_init:
        asked = list(inspect.signature(cls.__post_init__).parameters.values())[1:]
        _runs_post_init[cls] = all(parameter.default is not parameter.empty for parameter in asked)
    return _runs_post_init[cls]


def _elements(type_: StaticArray | Sequence, plain: Plain, path: str) -> Any:
    container = sequence_container(type_)
    array = as_array(plain)
    if array is not None:
        if container is np.ndarray:
            return array
        times_as_integers = np.int64 if array.dtype.kind in "Mm" else array.dtype
        return container(
            [value_of(type_.element, item, path) for item in array.view(times_as_integers).tolist()]
        )
    if container is np.ndarray and isinstance(type_.element, Record) and not has_parts(type_.element):
        return _structured(type_.element, plain, len(type_.shape))
    items = [
        value_of(type_.element, item, f"{path}[{i}]") for i, item in enumerate(flat(plain, len(type_.shape)))
    ]
    values = nested(items, shape_of(plain, len(type_.shape)))
    return tuple(values) if container is tuple else values


def _completed(record: Record, plain: dict[str, Plain]) -> dict[str, Plain]:
    """The same with the defaults that only the record's class can make."""
    complete: dict[str, Plain] = {}
    for field in record.fields:
        if field.name in plain:
            inner = required(field.type)
            value = plain[field.name]
            nests = isinstance(inner, Record) and value is not None
            complete[field.name] = _completed(cast("Record", inner), cast("Any", value)) if nests else value
        else:
            value = local_default(class_of(record), field.name)
            complete[field.name] = plain_of(field.type, value, f"{record.name}.{field.name}")
    return complete


def _structured(record: Record, plain: Plain, dimensions: int) -> np.ndarray[Any, Any]:
    native = format_of(class_of(record))
    rows = (_completed(record, row) for row in flat(plain, dimensions))
    data = b"".join(write(row, native.layout) for row in rows)
    return np.frombuffer(bytearray(data), native.dtype).reshape(shape_of(plain, dimensions))
