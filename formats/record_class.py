"""Dataclasses for records without a declared class.

The class declares what the record is: laid out again for the ABI that the record came from, it gives the
same fields at the same places.

No module has such a class, so it is pickled as the record that it was made of. Whoever loads it makes it
again, once in a process.
"""

from __future__ import annotations

import copyreg
import dataclasses
import datetime as dt
import enum
import functools
import uuid
from typing import Annotated, Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from echo_core.formats.abi import NATIVE
from echo_core.formats.annotations import NAMES_KEY, OPTIONS_KEY, ArraySpec, FieldOptions, Names
from echo_core.formats.kept import Kept
from echo_core.formats.leaves import Leaf, from_plain, is_numeric, scalar_dtype, unpack, unpack_default
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
    required,
)

_PYTHON_TYPES: dict[Kind, type[Any]] = {
    Kind.BOOL: bool,
    Kind.INT: int,
    Kind.UINT: int,
    Kind.FLOAT: float,
    Kind.COMPLEX: complex,
    Kind.TIMESTAMP: dt.datetime,
    Kind.DURATION: dt.timedelta,
    Kind.UUID: uuid.UUID,
    Kind.CHARS: str,
    Kind.BYTES: bytes,
}


class _MadeClass(type):
    """The type of classes that are made here, by which pickle knows them."""


class _Made(metaclass=_MadeClass):
    """The base of those that are made here."""

    __slots__ = ()


class _MadeEnumClass(enum.EnumMeta):
    """Likewise of enumerations."""


class _MadeEnum(enum.Enum, metaclass=_MadeEnumClass):
    """The base of those that are made here."""


def class_of(record: Record) -> type[Any]:
    """The class that the record was declared with, or one made for it."""
    if record.python is not None:
        return record.python
    return _made_classes.get(record) or _made_classes.put(record, _made_class(record), record.leaves)


def _made_class(record: Record) -> type[Any]:
    namespace = {
        NAMES_KEY: Names(record.name, record.aliases, record.is_named),
        "__doc__": f"Records of `{record.name}`, a format met at run time.",
        "__eq__": equal_records,
        "__hash__": None,
    }
    made = dataclasses.make_dataclass(
        record.name,
        [_member(field) for field in record.fields],
        bases=(_Made,),
        namespace=namespace,
        kw_only=True,  # so that fields with defaults may stand anywhere
        slots=not any(field.name.startswith("__") for field in record.fields),  # which slots would mangle
    )
    _RECORD_BY_CLASS[made] = record
    return made


def _member(field: Field) -> tuple[str, Any, dataclasses.Field[Any]]:
    options: dict[str, Any] = {"metadata": {OPTIONS_KEY: FieldOptions(field.aliases, field.unit, field.doc)}}
    if field.default is not None and field.default.local:
        options["default_factory"] = functools.partial(blank_value, field.type)
    elif field.default is not None:
        options["default"] = default_value(field)
    return field.name, annotation_of(field.type), dataclasses.field(**options)


def blank_value(type_: Type) -> Any:
    """An empty or zero value, in place of a default that only the sender's class could make."""
    match type_:
        case Nullable():
            return None
        case Text():
            return ""
        case Blob():
            return b""
        case Record():
            return class_of(type_)(**{field.name: blank_value(field.type) for field in type_.fields})
        case Enumeration():
            return next(iter(enum_class_of(type_)))
        case Scalar():
            return from_plain(type_, unpack(type_, bytes(type_.size), "little", ""), "")
        case StaticArray() | Sequence():
            shape = tuple(
                n if isinstance(n, int) and isinstance(type_, StaticArray) else 0 for n in type_.shape
            )
            return _blank_elements(type_, shape)


def _blank_elements(type_: StaticArray | Sequence, shape: tuple[int, ...]) -> Any:
    if isinstance(type_.element, Scalar) and is_numeric(type_.element):
        return np.zeros(shape, scalar_dtype(type_.element, NATIVE.byte_order))
    if not all(shape):
        return []
    return [
        _blank_elements(type_, shape[1:]) if shape[1:] else blank_value(type_.element)
        for _ in range(shape[0])
    ]


