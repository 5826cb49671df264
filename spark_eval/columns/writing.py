"""Converts Arrow columns to records: numpy writes records of fixed size, the encoder of the class all others.

A column may have any type that Arrow casts to the schema's without loss. A value that its field cannot hold
(a number out of range, a null in a field that is not optional, a name that is no member) raises EncodeError
with its path.
"""

from __future__ import annotations

import dataclasses
import importlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

import echo_core as echo
from echo_core.spark_eval.columns.schema import TypeNode, arrow_type, form, has_parts, kind

pa: Any = importlib.import_module("pyarrow")  # it comes without types
pc: Any = importlib.import_module("pyarrow.compute")

Numbers = np.ndarray[Any, Any]

_MAX_MICROSECONDS = (2**63 - 1) // 1000
_NUMERIC = ("BOOL", "INT", "UINT", "FLOAT", "COMPLEX", "TIMESTAMP", "DURATION")


def records_of(format_: echo.Format, structs: Any) -> Numbers:
    """A numpy array of records; the format has no variable parts."""
    records = np.zeros(len(structs), format_.dtype)
    _fill(format_.record, structs, records, format_.name)
    return records


def events_of(format_: echo.Format, structs: Any) -> list[Any]:
    """An instance of the format's class for each struct."""
    return _Objects(format_).of(format_.record, structs, format_.name)


def _refuse(expected: str, got: object, path: str) -> NoReturn:
    msg = f"Expected {expected}, got {got}"
    raise echo.EncodeError(msg, path=path)


def _demand_values(node: TypeNode, array: Any, path: str) -> None:
    if array.null_count:
        _refuse(f"`{node}`", "null", path)


def _present(array: Any) -> Numbers:
    present: Numbers = array.is_valid().to_numpy(zero_copy_only=False)
    return present


# ---------------------------------------------------------------------------
# Records of fixed size


def _fill(node: TypeNode, array: Any, out: Numbers, path: str) -> None:
    """Write the array's values to `out`, a field of many records, which is all zero."""
    if form(node) == "Nullable":
        present = _present(array)
        out["present"] = present
        held = np.zeros(int(present.sum()), out.dtype["value"])
        _fill(node.element, array.drop_null(), held, path)
        out["value"][present] = held
        return
    _demand_values(node, array, path)
    match form(node):
        case "Record":
            for field in node.fields:
                where = f"{path}.{field.name}"
                _fill(field.type, _member(array, field.name, where), out[field.name], where)
        case "StaticArray":
            elements = _elements(node, array, path)[0]
            flat = np.zeros((len(elements), *out.shape[1 + len(node.shape) :]), out.dtype)
            _fill(node.element, elements, flat, path)
            out[...] = flat.reshape(out.shape)
        case _:
            out[...] = _leaf(node, array, path).view(out.dtype.newbyteorder("="))


def _member(structs: Any, name: str, path: str) -> Any:
    if not pa.types.is_struct(structs.type) or structs.type.get_field_index(name) < 0:
        _refuse(f"a field `{name}`", f"`{structs.type}`", path)
    return structs.field(name)


def _elements(node: TypeNode, array: Any, path: str) -> tuple[Any, list[Numbers]]:
    """The elements of nested lists, and the lengths of the lists of each level."""
    lengths: list[Numbers] = []
    for expected in node.shape:
        _demand_values(node, array, path)
        if not pa.types.is_list(array.type) and not pa.types.is_large_list(array.type):
            _refuse(f"`{node}`", f"`{array.type}`", path)
        numbers = np.diff(array.offsets.to_numpy())
        if isinstance(expected, int) and np.any(numbers != expected):
            _refuse(f"{expected} elements", int(numbers[numbers != expected][0]), path)
        lengths.append(numbers)
        array = array.flatten()
    return array, lengths


def _cast(node: TypeNode, array: Any, path: str) -> Any:
    try:
        return array.cast(arrow_type(node))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        said = str(error)
    _refuse(f"`{node}`", said, path)


def _leaf(node: TypeNode, array: Any, path: str) -> Numbers:
    """The values as this machine stores them in a record."""
    array = _cast(node, array, path)
    if form(node) == "Enumeration":
        return _enumeration(node, array, path)
    match kind(node), node.size:
        case "BOOL", _:
            flags: Numbers = array.to_numpy(zero_copy_only=False)
            return flags
        case "UINT", 8:
            return _unsigned_64(node, array, path)
        case "INT" | "UINT" | "FLOAT", _:
            return _number(node, array.to_numpy(), path)
        case "COMPLEX", size:
            made = np.zeros(len(array), f"c{size}")
            made.real, made.imag = array.field("real").to_numpy(), array.field("imag").to_numpy()
            return made
        case "TIMESTAMP" | "DURATION", _:
            return _nanoseconds(node, array, path)
        case "UUID", _:
            return _uuids(array, path)
        case _:
            return _bytes(node, array, path)


