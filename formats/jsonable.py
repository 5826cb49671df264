"""Events as what `json.dumps` takes, and back from what `json.loads` gives.

    event, nested record      an object with a member for each field
    bool, integer, text       themselves
    float                     a number; "NaN", "Infinity" or "-Infinity" where it is none
    complex                   [real, imaginary]
    bytes                     base64
    time                      ISO 8601 text in UTC, with nine digits behind the second
    duration                  a number of seconds as text, with nine digits behind the point
    UUID                      its text
    member of an enumeration  its name; its number is taken, too
    list, array               an array, of arrays where it has several dimensions
    None                      null

Events become JSON by what their values are, whatever their class: only records in a numpy array need their
type for that. Back they come by a format.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime as dt
import enum
import functools
import math
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from echo_core.errors import EncodeError, EncodeTypeError, FormatError, unexpected
from echo_core.formats.comparing.lookalikes import Lookalikes
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.record_class import class_of, enum_class_of
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
    Type,
    has_parts,
    innermost,
)

_NUMBERS_BY_NAME = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MICROSECOND = dt.timedelta(microseconds=1)


# ---------------------------------------------------------------------------
# To JSON


def jsonable(event: Any) -> dict[str, Any]:
    """An event as what `json.dumps` takes: its fields by name, their values as JSON has them.

    Arguments:
        event: of any event class, a declared one or one that was made for a format.

    >>> @echo.event
    ... class Reading:
    ...     id: int
    ...     volts: echo.Array[echo.Float64, ...]
    >>> echo.jsonable(Reading(7, np.array([1.5, float("nan")])))
    {'id': 7, 'volts': [1.5, 'NaN']}
    """
    cls = cast("Any", type(event))
    members = _members_by_class.get(cls)
    if members is None:
        members = _members_by_class[cls] = _members(cls)
    return {name: convert(getattr(event, name)) for name, convert in members}


_Members = tuple[tuple[str, Callable[[Any], Any]], ...]

_members_by_class: WeakKeyDictionary[type[Any], _Members] = WeakKeyDictionary()


def _members(cls: Any) -> _Members:
    """Each field with what makes JSON of its values: those that may lie in rows need their type for that."""
    rows = _records_in_rows(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    return tuple((name, partial(_with_rows, rows[name]) if name in rows else _value) for name in names)


def _records_in_rows(cls: Any) -> dict[str, Record]:
    """Of the fields whose values may be numpy's rows, the records that these are."""
    try:
        fields = format_of(cls).record.fields
    except FormatError:  # no event that could be sent: its values alone say what they are
        return {}
    found = {field.name: innermost(field.type)[0] for field in fields}
    return {name: leaf for name, leaf in found.items() if isinstance(leaf, Record) and not has_parts(leaf)}