def default_value(field: Field) -> Any:
    """The Python value of a default that travels."""
    assert field.default is not None
    if field.default.data is None:
        return None
    leaf = required(field.type)
    assert isinstance(leaf, Leaf)
    plain = unpack_default(leaf, field.default.data, field.name)
    if isinstance(leaf, Enumeration) and leaf.python is None:
        return _enum_class(leaf)(plain)
    return from_plain(leaf, plain, field.name)


def annotation_of(type_: Type) -> Any:
    """The annotation that declares a type."""
    match type_:
        case Scalar():
            return Annotated[_PYTHON_TYPES[type_.kind], type_]
        case Enumeration():
            return enum_class_of(type_)
        case Text():
            return str
        case Blob():
            return bytes
        case Record():
            return class_of(type_)
        case Nullable():
            return annotation_of(type_.element) | None
        case StaticArray():
            return Annotated[np.ndarray, ArraySpec(annotation_of(type_.element), type_.shape)]
        case Sequence():
            element: Any = annotation_of(type_.element)
            if type_.shape == (None,) and sequence_container(type_) is not np.ndarray:
                return list[element]
            shape = tuple(... if n is None else n for n in type_.shape)
            return Annotated[np.ndarray, ArraySpec(element, shape)]


def sequence_container(type_: StaticArray | Sequence) -> type[Any]:
    """The Python type of a sequence: as declared, else a numpy array for numbers and a list for the rest."""
    return type_.container or (np.ndarray if is_numeric(type_.element) else list)


def enum_class_of(enumeration: Enumeration) -> type[enum.Enum]:
    """The class that the enumeration was declared with, or one made for it."""
    return enumeration.python or _enum_class(enumeration)


@functools.lru_cache(maxsize=256)
def _enum_class(enumeration: Enumeration) -> type[enum.Enum]:
    make: Any = _MadeEnum  # type checkers accept only literal arguments
    made = cast("type[enum.Enum]", make(enumeration.name, list(enumeration.members)))
    _ENUMERATION_BY_CLASS[made] = enumeration
    return made


# Of classes that nobody uses so many fields are kept, at 3 KB each.
_made_classes: Kept[Record, type[Any]] = Kept(4096)

# What made classes were made of. They are in cycles, so those that nobody uses any more go in time.
_RECORD_BY_CLASS: WeakKeyDictionary[type[Any], Record] = WeakKeyDictionary()
_ENUMERATION_BY_CLASS: WeakKeyDictionary[type[Any], Enumeration] = WeakKeyDictionary()


def _reduced(cls: Any) -> Any:
    return class_of, (_RECORD_BY_CLASS[cls],)


def _reduced_enum(cls: Any) -> Any:
    return _enum_class, (_ENUMERATION_BY_CLASS[cls],)


copyreg.pickle(_MadeClass, _reduced)
copyreg.pickle(_MadeEnumClass, _reduced_enum)


# ---------------------------------------------------------------------------
# Equality: as dataclasses compare, but arrays are compared as a whole, because `==` of two is an array,
# which is neither true nor false


def holds_arrays(type_: Type) -> bool:
    """Whether a value is an array, or something that holds one."""
    match type_:
        case Record():
            return any(holds_arrays(field.type) for field in type_.fields)
        case StaticArray() | Sequence():
            return type_.container is np.ndarray or holds_arrays(type_.element)
        case _:
            return isinstance(type_, Nullable) and holds_arrays(type_.element)


def equal_records(first: Any, second: Any) -> bool:
    """Compares field by field; NotImplemented for instances of different classes."""
    if type(first) is not type(second):
        different: Any = NotImplemented
        return cast("bool", different)
    names = [field.name for field in dataclasses.fields(first) if field.compare]
    return all(_equal(getattr(first, name), getattr(second, name)) for name in names)


def _equal(first: Any, second: Any) -> bool:
    kind: Any = cast("Any", type(first))
    if np.ndarray in (kind, type(second)):
        return np.array_equal(first, second)
    if kind in (list, tuple) and kind is type(second):
        return len(first) == len(second) and all(map(_equal, first, second))
    return bool(first == second)