def _number(node: TypeNode, numbers: Numbers, path: str) -> Numbers:
    target = np.dtype(f"{kind(node)[0].lower()}{node.size}")
    with np.errstate(over="ignore", invalid="ignore"):
        made = numbers.astype(target)
    lost = np.isfinite(numbers) & ~np.isfinite(made) if target.kind == "f" else made != numbers
    if lost.any():
        _refuse(f"a number within the range of `{node}`", numbers[int(lost.argmax())], path)
    return made


def _unsigned_64(node: TypeNode, array: Any, path: str) -> Numbers:
    words = np.frombuffer(array.buffers()[1] or b"", "<u8").reshape(-1, 2)
    words = words[array.offset : array.offset + len(array)]
    outside = words[:, 1] != 0
    if outside.any():
        _refuse(f"a number within the range of `{node}`", array[int(outside.argmax())], path)
    return words[:, 0].astype("=u8")


def _nanoseconds(node: TypeNode, array: Any, path: str) -> Numbers:
    microseconds: Numbers = array.cast(pa.int64()).to_numpy()
    outside = abs(microseconds) > _MAX_MICROSECONDS
    if outside.any():
        _refuse(f"a `{node}` within 292 years of its zero", "one further away", path)
    return microseconds * 1000


def _characters(array: Any) -> tuple[Numbers, Numbers]:
    """The concatenated bytes of all strings, and the length of each."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    if not len(array) or data is None:
        return np.empty(0, np.uint8), np.zeros(len(array), np.int64)
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]], np.diff(ends).astype(np.int64)


def _bytes(node: TypeNode, array: Any, path: str) -> Numbers:
    """Rows of `node.size` bytes; shorter values are padded with zeros."""
    data, sizes = _characters(array)
    if kind(node) == "BYTES" and np.any(sizes != node.size):
        _refuse(f"exactly {node.size} bytes", int(sizes[sizes != node.size][0]), path)
    if np.any(sizes > node.size):
        _refuse(f"text of at most {node.size} bytes", int(sizes.max()), path)
    if kind(node) == "CHARS" and np.any(data == 0):
        _refuse("text without NUL characters (they end a string)", "some", path)
    rows = np.zeros((len(array), node.size), np.uint8)
    rows[np.arange(node.size) < sizes[:, None]] = data
    return rows.view(f"V{node.size}").ravel()


_VALUES = np.full(256, 255, np.uint8)
_VALUES[np.frombuffer(b"0123456789abcdef", np.uint8)] = _VALUES[
    np.frombuffer(b"0123456789ABCDEF", np.uint8)
] = np.arange(16)
_HYPHENS = np.array([8, 13, 18, 23])


def _uuids(array: Any, path: str) -> Numbers:
    data, sizes = _characters(array)
    expected = "a UUID such as `00112233-4455-6677-8899-aabbccddeeff`"
    if np.any(sizes != 36):
        _refuse(expected, repr(array[int((sizes != 36).argmax())].as_py()), path)
    text = data.reshape(-1, 36)
    digits = _VALUES[np.delete(text, _HYPHENS, axis=1)]
    wrong = (digits == 255).any(axis=1) | (text[:, _HYPHENS] != ord("-")).any(axis=1)
    if wrong.any():
        _refuse(expected, repr(array[int(wrong.argmax())].as_py()), path)
    return np.ascontiguousarray(digits[:, 0::2] << 4 | digits[:, 1::2]).view("V16").ravel()


def _enumeration(node: TypeNode, array: Any, path: str) -> Numbers:
    names = pa.array([name for name, _ in node.members], pa.string())
    indices = pc.index_in(array, value_set=names)
    if indices.null_count:
        unknown = array.filter(indices.is_null())[0].as_py()
        _refuse(f"a member of `{node}`", f"`{unknown}`", path)
    numbers: Numbers = np.array([number for _, number in node.members], f"i{node.size}")[indices.to_numpy()]
    return numbers


# ---------------------------------------------------------------------------
# Records with variable parts


class _Objects:
    """Creates values for the encoder of a class: instances, lists, and arrays of numbers or records."""

    def __init__(self, format_: echo.Format) -> None:
        self._layout = format_.layout

    def of(self, node: TypeNode, array: Any, path: str) -> list[Any]:
        if form(node) == "Nullable":
            held = iter(self.of(node.element, array.drop_null(), path))
            return [next(held) if there else None for there in _present(array).tolist()]
        _demand_values(node, array, path)
        match form(node):
            case "Record":
                return self._instances(node, array, path)
            case "StaticArray" | "Sequence":
                return self._lists(node, array, path)
            case _:
                return _leaf_objects(node, array, path)

    def _instances(self, node: TypeNode, array: Any, path: str) -> list[Any]:
        names = [field.name for field in node.fields]
        columns = [
            self.of(field.type, _member(array, field.name, f"{path}.{field.name}"), f"{path}.{field.name}")
            for field in node.fields
        ]
        if not columns:
            return [node.python() for _ in range(len(array))]
        return [node.python(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def _lists(self, node: TypeNode, array: Any, path: str) -> list[Any]:
        elements, lengths = _elements(node, array, path)
        element = node.element
        flat: Any
        if kind(element) in _NUMERIC:
            _demand_values(element, elements, path)
            flat = _times(element, _leaf(element, elements, path))
        elif form(element) == "Record" and not has_parts(element):
            format_ = echo.Format(dataclasses.replace(self._layout, record=element))
            flat = np.zeros(len(elements), format_.dtype)
            _fill(element, elements, flat, path)
        else:
            flat = self.of(element, elements, path)
        return list(_split(node, flat, lengths, path))


def _times(node: TypeNode, numbers: Numbers) -> Numbers:
    code = {"TIMESTAMP": "M8[ns]", "DURATION": "m8[ns]"}.get(kind(node))
    return numbers.view(code) if code else numbers


def _split(node: TypeNode, flat: Any, lengths: list[Numbers], path: str) -> Iterator[Any]:
    """Split elements into values, each in its shape."""
    shapes = _shapes(node, lengths, path)
    first = 0
    for shape in shapes:
        number = int(np.prod(shape))
        part = flat[first : first + number]
        first += number
        yield part.reshape(shape) if isinstance(part, np.ndarray) else _nest(part, shape)


def _nest(items: list[Any], shape: tuple[int, ...]) -> list[Any]:
    if len(shape) == 1:
        return items
    step = len(items) // shape[0] if shape[0] else 0
    return [_nest(items[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def _shapes(node: TypeNode, lengths: list[Numbers], path: str) -> Iterator[tuple[int, ...]]:
    """The shape of each value. The lists of one level must have equal lengths."""
    columns = [lengths[0]]
    lists = lengths[0].astype(np.int64)  # of the next level, for each value
    for expected, level in zip(node.shape[1:], lengths[1:], strict=True):
        firsts = np.cumsum(lists) - lists
        column = np.full(len(lists), expected if isinstance(expected, int) else 0)
        there = lists > 0
        column[there] = level[firsts[there]]
        if np.any(np.repeat(column, lists) != level):
            _refuse("rows of one length", "several lengths", path)
        columns.append(column)
        lists = lists * column
    return zip(*(column.tolist() for column in columns), strict=True)


def _leaf_objects(node: TypeNode, array: Any, path: str) -> list[Any]:
    if form(node) == "Enumeration":
        _enumeration(node, _cast(node, array, path), path)  # raises for names that are no members
        return [node.python[name] for name in _cast(node, array, path).to_pylist()]
    if kind(node) in ("TIMESTAMP", "DURATION"):
        return list(_times(node, _leaf(node, array, path)))
    if kind(node) == "UUID":
        return [uuid.UUID(bytes=row.tobytes()) for row in _leaf(node, array, path)]
    is_numeric = kind(node) in _NUMERIC
    values: list[Any] = (
        _leaf(node, array, path).tolist() if is_numeric else _cast(node, array, path).to_pylist()
    )
    return values


def encoder_of(format_: echo.Format, abi: str | echo.Abi) -> Callable[[Any], Any]:
    """A function that converts a struct array without nulls to a binary array of records."""
    if format_.is_fixed:
        return lambda structs: _side_by_side(records_of(format_, structs))
    made = format_.record_class()
    own, encode = echo.format_of(made), echo.encoder(made, abi=abi)
    return lambda structs: pa.array([encode(event) for event in events_of(own, structs)], pa.binary())


def _side_by_side(records: Numbers) -> Any:
    ends = np.arange(len(records) + 1, dtype=np.int32) * np.int32(records.dtype.itemsize)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(records)]
    return pa.Array.from_buffers(pa.binary(), len(records), buffers)