def _value(value: Any) -> Any:
    convert = _CONVERT_BY_TYPE.get(value.__class__)
    return _of_another_type(value) if convert is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _elements(values: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [_value(value) for value in values]


def _array(array: np.ndarray[Any, Any]) -> Any:
    """Numbers, times and bytes; of rows whatever their dtype says."""
    match array.dtype.kind:
        case "M":
            return _texts(np.datetime_as_string(array.astype("M8[ns]")).tolist(), lambda text: f"{text}Z")
        case "m":
            return _texts(array.astype("m8[ns]").astype(np.int64).tolist(), _seconds)
        case "f" if np.isfinite(array).all():
            return array.tolist()
        case "b" | "i" | "u":
            return array.tolist()
        case "V" if array.dtype.names is not None:
            return _rows(array, None)
        case _:
            return _value(array.tolist())


def _time(value: dt.datetime) -> str:
    utc = value.astimezone(dt.UTC)
    return f"{utc.replace(tzinfo=None).isoformat(timespec='microseconds')}000Z"


def _seconds(nanoseconds: int) -> str:
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    return f"{'-' * (nanoseconds < 0)}{seconds}.{rest:09d}"


def _texts(values: Any, text_of: Callable[[Any], str]) -> Any:
    if isinstance(values, list):
        items: list[Any] = values  # pyright: ignore[reportUnknownVariableType]
        return [_texts(item, text_of) for item in items]
    return text_of(values)


_CONVERT_BY_TYPE: dict[type[Any], Callable[[Any], Any]] = {
    bool: _same,
    int: _same,
    str: _same,
    type(None): _same,
    float: _float,
    complex: lambda value: [_float(value.real), _float(value.imag)],
    bytes: _bytes,
    dt.datetime: _time,
    dt.timedelta: lambda value: _seconds(value // _MICROSECOND * 1000),
    uuid.UUID: str,
    list: _elements,
    tuple: _elements,
    np.ndarray: _array,
}


def _of_another_type(value: Any) -> Any:
    """What may be of any class: a nested record, a member of an enumeration, a numpy scalar."""
    if isinstance(value, enum.Enum):
        return value.name
    if dataclasses.is_dataclass(value):
        return jsonable(value)
    if isinstance(value, np.generic):
        return _array(np.asarray(cast("Any", value)))
    for type_, convert in _CONVERT_BY_TYPE.items():
        if isinstance(value, type_):
            return convert(value)
    raise unexpected(EncodeTypeError, "a value that an event may hold", f"`{type(value).__qualname__}`")


# ---------------------------------------------------------------------------
# Records that lie one behind another in a numpy array, whose dtype says less of them than their type: a UUID
# is bytes there, a member of an enumeration its number, an optional value a pair


def _with_rows(record: Record, value: Any) -> Any:
    """The value of a field that holds such records, be it as objects."""
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [_with_rows(record, item) for item in items]
    array: Any = value
    is_row = isinstance(value, np.ndarray | np.void) and array.dtype.names is not None
    return _rows(array, record) if is_row else _value(value)


def _rows(array: Any, record: Record | None) -> Any:
    """Without the record, what the dtype says."""
    if array.ndim > 0:
        return [_rows(row, record) for row in array]
    types = {field.name: field.type for field in record.fields} if record is not None else {}
    return {name: _member_of_row(array[name], types.get(name)) for name in array.dtype.names}


def _member_of_row(value: Any, type_: Type | None) -> Any:
    while isinstance(type_, StaticArray):  # numpy has arrays of arrays as one of more dimensions
        type_ = type_.element
    convert = _converter_in_row(type_)
    return _elements_of_row(value, convert) if convert is not None else _by_dtype(value)


def _elements_of_row(value: Any, convert: Callable[[Any], Any]) -> Any:
    return [_elements_of_row(item, convert) for item in value] if value.ndim > 0 else convert(value)


def _converter_in_row(type_: Type | None) -> Callable[[Any], Any] | None:
    """For one value; None where the dtype says all."""
    match type_:
        case Record():
            return lambda row: _rows(row, type_)
        case Nullable():
            return lambda pair: _member_of_row(pair["value"], type_.element) if pair["present"] else None
        case Enumeration():
            return lambda number: _names_by_number(type_).get(int(number), int(number))
        case Scalar(kind=Kind.UUID):
            return lambda data: str(uuid.UUID(bytes=_whole(data, type_)))
        case Scalar(kind=Kind.BYTES):
            return lambda data: _bytes(_whole(data, type_))
        case _:
            return None


@functools.lru_cache(maxsize=256)
def _names_by_number(enumeration: Enumeration) -> dict[int, str]:
    return {number: name for name, number in enumeration.members}


def _whole(data: Any, scalar: Scalar) -> bytes:
    """All bytes, also those that numpy's text would end before."""
    return np.asarray(data).astype(f"V{scalar.size}").tobytes()


def _by_dtype(value: Any) -> Any:
    """Numbers and times, or text: bytes up to the first zero."""
    is_text = value.dtype.kind == "S"
    return _value(np.strings.decode(value, "utf-8").tolist() if is_text else value)


# ---------------------------------------------------------------------------
# From JSON


def from_jsonable(cls: type[Any] | Format, values: Mapping[str, Any]) -> Any:
    """An event of what `json.loads` gives: the other way round than `jsonable`.

    Arguments:
        cls: the class of the event, or a format, whose class is made.
        values: the fields by their names or former names. Those with a default may be missing.

    Raises:
        EncodeError: a field that there is none of, with the similar one; a field that is missing; a value
            that its field cannot hold. What the field's type alone decides is left to the encoder.
        FormatError: the class cannot be laid out.

    >>> @echo.event
    ... class Reading:
    ...     id: int
    ...     taken: complex
    ...     note: str = ""
    >>> echo.from_jsonable(Reading, {"id": 7, "taken": [1.5, -2]})
    Reading(id=7, taken=(1.5-2j), note='')
    """
    record = cls.record if isinstance(cls, Format) else format_of(cls).record
    made = None if isinstance(cls, Format) else cls
    return _event(record, values, record.name, made)


def _event(record: Record, values: Any, path: str, cls: type[Any] | None = None) -> Any:
    if not isinstance(values, Mapping):
        raise _mismatch(values, path, f"an object with the fields of `{record.name}`")
    given = cast("Mapping[str, Any]", values)
    fields = {name: field for field in record.fields for name in (*field.aliases, field.name)}
    unknown = next((name for name in given if name not in fields), None)
    if unknown is not None:
        similar = Lookalikes(fields).of(str(unknown))
        hint = f"is `{similar[0]}` meant?" if similar else f"it has {', '.join(map(_name, record.fields))}"
        raise unexpected(EncodeError, f"a field of `{record.name}`", f"`{unknown}`", path=path, hint=hint)
    found: dict[str, Any] = {}
    for name, value in given.items():
        field = fields[name]
        found[field.name] = _read(field.type, value, f"{path}.{field.name}")
    missing = [each.name for each in record.fields if each.default is None and each.name not in found]
    if missing:
        raise unexpected(EncodeError, "a value", "none", path=f"{path}.{missing[0]}")
    return (cls or class_of(record))(**found)


def _name(field: Field) -> str:
    return f"`{field.name}`"


def _read(type_: Type, value: Any, path: str) -> Any:
    match type_:
        case Nullable():
            return None if value is None else _read(type_.element, value, path)
        case Record():
            return _event(type_, value, path)
        case StaticArray() | Sequence():
            return _read_elements(innermost(type_)[0], len(type_.shape), type_.element, value, path)
        case Enumeration():
            return _member(type_, value, path)
        case Blob():
            return _read_bytes(value, path)
        case Scalar() if type_.kind in _READERS:
            return _READERS[type_.kind](value, path)
        case _:
            return value


def _read_elements(leaf: Type, dimensions: int, element: Type, value: Any, path: str) -> Any:
    """A list whose elements are read; where JSON has these as they are, the encoder looks at them."""
    if not isinstance(value, list):
        raise _mismatch(value, path, "an array")
    items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
    if element is leaf and isinstance(leaf, Scalar) and leaf.kind not in _READERS:
        return items
    if dimensions > 1:
        inner = dimensions - 1
        return [_read_elements(leaf, inner, element, item, f"{path}[{i}]") for i, item in enumerate(items)]
    return [_read(element, item, f"{path}[{i}]") for i, item in enumerate(items)]


def _member(type_: Enumeration, value: Any, path: str) -> Any:
    cls = enum_class_of(type_)
    numbers = dict(type_.members)
    if isinstance(value, str) and value in cls.__members__:
        return cls[value]
    if isinstance(value, int) and value in numbers.values():
        return next(cls[name] for name, number in type_.members if number == value)
    similar = Lookalikes(numbers).of(value) if isinstance(value, str) else []
    hint = f"is `{similar[0]}` meant?" if similar else f"it has {', '.join(numbers)}"
    raise unexpected(EncodeError, f"a member of `{type_}`", repr(value), path=path, hint=hint)


def _read_float(value: Any, path: str) -> Any:
    if isinstance(value, str):
        if value not in _NUMBERS_BY_NAME:
            raise _mismatch(value, path, "a number")
        return _NUMBERS_BY_NAME[value]
    return value


def _read_complex(value: Any, path: str) -> Any:
    if isinstance(value, int | float):
        return value
    parts: list[Any] = value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
    if len(parts) != 2:
        raise _mismatch(cast("object", value), path, "[real, imaginary]")
    real, imaginary = (_read_float(part, path) for part in parts)
    try:
        return complex(real, imaginary)
    except TypeError:
        raise _mismatch(cast("Any", value), path, "[real, imaginary]") from None


def _read_bytes(value: Any, path: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _mismatch(value, path, "bytes in base64") from None


def _read_time(value: Any, path: str) -> dt.datetime:
    try:
        taken = dt.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _mismatch(value, path, "a time in ISO 8601") from None
    return taken


def _read_duration(value: Any, path: str) -> dt.timedelta:
    try:
        return dt.timedelta(seconds=float(value))
    except (TypeError, ValueError, OverflowError):
        raise _mismatch(value, path, "a number of seconds") from None


def _read_uuid(value: Any, path: str) -> uuid.UUID:
    try:
        return uuid.UUID(value)
    except (AttributeError, TypeError, ValueError):
        raise _mismatch(value, path, "a UUID") from None


_READERS: dict[Kind, Callable[[Any, str], Any]] = {
    Kind.FLOAT: _read_float,
    Kind.COMPLEX: _read_complex,
    Kind.TIMESTAMP: _read_time,
    Kind.DURATION: _read_duration,
    Kind.UUID: _read_uuid,
    Kind.BYTES: _read_bytes,
}


def _mismatch(value: object, path: str, expected: str) -> EncodeTypeError:
    shown = repr(value)
    return unexpected(EncodeTypeError, expected, shown if len(shown) <= 60 else f"{shown[:57]}...", path=path)
